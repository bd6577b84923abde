/**
 * Encodes a delivery: method, header and body frames in one buffer, the body split by the negotiated frame
 * size. Does not encode with the codec, which takes twice as long; all sizes are computed first. A publisher's
 * properties are not changed, except that the headers of a dead letter are added.
 */
import type { Delivery, MessageProperties } from '../../../protocol/link/vhost.ts';
import { cutShortString } from './amqp-error.ts';
import { BASIC_CLASS, decodeProperties, type Fields, METHOD } from './codec.ts';
import { FRAME, FRAME_OVERHEAD } from './frame-reader.ts';
import { type HeaderEntry, long, longstr, longstrs, tableInArray, timestamp, withHeaders } from './table.ts';

const PERSISTENT = 2;
/** Property flags with none set. */
const NO_PROPERTIES = Buffer.alloc(2);
/** Bytes of a content header before its properties: class, weight and body size. */
const HEADER_BYTES = 12;
/** Bytes of a header frame around its flags and fields. */
const HEADER_FRAME_BYTES = FRAME_OVERHEAD + HEADER_BYTES;
const BEFORE_PAYLOAD = 7;
const FLAG = {
  contentType: 0x8000,
  deliveryMode: 0x1000,
  correlationId: 0x0400,
  messageId: 0x0080,
  timestamp: 0x0040,
};

export function encodeDelivery(
  channel: number,
  method: { id: typeof METHOD.basicDeliver | typeof METHOD.basicGetOk; fields: Fields },
  delivery: Delivery,
  frameMax: number,
): Buffer {
  // The size of a base64 body is known only after decoding.
  const body = delivery.encoding === 'utf8' ? delivery.body : Buffer.from(delivery.body, 'base64');
  const bodyBytes = Buffer.byteLength(body);
  const properties = encodeFlagsAndFields(delivery.properties);
  const maxPayload = frameMax - FRAME_OVERHEAD;
  const bodyFrames = Math.ceil(bodyBytes / maxPayload);
  const head = new Head(method.id, method.fields);
  const size =
    head.frameBytes + HEADER_FRAME_BYTES + properties.length + bodyBytes + bodyFrames * FRAME_OVERHEAD;
  const bytes = Buffer.allocUnsafe(size);

  let offset = head.write(bytes, channel);
  offset = beginFrame(bytes, offset, FRAME.header, channel, HEADER_BYTES + properties.length);
  offset = bytes.writeUInt32BE(BASIC_CLASS << 16, offset);
  offset = writeUInt64(bytes, bodyBytes, offset);
  offset = endFrame(bytes, offset + properties.copy(bytes, offset));
  if (bodyFrames === 0) return bytes;
  if (bodyFrames === 1) {
    offset = beginFrame(bytes, offset, FRAME.body, channel, bodyBytes);
    endFrame(bytes, offset + put(bytes, body, offset));
    return bytes;
  }
  const whole = Buffer.from(body);
  for (let start = 0; start < bodyBytes; start += maxPayload) {
    const end = Math.min(start + maxPayload, bodyBytes);
    offset = beginFrame(bytes, offset, FRAME.body, channel, end - start);
    offset = endFrame(bytes, offset + whole.copy(bytes, offset, start, end));
  }
  return bytes;
}

/** The method frame of basic.deliver or basic.get-ok. */
class Head {
  readonly frameBytes: number;
  readonly #method: number;
  readonly #fields: Fields;
  readonly #consumerTag: string | undefined;
  readonly #exchange: string;
  readonly #routingKey: string;

  constructor(method: number, fields: Fields) {
    this.#method = method;
    this.#fields = fields;
    this.#consumerTag = method === METHOD.basicDeliver ? String(fields.consumerTag) : undefined;
    this.#exchange = String(fields.exchange);
    this.#routingKey = cutShortString(String(fields.routingKey));
    const strings = shortBytes(this.#exchange) + shortBytes(this.#routingKey);
    const own = this.#consumerTag === undefined ? 4 : shortBytes(this.#consumerTag);
    this.frameBytes = FRAME_OVERHEAD + 4 + 8 + 1 + strings + own;
  }

  write(bytes: Buffer, channel: number): number {
    let offset = beginFrame(bytes, 0, FRAME.method, channel, this.frameBytes - FRAME_OVERHEAD);
    offset = bytes.writeUInt32BE(this.#method, offset);
    if (this.#consumerTag !== undefined) offset = writeShort(bytes, this.#consumerTag, offset);
    offset = writeUInt64(bytes, Number(this.#fields.deliveryTag), offset);
    offset = bytes.writeUInt8(this.#fields.redelivered === true ? 1 : 0, offset);
    offset = writeShort(bytes, this.#exchange, offset);
    offset = writeShort(bytes, this.#routingKey, offset);
    if (this.#consumerTag === undefined)
      offset = bytes.writeUInt32BE(Number(this.#fields.messageCount), offset);
    return endFrame(bytes, offset);
  }
}

function beginFrame(bytes: Buffer, at: number, type: number, channel: number, payloadBytes: number): number {
  bytes[at] = type;
  bytes.writeUInt16BE(channel, at + 1);
  bytes.writeUInt32BE(payloadBytes, at + 3);
  return at + BEFORE_PAYLOAD;
}

function endFrame(bytes: Buffer, at: number): number {
  bytes[at] = FRAME.end;
  return at + 1;
}

function writeUInt64(bytes: Buffer, value: number, at: number): number {
  bytes.writeUInt32BE(Math.floor(value / 2 ** 32), at);
  return bytes.writeUInt32BE(value % 2 ** 32, at + 4);
}

function put(bytes: Buffer, body: string | Buffer, at: number): number {
  return typeof body === 'string' ? bytes.write(body, at) : body.copy(bytes, at);
}

function shortBytes(text: string): number {
  return 1 + Buffer.byteLength(text);
}

function writeShort(bytes: Buffer, text: string, at: number): number {
  const length = bytes.write(text, at + 1);
  bytes[at] = length;
  return at + 1 + length;
}

/** Flags and fields of a content header. */
function encodeFlagsAndFields(properties: MessageProperties): Buffer {
  const { raw } = properties;
  const fields = raw === undefined ? encodePlain(properties) : (readable(raw) ?? NO_PROPERTIES);
  const added = addedHeaders(properties);
  return added.length > 0 ? withHeaders(fields, added) : fields;
}

/** Returns a publisher's properties as received; undefined if they do not decode: only the body is sent. */
function readable(raw: string): Buffer | undefined {
  const bytes = Buffer.from(raw, 'base64');
  try {
    decodeProperties(bytes);
    return bytes;
  } catch {
    return undefined;
  }
}

function addedHeaders({ headers, death }: MessageProperties): HeaderEntry[] {
  const own = Object.entries(headers ?? {}).map(([name, value]) =>
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

/** Encodes the properties of our own events; a text too long for a short string is omitted. */
function encodePlain(properties: MessageProperties): Buffer {
  const { timestampMs } = properties;
  const contentType = fitting(properties.contentType);
  const correlationId = fitting(properties.correlationId);
  const messageId = fitting(properties.messageId);
  const size =
    3 +
    (contentType === undefined ? 0 : shortBytes(contentType)) +
    (correlationId === undefined ? 0 : shortBytes(correlationId)) +
    (messageId === undefined ? 0 : shortBytes(messageId)) +
    (timestampMs === undefined ? 0 : 8);
  const bytes = Buffer.allocUnsafe(size);
  let flags = FLAG.deliveryMode;
  let offset = 2;
  if (contentType !== undefined) {
    flags |= FLAG.contentType;
    offset = writeShort(bytes, contentType, offset);
  }
  offset = bytes.writeUInt8(PERSISTENT, offset);
  if (correlationId !== undefined) {
    flags |= FLAG.correlationId;
    offset = writeShort(bytes, correlationId, offset);
  }
  if (messageId !== undefined) {
    flags |= FLAG.messageId;
    offset = writeShort(bytes, messageId, offset);
  }
  if (timestampMs !== undefined) {
    flags |= FLAG.timestamp;
    writeUInt64(bytes, Math.floor(timestampMs / 1_000), offset);
  }
  bytes.writeUInt16BE(flags, 0);
  return bytes;
}

function fitting(text: string | undefined): string | undefined {
  return text === undefined || Buffer.byteLength(text) > 255 ? undefined : text;
}
