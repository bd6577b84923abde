/** Field tables as bytes: added headers leave those of a publisher unchanged. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Fields, propertyBytes, tableBytes, tableEntry } from '#support/bridge-amqp-frames.ts';
import { forAll } from '#support/property.ts';
import { decodeProperties } from '../../../../bridge/amqp/wire/codec.ts';
import {
  long,
  longstr,
  longstrs,
  readArguments,
  tableInArray,
  timestamp,
  withHeaders,
} from '../../../../bridge/amqp/wire/table.ts';

describe('arguments', () => {
  it.each<[string, string, Buffer, unknown]>([
    ['t', 'bool', Buffer.from([1]), true],
    ['b', 'byte', Buffer.from([0xff]), -1],
    ['B', 'unsignedbyte', Buffer.from([0xff]), 255],
    ['s', 'short', Buffer.from([0xff, 0xfe]), -2],
    ['u', 'unsignedshort', Buffer.from([0xff, 0xfe]), 65_534],
    ['I', 'signedint', Buffer.from([0, 0, 0xea, 0x60]), 60_000],
    ['i', 'unsignedint', Buffer.from([0xff, 0xff, 0xff, 0xff]), 4_294_967_295],
    ['l', 'long', Buffer.from([0, 0, 1, 0, 0, 0, 0, 0]), 2 ** 40],
    ['d', 'double', Buffer.from([0x3f, 0xf8, 0, 0, 0, 0, 0, 0]), 1.5],
    ['d', 'double', Buffer.from([0x7f, 0xf8, 0, 0, 0, 0, 0, 0]), null],
    ['f', 'float', Buffer.from([0x7f, 0x80, 0, 0]), null],
    ['S', 'longstr', Buffer.from([0, 0, 0, 2, 0x68, 0x69]), 'hi'],
    ['V', 'void', Buffer.alloc(0), null],
    ['F', 'table', tableBytes(), null],
    ['A', 'array', Buffer.from([0, 0, 0, 0]), null],
    ['T', 'timestamp', Buffer.alloc(8), null],
  ])('have for the tag %s RabbitMQ’s type name %s', (tag, type, value, expected) => {
    const table = tableBytes(tableEntry('before', 't', Buffer.from([0])), tableEntry('x', tag, value));
    expect(readArguments(Buffer.concat([Buffer.from('head'), table]), 4)).toEqual([
      { name: 'before', type: 'bool', value: false },
      { name: 'x', type, value: expected },
    ]);
  });

  it('throw a RangeError if they are longer than their table, or their table is longer than its frame', () => {
    const table = tableBytes(tableEntry('x', 'S', Buffer.from([0, 0, 0, 9, 0x68])));
    expect(() => readArguments(table, 0)).toThrow(RangeError);
    expect(() => readArguments(table.subarray(0, -1), 0)).toThrow(RangeError);
  });
});

describe('added headers', () => {
  const added = [longstr('x-death-reason', 'rejected'), long('count', 2), timestamp('at', 5_999)];
  const decoded = { 'x-death-reason': 'rejected', count: 2, at: { '!': 'timestamp', value: 5 } };

  it('go into the headers table, and all other properties stay', () => {
    const own = {
      contentType: 'text/plain',
      contentEncoding: 'gzip',
      correlationId: 'c',
      messageId: 'm',
      timestamp: 7,
    };
    expect(decodeProperties(withHeaders(propertyBytes(own), added))).toMatchObject({
      ...own,
      headers: decoded,
    });
    expect(decodeProperties(withHeaders(propertyBytes({}), added))).toMatchObject({ headers: decoded });
  });

  it('follow existing ones, which keep their bytes unless replaced', () => {
    const entries = [
      tableEntry('small', 'I', Buffer.from([0, 0, 0, 5])),
      tableEntry('x-death-reason', 'S', Buffer.from([0, 0, 0, 1, 0x61])),
      tableEntry('nothing', 'V', Buffer.alloc(0)),
    ];
    const flags = Buffer.from([0x20, 0]);
    const whole = withHeaders(Buffer.concat([flags, tableBytes(...entries)]), added);
    const [small, , nothing] = entries;
    const kept = [small, nothing].filter((entry) => entry !== undefined);
    expect(whole.subarray(6, 6 + Buffer.concat(kept).length)).toEqual(Buffer.concat(kept));
    expect(decodeProperties(whole).headers).toEqual({ small: 5, nothing: null, ...decoded });
  });

  it('decode as usual, also an array of tables', () => {
    const death = tableInArray('x-death', [longstr('queue', 'q'), longstrs('routing-keys', ['a', 'b'])]);
    expect(decodeProperties(withHeaders(propertyBytes({}), [death])).headers).toEqual({
      'x-death': [{ queue: 'q', 'routing-keys': ['a', 'b'] }],
    });
  });

  it('change nothing else, whatever a publisher sent', () => {
    const text = fc.string({ maxLength: 40 }).filter((one) => Buffer.byteLength(one) < 100);
    const value = fc.oneof(
      text,
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
      fc.array(fc.integer(), { maxLength: 3 }),
    );
    const fields = fc.record(
      {
        contentType: text,
        contentEncoding: text,
        headers: fc.dictionary(text, value, { maxKeys: 5 }),
        replyTo: text,
        appId: text,
      },
      { requiredKeys: [] },
    );
    forAll(fields, (own) => {
      const before = decodeProperties(propertyBytes(own));
      const after = decodeProperties(withHeaders(propertyBytes(own), added));
      const headers = { ...((before.headers as Fields | undefined) ?? {}), ...decoded };
      expect({ ...after, headers: Object.entries(after.headers as Fields) }).toEqual({
        ...before,
        headers: expect.arrayContaining(Object.entries(headers)),
      });
    });
  });
});
