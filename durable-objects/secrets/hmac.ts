/**
 * HMAC-SHA256 in hex or base64, and SHA-256 in lower-case hex. Synchronous, so there is no await between a check and
 * the write that depends on it.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { base64 } from './base64.ts';

const encoder = new TextEncoder();

export function hmacHex(key: string | Uint8Array, text: string): string {
  return createHmac('sha256', key).update(text).digest('hex');
}

export function hmacBase64(key: Uint8Array, text: string): string {
  return base64(createHmac('sha256', key).update(text).digest());
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
