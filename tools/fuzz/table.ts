/**
 * Random field tables and short strings as bytes, mostly valid: some have wrong lengths, unknown tags or deep
 * nesting.
 */
import type { Chance } from './chance.ts';

const TAGS = 'tbBsuIilfdDTSxFAV';
const SIZES: Readonly<Record<string, number>> = {
  t: 1,
  b: 1,
  B: 1,
  s: 2,
  u: 2,
  I: 4,
  i: 4,
  f: 4,
  D: 5,
  l: 8,
  d: 8,
  T: 8,
  V: 0,
};
const KEYS = ['k', '', '__proto__', 'constructor', '!', 'value', 'x-death', 'capabilities', 'é', 'LOGIN'];
const LENGTHS = [0, 1, 255, 256, 65_535, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1];

export function uint32(value: number): Buffer {
  const bytes: Buffer = Buffer.allocUnsafe(4);
  bytes.writeUInt32BE(value >>> 0);
  return bytes;
}

/** The bytes with their length in front; one length in `oneIn` is wrong. */
export function longOf(chance: Chance, bytes: Buffer, oneIn = 200): Buffer {
  const lie = chance.pick([bytes.length + 1, Math.max(0, bytes.length - 1), ...LENGTHS]);
  return Buffer.concat([uint32(chance.isOneIn(oneIn) ? lie : bytes.length), bytes]);
}

/** A short string: one of `words`, sometimes of maximum length, random bytes, or with a wrong length. */
export function shortOf(chance: Chance, words: readonly string[]): Buffer {
  const kind = chance.below(200);
  const text = kind === 0 ? chance.bytes(chance.pick([1, 7, 255])) : Buffer.from(chance.pick(words));
  const whole = kind === 1 ? Buffer.alloc(255, chance.pick(['x', 'é'])) : text;
  const length = kind === 2 ? chance.below(256) : whole.length;
  return Buffer.concat([Buffer.from([length]), whole.subarray(0, 255)]);
}

/** A field table with its length. */
export function table(chance: Chance, depth = 0): Buffer {
  if (depth === 0 && chance.isOneIn(300)) return deep(chance, chance.pick([31, 32, 33, 1_000, 15_000]));
  const entries: Buffer[] = [];
  for (let left = chance.below(depth === 0 ? 4 : 3); left > 0; left--) {
    entries.push(shortOf(chance, KEYS), value(chance, depth));
  }
  return longOf(chance, Buffer.concat(entries));
}

function value(chance: Chance, depth: number): Buffer {
  const tag = chance.isOneIn(300) ? String.fromCharCode(chance.below(256)) : chance.pick([...TAGS]);
  const name = Buffer.from(tag, 'latin1');
  const size = SIZES[tag];
  if (size !== undefined) return Buffer.concat([name, chance.bytes(size)]);
  if (tag === 'F' && depth < 5) return Buffer.concat([name, table(chance, depth + 1)]);
  if (tag === 'A' && depth < 5) {
    const values = Array.from({ length: chance.below(3) }, () => value(chance, depth + 1));
    return Buffer.concat([name, longOf(chance, Buffer.concat(values))]);
  }
  return Buffer.concat([name, longOf(chance, chance.bytes(chance.below(12)))]);
}

/** Nested tables, or nested arrays. */
function deep(chance: Chance, depth: number): Buffer {
  const opening = chance.isOneIn(2) ? Buffer.from('\x01tF') : Buffer.from('A');
  const levels: Buffer[] = [];
  for (let inside = depth; inside > 0; inside--) {
    levels.push(uint32((4 + opening.length) * inside), inside === depth ? Buffer.from('\x01tF') : opening);
  }
  return Buffer.concat([...levels, uint32(0)]);
}
