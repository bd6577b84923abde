/**
 * HMAC-SHA256 in hex or base64, and SHA-256 in lower-case hex. Synchronous, so there is no await between a check and
 * the write that depends on it.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { base64 } from './base64.ts';
import { MAX_SHORT_CHARS, ShortHmac, shortSha256Hex } from './short-sha256.ts';

const MAX_SHORT_KEY_BYTES = 64;
/** Keys of which the hashed blocks are in memory. When there are so many, all are forgotten. */
const MAX_KEYS = 1_000;
const encoder = new TextEncoder();
const known = new Map<string, ShortHmac>();
const knownBytes = new WeakMap<Uint8Array, ShortHmac>();

export function hmacHex(key: string | Uint8Array, text: string): string {
  const short = text.length <= MAX_SHORT_CHARS ? shortHmac(key) : undefined;
  return short ? short.hex(text) : createHmac('sha256', key).update(text).digest('hex');
}

export function hmacBase64(key: Uint8Array, text: string): string {
  return base64(createHmac('sha256', key).update(text).digest());
}

/** Undefined for a key that is too long. */
function shortHmac(key: string | Uint8Array): ShortHmac | undefined {
  const found = typeof key === 'string' ? known.get(key) : knownBytes.get(key);
  if (found) return found;
  const bytes = typeof key === 'string' ? encoder.encode(key) : key;
  if (bytes.length > MAX_SHORT_KEY_BYTES) return undefined;
  const made = new ShortHmac(bytes);
  if (typeof key !== 'string') knownBytes.set(key, made);
  else {
    if (known.size >= MAX_KEYS) known.clear();
    known.set(key, made);
  }
  return made;
}

/** Constant-time comparison of two texts. */
export function equalText(left: string, right: string): boolean {
  const a = encoder.encode(left);
  const b = encoder.encode(right);
  return a.length === b.length && timingSafeEqual(a, b);
}

export function verifyHmac(key: string | Uint8Array, text: string, mac: string): boolean {
  return equalText(hmacHex(key, text), mac);
}

export function sha256Hex(text: string): string {
  if (text.length <= MAX_SHORT_CHARS) return shortSha256Hex(text);
  return createHash('sha256').update(text).digest('hex');
}

/** A UUID (version 8) derived from a cause: the same cause gives the same id, so a retry is recognised. */
export function derivedUuid(cause: string): string {
  const hex = sha256Hex(cause);
  const variant = ((Number.parseInt(hex[16] ?? '0', 16) & 0x3) | 0x8).toString(16);
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `${variant}${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join('-');
}

/** Decodes hex, for example the 32 bytes of a secret of 64 hex characters. */
export function hexBytes(hex: string): Uint8Array {
  const bytes = new Uint8Array(hex.length / 2);
  for (let index = 0; index < bytes.length; index++) {
    bytes[index] = Number.parseInt(hex.slice(index * 2, index * 2 + 2), 16);
  }
  return bytes;
}
