/**
 * Field tables as bytes: reads values with their types, and adds entries without decoding the existing ones,
 * so that a publisher's own headers keep their types. Truncated bytes throw a RangeError.
 */
import { MAX_ARGUMENTS, type TypedArgument } from '../../../protocol/link/vhost.ts';

/** Bytes of the length with which values without a fixed size begin. */
const LENGTH_BYTES = 4;
const MAX_VALUE_CHARS = 1_024;

interface ValueType {
  /** RabbitMQ's name. */
  name: string;
  /** Strings, tables and arrays have no fixed size: they begin with their length. */
  bytes?: number;
  /** Types that no argument needs are read as null. */
  read?: (value: Buffer) => TypedArgument['value'];
}

/** The types of table values, by tag. */
export const VALUE_TYPES: Readonly<Record<string, ValueType>> = {
  t: { name: 'bool', bytes: 1, read: (value) => value.readUInt8() !== 0 },
  b: { name: 'byte', bytes: 1, read: (value) => value.readInt8() },
  B: { name: 'unsignedbyte', bytes: 1, read: (value) => value.readUInt8() },
  s: { name: 'short', bytes: 2, read: (value) => value.readInt16BE() },
  u: { name: 'unsignedshort', bytes: 2, read: (value) => value.readUInt16BE() },
  I: { name: 'signedint', bytes: 4, read: (value) => value.readInt32BE() },
  i: { name: 'unsignedint', bytes: 4, read: (value) => value.readUInt32BE() },
  l: { name: 'long', bytes: 8, read: (value) => Number(value.readBigInt64BE()) },
  f: { name: 'float', bytes: 4, read: (value) => finite(value.readFloatBE()) },
  d: { name: 'double', bytes: 8, read: (value) => finite(value.readDoubleBE()) },
  D: { name: 'decimal', bytes: 5 },
  T: { name: 'timestamp', bytes: 8 },
  S: { name: 'longstr', read: (value) => value.toString('utf8', LENGTH_BYTES).slice(0, MAX_VALUE_CHARS) },
  A: { name: 'array' },
  F: { name: 'table' },
  x: { name: 'binary' },
  V: { name: 'void', bytes: 0 },
};

export interface HeaderEntry {
  name: string;
  tag: string;
  value: Buffer;
  /** The whole encoded entry. */
  bytes: Buffer;
}

/** The entries of a table that begins at `offset` with its length. */
function* entriesOf(bytes: Buffer, offset: number): Generator<HeaderEntry> {
  const end = offset + LENGTH_BYTES + bytes.readUInt32BE(offset);
  if (end > bytes.length) throw new RangeError('a field table extends beyond its frame');
  let at = offset + LENGTH_BYTES;
  while (at < end) {
    const start = at;
    const nameEnd = at + 1 + bytes.readUInt8(at);
    const name = bytes.toString('utf8', at + 1, nameEnd);
    const tag = String.fromCharCode(bytes.readUInt8(nameEnd));
    const valueStart = nameEnd + 1;
    const size = VALUE_TYPES[tag]?.bytes ?? LENGTH_BYTES + bytes.readUInt32BE(valueStart);
    at = valueStart + size;
    if (at > end) throw new RangeError('a field extends beyond its table');
    yield { name, tag, value: bytes.subarray(valueStart, at), bytes: bytes.subarray(start, at) };
  }
}

/** Returns the offset of a method's bits: after its reserved short and `count` short strings. */
export function behindStrings(args: Buffer, count: number): number {
  let at = 2;
  for (let string = 0; string < count; string++) at += 1 + args.readUInt8(at);
  return at;
}

/** Reads the first `MAX_ARGUMENTS` arguments of the table at `offset`: a declaration has only a few. */
export function readArguments(bytes: Buffer, offset: number): TypedArgument[] {
  const typed: TypedArgument[] = [];
  for (const { name, tag, value } of entriesOf(bytes, offset)) {
    if (typed.length === MAX_ARGUMENTS) continue;
    const type = VALUE_TYPES[tag];
    typed.push({ name, type: type?.name ?? tag, value: type?.read?.(value) ?? null });
  }
  return typed;
}

/** Returns null for NaN and infinity, which JSON does not have. */
function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

const CONTENT_TYPE = 0x8000;
const CONTENT_ENCODING = 0x4000;
const HEADERS = 0x2000;

/**
 * Returns flags and fields of a content header with `added` in the headers table, in place of existing
 * entries with the same names. Everything else is copied byte for byte.
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

/** A timestamp in whole seconds; `ms` is epoch milliseconds. */
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
