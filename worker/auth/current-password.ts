/**
 * Checks the current password, which a user must give in a session before they change something that the
 * password protects.
 */
import type { Context } from 'hono';
import { LIMIT } from '../../protocol/limits.ts';
import type { AppContext } from '../env.ts';
import { ApiError } from '../http/error-response.ts';
import { dropAttempts } from '../registry/login-failures.ts';
import { turnToHash } from './hash-turn.ts';
import { requireUnlockedSession, sessionNetwork } from './lock.ts';
import { shareOfWork, verifyPassword } from './password.ts';

/** Throws unless the password is the user's own. */
export async function requirePassword(c: Context<AppContext>, given: string, now: number): Promise<void> {
  const { row, sessionId } = c.get('user');
  await turnToHash(shareOfWork(row.passwordHash));
  await requireUnlockedSession(c, row.email, sessionId, now);
  if (!verifyPassword(given, row.passwordHash)) throw wrongPassword();
  await dropAttempts(c.env.DB, row.email, sessionNetwork(sessionId));
}

export function wrongPassword(): ApiError {
  return new ApiError(
    'INVALID_CURRENT_PASSWORD',
    `currentPassword is wrong: check it; after ${LIMIT.wrongLogins} wrong ones this session has to wait`,
  );
}
