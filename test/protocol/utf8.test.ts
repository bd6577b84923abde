/** Comparison and length of texts in UTF-8, without encoding them. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll, forMany } from '#support/property.ts';
import { compareUtf8, utf8Length } from '../../protocol/utf8.ts';

/** Whole characters, including those next to the surrogates. */
const text = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'binary', maxLength: 3 }),
      fc.constantFrom(
        'a',
        'č',
        '\ud7ff',
        '\ue000',
        '\uf7ff',
        '\uf800',
        '豈',
        'ﬀ',
        '\uffff',
        '𐀀',
        '😀',
        '\u{10ffff}',
      ),
    ),
    { maxLength: 4 },
  )
  .map((pieces) => pieces.join(''));

describe('compareUtf8', () => {
  it('orders texts like their UTF-8 bytes', () => {
    forMany(2_000, text, text, (left, right) => {
      const expected = Buffer.compare(Buffer.from(left), Buffer.from(right));
      expect(Math.sign(compareUtf8(left, right))).toBe(expected);
    });
  });

  it.each([
    ['', 'a'],
    ['a', 'ab'],
    ['\ud7ff', '\ue000'],
    ['豈', '😀'],
    ['\uffff', '𐀀'],
    ['😀a', '😀b'],
  ])('orders %j before %j', (left, right) => {
    expect(compareUtf8(left, right)).toBeLessThan(0);
    expect(compareUtf8(right, left)).toBeGreaterThan(0);
    expect(compareUtf8(left, left)).toBe(0);
  });
});

describe('utf8Length', () => {
  it('is the number of UTF-8 bytes of a text', () => {
    forAll(text, (one) => expect(utf8Length(one)).toBe(Buffer.byteLength(one)));
    expect(utf8Length('\ud800')).toBe(3);
  });
});
