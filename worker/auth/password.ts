/** Password hashes: `scrypt$N$r$p$salt$hash`. Each hash contains the cost parameters it was computed with. */
import { scryptSync, timingSafeEqual } from 'node:crypto';
import { base64Url, bytesOf } from '../../durable-objects/secrets/base64.ts';
import { measureHash } from './hash-turn.ts';

/** One hash costs 32 MB and about 160 ms, during which the isolate does nothing else [C-14.7]. */
const COST = { cost: 32_768, blockSize: 8, parallelization: 3 };
const SALT_BYTES = 16;
const HASH_BYTES = 32;
/** Twice the memory that scrypt needs at this cost. */
const MAX_MEMORY_BYTES = 64 * 1024 * 1024;

/**
 * A hash that matches no password. It is checked for an unknown user, so that the answer takes as long as for
 * a wrong password.
 */
const NOBODY = format(COST, new Uint8Array(SALT_BYTES), new Uint8Array(HASH_BYTES));

export function hashPassword(password: string): string {
  const salt = crypto.getRandomValues(new Uint8Array(SALT_BYTES));
  void measureHash(1);
  return format(COST, salt, derive(password, salt, COST));
}

/**
 * Checks a password. If there is no stored hash (an unknown user, or a user without a password), takes the
 * same time and returns false.
 */
export function verifyPassword(password: string, stored: string | null | undefined): boolean {
  const [scheme, cost, blockSize, parallelization, salt = '', hash = ''] = (stored ?? NOBODY).split('$');
  if (scheme !== 'scrypt')
    throw new Error('the stored password hash has an unknown scheme: only scrypt is supported');
  const parameters = {
    cost: Number(cost),
    blockSize: Number(blockSize),
    parallelization: Number(parallelization),
  };
  const expected = bytesOf(hash);
  void measureHash(shareOfWork(stored));
  const derived = derive(password, bytesOf(salt), parameters);
  const isEqual = derived.length === expected.length && timingSafeEqual(derived, expected);
  return isEqual && stored !== null && stored !== undefined;
}

/**
 * The work of a check against the stored hash as a fraction of the work of a new hash: below 1 if the stored
 * one has a lower cost.
 */
export function shareOfWork(stored: string | null | undefined): number {
  const [, cost = 0, blockSize = 0, parallelization = 0] = (stored ?? NOBODY).split('$').map(Number);
  return (cost * blockSize * parallelization) / (COST.cost * COST.blockSize * COST.parallelization);
}

/** Normalizes to Unicode NFKC, because keyboards encode the same characters differently. */
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
