/** API keys: the checksum detects every typo of one character, so a typo never costs a lookup. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll, forMany } from '#support/property.ts';
import { apiKeyPrefix, composeApiKey, isWellFormedApiKey } from '../../protocol/api-key.ts';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const KEY = 'sw_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg37cCQ0';

const randomBytes = fc
  .uint8Array({ minLength: 64, maxLength: 96 })
  .filter((bytes) => bytes.filter((byte) => byte < 248).length >= 43);
const key = randomBytes.map(composeApiKey);

describe('composeApiKey', () => {
  it.each([
    ['the byte values 0 to 63', Uint8Array.from({ length: 64 }, (_, index) => index), KEY],
    ['64 zero bytes', new Uint8Array(64), 'sw_00000000000000000000000000000000000000000002CZclj'],
    [
      'bytes of which the highest values are skipped',
      Uint8Array.from({ length: 65 }, (_, index) => 255 - index),
      'sw_zyxwvutsrqponmlkjihgfedcbaZYXWVUTSRQPONMLKJ2zW1Ec',
    ],
  ])('makes the same key from %s as another implementation [C-5.1]', (_title, bytes, expected) => {
    expect(composeApiKey(bytes)).toBe(expected);
  });

  it('refuses to make a key from too few bytes [C-5.1]', () => {
    expect(() => composeApiKey(new Uint8Array(42))).toThrow(RangeError);
    expect(() => composeApiKey(new Uint8Array(256).fill(248))).toThrow(RangeError);
    expect(isWellFormedApiKey(composeApiKey(new Uint8Array(43)))).toBe(true);
  });

  it('makes a well-formed key of 52 characters from any bytes of which at least 43 are below 248 [C-5.1]', () => {
    forAll(key, (made) => {
      expect(made).toMatch(/^sw_[0-9A-Za-z]{49}$/);
      expect(isWellFormedApiKey(made)).toBe(true);
    });
  });

  it('maps exactly four of the byte values 0 to 247 to each character [C-5.1]', () => {
    const uses = new Map<string, number>();
    for (let byte = 0; byte < 248; byte++) {
      const character = composeApiKey(new Uint8Array(64).fill(byte)).charAt(3);
      uses.set(character, (uses.get(character) ?? 0) + 1);
    }
    expect(uses).toEqual(new Map([...ALPHABET].map((character) => [character, 4])));
  });
});

describe('isWellFormedApiKey', () => {
  it('refuses a key with any one character changed [C-5.1]', () => {
    const character = fc.constantFrom(...ALPHABET, '_', '-', ' ', '\n', 'č', '');
    forMany(300, key, fc.nat(51), character, (made, index, other) => {
      fc.pre(made.charAt(index) !== other);
      expect(isWellFormedApiKey(made.slice(0, index) + other + made.slice(index + 1))).toBe(false);
    });
  });

  it('refuses every other character in every position of a key [C-5.1]', () => {
    for (let index = 0; index < KEY.length; index++) {
      for (const other of ALPHABET) {
        if (KEY.charAt(index) === other) continue;
        expect(isWellFormedApiKey(KEY.slice(0, index) + other + KEY.slice(index + 1))).toBe(false);
      }
    }
  });

  it.each([
    '',
    'sw_',
    KEY.slice(3),
    `${KEY}0`,
    ` ${KEY}`,
    `${KEY}\n`,
    KEY.toLowerCase(),
    `SW_${KEY.slice(3)}`,
  ])('refuses %j [C-5.1]', (text) => {
    expect(isWellFormedApiKey(text)).toBe(false);
  });

  it('refuses random texts [C-5.1]', () => {
    forAll(fc.string(), (text) => expect(isWellFormedApiKey(text)).toBe(false));
  });
});

it('the prefix of an API key is sw_ and the first eight characters of its secret [C-5.1]', () => {
  expect(apiKeyPrefix(KEY)).toBe('sw_01234567');
});
