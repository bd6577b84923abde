/** Passwords at rest: `scrypt$N$r$p$salt$hash`, so that each keeps the cost it was made with. */
import { scryptSync, timingSafeEqual } from 'node:crypto';

/** 16 MB and 27 ms here: what a login may cost. */
const COST = { cost: 16_384, blockSize: 8, parallelization: 1 };
const SALT_BYTES = 16;
const HASH_BYTES = 32;
/** Four times what scrypt needs at our cost. */
const MAX_MEMORY_BYTES = 64 * 1024 * 1024;

/** What nobody's password is: an unknown user costs the same time as a wrong password. */
const NOBODY = format(COST, new Uint8Array(SALT_BYTES), new Uint8Array(HASH_BYTES));

export function hashPassword(password: string): string {
  const salt = crypto.getRandomValues(new Uint8Array(SALT_BYTES));
  return format(COST, salt, derive(password, salt, COST));
}

/** Constant in time, for no stored hash (an unknown user, one without a password) too. */
export function verifyPassword(password: string, stored: string | null | undefined): boolean {
  const [scheme, cost, blockSize, parallelization, salt = '', hash = ''] = (stored ?? NOBODY).split('$');
  if (scheme !== 'scrypt') throw new Error('a password hash of an unknown scheme');
  const parameters = {
    cost: Number(cost),
    blockSize: Number(blockSize),
    parallelization: Number(parallelization),
  };
  const expected = bytes(hash);
  const derived = derive(password, bytes(salt), parameters);
  const isEqual = derived.length === expected.length && timingSafeEqual(derived, expected);
  return isEqual && stored !== null && stored !== undefined;
}

/** The same letters however they were typed (Unicode NFKC). */
function derive(password: string, salt: Uint8Array, parameters: typeof COST): Uint8Array {
  return scryptSync(password.normalize('NFKC'), salt, HASH_BYTES, {
    ...parameters,
    maxmem: MAX_MEMORY_BYTES,
  });
}

function format(
  { cost, blockSize, parallelization }: typeof COST,
  salt: Uint8Array,
  hash: Uint8Array,
): string {
  return ['scrypt', cost, blockSize, parallelization, base64Url(salt), base64Url(hash)].join('$');
}

function base64Url(value: Uint8Array): string {
  return btoa(String.fromCharCode(...value))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replace(/=+$/, '');
}

function bytes(text: string): Uint8Array {
  const base64 = text.replaceAll('-', '+').replaceAll('_', '/');
  return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
}
