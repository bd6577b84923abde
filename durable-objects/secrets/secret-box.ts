/**
 * Encrypts texts that must be readable again (signing keys, device secrets, mails) with AES-256-GCM and a
 * Worker secret [C-5.1]. `DATA_KEYS` is a comma-separated list of `version:hex64`: the first key encrypts, all
 * decrypt.
 */
import { createCipheriv, createDecipheriv } from 'node:crypto';
import { base64, bytesOf } from './base64.ts';
import { hexBytes } from './hmac.ts';

const encoder = new TextEncoder();
const decoder = new TextDecoder();
/**
 * The length of the tag that `seal` writes. `open` requires this length; otherwise it would accept shorter,
 * weaker tags.
 */
const TAG_BYTES = 16;

export class SecretBox {
  readonly #keys: Map<string, Uint8Array>;
  readonly #newest: string;

  constructor(dataKeys: string) {
    this.#keys = new Map();
    for (const entry of dataKeys.split(',')) {
      const [version, hex] = entry.trim().split(':');
      if (!version || !hex || !/^[0-9a-f]{64}$/.test(hex))
        throw new Error(
          'DATA_KEYS must be a comma-separated list of version:key, each key 64 lower-case hex characters',
        );
      this.#keys.set(version, hexBytes(hex));
    }
    this.#newest = dataKeys.split(':')[0]?.trim() ?? '';
  }

  /** Whether an older key sealed this value, so that it must be sealed again before that key can be retired. */
  isOld(sealed: string): boolean {
    const version = sealedBy(sealed);
    return version !== this.#newest && this.#keys.has(version);
  }

  /** Encrypts a secret. `open` needs the same `purpose`, which names the owner of the secret. */
  seal(purpose: string, secret: string): string {
    const iv = crypto.getRandomValues(new Uint8Array(12));
    const cipher = createCipheriv('aes-256-gcm', this.#key(this.#newest), iv);
    cipher.setAAD(encoder.encode(purpose));
    const body = [cipher.update(secret, 'utf8'), cipher.final()];
    return [this.#newest, base64(iv), base64(concat(body)), base64(cipher.getAuthTag())].join('.');
  }

  open(purpose: string, sealed: string): string {
    const [version = '', iv = '', body = '', tag = ''] = sealed.split('.');
    const decipher = createDecipheriv('aes-256-gcm', this.#key(version), bytesOf(iv), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAAD(encoder.encode(purpose));
    decipher.setAuthTag(bytesOf(tag));
    return decoder.decode(concat([decipher.update(bytesOf(body)), decipher.final()]));
  }

  #key(version: string): Uint8Array {
    const key = this.#keys.get(version);
    if (!key)
      throw new Error(
        `DATA_KEYS has no key of version "${version}", which encrypted a stored secret: add it again`,
      );
    return key;
  }
}

/** The version of the key that sealed a value. */
function sealedBy(sealed: string): string {
  return sealed.split('.')[0] ?? '';
}

/** How many of the values each version sealed. */
export function countOfVersions(sealed: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const one of sealed) counts[sealedBy(one)] = (counts[sealedBy(one)] ?? 0) + 1;
  return counts;
}

function concat(parts: Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    whole.set(part, offset);
    offset += part.length;
  }
  return whole;
}
