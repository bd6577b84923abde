/** A delivery as bytes: method, header and body frames in one buffer, the body split by the tuned frame size. */
import type { Delivery, MessageProperties } from '../../../protocol/link/vhost.ts';
import { cutShortString } from './amqp-error.ts';
import { decodeProperties, encodeMethod, encodeProperties, type Fields, type METHOD } from './codec.ts';
import { FRAME, FRAME_OVERHEAD } from './frame-reader.ts';
import { type HeaderEntry, long, longstr, longstrs, tableInArray, timestamp, withHeaders } from './table.ts';

const PERSISTENT = 2;
/** Type, channel and size. */
const FRAME_HEAD_BYTES = 7;

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

/** A whole content-header frame. */
function encodeHeader(channel: number, bodySize: number, properties: MessageProperties): Buffer {
  const plain = encodeProperties(channel, bodySize, propertyFields(properties));
  const added = addedHeaders(properties);
  const own = properties.raw === undefined ? undefined : readable(properties.raw);
  if (!own && added.length === 0) return plain;
  // Class, weight and body size stand before the flags.
  const head = plain.subarray(FRAME_HEAD_BYTES, FRAME_HEAD_BYTES + 12);
  const fields = own ?? plain.subarray(FRAME_HEAD_BYTES + 12, -1);
  const payload = Buffer.concat([head, added.length > 0 ? withHeaders(fields, added) : fields]);
  return wholeFrame(FRAME.header, channel, payload);
}

/** A publisher's own properties, byte for byte; what does not decode is left out, and the body arrives. */
function readable(raw: string): Buffer | undefined {
  const bytes = Buffer.from(raw, 'base64');
  try {
    decodeProperties(bytes);
    return bytes;
  } catch {
    return undefined;
  }
}

function addedHeaders({ headers = {}, death }: MessageProperties): HeaderEntry[] {
  const own = Object.entries(headers).map(([name, value]) =>
    typeof value === 'number' ? long(name, value) : longstr(name, value),
  );
  if (!death) return own;
  const { reason, queue, exchange, routingKeys, atMs, count } = death;
  const entries = [
    long('count', count),
    longstr('reason', reason),
    longstr('queue', queue),
    timestamp('time', atMs),
    longstr('exchange', exchange),
    longstrs('routing-keys', routingKeys),
  ];
  return [
    ...own,
    tableInArray('x-death', entries),
    longstr('x-first-death-exchange', exchange),
    longstr('x-first-death-queue', queue),
    longstr('x-first-death-reason', reason),
  ];
}

function bodyFrames(channel: number, body: Buffer, frameMax: number): Buffer[] {
  const frames: Buffer[] = [];
  const maxPayload = frameMax - FRAME_OVERHEAD;
  for (let start = 0; start < body.length; start += maxPayload) {
    const slice = body.subarray(start, start + maxPayload);
    frames.push(wholeFrame(FRAME.body, channel, slice));
  }
  return frames;
}

function wholeFrame(type: number, channel: number, payload: Buffer): Buffer {
  const frame = Buffer.allocUnsafe(payload.length + FRAME_OVERHEAD);
  frame.writeUInt8(type, 0);
  frame.writeUInt16BE(channel, 1);
  frame.writeUInt32BE(payload.length, 3);
  payload.copy(frame, FRAME_HEAD_BYTES);
  frame.writeUInt8(FRAME.end, FRAME_HEAD_BYTES + payload.length);
  return frame;
}

function propertyFields(properties: MessageProperties): Fields {
  const { raw, contentType, messageId, correlationId, timestampMs } = properties;
  if (raw !== undefined) return {};
  return {
    deliveryMode: PERSISTENT,
    ...(contentType === undefined ? {} : { contentType }),
    ...(messageId === undefined ? {} : { messageId }),
    ...(correlationId === undefined || Buffer.byteLength(correlationId) > 255 ? {} : { correlationId }),
    ...(timestampMs === undefined ? {} : { timestamp: Math.floor(timestampMs / 1_000) }),
  };
}
