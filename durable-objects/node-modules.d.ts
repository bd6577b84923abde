/**
 * The parts of node:crypto and node:zlib that the objects use, as workerd offers them under nodejs_compat. Declared
 * here so that Node's own types never reach the Worker.
 */
declare module 'node:crypto' {
  interface Digest {
    update(data: string | Uint8Array, encoding?: 'utf8'): Digest;
    digest(): Uint8Array;
    digest(encoding: 'hex' | 'base64url'): string;
  }
  interface Cipher {
    update(data: string, encoding: 'utf8'): Uint8Array;
    final(): Uint8Array;
    setAAD(data: Uint8Array): Cipher;
    getAuthTag(): Uint8Array;
  }
  interface Decipher {
    update(data: Uint8Array): Uint8Array;
    final(): Uint8Array;
    setAAD(data: Uint8Array): Decipher;
    setAuthTag(tag: Uint8Array): Decipher;
  }
  export function createHmac(algorithm: 'sha256', key: string | Uint8Array): Digest;
  export function createHash(algorithm: 'sha256'): Digest;
  export function createCipheriv(algorithm: 'aes-256-gcm', key: Uint8Array, iv: Uint8Array): Cipher;
  export function createDecipheriv(
    algorithm: 'aes-256-gcm',
    key: Uint8Array,
    iv: Uint8Array,
    options: { authTagLength: number },
  ): Decipher;
  export function scryptSync(
    password: string,
    salt: Uint8Array,
    length: number,
    options: { cost: number; blockSize: number; parallelization: number; maxmem?: number },
  ): Uint8Array;
  export function timingSafeEqual(a: Uint8Array, b: Uint8Array): boolean;
}

declare module 'node:zlib' {
  export function deflateRawSync(data: string | Uint8Array): Uint8Array;
  export function inflateRawSync(data: Uint8Array): Uint8Array;
}
