/** The codec: every method in both directions; a peer's bytes throw no other error than an AMQP error. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { amqpErrorOf, deepTable, definitions, tableBytes, tableEntry } from '#support/bridge-amqp-frames.ts';
import { argumentsOf, fieldTable, METHODS, properties } from '#support/bridge-amqp-values.ts';
import { forAll, forMany } from '#support/property.ts';
import {
  decodeMethod,
  decodeProperties,
  encodeMethod,
  encodeProperties,
  isKnownMethod,
  METHOD,
} from '../../../../bridge/amqp/wire/codec.ts';

const HEADER_BYTES = 7;
const METHOD_ID_BYTES = 4;

function argumentBytes(frame: Buffer): Buffer {
  return frame.subarray(HEADER_BYTES + METHOD_ID_BYTES, -1);
}

function withoutUndefined(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

describe('methods', () => {
  it('all 66 methods of the protocol are known', () => {
    expect(METHODS.length).toBe(66);
    expect(new Set(METHODS.map(({ id }) => id)).size).toBe(66);
    expect(METHODS.every(({ id }) => isKnownMethod(id))).toBe(true);
  });

  it.each(METHODS.map((method) => [method.name, method] as const))(
    '%s decodes to what was encoded',
    (_name, method) => {
      forMany(60, argumentsOf(method), fc.nat(0xffff), (fields, channel) => {
        const frame = encodeMethod(method.id, channel, fields);
        expect(frame.readUInt8(0)).toBe(1);
        expect(frame.readUInt16BE(1)).toBe(channel);
        expect(frame.readUInt32BE(3)).toBe(frame.length - 8);
        expect(frame.readUInt32BE(HEADER_BYTES)).toBe(method.id);
        expect(frame.at(-1)).toBe(0xce);
        expect(decodeMethod(method.id, argumentBytes(frame))).toEqual(fields);
      });
    },
  );

  it('METHOD uses the protocol’s names', () => {
    for (const [name, id] of Object.entries(METHOD))
      expect(definitions.info(id).name.toLowerCase()).toBe(name.toLowerCase());
  });

  it('any bytes decode or throw an AMQP error that names the method', () => {
    forMany(
      2_000,
      fc.constantFrom(...METHODS),
      fc.uint8Array({ maxLength: 200 }).map((array) => Buffer.from(array)),
      ({ id }, bytes) => {
        const error = amqpErrorOf(() => decodeMethod(id, bytes));
        if (!error) return;
        expect(error.severity).toBe('connection');
        expect([501, 502]).toContain(error.code);
        expect((error.classId << 16) | error.methodId).toBe(id);
      },
    );
  });

  it('arguments cut short decode or throw a 501', () => {
    for (const method of METHODS) {
      const [fields = {}] = fc.sample(argumentsOf(method), { numRuns: 1, seed: method.id });
      const bytes = argumentBytes(encodeMethod(method.id, 1, fields));
      for (let length = 0; length < bytes.length; length++) {
        const error = amqpErrorOf(() => decodeMethod(method.id, bytes.subarray(0, length)));
        if (error) expect(error.code).toBe(501);
      }
    }
  });

  it('other ids are unknown', () => {
    for (const id of [0, 1, 0x003c_0000, 0x003c_0001, 0x003c_ffff, 0xffff_ffff])
      expect(isKnownMethod(id)).toBe(false);
  });

  it('the content class, which the library lists with the methods, is unknown', () => {
    expect(isKnownMethod(60)).toBe(false);
  });
});

describe('properties', () => {
  it('decode to what was encoded', () => {
    forAll(properties, fc.nat(2 ** 40), (fields, size) => {
      const frame = encodeProperties(1, size, fields);
      expect(Number(frame.readBigUInt64BE(HEADER_BYTES + 4))).toBe(size);
      const decoded = decodeProperties(frame.subarray(HEADER_BYTES + 12, -1));
      expect(withoutUndefined(decoded)).toEqual(fields);
    });
  });

  it('decode or throw an AMQP error that names basic.publish, for random bytes', () => {
    forMany(1_000, fc.uint8Array({ maxLength: 200 }), (array) => {
      const error = amqpErrorOf(() => decodeProperties(Buffer.from(array)));
      if (error) expect([error.classId, error.methodId]).toEqual([60, 40]);
    });
  });
});

describe('field tables', () => {
  /** The arguments of basic.consume with this table. */
  function consumeWith(table: Buffer): Buffer {
    return Buffer.concat([Buffer.from([0, 0, 1, 0x71, 0, 0]), table]);
  }

  it('a field table keeps every kind of value', () => {
    forAll(fieldTable, (table) => {
      const frame = encodeMethod(METHOD.basicConsume, 1, { queue: 'q', arguments: table });
      expect(decodeMethod(METHOD.basicConsume, argumentBytes(frame)).arguments).toEqual(table);
    });
  });

  it.each([1, 2, 31, 32])('a table of %d levels decodes', (depth) => {
    expect(
      amqpErrorOf(() => decodeMethod(METHOD.basicConsume, consumeWith(deepTable(depth)))),
    ).toBeUndefined();
  });

  it.each([33, 1_000, 5_000, 18_000])('a table of %d levels throws a 502', (depth) => {
    const error = amqpErrorOf(() => decodeMethod(METHOD.basicConsume, consumeWith(deepTable(depth))));
    expect(error?.code).toBe(502);
    expect(error?.text).toMatch(/^SYNTAX_ERROR - field table deeper than/);
  });

  it('arrays nested thousands deep throw a 502', () => {
    let array = Buffer.from('V');
    for (let level = 0; level < 2_000; level++) array = Buffer.concat([Buffer.from('A'), tableBytes(array)]);
    const table = tableBytes(tableEntry('a', '', array));
    expect(amqpErrorOf(() => decodeMethod(METHOD.basicConsume, consumeWith(table)))?.code).toBe(502);
  });

  it('a key __proto__ does not change a prototype', () => {
    const inner = tableBytes(tableEntry('polluted', 't', Buffer.from([1])));
    const table = tableBytes(tableEntry('__proto__', 'F', inner), tableEntry('constructor', 'F', inner));
    const decoded = decodeMethod(METHOD.basicConsume, consumeWith(table)).arguments as object;
    expect('polluted' in {}).toBe(false);
    expect(Object.hasOwn(decoded, 'polluted')).toBe(false);
    expect(Object.keys(decoded)).toEqual(['constructor']);
  });
});
