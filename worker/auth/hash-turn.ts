/**
 * Spreads password hashes over time [C-14.2]: a hash blocks the isolate, so between two of them other requests must
 * run. A few hashes in a row do not wait.
 */
import { unavailable } from '../http/error-response.ts';

/** The time between the starts of two hashes: three times as long as one hash takes. */
const TURN_MS = 480;
/** Hashes that may follow each other without a pause. */
const FREE_TURNS = 4;
const MAX_WAITING = 10;
const RETRY_AFTER_S = 5;

/** When the last of the assigned turns ends, by `performance.now()`, which is never set back. */
let endsAtMs = 0;

/**
 * Resolves when the caller may hash one password. `share`: the work of that hash as a fraction of the work of
 * a new hash. Throws 503 if too many already wait.
 */
export async function turnToHash(share = 1): Promise<void> {
  const now = performance.now();
  const waitMs = endsAtMs - now - FREE_TURNS * TURN_MS;
  if (waitMs > MAX_WAITING * TURN_MS)
    throw unavailable(`Too many passwords are being checked: try again in ${RETRY_AFTER_S} s`, RETRY_AFTER_S);
  endsAtMs = Math.max(now, endsAtMs) + share * TURN_MS;
  if (waitMs > 0) await scheduler.wait(waitMs);
}
