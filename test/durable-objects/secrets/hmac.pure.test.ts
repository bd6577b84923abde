/** Our SHA-256 and HMAC-SHA256 of short texts: NIST's examples, and equal to the runtime's for every key and text. */
import { createHash, createHmac } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forMany } from '#support/property.ts';
import { hmacHex, sha256Hex, verifyHmac } from '../../../durable-objects/secrets/hmac.ts';
import { MAX_SHORT_CHARS, ShortHmac } from '../../../durable-objects/secrets/short-sha256.ts';

const keyOf = (bytes: number) => Uint8Array.from({ length: bytes }, (_, index) => index);
const expectedOf = (key: string | Uint8Array, text: string) =>
  createHmac('sha256', key).update(text).digest('hex');
const texts = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 600 }),
  fc.string({ unit: 'grapheme', maxLength: 300 }),
);
/** Lengths around the blocks and around the longest short text. */
const LENGTHS = [
  ...Array.from({ length: 300 }, (_, index) => index),
  ...[MAX_SHORT_CHARS - 1, MAX_SHORT_CHARS, MAX_SHORT_CHARS + 1],
];
const CHARACTERS = ['a', 'č', '€', '\ud800'];

describe('SHA-256', () => {
  const hashOf = (text: string) => createHash('sha256').update(text).digest('hex');

  it.each([
    ['abc', 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'],
    [
      'abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq',
      '248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1',
    ],
    ['', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'],
  ])("of '%s' is that of NIST's example", (text, hash) => {
    expect(sha256Hex(text)).toBe(hash);
  });

  it('is that of the runtime for generated texts and for each length', () => {
    forMany(3_000, texts, (text) => expect(sha256Hex(text)).toBe(hashOf(text)));
    for (const length of LENGTHS)
      for (const character of CHARACTERS)
        expect(sha256Hex(character.repeat(length))).toBe(hashOf(character.repeat(length)));
  });
});

describe('HMAC-SHA256', () => {
  it.each([
    [
      64,
      'Sample message for keylen=blocklen',
      '8bb9a1db9806f20df7f77b82138c7914d174d59e13dc4d0169c9057b133e1d62',
    ],
    [
      32,
      'Sample message for keylen<blocklen',
      'a28cf43130ee696a98f14a37678b56bcfcbdd9e5cf69717fecf5480f0ebdf790',
    ],
    [
      100,
      'Sample message for keylen=blocklen',
      'bdccb6c72ddeadb500ae768386cb38cc41c63dbb0878ddb9c7a38a431b78378d',
    ],
  ])("is that of NIST's example with a key of %d bytes", (bytes, text, mac) => {
    expect(hmacHex(keyOf(bytes), text)).toBe(mac);
    expect(verifyHmac(keyOf(bytes), text, mac)).toBe(true);
    expect(verifyHmac(keyOf(bytes), text, mac.replace(/^./, 'f'))).toBe(false);
  });

  it('is that of the runtime for generated keys and texts, whatever came before', () => {
    const key = fc.oneof(fc.string({ maxLength: 80 }), fc.uint8Array({ maxLength: 80 }));
    forMany(3_000, key, texts, (one, other) => expect(hmacHex(one, other)).toBe(expectedOf(one, other)));
  });

  it('is that of the runtime for each length around the blocks and around the longest short text', () => {
    for (const length of LENGTHS)
      for (const character of CHARACTERS)
        expect(hmacHex('key', character.repeat(length))).toBe(expectedOf('key', character.repeat(length)));
  });

  it('is right for more keys than are kept in memory', () => {
    for (let round = 0; round < 2; round++)
      for (let key = 0; key < 1_500; key++) expect(hmacHex(`${key}`, 'x')).toBe(expectedOf(`${key}`, 'x'));
  });

  it('of a long key is left to the runtime', () => {
    expect(() => new ShortHmac(keyOf(65))).toThrow(RangeError);
  });
});
