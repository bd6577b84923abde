/** A delivery as bytes: method, header and body frames in one buffer, the body split by the tuned frame size. */
import type { Delivery, MessageProperties } from '../../../protocol/link/vhost.ts';
import { cutShortString } from './amqp-error.ts';
import { decodeProperties, encodeMethod, encodeProperties, type Fields, type METHOD } from './codec.ts';
import { FRAME, FRAME_OVERHEAD } from './frame-reader.ts';

const PERSISTENT = 2;

export function encodeDelivery(
  channel: number,
  method: { id: typeof METHOD.basicDeliver | typeof METHOD.basicGetOk; fields: Fields },
  delivery: Delivery,
  frameMax: number,
): Buffer {
  const body = Buffer.from(delivery.body, delivery.encoding === 'utf8' ? 'utf8' : 'base64');
  const routingKey = cutShortString(String(method.fields.routingKey));
  const head = encodeMethod(method.id, channel, { ...method.fields, routingKey });
  const properties = encodeHeader(channel, body.length, delivery.properties);
  return Buffer.concat([head, properties, ...bodyFrames(channel, body, frameMax)]);
}

/** A publisher's own properties may decode and not encode again: then they are left out, and the body arrives. */
function encodeHeader(channel: number, bodySize: number, properties: MessageProperties): Buffer {
  try {
    return encodeProperties(channel, bodySize, propertyFields(properties));
  } catch {
    const { raw: _unencodable, headers, ...rest } = properties;
    const reason = headers?.['x-death-reason'];
    return encodeProperties(channel, bodySize, {
      ...propertyFields(rest),
      ...(reason === undefined ? {} : { headers: { 'x-death-reason': reason } }),
    });
  }
}

function bodyFrames(channel: number, body: Buffer, frameMax: number): Buffer[] {
  const frames: Buffer[] = [];
  const maxPayload = frameMax - FRAME_OVERHEAD;
  for (let start = 0; start < body.length; start += maxPayload) {
    const slice = body.subarray(start, start + maxPayload);
    const frame = Buffer.allocUnsafe(slice.length + FRAME_OVERHEAD);
    frame.writeUInt8(FRAME.body, 0);
    frame.writeUInt16BE(channel, 1);
    frame.writeUInt32BE(slice.length, 3);
    slice.copy(frame, 7);
    frame.writeUInt8(FRAME.end, 7 + slice.length);
    frames.push(frame);
  }
  return frames;
}

function propertyFields(properties: MessageProperties): Fields {
  const { raw, headers, contentType, messageId, correlationId, timestampMs } = properties;
  if (raw !== undefined) {
    const own = readRaw(raw);
    return { ...own, ...withHeaders(own.headers, headers) };
  }
  return {
    deliveryMode: PERSISTENT,
    ...(contentType === undefined ? {} : { contentType }),
    ...(messageId === undefined ? {} : { messageId }),
    ...(correlationId === undefined || Buffer.byteLength(correlationId) > 255 ? {} : { correlationId }),
    ...(timestampMs === undefined ? {} : { timestamp: Math.floor(timestampMs / 1_000) }),
    ...withHeaders(undefined, headers),
  };
}

/** A publisher's own properties; what does not decode is left out, the body still arrives. */
function readRaw(raw: string): Fields {
  try {
    const fields = decodeProperties(Buffer.from(raw, 'base64'));
    return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
  } catch {
    return {};
  }
}

function withHeaders(own: unknown, added: MessageProperties['headers']): Fields {
  if (!added) return {};
  const table = typeof own === 'object' && own !== null ? own : {};
  const keys = Object.keys(table).filter((key) => Object.hasOwn(table, key) && key !== '__proto__');
  return { headers: { ...Object.fromEntries(keys.map((key) => [key, (table as Fields)[key]])), ...added } };
}
