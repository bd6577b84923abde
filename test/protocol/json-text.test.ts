/** JSON with parts that are already text: the result is one JSON value with those parts unchanged. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll } from '#support/property.ts';
import { JsonText, jsonArray, jsonObject } from '../../protocol/json-text.ts';

describe('a JSON object that is built from values and JSON texts', () => {
  it('parses to its members, whatever their names', () => {
    const members = fc.dictionary(fc.string(), fc.tuple(fc.jsonValue(), fc.boolean()), { maxKeys: 8 });
    forAll(members, (all) => {
      const entries = Object.entries(all);
      const mixed = entries.map(([name, [value, isText]]) => [
        name,
        isText ? new JsonText(JSON.stringify(value)) : value,
      ]);
      const plain = entries.map(([name, [value]]) => [name, JSON.parse(JSON.stringify(value))]);
      const { text } = jsonObject(Object.fromEntries(mixed));
      expect(JSON.parse(text)).toEqual(Object.fromEntries(plain));
    });
  });

  it('contains a JSON text unchanged, including numbers that no double can hold', () => {
    const { text } = jsonObject({ id: 'a', payload: new JsonText('{"n":9007199254740993,"x":1.0}') });
    expect(text).toBe('{"id":"a","payload":{"n":9007199254740993,"x":1.0}}');
  });

  it('omits undefined, and keeps null', () => {
    expect(jsonObject({ a: undefined, b: null }).text).toBe('{"b":null}');
    expect(jsonObject({}).text).toBe('{}');
  });
});

describe('a JSON array that is built from JSON texts', () => {
  it('contains each text in order', () => {
    expect(jsonArray([]).text).toBe('[]');
    expect(jsonArray([new JsonText('1'), new JsonText('[2]'), jsonObject({ a: 3 })]).text).toBe(
      '[1,[2],{"a":3}]',
    );
  });
});
