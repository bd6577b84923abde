/** Deliveries as bytes: split by the tuned frame size, with the publisher's properties unchanged. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { deliveryOf } from '#support/bridge-amqp.ts';
import {
  definitions,
  type Fields,
  frame,
  propertyBytes,
  tableBytes,
  tableEntry,
} from '#support/bridge-amqp-frames.ts';
import { properties } from '#support/bridge-amqp-values.ts';
import { forAll, forMany } from '#support/property.ts';
import { encodeMethod, encodeProperties, METHOD } from '../../../../bridge/amqp/wire/codec.ts';
import { encodeDelivery } from '../../../../bridge/amqp/wire/delivery.ts';
import { type Frame, FrameReader } from '../../../../bridge/amqp/wire/frame-reader.ts';
import type { Delivery } from '../../../../protocol/link/vhost.ts';

const FIELDS = { consumerTag: 'ct', deliveryTag: 7, redelivered: true, exchange: 'vcp', routingKey: 'k' };

const delivery = (changes: Partial<Delivery> = {}) => deliveryOf(1, { body: '', ...changes });

function encode(message: Delivery, frameMax = 131_072, fields: Fields = FIELDS): Frame[] {
  const bytes = encodeDelivery(9, { id: METHOD.basicDeliver, fields }, message, frameMax);
  return [...new FrameReader(frameMax).push(bytes)];
}

function propertiesOf(message: Delivery): Fields {
  const payload = encode(message)[1]?.payload ?? Buffer.alloc(0);
  const fields = definitions.decode(60, payload.subarray(12));
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

const raw = (fields: Fields) => propertyBytes(fields).toString('base64');

/** Property flags for headers, and a table. */
function rawHeaders(...entries: Buffer[]): string {
  return Buffer.concat([Buffer.from([0x20, 0]), tableBytes(...entries)]).toString('base64');
}

const long = Buffer.from([0, 0, 0, 1]);

describe('a delivery', () => {
  it('is a method, a header and a body frame on its channel', () => {
    const [method, header, body, ...rest] = encode(delivery({ body: 'čau' }));
    expect(rest).toEqual([]);
    expect([method, header, body].map((one) => [one?.type, one?.channel])).toEqual([
      [1, 9],
      [2, 9],
      [3, 9],
    ]);
    expect(method?.payload.readUInt32BE(0)).toBe(METHOD.basicDeliver);
    expect(definitions.decode(METHOD.basicDeliver, method?.payload.subarray(4) ?? Buffer.alloc(0))).toEqual(
      FIELDS,
    );
    expect(header?.payload.readUInt16BE(0)).toBe(60);
    expect(header?.payload.readBigUInt64BE(4)).toBe(4n);
    expect(body?.payload.toString()).toBe('čau');
  });

  it('has the same bytes as the codec’s frames, with any texts', () => {
    const text = (maxLength: number) =>
      fc.array(fc.nat(0xffff), { maxLength }).map((units) => String.fromCharCode(...units));
    const own = fc.record(
      { contentType: text(85), messageId: text(85), correlationId: text(85), timestampMs: fc.maxSafeNat() },
      { requiredKeys: [] },
    );
    forAll(own, text(300), text(60), fc.maxSafeNat(), (named, body, consumerTag, deliveryTag) => {
      const fields = { ...FIELDS, consumerTag, deliveryTag };
      const message = delivery({ properties: named, body });
      const bytes = encodeDelivery(9, { id: METHOD.basicDeliver, fields }, message, 131_072);
      const { timestampMs, ...texts } = named;
      const timestamp = timestampMs === undefined ? {} : { timestamp: Math.floor(timestampMs / 1_000) };
      const content = Buffer.from(body);
      const expected = [
        encodeMethod(METHOD.basicDeliver, 9, fields),
        encodeProperties(9, content.length, { deliveryMode: 2, ...texts, ...timestamp }),
        ...(content.length > 0 ? [frame(3, 9, content)] : []),
      ];
      expect(bytes).toEqual(Buffer.concat(expected));
    });
  });

  it('leaves out each property that is too long for a short string', () => {
    const properties = {
      messageId: 'm'.repeat(256),
      contentType: 'text/plain',
      correlationId: 'č'.repeat(128),
    };
    expect(propertiesOf(delivery({ properties }))).toEqual({ contentType: 'text/plain', deliveryMode: 2 });
  });

  it('has no body frame if it has no body', () => {
    expect(encode(delivery()).length).toBe(2);
  });

  it('carries binary bodies', () => {
    const bytes = Buffer.from([0, 0xff, 0xfe, 0xce]);
    const [, , body] = encode(delivery({ body: bytes.toString('base64'), encoding: 'base64' }));
    expect(body?.payload).toEqual(bytes);
  });

  it.each([
    [4_096, 4_088, 1],
    [4_096, 4_089, 2],
    [4_096, 262_144, 65],
    [8_192, 8_184, 1],
    [8_192, 8_185, 2],
    [8_192, 262_144, 33],
    [131_072, 131_064, 1],
    [131_072, 131_065, 2],
    [131_072, 262_144, 3],
  ])('frame size %d splits %d bytes into %d body frames [C-6.3]', (frameMax, size, count) => {
    const text = 'a'.repeat(size);
    const bodies = encode(delivery({ body: text }), frameMax).slice(2);
    expect(bodies.length).toBe(count);
    // A frame has eight bytes besides its payload.
    for (const { payload } of bodies) expect(payload.length + 8).toBeLessThanOrEqual(frameMax);
    expect(Buffer.concat(bodies.map(({ payload }) => payload)).toString()).toBe(text);
  });

  it('any body arrives whole at any frame size', () => {
    const bodies = fc.uint8Array({ maxLength: 30_000, size: 'max' }).map((array) => Buffer.from(array));
    forMany(30, bodies, fc.integer({ min: 4_096, max: 20_000 }), (bytes, frameMax) => {
      const message = delivery({ body: bytes.toString('base64'), encoding: 'base64' });
      const parts = encode(message, frameMax).slice(2);
      expect(Buffer.concat(parts.map(({ payload }) => payload)).equals(bytes)).toBe(true);
    });
  });
});

describe('properties of a delivery', () => {
  it('an event keeps its own, has delivery mode 2, and its timestamp is in seconds', () => {
    const own = {
      contentType: 'application/json',
      messageId: 'm-1',
      correlationId: 'c-1',
      timestampMs: 1_768_471_200_999,
      headers: { reason: 'r', count: 2 },
    };
    expect(propertiesOf(delivery({ properties: own }))).toEqual({
      contentType: 'application/json',
      messageId: 'm-1',
      correlationId: 'c-1',
      timestamp: 1_768_471_200,
      headers: { reason: 'r', count: 2 },
      deliveryMode: 2,
    });
  });

  it('a correlation id too long for a short string is left out', () => {
    expect(
      propertiesOf(delivery({ properties: { correlationId: 'č'.repeat(127) } })).correlationId,
    ).toBeDefined();
    expect(propertiesOf(delivery({ properties: { correlationId: 'č'.repeat(128) } }))).toEqual({
      deliveryMode: 2,
    });
  });

  it('a publisher’s message keeps its properties', () => {
    forAll(properties, (own) =>
      expect(propertiesOf(delivery({ properties: { raw: raw(own) } }))).toEqual(own),
    );
  });

  it('a dead-lettered message keeps the publisher’s; our headers replace those of the same name', () => {
    const own = {
      contentType: 'text/plain',
      deliveryMode: 1,
      headers: { mine: [1, { two: true }], reason: 'old' },
    };
    const headers = { reason: 'not JSON', 'x-death-routing-key': 'k' };
    expect(propertiesOf(delivery({ properties: { raw: raw(own), headers } }))).toEqual({
      contentType: 'text/plain',
      deliveryMode: 1,
      headers: { mine: [1, { two: true }], reason: 'not JSON', 'x-death-routing-key': 'k' },
    });
    expect(propertiesOf(delivery({ properties: { raw: raw({ type: 't' }), headers } }))).toEqual({
      type: 't',
      headers,
    });
  });

  it.each([
    ['invalid base64', '!!!'],
    ['nothing', ''],
    ['a table cut short', Buffer.from([0x20, 0, 0, 0, 0, 9, 1]).toString('base64')],
    ['an unknown tag', rawHeaders(tableEntry('k', 'Z', long))],
  ])('those that do not decode (%s) are left out; our headers and the body are sent', (_title, bytes) => {
    const message = delivery({ body: 'body', properties: { raw: bytes, headers: { reason: 'r' } } });
    expect(propertiesOf(message)).toEqual({ headers: { reason: 'r' } });
    expect(encode(message)[2]?.payload.toString()).toBe('body');
  });

  it('headers named __proto__ and constructor change no prototype', () => {
    const inner = tableBytes(tableEntry('polluted', 'I', long));
    const bytes = rawHeaders(tableEntry('__proto__', 'F', inner), tableEntry('constructor', 'F', inner));
    const { headers } = propertiesOf(delivery({ properties: { raw: bytes, headers: { reason: 'r' } } }));
    expect(headers).toEqual({ constructor: { polluted: 1 }, reason: 'r' });
    expect('polluted' in {}).toBe(false);
  });

  /** Properties that decode but do not encode: the dead-letter queue must still deliver such a message. */
  const UNENCODABLE: [string, string, Partial<Delivery>?][] = [
    [
      'a table that looks like a type of the codec',
      rawHeaders(tableEntry('k', 'F', tableBytes(tableEntry('!', 'S', Buffer.from('\0\0\0\x01z'))))),
    ],
    ['a timestamp of 2^64-1', Buffer.from([0, 0x40, ...Array(8).fill(0xff)]).toString('base64')],
    [
      'a content type of 255 bytes that are no text',
      Buffer.from([0x80, 0, 255, ...Array(255).fill(0xff)]).toString('base64'),
    ],
  ];
  it.each(UNENCODABLE)('the body is sent even if they do not encode (%s) [C-7.1]', (_title, bytes) => {
    expect(encode(delivery({ body: 'body', properties: { raw: bytes } }))[2]?.payload.toString()).toBe(
      'body',
    );
  });

  it('a routing key of 100 invalid bytes is cut between characters to a short string [C-7.1]', () => {
    // 100 invalid bytes became 100 replacement characters of three bytes each; 78 of them fit into 255 bytes.
    const routingKey = `acme.command.device.${'\ufffd'.repeat(100)}`;
    const [method, , body] = encode(delivery({ body: 'body', routingKey }), 131_072, {
      ...FIELDS,
      routingKey,
    });
    const decoded = definitions.decode(METHOD.basicDeliver, method?.payload.subarray(4) ?? Buffer.alloc(0));
    expect(decoded).toEqual({ ...FIELDS, routingKey: `acme.command.device.${'\ufffd'.repeat(78)}` });
    expect(body?.payload.toString()).toBe('body');
  });
});
