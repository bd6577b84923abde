/** The 8-byte hash of a nonce: HalfSipHash-2-4, checked against the authors' test vectors, with a key. */
import { describe, expect, it } from 'vitest';
import { hashNonce, randomNonceKey } from '../../../../durable-objects/site/telemetry/nonce-hash.ts';

/** The key of the reference vectors: bytes 0 to 7. */
const KEY = [0x03020100, 0x07060504] as const;

/** A text whose UTF-16 units are these bytes, two per unit. */
function ofBytes(count: number): string {
  const units = Array.from({ length: count / 2 }, (_, index) => index * 2 + ((index * 2 + 1) << 8));
  return String.fromCharCode(...units);
}

/** The hash as the reference prints it: little-endian, byte by byte. */
function bytesOf([first, second]: [number, number]): string {
  const bytes = new DataView(new ArrayBuffer(8));
  bytes.setUint32(0, first, true);
  bytes.setUint32(4, second, true);
  return Array.from({ length: 8 }, (_, at) => bytes.getUint8(at).toString(16).padStart(2, '0')).join('');
}

describe('the hash of a nonce', () => {
  it.each([
    [0, '218d1f59b9b83cc8'],
    [2, '064f39ef7c50eb57'],
    [4, 'd5e78a175be52ea1'],
    [6, 'ce3e91358aa2bc25'],
    [8, 'edfee820bce4858c'],
    [62, 'f90b3ab572d46693'],
  ])('the hash of %d bytes equals the reference vector [C-3.8]', (count, expected) => {
    expect(bytesOf(hashNonce(KEY, ofBytes(count)))).toBe(expected);
  });

  it('differs between 20 000 texts, and between two random keys [C-3.8]', () => {
    const texts = Array.from({ length: 20_000 }, (_, index) => `device|${index}`);
    texts.push('', 'a', 'aa', 'aaa', 'ab', 'ba', 'č', '\u0000', '\u0000\u0000');
    const hashes = new Set(texts.map((text) => hashNonce(KEY, text).join()));
    expect(hashes.size).toBe(texts.length);
    expect(hashNonce(randomNonceKey(), 'a')).not.toEqual(hashNonce(randomNonceKey(), 'a'));
  });
});
