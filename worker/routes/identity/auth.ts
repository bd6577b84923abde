/** Registration, login, token refresh, logout and password change [C-1.4]. */
import type { Context } from 'hono';
import { deleteCookie, setCookie } from 'hono/cookie';
import { z } from 'zod';
import { LIMIT } from '../../../protocol/limits.ts';
import { organizationRecord } from '../../../protocol/organization.ts';
import {
  type LoginAnswer,
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
import { hashPassword, verifyPassword } from '../../auth/password.ts';
import { ACCESS_COOKIE, namedMembership } from '../../auth/principal.ts';
import { readRefreshToken, signAccessToken, signRefreshToken } from '../../auth/session-tokens.ts';
import type { AppContext } from '../../env.ts';
import { ApiError } from '../../http/error-response.ts';
import { noParameters } from '../../http/query.ts';
import { shedLoad } from '../../http/rate.ts';
import { countAttempt } from '../../registry/login-failures.ts';
import { organizationRecordOf } from '../../registry/organizations.ts';
import { registerUser } from '../../registry/registration.ts';
import { changePasswordHash, endSession, openSession, refreshSession } from '../../registry/sessions.ts';
import {
  findUser,
  findUserByEmail,
  membershipsOf,
  type UserRow,
  userRecordOf,
} from '../../registry/users.ts';
import { route } from '../../route.ts';

export const register = route({
  method: 'POST',
  path: '/api/v1/auth/register',
  summary: 'Register a user and, optionally, an organization',
  who: { door: 'public' },
  params: noParameters,
  query: noParameters,
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
    await shedLoad(c);
    const { email, password, name, organizationName, organizationSlug } = body;
    const organization =
      organizationName !== undefined && organizationSlug !== undefined
        ? { name: organizationName, slug: organizationSlug }
        : undefined;
    const passwordHash = hashPassword(password);
    const registered = await registerUser(c.env.DB, { email, name, passwordHash }, organization, {
      address: addressOf(c),
      now: Date.now(),
    });
    if (registered === 'email')
      throw new ApiError('EMAIL_ALREADY_REGISTERED', 'This e-mail address is already registered');
    if (registered === 'slug') throw new ApiError('CONFLICT', 'This slug is already taken');
    const own = await membershipsOf(c.env.DB, registered.user.id);
    const role = own[0]?.role ?? null;
    return {
      user: userRecordOf(registered.user, own, role),
      organization: registered.organization ? organizationRecordOf(registered.organization, role) : null,
    };
  },
});

export const login = route({
  method: 'POST',
  path: '/api/v1/auth/login',
  summary: 'Log in',
  who: { door: 'public' },
  params: noParameters,
  query: noParameters,
  body: loginSchema,
  examples: { body: { email: 'jana@example.com', password: 'correct horse battery' } },
  answer: {
    status: 200,
    description: 'The tokens of a new session; the access token is also set as the cookie access_token',
    body: loginAnswer,
  },
  errors: ['INVALID_CREDENTIALS', 'ACCOUNT_LOCKED'],
  handler: async (c, { body }) => {
    await shedLoad(c);
    const now = Date.now();
    // Counts the attempt before the password is checked, so that parallel guesses count like sequential ones.
    await requireUnlocked(c.env.DB, body.email, now);
    const user = await findUserByEmail(c.env.DB, body.email);
    const isRight = verifyPassword(body.password, user?.passwordHash);
    if (!user || !isRight) throw new ApiError('INVALID_CREDENTIALS', 'Wrong e-mail or password');
    const sessionId = await openSession(c.env.DB, user, addressOf(c), now);
    // The password was correct when it was checked, but has been changed since.
    if (!sessionId) throw new ApiError('INVALID_CREDENTIALS', 'Wrong e-mail or password');
    return await answerLogin(c, { ...user, lastLoginAtMs: now }, { sessionId, generation: 1 }, now);
  },
});

export const refresh = route({
  method: 'POST',
  path: '/api/v1/auth/refresh',
  summary: 'Refresh the tokens of a session',
  who: { door: 'public' },
  params: noParameters,
  query: noParameters,
  body: refreshRequest,
  examples: { body: { refreshToken: '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10.1.…' } },
  answer: {
    status: 200,
    description: 'New tokens of the same session; each refresh token can be used once',
    body: loginAnswer,
  },
  errors: ['REFRESH_TOKEN_INVALID', 'REFRESH_TOKEN_EXPIRED', 'REFRESH_TOKEN_REVOKED'],
  handler: async (c, { body }) => {
    await shedLoad(c);
    const now = Date.now();
    const token = readRefreshToken(c.env.SESSION_SECRET, body.refreshToken);
    if (!token) throw new ApiError('REFRESH_TOKEN_INVALID', 'Invalid refresh token: log in again');
    const refreshed = await refreshSession(c.env.DB, token, now);
    switch (refreshed.outcome) {
      case 'refreshed': {
        const user = await findUser(c.env.DB, refreshed.userId);
        if (!user) throw new ApiError('REFRESH_TOKEN_INVALID', 'Invalid refresh token: log in again');
        const { generation } = refreshed;
        return await answerLogin(c, user, { sessionId: token.sessionId, generation }, now);
      }
      // Expired sessions are deleted, so an unknown session counts as expired.
      case 'unknown':
      case 'expired':
        throw new ApiError('REFRESH_TOKEN_EXPIRED', 'The refresh token has expired: log in again');
      case 'revoked':
        throw new ApiError('REFRESH_TOKEN_REVOKED', 'The session has ended: log in again');
      case 'reused':
        throw new ApiError(
          'REFRESH_TOKEN_REVOKED',
          'The refresh token has already been used, so its session was ended: log in again',
        );
    }
  },
});

export const logout = route({
  method: 'POST',
  path: '/api/v1/auth/logout',
  summary: 'Log out',
  who: { door: 'user' },
  params: noParameters,
  query: noParameters,
  answer: { status: 200, description: 'The session has ended', body: success },
  errors: [],
  handler: async (c) => {
    await endSession(c.env.DB, c.get('user').sessionId, Date.now());
    deleteCookie(c, ACCESS_COOKIE, { path: '/', secure: true });
    return { success: true as const };
  },
});

export const readMe = route({
  method: 'GET',
  path: '/api/v1/auth/me',
  summary: 'Get the current user',
  who: { door: 'user' },
  params: noParameters,
  query: noParameters,
  answer: {
    status: 200,
    description: 'The user and their memberships',
    body: z.strictObject({ user: userRecord, memberships: z.array(membership) }),
  },
  errors: [],
  handler: (c) => {
    const user = c.get('user');
    const own = user.memberships.map(({ organizationId, slug, role }) => ({ organizationId, slug, role }));
    return { user: userRecordOf(user.row, own, namedMembership(c, user)?.role ?? null), memberships: own };
  },
});

export const changePassword = route({
  method: 'POST',
  path: '/api/v1/auth/change-password',
  summary: 'Change your password',
  who: { door: 'user' },
  params: noParameters,
  query: noParameters,
  body: passwordChange,
  examples: { body: { currentPassword: 'correct horse battery', newPassword: 'staple correct horse' } },
  answer: {
    status: 200,
    description:
      'Changed. All other sessions have ended and earlier access tokens are invalid; refresh this session',
    body: success,
  },
  errors: ['INVALID_CURRENT_PASSWORD', 'ACCOUNT_LOCKED'],
  handler: async (c, { body }) => {
    const { row, sessionId, via } = c.get('user');
    const now = Date.now();
    await requireUnlocked(c.env.DB, row.email, now);
    if (!verifyPassword(body.currentPassword, row.passwordHash)) {
      throw new ApiError('INVALID_CURRENT_PASSWORD', 'The current password is wrong');
    }
    const passwordHash = hashPassword(body.newPassword);
    const tokenVersion = await changePasswordHash(c.env.DB, row, passwordHash, sessionId, now);
    if (tokenVersion === undefined) {
      throw new ApiError('INVALID_CURRENT_PASSWORD', 'The current password is wrong');
    }
    // Renews the cookie, so that a page that uses only the cookie stays logged in.
    if (via === 'cookie') {
      setAccessCookie(
        c,
        await signAccessToken(c.env.SESSION_SECRET, { userId: row.id, sessionId, tokenVersion }, now),
      );
    }
    return { success: true as const };
  },
});

/** Counts one attempt. Throws 423 ACCOUNT_LOCKED when too many have failed. */
async function requireUnlocked(database: D1Database, email: string, now: number): Promise<void> {
  const lock = await countAttempt(database, email, now);
  if (!lock) return;
  throw new ApiError('ACCOUNT_LOCKED', 'Too many wrong passwords: try again after the time in Retry-After', {
    headers: { 'retry-after': String(Math.max(1, Math.ceil(lock.lockedMs / 1_000))) },
  });
}

async function answerLogin(
  c: Context<AppContext>,
  user: UserRow,
  session: { sessionId: string; generation: number },
  now: number,
): Promise<LoginAnswer> {
  const { SESSION_SECRET, DB } = c.env;
  const access = { userId: user.id, sessionId: session.sessionId, tokenVersion: user.tokenVersion };
  const accessToken = await signAccessToken(SESSION_SECRET, access, now);
  const own = await membershipsOf(DB, user.id);
  setAccessCookie(c, accessToken);
  const [only, ...others] = own;
  return {
    user: userRecordOf(user, own, only && others.length === 0 ? only.role : null),
    accessToken,
    tokenType: 'Bearer',
    expiresIn: LIMIT.accessTokenMs / 1_000,
    refreshToken: signRefreshToken(SESSION_SECRET, session),
  };
}

function setAccessCookie(c: Context<AppContext>, accessToken: string): void {
  setCookie(c, ACCESS_COOKIE, accessToken, {
    httpOnly: true,
    secure: true,
    sameSite: 'Lax',
    path: '/',
    maxAge: LIMIT.accessTokenMs / 1_000,
  });
}
