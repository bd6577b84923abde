/**
 * Authentication of a request: as a user, as a member of an organization, or with an API key. Only the doors
 * of routes (auth/door.ts) use this file.
 */
import type { Context } from 'hono';
import { getCookie } from 'hono/cookie';
import { reasonOf } from '../../durable-objects/object/reason.ts';
import { markUsed } from '../../durable-objects/registry/key-use.ts';
import type { AppContext } from '../env.ts';
import { ApiError } from '../http/error-response.ts';
import { type ApiKey, findApiKey } from '../registry/api-keys.ts';
import { findSession, type SessionMembership } from '../registry/sessions.ts';
import { addressOf, isAllowedAddress } from './address.ts';
import { verifyAccessToken } from './session-tokens.ts';
import type { Tenant, User } from './who.ts';

export const ACCESS_COOKIE = 'access_token';
const SAFE_METHODS = ['GET', 'HEAD', 'OPTIONS'];

/** Throws 401 without a valid session, and 403 if a page of another origin sent the cookie. */
export async function requireUser(c: Context<AppContext>): Promise<User> {
  const now = Date.now();
  const bearer = /^Bearer +(\S+) *$/i.exec(c.req.header('authorization') ?? '')?.[1];
  const token = bearer ?? getCookie(c, ACCESS_COOKIE);
  if (!token) throw new ApiError('UNAUTHORIZED', 'Missing session: log in, or send a bearer token');
  const access = await verifyAccessToken(c.env.SESSION_SECRET, token, now);
  const found = access && (await findSession(c.env.DB, access, now));
  if (!found) throw new ApiError('UNAUTHORIZED', 'Invalid or expired access token');
  if (found.user.tokenVersion !== access.tokenVersion) {
    throw new ApiError(
      'TOKEN_VERSION_MISMATCH',
      'The password has changed since this token was issued: log in again',
    );
  }
  if (!found.isLive) throw new ApiError('UNAUTHORIZED', 'The session has ended: log in again');
  const via = bearer ? 'bearer' : 'cookie';
  if (via === 'cookie' && !SAFE_METHODS.includes(c.req.method)) requireSameOrigin(c.req.raw);
  return { row: found.user, sessionId: access.sessionId, via, memberships: found.memberships };
}

/** [C-1.6] Checks the origin headers of a browser. Other clients send neither and are allowed. */
function requireSameOrigin(request: Request): void {
  const origin = request.headers.get('origin');
  const site = request.headers.get('sec-fetch-site');
  const isOwn = origin === null || origin === new URL(request.url).origin;
  if (isOwn && (site === null || site === 'same-origin')) return;
  throw new ApiError('ORIGIN_MISMATCH', 'The request comes from another origin');
}

/** The membership that the header names; without the header the user's only membership. */
export function namedMembership(
  c: Context<AppContext>,
  { memberships }: User,
): SessionMembership | undefined {
  const wanted = c.req.header('x-org-id')?.toLowerCase();
  if (wanted !== undefined) return memberships.find(({ organizationId }) => organizationId === wanted);
  return memberships.length === 1 ? memberships[0] : undefined;
}

/** [C-1.3] As `namedMembership`, but throws if there is none. With `isHeaderNeeded` the header is required. */
export function orgContext(c: Context<AppContext>, user: User, isHeaderNeeded: boolean): SessionMembership {
  const isNamed = c.req.header('x-org-id') !== undefined;
  const membership = namedMembership(c, user);
  if (membership && (isNamed || !isHeaderNeeded)) return membership;
  if (isNamed) throw new ApiError('ORG_MEMBERSHIP_REQUIRED', 'Not a member of this organization');
  if (user.memberships.length === 0 && !isHeaderNeeded) {
    throw new ApiError('ORG_MEMBERSHIP_REQUIRED', 'Not a member of any organization');
  }
  throw new ApiError('ORG_CONTEXT_REQUIRED', 'Missing header x-org-id: set it to the id of the organization');
}

export function memberTenant({ row }: User, membership: SessionMembership): Tenant {
  const { organizationId, slug, role } = membership;
  return {
    organizationId,
    slug,
    actor: { type: 'USER', id: row.id, name: row.email },
    role,
    allowedPlantIds: null,
  };
}

/** Throws 401 without a valid key, and 403 if the key does not allow the client address. */
export async function requireKey(c: Context<AppContext>): Promise<ApiKey> {
  const plaintext = c.req.header('x-api-key');
  if (!plaintext) throw new ApiError('UNAUTHORIZED', 'Missing X-API-Key header');
  const now = Date.now();
  const apiKey = await findApiKey(c.env.DB, plaintext, now);
  if (!apiKey) throw new ApiError('UNAUTHORIZED', 'Invalid API key');
  if (!isAllowedAddress(addressOf(c), apiKey.allowedIps)) {
    throw new ApiError('FORBIDDEN', 'The client address is not allowed for this API key');
  }
  return apiKey;
}

/** Updates `lastUsedAt` after the answer. */
export function noteUse(c: Context<AppContext>, apiKey: ApiKey): void {
  const marked = markUsed(c.env.DB, apiKey, Date.now()).catch((error: unknown) => {
    console.warn('lastUsedAt not written', { keyId: apiKey.id, reason: reasonOf(error) });
  });
  c.executionCtx.waitUntil(marked);
}

/** Throws if the header `x-org-id` names another organization than the key's. */
export function requireOwnOrganization(c: Context<AppContext>, apiKey: ApiKey): void {
  const wanted = c.req.header('x-org-id');
  if (wanted !== undefined && wanted.toLowerCase() !== apiKey.organizationId) {
    throw new ApiError('ORG_MEMBERSHIP_REQUIRED', 'The API key belongs to another organization');
  }
}

export function keyTenant(apiKey: ApiKey): Tenant {
  return {
    organizationId: apiKey.organizationId,
    slug: apiKey.slug,
    actor: { type: 'API_KEY', id: apiKey.id, name: apiKey.prefix },
    role: null,
    allowedPlantIds: apiKey.allowedPlantIds,
  };
}
