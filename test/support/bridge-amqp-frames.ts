/** AMQP frames, valid or not, encoded by amqplib's tables. */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { AmqpError } from '../../bridge/amqp/wire/amqp-error.ts';
import { METHOD } from '../../bridge/amqp/wire/codec.ts';

export type Fields = Record<string, unknown>;

export interface Method {
  id: number;
  name: string;
  args: { name: string; type: string }[];
}

/** amqplib's generated definitions, every method of both directions. */
export interface Definitions {
  decode(id: number, payload: Buffer): Fields;
  encodeMethod(id: number, channel: number, fields: Fields): Buffer;
  encodeProperties(id: number, channel: number, size: number, fields: Fields): Buffer;
  info(id: number): Method;
  [name: string]: unknown;
}

const require = createRequire(import.meta.url);
export const definitions: Definitions = require(
  join(dirname(require.resolve('amqplib')), 'lib', 'defs.js'),
) as Definitions;

export const PROTOCOL_HEADER = Buffer.from([0x41, 0x4d, 0x51, 0x50, 0, 0, 9, 1]);
/** The class id of content, under which amqplib keeps the properties. */
export const BASIC = 60;

/** The fields of a client's close, of a channel or a connection. */
export const BYE = { replyCode: 200, replyText: 'bye', classId: 0, methodId: 0 };

/** A frame of any type with any payload. */
export function frame(type: number, channel: number, payload: Buffer, end = 0xce): Buffer {
  const bytes = Buffer.alloc(payload.length + 8);
  bytes.writeUInt8(type, 0);
  bytes.writeUInt16BE(channel, 1);
  bytes.writeUInt32BE(payload.length, 3);
  payload.copy(bytes, 7);
  bytes.writeUInt8(end, 7 + payload.length);
  return bytes;
}

/** Only the header of a frame with a payload of `size`. */
export function announcement(type: number, size: number): Buffer {
  const header = frame(type, 1, Buffer.alloc(0)).subarray(0, 7);
  header.writeUInt32BE(size, 3);
  return header;
}

export function methodFrame(method: number, fields: Fields = {}, channel = 0): Buffer {
  return definitions.encodeMethod(method, channel, fields);
}

export const HEARTBEAT = frame(8, 0, Buffer.alloc(0));

/** A method frame with any bytes as arguments. */
export function rawMethodFrame(method: number, args: Buffer, channel = 1): Buffer {
  const payload = Buffer.alloc(4 + args.length);
  payload.writeUInt32BE(method, 0);
  args.copy(payload, 4);
  return frame(1, channel, payload);
}

export function headerFrame(size: number, properties: Fields = {}, channel = 1): Buffer {
  return definitions.encodeProperties(BASIC, channel, size, properties);
}

/** The flags and fields of a content header. */
export function propertyBytes(properties: Fields): Buffer {
  return headerFrame(0, properties).subarray(19, -1);
}

/** The method, header and body frames of one publish. */
export function publishFrames(
  body: Buffer | string,
  { channel = 1, properties = {}, ...method }: Fields & { channel?: number; properties?: Fields } = {},
): Buffer {
  const content = Buffer.from(body);
  const fields = { exchange: 'vcp', routingKey: 'acme.command.mode', ...method };
  const parts = [methodFrame(METHOD.basicPublish, fields, channel)];
  parts.push(headerFrame(content.length, properties, channel));
  for (let start = 0; start < content.length; start += 131_064)
    parts.push(frame(3, channel, content.subarray(start, start + 131_064)));
  return Buffer.concat(parts);
}

/** A field table with its length, also one that no encoder would write. */
export function tableBytes(...entries: Buffer[]): Buffer {
  const whole = Buffer.concat(entries);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(whole.length);
  return Buffer.concat([length, whole]);
}

export function tableEntry(key: string, tag: string, value: Buffer): Buffer {
  const name = Buffer.from(key);
  return Buffer.concat([Buffer.from([name.length]), name, Buffer.from(tag), value]);
}

export function longString(text: string): Buffer {
  return tableBytes(Buffer.from(text));
}

/** An AMQPLAIN response: a table without its length. */
export function amqplain(texts: Record<string, string>): Buffer {
  const entries = Object.entries(texts);
  return Buffer.concat(entries.map(([name, text]) => tableEntry(name, 'S', longString(text))));
}

/** Nested tables, `depth` levels. */
export function deepTable(depth: number): Buffer {
  const levels: Buffer[] = [];
  // An entry adds a key and a tag (three bytes) and the inner table's length (four bytes).
  for (let inside = depth - 1; inside > 0; inside--) {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(7 * inside);
    levels.push(length, Buffer.from('\x01tF'));
  }
  return Buffer.concat([...levels, tableBytes()]);
}

/** The AMQP error that `act` throws; undefined if it throws none. Rethrows other errors. */
export function amqpErrorOf(act: () => unknown): AmqpError | undefined {
  try {
    act();
    return undefined;
  } catch (error) {
    if (error instanceof AmqpError) return error;
    throw error;
  }
}
