/**
 * Raw slices and compaction: the test prints generated JSON with arbitrary whitespace, and compaction must
 * restore it byte for byte.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll } from '#support/property.ts';
import { compact, signableJson, sliceMembers } from '../../protocol/compact-json.ts';

const DEPTH = 10_000;
const DEEP = '['.repeat(DEPTH) + ']'.repeat(DEPTH);

function slices(text: string): Record<string, string> {
  const members = sliceMembers(text);
  if (!members.ok) throw new Error(members.refusal);
  return Object.fromEntries(members.value);
}

function refusal(text: string): string | undefined {
  const members = sliceMembers(text);
  return members.ok ? undefined : members.refusal;
}

/** Prints a value with the next of `gaps` at every place where JSON allows whitespace. */
function print(value: unknown, gaps: readonly string[]): string {
  let next = 0;
  const gap = () => gaps[next++ % gaps.length] ?? '';
  const token = (text: string) => gap() + text + gap();
  const write = (item: unknown): string => {
    if (Array.isArray(item)) return token(`[${item.map(write).join(',') || gap()}]`);
    if (typeof item !== 'object' || item === null) return token(JSON.stringify(item));
    const members = Object.entries(item).map(
      ([key, member]) => `${token(JSON.stringify(key))}:${write(member)}`,
    );
    return token(`{${members.join(',') || gap()}}`);
  };
  return write(value);
}

const whitespace = fc.array(fc.string({ unit: fc.constantFrom(' ', '\t', '\n', '\r'), maxLength: 3 }), {
  minLength: 1,
  maxLength: 7,
});
const plainKey = fc.string({ unit: 'grapheme' }).filter((key) => !JSON.stringify(key).includes('\\'));

describe('compact', () => {
  it.each([
    ['drops all four kinds of whitespace', ' {\t"a" :\r\n[ 1 ,\n2 ] } ', '{"a":[1,2]}'],
    ['keeps whitespace inside strings', '{ "a b" : " c\u00a0 d " }', '{"a b":" c\u00a0 d "}'],
    [
      'is not misled by escaped quotes and backslashes',
      '[ "a\\" , b" , "\\\\" , 1 ]',
      '["a\\" , b","\\\\",1]',
    ],
    [
      'keeps numbers as they were spelled',
      '{"a": 5.0, "b": 1e-05, "c": -0, "d": 1E+3}',
      '{"a":5.0,"b":1e-05,"c":-0,"d":1E+3}',
    ],
    ['keeps escapes as they were spelled', '{"\\u010d": "\\/"}', '{"\\u010d":"\\/"}'],
    ['keeps the order of integer-like keys', '{"10": 1, "2": 2, "a": 3}', '{"10":1,"2":2,"a":3}'],
    ['keeps integers beyond 2^53', '{"a": 9007199254740993}', '{"a":9007199254740993}'],
    ['does not change compact text', '{"a":[1,{}]}', '{"a":[1,{}]}'],
    ['does not change empty text', '', ''],
  ])('%s [C-3.7]', (_title, text, expected) => {
    expect(compact(text)).toBe(expected);
  });

  it('accepts ten thousand levels of nesting [C-3.7]', () => {
    expect(compact(DEEP.replaceAll('[', '[ '))).toBe(DEEP);
  });

  it('removes any whitespace outside strings, and nothing else [C-3.7]', () => {
    forAll(fc.jsonValue(), whitespace, (value, gaps) => {
      const spaced = print(value, gaps);
      const short = compact(spaced);
      expect(short).toBe(print(value, ['']));
      expect(JSON.parse(short)).toEqual(JSON.parse(spaced));
      expect(short.replace(/"(?:[^"\\]|\\.)*"/g, '')).not.toMatch(/\s/);
    });
  });
});

describe('sliceMembers', () => {
  it('returns every member as it was written [C-3.7]', () => {
    const text =
      ' { "data" : {"10": 5.0, "2": 1e-05,\n"\\u010d": [1 , 2]} , "nonce":"a , }" ,\t"ts": 17 , "x" : null } ';
    expect(slices(text)).toEqual({
      data: '{"10": 5.0, "2": 1e-05,\n"\\u010d": [1 , 2]}',
      nonce: '"a , }"',
      ts: '17',
      x: 'null',
    });
  });

  it('returns no members for an empty object [C-3.7]', () => {
    expect(slices(' { } ')).toEqual({});
  });

  it.each([
    ['a repeated key', '{"a":1,"b":2,"a":1}', 'repeated key "a"'],
    ['a repeated __proto__ key', '{"__proto__":1,"__proto__":1}', 'repeated key "__proto__"'],
    ['an escaped key', '{"\\u0061":1}', 'escaped top-level key'],
    ['a second spelling of a key', '{"a":1,"\\u0061":2}', 'escaped top-level key'],
    ['empty text', '', 'not JSON'],
    ['whitespace', ' \n', 'not JSON'],
    ['text that is not JSON', '{"a":NaN}', 'not JSON'],
    ['a byte order mark', '\ufeff{}', 'not JSON'],
    ['two values', '{} {}', 'not JSON'],
    ['a trailing comma', '{"a":1,}', 'not JSON'],
    ['an array', '[{}]', 'not a JSON object'],
    ['null', 'null', 'not a JSON object'],
    ['a string', '"{}"', 'not a JSON object'],
    ['a deep array', DEEP, 'not a JSON object'],
  ])('refuses %s [C-3.7]', (_title, text, reason) => {
    expect(refusal(text)).toBe(reason);
  });

  it('truncates a long repeated key in its error [C-3.7]', () => {
    const key = 'k'.repeat(5_000);
    expect(refusal(`{"${key}":1,"${key}":2}`)?.length).toBeLessThan(100);
  });

  it('keeps repeated and escaped keys below the top level as they are [C-3.7]', () => {
    expect(slices('{"a":{"b":1,"b":2,"\\u0062":3}}')).toEqual({ a: '{"b":1,"b":2,"\\u0062":3}' });
  });

  it('treats __proto__ and constructor as ordinary names [C-3.7]', () => {
    const members = sliceMembers('{"__proto__":{"polluted":1},"constructor":2,"toString":3}');
    expect(members.ok && [...members.value.keys()]).toEqual(['__proto__', 'constructor', 'toString']);
    expect('polluted' in {}).toBe(false);
  });

  it('accepts ten thousand levels of nesting [C-3.7]', () => {
    expect(slices(`{"a": ${DEEP} }`)).toEqual({ a: DEEP });
  });

  it('slices the same members that JSON.parse reads, with any whitespace [C-3.7]', () => {
    forAll(fc.dictionary(plainKey, fc.jsonValue()), whitespace, (object, gaps) => {
      const text = print(object, gaps);
      const members = sliceMembers(text);
      if (!members.ok) throw new Error(members.refusal);
      for (const slice of members.value.values()) expect(slice).toBe(slice.trim());
      const parsed = [...members.value].map(([name, slice]): [string, unknown] => [name, JSON.parse(slice)]);
      expect(new Map(parsed)).toEqual(new Map(Object.entries(JSON.parse(text))));
    });
  });

  it('returns a Result, and throws no error, for any text [C-3.7]', () => {
    forAll(fc.oneof(fc.string(), fc.json()), (text) => expect(typeof sliceMembers(text).ok).toBe('boolean'));
  });
});

describe('signableJson', () => {
  it.each([
    [
      'escapes everything beyond ASCII',
      { č: 'ž\u007f\u2028😀' },
      '{"\\u010d":"\\u017e\\u007f\\u2028\\ud83d\\ude00"}',
    ],
    ['escapes lone surrogates', '\ud800', '"\\ud800"'],
    ['rounds to six decimals', [0.1 + 0.2, 1.0000004, 1.0000006], '[0.3,1,1.000001]'],
    ['prints no exponent for small numbers', [1e-6, 1e-7, -1e-7, 5e-324], '[0.000001,0,0,0]'],
    ['prints no exponent for large numbers', [1e21, -1e300], '[1000000000000000,-1000000000000000]'],
    ['prints -0 as 0', [-0], '[0]'],
  ])('%s [C-3.7]', (_title, value, expected) => {
    expect(signableJson(value)).toBe(expected);
  });

  it('is compact ASCII with plain decimals for any value, and keeps numbers to six decimals [C-3.7]', () => {
    forAll(fc.jsonValue(), (value) => {
      const text = signableJson(value);
      expect(text).toMatch(/^[\x20-\x7e]*$/);
      expect(compact(text)).toBe(text);
      expect(text.replace(/"(?:[^"\\]|\\.)*"/g, '')).not.toMatch(/[eE][+-]?\d|\.\d{7}|-0(?![.\d])/);
    });
    forAll(fc.double({ min: -1e9, max: 1e9, noNaN: true }), (value) =>
      expect(Math.abs(JSON.parse(signableJson(value)) - value)).toBeLessThanOrEqual(6e-7),
    );
  });
});
