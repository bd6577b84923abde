/** SHA-256 and HMAC-SHA256 of texts: NIST's examples, and the bytes of a text as UTF-8. */
import { createHash, createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { hmacHex, sha256Hex, verifyHmac } from '../../../durable-objects/secrets/hmac.ts';

const keyOf = (bytes: number) => Uint8Array.from({ length: bytes }, (_, index) => index);
const TEXTS = ['', 'a', 'č', '€', '\u{1f50b}', 'a'.repeat(10_000)];

describe('SHA-256', () => {
  it.each([
    ['abc', 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'],
    [
      'abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq',
      '248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1',
    ],
    ['', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'],
  ])("gives for '%s' what NIST's example gives", (text, hash) => {
    expect(sha256Hex(text)).toBe(hash);
  });

  it.each(TEXTS)('hashes the text as UTF-8: %#', (text) => {
    expect(sha256Hex(text)).toBe(createHash('sha256').update(Buffer.from(text, 'utf8')).digest('hex'));
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

  it.each(TEXTS)('takes key and text as UTF-8: %#', (text) => {
    const bytes = Buffer.from(text, 'utf8');
    const mac = createHmac('sha256', bytes).update(bytes).digest('hex');
    expect([hmacHex(text, text), hmacHex(bytes, text)]).toEqual([mac, mac]);
  });
});
