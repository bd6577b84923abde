/** Registration, login, token refresh, logout and password change [C-1.4]. */
import type { Context } from 'hono';
import { deleteCookie } from 'hono/cookie';
import { z } from 'zod';
import { reasonOf } from '../../../durable-objects/object/reason.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { organizationRecord } from '../../../protocol/organization.ts';
import {
  loginAnswer,
  login as loginSchema,
  membership,
  passwordChange,
  refreshRequest,
  registration,
  success,
  userRecord,
} from '../../../protocol/user.ts';
import { addressOf } from '../../auth/address.ts';
import { turnToHash } from '../../auth/hash-turn.ts';
import { answerLogin, setAccessCookie } from '../../auth/login.ts';
import { hashPassword, shareOfWork, verifyPassword } from '../../auth/password.ts';
import { ACCESS_COOKIE, namedMembership } from '../../auth/principal.ts';
import { readRefreshToken, signAccessToken } from '../../auth/session-tokens.ts';
import type { AppContext } from '../../env.ts';
import { ApiError, conflict } from '../../http/error-response.ts';
import { countAttempt } from '../../registry/login-failures.ts';
import { organizationRecordOf } from '../../registry/organizations.ts';
import {
  changePasswordHash,
  endSession,
  openSession,
  type Refreshed,
  refreshSession,
} from '../../registry/sessions.ts';
import {
  findUser,
  findUserByEmail,
  membershipsOf,
  registerUser,
  replaceHash,
  type UserRow,
  userRecordOf,
} from '../../registry/users.ts';
import { route } from '../../route.ts';

export const authRoutes = [
  route('POST /api/v1/auth/register', {
    summary: 'Register a user and, optionally, an organization',
    who: { door: 'public' },
    body: registration,
    examples: {
      body: {
        email: 'jana@example.com',
        password: 'correct horse battery',
        name: 'Jana',
        organizationName: 'Acme Energy',
        organizationSlug: 'acme',
      },
    },
    answer: {
      status: 201,
      description: 'The user, and the new organization if one was requested; the user is its ORG_ADMIN',
      body: z.strictObject({ user: userRecord, organization: organizationRecord.nullable() }),
    },
    errors: ['EMAIL_ALREADY_REGISTERED', 'CONFLICT'],
    handler: async (c, { body }) => {
      const { email, password, name, organizationName, organizationSlug } = body;
      const organization =
        organizationName !== undefined && organizationSlug !== undefined
          ? { name: organizationName, slug: organizationSlug }
          : undefined;
      await turnToHash();
      const passwordHash = hashPassword(password);
      const registered = await registerUser(c.env.DB, { email, name, passwordHash }, organization, {
        address: addressOf(c),
        now: Date.now(),
      });
      if (registered === 'email')
        throw new ApiError('EMAIL_ALREADY_REGISTERED', `${email} is already registered: log in instead`);
      if (registered === 'slug')
        throw conflict(`The slug "${organizationSlug}" is already taken: choose another one`);
      const own = await membershipsOf(c.env.DB, registered.user.id);
      const role = own[0]?.role ?? null;
      return {
        user: userRecordOf(registered.user, own, role),
        organization: registered.organization ? organizationRecordOf(registered.organization, role) : null,
      };
    },
  }),
  route('POST /api/v1/auth/login', {
    summary: 'Log in',
    who: { door: 'public' },
    body: loginSchema,
    examples: { body: { email: 'jana@example.com', password: 'correct horse battery' } },
    answer: {
      description: 'The tokens of a new session; the access token is also set as the cookie access_token',
      body: loginAnswer,
    },
    errors: ['INVALID_CREDENTIALS', 'ACCOUNT_LOCKED'],
    handler: async (c, { body }) => {
      const now = Date.now();
      const user = await findUserByEmail(c.env.DB, body.email);
      await turnToHash(shareOfWork(user?.passwordHash));
      // Counts the attempt before the password is checked, so that parallel guesses count like sequential ones.
      await requireUnlocked(c.env.DB, body.email, now);
      const isRight = verifyPassword(body.password, user?.passwordHash);
      // There is no session, too, if the password has changed since it was checked.
      const sessionId = user && isRight ? await openSession(c.env.DB, user, addressOf(c), now) : undefined;
      if (!user || !sessionId) throw new ApiError('INVALID_CREDENTIALS', 'Wrong e-mail or password');
      if (user.passwordHash && shareOfWork(user.passwordHash) < 1)
        renewHash(c, user, user.passwordHash, body.password);
      return await answerLogin(c, { ...user, lastLoginAtMs: now }, { sessionId, generation: 1 }, now);
    },
  }),
  route('POST /api/v1/auth/refresh', {
    summary: 'Refresh the tokens of a session',
    who: { door: 'public' },
    body: refreshRequest,
    examples: { body: { refreshToken: '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10.1.…' } },
    answer: {
      description: 'New tokens of the same session; each refresh token can be used once',
      body: loginAnswer,
    },
    errors: ['REFRESH_TOKEN_INVALID', 'REFRESH_TOKEN_EXPIRED', 'REFRESH_TOKEN_REVOKED'],
    handler: async (c, { body }) => {
      const now = Date.now();
      const token = readRefreshToken(c.env.SESSION_SECRET, body.refreshToken);
      const refreshed = token && (await refreshSession(c.env.DB, token, now));
      if (refreshed && refreshed.outcome !== 'refreshed') throw refused(refreshed.outcome);
      const user = refreshed && (await findUser(c.env.DB, refreshed.userId));
      if (!user) throw new ApiError('REFRESH_TOKEN_INVALID', 'Invalid refresh token: log in again');
      const { sessionId } = token;
      return await answerLogin(c, user, { sessionId, generation: refreshed.generation }, now);
    },
  }),
  route('POST /api/v1/auth/logout', {
    summary: 'Log out',
    who: { door: 'user' },
    answer: { description: 'The session has ended', body: success },
    handler: async (c) => {
      await endSession(c.env.DB, c.get('user').sessionId, Date.now());
      deleteCookie(c, ACCESS_COOKIE, { path: '/', secure: true });
      return { success: true as const };
    },
  }),
  route('GET /api/v1/auth/me', {
    summary: 'Get the current user',
    who: { door: 'user' },
    answer: {
      description: 'The user and their memberships',
      body: z.strictObject({ user: userRecord, memberships: z.array(membership) }),
    },
    handler: (c) => {
      const user = c.get('user');
      const own = user.memberships.map(({ organizationId, slug, role }) => ({ organizationId, slug, role }));
      return { user: userRecordOf(user.row, own, namedMembership(c, user)?.role ?? null), memberships: own };
    },
  }),
  route('POST /api/v1/auth/change-password', {
    summary: 'Change your password',
    who: { door: 'user' },
    body: passwordChange,
    examples: { body: { currentPassword: 'correct horse battery', newPassword: 'staple correct horse' } },
    answer: {
      description:
        'Changed. All other sessions have ended and earlier access tokens are invalid; refresh this session',
      body: success,
    },
    errors: ['INVALID_CURRENT_PASSWORD', 'ACCOUNT_LOCKED'],
    handler: async (c, { body }) => {
      const { row, sessionId, via } = c.get('user');
      const now = Date.now();
      await turnToHash(shareOfWork(row.passwordHash));
      await requireUnlocked(c.env.DB, row.email, now);
      const isRight = verifyPassword(body.currentPassword, row.passwordHash);
      if (isRight) await turnToHash();
      const passwordHash = isRight ? hashPassword(body.newPassword) : '';
      // There is no new version, too, if the password has changed since it was checked.
      const tokenVersion = isRight && (await changePasswordHash(c.env.DB, row, passwordHash, sessionId, now));
      if (!tokenVersion)
        throw new ApiError(
          'INVALID_CURRENT_PASSWORD',
          `The current password is wrong: the account is locked after ${LIMIT.wrongLogins} wrong ones`,
        );
      // Renews the cookie, so that a page that uses only the cookie stays logged in.
      if (via === 'cookie') {
        const access = { userId: row.id, sessionId, tokenVersion };
        setAccessCookie(c, await signAccessToken(c.env.SESSION_SECRET, access, now));
      }
      return { success: true as const };
    },
  }),
];

/** Why a session cannot be refreshed. Expired sessions are deleted, so an unknown session counts as expired. */
function refused(outcome: Exclude<Refreshed['outcome'], 'refreshed'>): ApiError {
  switch (outcome) {
    case 'unknown':
    case 'expired':
      return new ApiError('REFRESH_TOKEN_EXPIRED', 'The refresh token has expired: log in again');
    case 'revoked':
      return new ApiError('REFRESH_TOKEN_REVOKED', 'The session has ended: log in again');
    case 'reused':
      return new ApiError(
        'REFRESH_TOKEN_REVOKED',
        'The refresh token has already been used, so its session was ended: log in again',
      );
  }
}

/** Counts one attempt. Throws 423 ACCOUNT_LOCKED when too many have failed. */
async function requireUnlocked(database: D1Database, email: string, now: number): Promise<void> {
  const lock = await countAttempt(database, email, now);
  if (!lock) return;
  const seconds = Math.max(1, Math.ceil(lock.lockedMs / 1_000));
  const message = `The account is locked after ${LIMIT.wrongLogins} wrong passwords: try again in ${seconds} s`;
  throw new ApiError('ACCOUNT_LOCKED', message, { headers: { 'retry-after': String(seconds) } });
}

/** Replaces a hash of a lower cost, after the answer [C-14.7]. */
function renewHash(c: Context<AppContext>, user: UserRow, old: string, password: string): void {
  const renewed = turnToHash()
    .then(() => replaceHash(c.env.DB, user.id, old, hashPassword(password)))
    .catch((error: unknown) => {
      console.warn('password hash not renewed, next login will retry', {
        userId: user.id,
        reason: reasonOf(error),
      });
    });
  c.executionCtx.waitUntil(renewed);
}
