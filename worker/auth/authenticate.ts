/**
 * Authentication of a request: as a user, as a member of an organization, or with an API key. The doors
 * of routes (auth/door.ts) use this file, and routes that accept a session but do not require one.
 */
import type { Context } from 'hono';
import { reasonOf } from '../../durable-objects/object/reason.ts';
import { type ApiKey, findApiKey } from '../../registry/key-lookup.ts';
import { findSession, type SessionMembership } from '../../registry/sessions.ts';
import { markUsed } from '../../registry/writes.ts';
import type { AppContext, Tenant, User } from '../env.ts';
import { ApiError, forbidden, unauthorized } from '../http/error-response.ts';
import { readAccessCookie } from './access-cookie.ts';
import { addressOf, isAllowedAddress } from './address.ts';
import { verifyAccessToken } from './session-tokens.ts';

/** Methods of requests that change nothing. */
export const SAFE_METHODS = ['GET', 'HEAD', 'OPTIONS'];

/** Throws 401 without a valid session, and 403 if a page of another origin sent the cookie. */
export async function requireUser(c: Context<AppContext>): Promise<User> {
  const now = Date.now();
  const bearer = /^Bearer +(\S+) *$/i.exec(c.req.header('authorization') ?? '')?.[1];
  const token = bearer ?? readAccessCookie(c);
  if (!token)
    throw unauthorized('The request has no session: log in, or send an access token as bearer token');
  const access = await verifyAccessToken(c.env.SESSION_SECRET, token, now);
  const found = access && (await findSession(c.env.DB, access, now));
  if (!found) throw unauthorized('The access token is invalid or has expired: refresh it');
  if (found.user.tokenVersion !== access.tokenVersion)
    throw new ApiError(
      'TOKEN_VERSION_MISMATCH',
      'The password has changed, or the account was deleted: log in again',
    );
  if (!found.isLive) throw unauthorized('The session has ended: log in again');
  const via = bearer ? 'bearer' : 'cookie';
  if (via === 'cookie' && !SAFE_METHODS.includes(c.req.method)) requireSameOrigin(c.req.raw);
  return { row: found.user, sessionId: access.sessionId, via, memberships: found.memberships };
}

/** [C-1.6] Checks the origin headers that browsers send. Other clients send none of them and are allowed. */
export function requireSameOrigin(request: Request): void {
  const origin = request.headers.get('origin');
  const site = request.headers.get('sec-fetch-site');
  const isOwn = origin === null || origin === new URL(request.url).origin;
  if (isOwn && (site === null || site === 'same-origin')) return;
  throw new ApiError(
    'ORIGIN_MISMATCH',
    'A page of another origin sent the session cookie: send the access token as bearer token',
  );
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
  if (isNamed)
    throw new ApiError(
      'ORG_MEMBERSHIP_REQUIRED',
      'x-org-id: you are not a member of this organization: send the id of one of yours',
    );
  if (user.memberships.length === 0 && !isHeaderNeeded)
    throw new ApiError('ORG_MEMBERSHIP_REQUIRED', 'You are in no organization: create one first');
  throw new ApiError(
    'ORG_CONTEXT_REQUIRED',
    'The request needs the header x-org-id: send the id of one of your organizations',
  );
}

export function memberTenant({ row }: User, membership: SessionMembership): Tenant {
  const { organizationId, slug, role, ceilings } = membership;
  return {
    organizationId,
    slug,
    actor: { type: 'USER', id: row.id, name: row.email },
    role,
    allowedPlantIds: null,
    ceilings,
  };
}

/** Throws 401 without a valid key, and 403 if the key does not allow the client address. */
export async function requireKey(c: Context<AppContext>): Promise<ApiKey> {
  const plaintext = c.req.header('x-api-key');
  if (!plaintext) throw unauthorized('Missing header X-API-Key: send your API key in it');
  const now = Date.now();
  const apiKey = await findApiKey(c.env.DB, plaintext, now, c.req.param('siteId')?.toLowerCase());
  if (!apiKey)
    throw unauthorized('The API key in X-API-Key is unknown, revoked or expired: send a valid one');
  const address = addressOf(c);
  if (!isAllowedAddress(address, apiKey.allowedIps)) {
    const message = `Your address ${address ?? '(unknown)'} is not in allowedIps of the API key: use a key that allows it`;
    throw forbidden(message);
  }
  return apiKey;
}

/** Updates `lastUsedAt` after the answer. */
export function noteUse(c: Context<AppContext>, apiKey: ApiKey): void {
  const marked = markUsed(c.env.DB, apiKey, Date.now()).catch((error: unknown) => {
    console.warn('lastUsedAt of an API key not written by the Worker, its next request writes it', {
      keyId: apiKey.id,
      reason: reasonOf(error),
    });
  });
  c.executionCtx.waitUntil(marked);
}

/** Throws if the header `x-org-id` names another organization than the one of the credential. */
export function requireOwnOrganization(
  c: Context<AppContext>,
  { organizationId }: { organizationId: string },
  credential: string,
): void {
  const wanted = c.req.header('x-org-id');
  if (wanted !== undefined && wanted.toLowerCase() !== organizationId)
    throw new ApiError(
      'ORG_MEMBERSHIP_REQUIRED',
      `x-org-id names another organization than that of the ${credential}: omit it`,
    );
}

export function keyTenant(apiKey: ApiKey): Tenant {
  return {
    organizationId: apiKey.organizationId,
    slug: apiKey.slug,
    actor: { type: 'API_KEY', id: apiKey.id, name: apiKey.prefix },
    role: null,
    allowedPlantIds: apiKey.allowedPlantIds,
    ceilings: apiKey.ceilings,
  };
}
