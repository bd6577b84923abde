/**
 * Field tables as bytes: read with the type that each value has, and added to without reading what is there, so that
 * a publisher's own headers keep theirs. What ends before it should throws a RangeError.
 */
import { MAX_ARGUMENTS, type TypedArgument } from '../../../protocol/link/vhost.ts';
import { TABLE_VALUE_BYTES } from './extent.ts';

/** RabbitMQ's words for the types, by their tags. */
const TYPES: Readonly<Record<string, string>> = {
  t: 'bool',
  b: 'byte',
  B: 'unsignedbyte',
  s: 'short',
  u: 'unsignedshort',
  I: 'signedint',
  i: 'unsignedint',
  l: 'long',
  f: 'float',
  d: 'double',
  D: 'decimal',
  T: 'timestamp',
  S: 'longstr',
  A: 'array',
  F: 'table',
  x: 'binary',
  V: 'void',
};

/** Of the types that have no size of their own. */
const LENGTH_BYTES = 4;
const MAX_VALUE_CHARS = 1_024;

export interface HeaderEntry {
  name: string;
  tag: string;
  value: Buffer;
  /** Of the whole entry. */
  bytes: Buffer;
}

/** The entries of a table that begins at `offset` with its length. */
function* entriesOf(bytes: Buffer, offset: number): Generator<HeaderEntry> {
  const end = offset + LENGTH_BYTES + bytes.readUInt32BE(offset);
  if (end > bytes.length) throw new RangeError('a field table ends behind its frame');
  let at = offset + LENGTH_BYTES;
  while (at < end) {
    const start = at;
    const nameEnd = at + 1 + bytes.readUInt8(at);
    const name = bytes.toString('utf8', at + 1, nameEnd);
    const tag = String.fromCharCode(bytes.readUInt8(nameEnd));
    const valueStart = nameEnd + 1;
    const size = TABLE_VALUE_BYTES[tag] ?? LENGTH_BYTES + bytes.readUInt32BE(valueStart);
    at = valueStart + size;
    if (at > end) throw new RangeError('a field ends behind its table');
    yield { name, tag, value: bytes.subarray(valueStart, at), bytes: bytes.subarray(start, at) };
  }
}

/** Where a method's bits stand, behind its reserved short and so many short strings. */
export function behindStrings(args: Buffer, count: number): number {
  let at = 2;
  for (let string = 0; string < count; string++) at += 1 + args.readUInt8(at);
  return at;
}

/** The arguments in a table at `offset`, the first of them: a declaration has few. */
export function readArguments(bytes: Buffer, offset: number): TypedArgument[] {
  const typed: TypedArgument[] = [];
  for (const { name, tag, value } of entriesOf(bytes, offset)) {
    if (typed.length < MAX_ARGUMENTS)
      typed.push({ name, type: TYPES[tag] ?? tag, value: scalar(tag, value) });
  }
  return typed;
}

function scalar(tag: string, value: Buffer): TypedArgument['value'] {
  switch (tag) {
    case 't':
      return value.readUInt8(0) !== 0;
    case 'b':
      return value.readInt8(0);
    case 'B':
      return value.readUInt8(0);
    case 's':
      return value.readInt16BE(0);
    case 'u':
      return value.readUInt16BE(0);
    case 'I':
      return value.readInt32BE(0);
    case 'i':
      return value.readUInt32BE(0);
    case 'l':
      return Number(value.readBigInt64BE(0));
    case 'f':
      return finite(value.readFloatBE(0));
    case 'd':
      return finite(value.readDoubleBE(0));
    case 'S':
      return value.toString('utf8', LENGTH_BYTES).slice(0, MAX_VALUE_CHARS);
    default:
      return null;
  }
}

/** What is no number has no place in JSON. */
function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

const CONTENT_TYPE = 0x8000;
const CONTENT_ENCODING = 0x4000;
const HEADERS = 0x2000;

/**
 * Flags and fields of a content header with these entries in its headers table, in the place of any of the same names;
 * all else stays as it is, byte for byte.
 */
export function withHeaders(properties: Buffer, added: readonly HeaderEntry[]): Buffer {
  const flags = properties.readUInt16BE(0);
  let at = 2;
  for (const flag of [CONTENT_TYPE, CONTENT_ENCODING]) {
    if ((flags & flag) !== 0) at += 1 + properties.readUInt8(at);
  }
  const hasTable = (flags & HEADERS) !== 0;
  const names = new Set(added.map(({ name }) => name));
  const own = hasTable ? [...entriesOf(properties, at)].filter(({ name }) => !names.has(name)) : [];
  const rest = hasTable ? at + LENGTH_BYTES + properties.readUInt32BE(at) : at;
  const head = Buffer.from(properties.subarray(0, at));
  head.writeUInt16BE(flags | HEADERS, 0);
  return Buffer.concat([
    head,
    sized([...own, ...added].map(({ bytes }) => bytes)),
    properties.subarray(rest),
  ]);
}

// entries to add

export function longstr(name: string, text: string): HeaderEntry {
  return entry(name, 'S', longstrValue(text));
}

export function long(name: string, value: number): HeaderEntry {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(BigInt(value));
  return entry(name, 'l', bytes);
}

/** A moment in whole seconds, from milliseconds. */
export function timestamp(name: string, ms: number): HeaderEntry {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(Math.floor(ms / 1_000)));
  return entry(name, 'T', bytes);
}

export function longstrs(name: string, texts: readonly string[]): HeaderEntry {
  return entry(name, 'A', sized(texts.flatMap((text) => [Buffer.from('S'), longstrValue(text)])));
}

/** An array of one table. */
export function tableInArray(name: string, entries: readonly HeaderEntry[]): HeaderEntry {
  return entry(name, 'A', sized([Buffer.from('F'), sized(entries.map(({ bytes }) => bytes))]));
}

function entry(name: string, tag: string, value: Buffer): HeaderEntry {
  const text = Buffer.from(name, 'utf8');
  return {
    name,
    tag,
    value,
    bytes: Buffer.concat([Buffer.from([text.length]), text, Buffer.from(tag), value]),
  };
}

function longstrValue(text: string): Buffer {
  return sized([Buffer.from(text, 'utf8')]);
}

function sized(parts: readonly Buffer[]): Buffer {
  const length = Buffer.alloc(LENGTH_BYTES);
  const whole = Buffer.concat(parts);
  length.writeUInt32BE(whole.length);
  return Buffer.concat([length, whole]);
}
