/** Registration, login, token refresh, logout, the current user, and password change [C-1.4]. */
import type { Context } from 'hono';
import * as z from 'zod';
import { reasonOf } from '../../../durable-objects/object/reason.ts';
import { passwordChanged } from '../../../protocol/account.ts';
import { organizationRecord } from '../../../protocol/organization.ts';
import {
  login as loginSchema,
  membership,
  passwordChange,
  refreshAnswer,
  refreshRequest,
  registration,
  success,
  userRecord,
} from '../../../protocol/user.ts';
import { organizationRecordOf } from '../../../registry/organizations.ts';
import {
  changePasswordHash,
  endSession,
  openSession,
  type Refreshed,
  refreshSession,
} from '../../../registry/sessions.ts';
import {
  findUser,
  findUserByEmail,
  membershipsOf,
  registerUser,
  replaceHash,
  type UserRow,
  userRecordOf,
} from '../../../registry/users.ts';
import { deleteSessionCookies, readRefreshCookie } from '../../auth/access-cookie.ts';
import { addressOf, placeOf } from '../../auth/address.ts';
import { namedMembership, requireSameOrigin } from '../../auth/authenticate.ts';
import { requirePassword, wrongPassword } from '../../auth/current-password.ts';
import { requirePlace, turnToHash } from '../../auth/hash-turn.ts';
import { rememberBrowser, requireUnlocked, waiterOf } from '../../auth/lock.ts';
import { answerLogin, forBrowser, withoutTokens } from '../../auth/login.ts';
import { hashPassword, shareOfWork, verifyPassword } from '../../auth/password.ts';
import { readRefreshToken } from '../../auth/session-tokens.ts';
import { auditUser } from '../../auth/user-audit.ts';
import type { AppContext } from '../../env.ts';
import { ApiError, conflict, forbidden } from '../../http/error-response.ts';
import { invalidParameter } from '../../http/query.ts';
import { recheckStreams } from '../../lifecycle/watches.ts';
import { requireMailShare, requireRoom } from '../../mail/outbox.ts';
import { route } from '../../route.ts';
import { mailVerification } from './account.ts';

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
      description:
        'The user, and the new organization if one was requested; the user is its ORG_ADMIN. Until the address is proved with the mailed token, the user can use only their own account',
      body: z.strictObject({ user: userRecord, organization: organizationRecord.nullable() }),
    },
    errors: ['EMAIL_ALREADY_REGISTERED', 'CONFLICT', 'FORBIDDEN'],
    handler: async (c, { body }) => {
      if (c.env.REGISTRATION !== 'open')
        throw forbidden(
          'Registration is closed: ask for an invitation, or ask the operator for an organization',
        );
      const { email, password, name, organizationName, organizationSlug } = body;
      const organization =
        organizationName !== undefined && organizationSlug !== undefined
          ? { name: organizationName, slug: organizationSlug }
          : undefined;
      const waiter = waiterOf(c, '', Date.now());
      requirePlace(waiter);
      await requireMailShare(c);
      await requireRoom(c, email);
      await turnToHash(waiter);
      const passwordHash = hashPassword(password);
      const now = Date.now();
      const registered = await registerUser(
        c.env.DB,
        { email, name, passwordHash, provedAtMs: null },
        organization,
        { address: addressOf(c), now },
      );
      if (registered === 'email')
        throw new ApiError('EMAIL_ALREADY_REGISTERED', `${email} is already registered: log in instead`);
      if (registered === 'slug')
        throw conflict(`The slug "${organizationSlug}" is already taken: choose another one`);
      // The account is there: without the mail the person asks for it again.
      await mailVerification(c, registered.user, now).catch((error: unknown) => {
        console.error('mail of a new account not queued, its person has to request it again', {
          userId: registered.user.id,
          reason: reasonOf(error),
        });
      });
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
      description:
        'The tokens of a new session; the access token is also set as the cookie access_token. A page of the platform itself (`Sec-Fetch-Site: same-origin`) gets the tokens only as cookies',
      body: refreshAnswer,
    },
    errors: ['INVALID_CREDENTIALS', 'ACCOUNT_LOCKED'],
    handler: async (c, { body }) => {
      const now = Date.now();
      const waiter = waiterOf(c, body.email, now);
      requirePlace(waiter);
      const user = await findUserByEmail(c.env.DB, body.email);
      await turnToHash(waiter, shareOfWork(user?.passwordHash));
      // Counts the attempt before the password is checked, so that parallel guesses count like sequential ones.
      await requireUnlocked(c, body.email, now).catch((error: unknown) => {
        if (user) auditUser(c, user, 'user.locked');
        throw error;
      });
      const isRight = verifyPassword(body.password, user?.passwordHash);
      // `openSession` opens no session if the password has changed since it was checked.
      const opened = user && isRight ? await openSession(c.env.DB, user, placeOf(c), now) : undefined;
      if (!user || !opened) {
        if (user) auditUser(c, user, 'user.login_failed');
        throw new ApiError(
          'INVALID_CREDENTIALS',
          'Wrong e-mail or password: check both, or reset the password',
        );
      }
      if (user.passwordHash && shareOfWork(user.passwordHash) < 1)
        renewHash(c, user, user.passwordHash, body.password);
      const { id: sessionId, hasEndedOthers } = opened;
      if (hasEndedOthers) recheckStreams(c, { kind: 'user', id: user.id });
      auditUser(c, user, 'user.logged_in');
      rememberBrowser(c, user.email, now);
      const answer = await answerLogin(c, { ...user, lastLoginAtMs: now }, { sessionId, generation: 1 }, now);
      return forBrowser(c, answer);
    },
  }),
  route('POST /api/v1/auth/refresh', {
    summary: 'Refresh the tokens of a session',
    who: { door: 'public' },
    body: refreshRequest,
    examples: { body: { refreshToken: '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10.1.…' } },
    answer: {
      description:
        'New tokens of the same session; each refresh token can be used once. A browser may leave `refreshToken` out: its cookie refresh_token has it, and the answer has no tokens',
      body: refreshAnswer,
    },
    errors: ['REFRESH_TOKEN_INVALID', 'REFRESH_TOKEN_EXPIRED', 'REFRESH_TOKEN_REVOKED', 'ORIGIN_MISMATCH'],
    handler: async (c, { body }) => {
      const now = Date.now();
      const token = readRefreshToken(c.env.SESSION_SECRET, body.refreshToken ?? cookieOf(c));
      const refreshed = token && (await refreshSession(c.env.DB, token, now));
      if (refreshed?.outcome === 'reused') {
        const owner = await findUser(c.env.DB, refreshed.userId);
        if (owner) auditUser(c, owner, 'session.reuse_detected', { session: token?.sessionId });
      }
      if (refreshed?.outcome === 'reused') recheckStreams(c, { kind: 'user', id: refreshed.userId });
      if (refreshed && refreshed.outcome !== 'refreshed') throw refused(refreshed.outcome);
      const user = refreshed && (await findUser(c.env.DB, refreshed.userId));
      if (!user)
        throw new ApiError(
          'REFRESH_TOKEN_INVALID',
          'The refresh token is not one of this deployment: log in again',
        );
      const { sessionId } = token;
      const answer = await answerLogin(c, user, { sessionId, generation: refreshed.generation }, now);
      return body.refreshToken === undefined ? withoutTokens(answer) : forBrowser(c, answer);
    },
  }),
  route('POST /api/v1/auth/logout', {
    summary: 'Log out',
    who: { door: 'account' },
    answer: { description: 'The session has ended', body: success },
    handler: async (c) => {
      const { row, sessionId } = c.get('user');
      await endSession(c.env.DB, sessionId, Date.now());
      recheckStreams(c, { kind: 'user', id: row.id });
      deleteSessionCookies(c);
      return { success: true as const };
    },
  }),
  route('GET /api/v1/auth/me', {
    summary: 'Get the current user',
    who: { door: 'account' },
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
    who: { door: 'account' },
    body: passwordChange,
    examples: { body: { currentPassword: 'correct horse battery', newPassword: 'staple correct horse' } },
    answer: {
      description:
        'The new tokens of this session. All other sessions have ended, and earlier tokens are invalid',
      body: passwordChanged,
    },
    errors: ['INVALID_CURRENT_PASSWORD', 'ACCOUNT_LOCKED'],
    handler: async (c, { body }) => {
      const { row, sessionId } = c.get('user');
      const now = Date.now();
      await requirePassword(c, body.currentPassword, now);
      await turnToHash(waiterOf(c, '', Date.now()));
      const changed = await changePasswordHash(c.env.DB, row, hashPassword(body.newPassword), sessionId, now);
      // Nothing was changed, because the password has changed since it was checked.
      if (!changed) throw wrongPassword();
      recheckStreams(c, { kind: 'user', id: row.id });
      auditUser(c, row, 'user.password_changed');
      const { tokenVersion, generation } = changed;
      const answer = await answerLogin(c, { ...row, tokenVersion }, { sessionId, generation }, now);
      return { ...forBrowser(c, answer), success: true as const };
    },
  }),
];

/** The refresh token of a browser. Throws 400 without one, and 403 if a page of another origin sent it. */
function cookieOf(c: Context<AppContext>): string {
  const token = readRefreshCookie(c);
  if (token === undefined) throw invalidParameter('refreshToken: missing, and there is no cookie with it');
  requireSameOrigin(c.req.raw);
  return token;
}

/**
 * Why a session cannot be refreshed. An unknown session counts as expired: expired sessions are deleted, as are
 * those of a deleted account, and the oldest above the limit.
 */
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

/** After the answer, replaces the stored hash by a new one if the stored one has a lower cost [C-14.7]. */
function renewHash(c: Context<AppContext>, user: UserRow, old: string, password: string): void {
  // Nobody waits for it, so it does not use up the places of the person's network.
  const renewed = turnToHash({ network: null, account: null })
    .then(() => replaceHash(c.env.DB, user.id, old, hashPassword(password)))
    .catch((error: unknown) => {
      console.warn('password hash not renewed after a login, the next login will retry', {
        userId: user.id,
        reason: reasonOf(error),
      });
    });
  c.executionCtx.waitUntil(renewed);
}
