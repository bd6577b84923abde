/**
 * SHA-256 and HMAC-SHA256 (FIPS 180-4, FIPS 198-1) of short texts. The runtime makes a stream object for each of them,
 * which takes longer than the hash of a device's message; here a text needs no object, and of an HMAC the two blocks
 * that depend only on the key are hashed once. Kept libraries are slower than the runtime (docs/performance.md).
 */

/** Beyond this length the runtime is faster. */
export const MAX_SHORT_CHARS = 1_024;

const BLOCK = 64;
const MAX_BYTES = 3 * MAX_SHORT_CHARS;
/** The first 32 bits of the fractional parts of the cube roots of the first 64 primes, and of the square roots of 8. */
const ROUND = new Int32Array(64);
const INITIAL = new Int32Array(8);
for (let number = 2, count = 0; count < 64; number++) {
  if (!isPrime(number)) continue;
  if (count < 8) INITIAL[count] = fraction(Math.sqrt(number));
  ROUND[count] = fraction(Math.cbrt(number));
  count += 1;
}

const encoder = new TextEncoder();
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));
/** Used again by each call, which is synchronous: the padded text, the message schedule, the hash so far. */
const padded = new Uint8Array(MAX_BYTES + 2 * BLOCK);
const schedule = new Int32Array(64);
const hash = new Int32Array(8);
/** The block of the outer hash: 32 bytes of the inner one, and the padding after 96 bytes. */
const outerBlock = new Uint8Array(BLOCK);
outerBlock[32] = 0x80;
outerBlock[BLOCK - 2] = 0x03;

export class ShortHmac {
  readonly #inner: Int32Array;
  readonly #outer: Int32Array;

  /** A key of at most 64 bytes; throws RangeError for a longer one. */
  constructor(key: Uint8Array) {
    this.#inner = afterKey(key, 0x36);
    this.#outer = afterKey(key, 0x5c);
  }

  /** The MAC of a text of at most `MAX_SHORT_CHARS` as UTF-8, in lower-case hex. */
  hex(text: string): string {
    hash.set(this.#inner);
    hashText(text, BLOCK);
    for (let index = 0; index < 32; index++)
      outerBlock[index] = (hash[index >>> 2] ?? 0) >>> (24 - 8 * (index & 3));
    hash.set(this.#outer);
    compress(outerBlock, 0);
    return hashHex();
  }
}

/** The SHA-256 of a text of at most `MAX_SHORT_CHARS` as UTF-8, in lower-case hex. */
export function shortSha256Hex(text: string): string {
  hash.set(INITIAL);
  hashText(text, 0);
  return hashHex();
}

/** Takes the text and the padding after it into `hash`, which has already taken `before` bytes. */
function hashText(text: string, before: number): void {
  const { written } = encoder.encodeInto(text, padded.subarray(0, MAX_BYTES));
  const end = ((written + 9 + BLOCK - 1) >>> 6) * BLOCK;
  padded.fill(0, written, end);
  padded[written] = 0x80;
  const bits = (before + written) * 8;
  for (let byte = 0; byte < 4; byte++) padded[end - 1 - byte] = bits >>> (8 * byte);
  for (let at = 0; at < end; at += BLOCK) compress(padded, at);
}

function hashHex(): string {
  let hex = '';
  for (let index = 0; index < 32; index++)
    hex += HEX[((hash[index >>> 2] ?? 0) >>> (24 - 8 * (index & 3))) & 0xff];
  return hex;
}

/** The hash after the key, combined with a pad. */
function afterKey(key: Uint8Array, pad: number): Int32Array {
  const block = new Uint8Array(BLOCK);
  block.set(key);
  for (let index = 0; index < BLOCK; index++) block[index] = (block[index] ?? 0) ^ pad;
  hash.set(INITIAL);
  compress(block, 0);
  return hash.slice();
}

/** Takes one block of 64 bytes into `hash`. */
function compress(bytes: Uint8Array, start: number): void {
  for (let index = 0; index < 16; index++) {
    const at = start + 4 * index;
    schedule[index] =
      ((bytes[at] as number) << 24) |
      ((bytes[at + 1] as number) << 16) |
      ((bytes[at + 2] as number) << 8) |
      (bytes[at + 3] as number);
  }
  for (let index = 16; index < 64; index++) {
    const x = schedule[index - 15] as number;
    const y = schedule[index - 2] as number;
    const sigma0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const sigma1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    schedule[index] = (schedule[index - 16] as number) + (schedule[index - 7] as number) + sigma0 + sigma1;
  }
  let a = hash[0] as number;
  let b = hash[1] as number;
  let c = hash[2] as number;
  let d = hash[3] as number;
  let e = hash[4] as number;
  let f = hash[5] as number;
  let g = hash[6] as number;
  let h = hash[7] as number;
  for (let index = 0; index < 64; index++) {
    const sum1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const choice = (e & f) ^ (~e & g);
    const first = (h + sum1 + choice + (ROUND[index] as number) + (schedule[index] as number)) | 0;
    const sum0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const majority = (a & b) ^ (a & c) ^ (b & c);
    h = g;
    g = f;
    f = e;
    e = (d + first) | 0;
    d = c;
    c = b;
    b = a;
    a = (first + sum0 + majority) | 0;
  }
  hash[0] = (hash[0] as number) + a;
  hash[1] = (hash[1] as number) + b;
  hash[2] = (hash[2] as number) + c;
  hash[3] = (hash[3] as number) + d;
  hash[4] = (hash[4] as number) + e;
  hash[5] = (hash[5] as number) + f;
  hash[6] = (hash[6] as number) + g;
  hash[7] = (hash[7] as number) + h;
}

function isPrime(number: number): boolean {
  for (let divisor = 2; divisor * divisor <= number; divisor++) if (number % divisor === 0) return false;
  return true;
}

/** The first 32 bits of the fractional part. */
function fraction(number: number): number {
  return Math.floor((number % 1) * 2 ** 32);
}
