/**
 * Checks the current password, which a user must give in a session before they change something that the
 * password protects.
 */
import type { Context } from 'hono';
import { LIMIT } from '../../protocol/limits.ts';
import { dropAttempts } from '../../registry/login-failures.ts';
import type { AppContext } from '../env.ts';
import { ApiError } from '../http/error-response.ts';
import { turnToHash } from './hash-turn.ts';
import { requireUnlockedSession, sessionNetwork, waiterOf } from './lock.ts';
import { shareOfWork, verifyPassword } from './password.ts';

/** How often a check looks whether the one before it has ended, and after which time that one has gone. */
const LOOK_MS = 40;
const GONE_MS = 5_000;

/**
 * When the check that is under way in a session began. Those of one session follow each other in an isolate, so that right
 * passwords, which count only until they were checked, do not lock it when several come at once. Each waits on a timer of
 * its own request: another request could not wake it.
 */
const underWay = new Map<string, number>();

/** Throws unless the password is the user's own. */
export async function requirePassword(c: Context<AppContext>, given: string, now: number): Promise<void> {
  const { row, sessionId } = c.get('user');
  // The session shows that this person has logged in before.
  await turnToHash({ ...waiterOf(c, row.email, now), account: row.email }, shareOfWork(row.passwordHash));
  while (isUnderWay(sessionId)) await scheduler.wait(LOOK_MS);
  underWay.set(sessionId, performance.now());
  try {
    await requireUnlockedSession(c, row.email, sessionId, now);
    if (!verifyPassword(given, row.passwordHash)) throw wrongPassword();
    await dropAttempts(c.env.DB, row.email, sessionNetwork(sessionId));
  } finally {
    underWay.delete(sessionId);
  }
}

/** False for a request that the platform has cancelled, which ends nothing. */
function isUnderWay(sessionId: string): boolean {
  const beganAtMs = underWay.get(sessionId);
  return beganAtMs !== undefined && performance.now() - beganAtMs < GONE_MS;
}

export function wrongPassword(): ApiError {
  return new ApiError(
    'INVALID_CURRENT_PASSWORD',
    `currentPassword is wrong: check it; after ${LIMIT.wrongLogins} wrong ones this session has to wait`,
  );
}
