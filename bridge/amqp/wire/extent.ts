/**
 * Checks that encoded arguments lie within their bytes, before the decoder reads them: the decoder would
 * silently shorten a string or table that announces more bytes than it has. Nested tables are checked down to
 * a maximum depth.
 */
import { isUtf8 } from 'node:buffer';
import { VALUE_TYPES } from './table.ts';

/** The types of AMQP arguments and properties. */
export type ArgumentType =
  | 'bit'
  | 'octet'
  | 'short'
  | 'long'
  | 'longlong'
  | 'shortstr'
  | 'longstr'
  | 'table'
  | 'timestamp';

type Fault = 'short' | 'long' | 'deep' | 'text';

const FIXED: Readonly<Partial<Record<ArgumentType, number>>> = {
  octet: 1,
  short: 2,
  long: 4,
  longlong: 8,
  timestamp: 8,
};

/**
 * Returns what is wrong with encoded arguments: `short` for too few bytes or a value of unknown type, `deep`
 * for tables nested too deeply; only for methods also `long` for bytes left over and `text` for a short
 * string that is not UTF-8.
 */
export function faultOf(
  types: readonly ArgumentType[],
  bytes: Buffer,
  { from = 0, maxDepth, isMethod }: { from?: number; maxDepth: number; isMethod: boolean },
): Fault | undefined {
  let at = from;
  let bits = 0;
  for (const type of types) {
    // Consecutive bits share an octet.
    bits = type === 'bit' ? bits + 1 : 0;
    if (type === 'bit') {
      at += bits % 8 === 1 ? 1 : 0;
    } else if (type === 'shortstr') {
      if (at >= bytes.length) return 'short';
      const end = at + 1 + bytes.readUInt8(at);
      if (end > bytes.length) return 'short';
      if (isMethod && !isUtf8(bytes.subarray(at + 1, end))) return 'text';
      at = end;
    } else if (type === 'longstr' || type === 'table') {
      const end = endOfLong(bytes, at, bytes.length);
      if (end === undefined) return 'short';
      const fault = type === 'table' ? faultOfItems(bytes, at + 4, end, true, maxDepth) : undefined;
      if (fault) return fault;
      at = end;
    } else {
      at += FIXED[type] ?? 0;
    }
    if (at > bytes.length) return 'short';
  }
  return isMethod && at < bytes.length ? 'long' : undefined;
}

/** The end of a value that begins with its length in four bytes; undefined if it is beyond `limit`. */
function endOfLong(bytes: Buffer, at: number, limit: number): number | undefined {
  if (at + 4 > limit) return undefined;
  const end = at + 4 + bytes.readUInt32BE(at);
  return end > limit ? undefined : end;
}

/** Checks the entries of a table or the values of an array; the last must end exactly at `end`. */
function faultOfItems(
  bytes: Buffer,
  from: number,
  end: number,
  isTable: boolean,
  maxDepth: number,
): Fault | undefined {
  if (maxDepth === 0) return 'deep';
  for (let at = from; at < end; ) {
    if (isTable) at += 1 + bytes.readUInt8(at);
    if (at >= end) return 'short';
    const tag = String.fromCharCode(bytes.readUInt8(at));
    at += 1;
    const size = VALUE_TYPES[tag]?.bytes;
    if (size !== undefined) {
      at += size;
      if (at > end) return 'short';
      continue;
    }
    const isNested = tag === 'F' || tag === 'A';
    const valueEnd = isNested || tag === 'S' || tag === 'x' ? endOfLong(bytes, at, end) : undefined;
    if (valueEnd === undefined) return 'short';
    const fault = isNested ? faultOfItems(bytes, at + 4, valueEnd, tag === 'F', maxDepth - 1) : undefined;
    if (fault) return fault;
    at = valueEnd;
  }
  return undefined;
}
