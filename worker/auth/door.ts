/**
 * Doors, the access checks of routes: who may call a route, and the error codes for other callers (spec:
 * Authentication; [C-1.3]). The security matrix of the tests uses the same list.
 */
import type { Context, MiddlewareHandler } from 'hono';
import { ceilingsOf } from '../../protocol/ceilings.ts';
import type { Role } from '../../protocol/enums.ts';
import type { ApiErrorCode } from '../../protocol/errors.ts';
import { isUuid } from '../../protocol/ids.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { organizationSettings } from '../../protocol/organization.ts';
import type { ApiKeyScope } from '../../protocol/scopes.ts';
import type { ApiKey } from '../../registry/key-lookup.ts';
import type { SessionMembership } from '../../registry/sessions.ts';
import type { AppContext, Tenant, User } from '../env.ts';
import { ApiError, forbidden } from '../http/error-response.ts';
import { parseBody } from '../http/json-body.ts';
import { requireRate, requireShare } from '../http/rate.ts';
import {
  keyTenant,
  memberTenant,
  namedMembership,
  noteUse,
  orgContext,
  requireKey,
  requireOwnOrganization,
  requireUser,
  SAFE_METHODS,
} from './authenticate.ts';
import { noteRefusal, refuseAgain } from './known-refusals.ts';
import { requireOperator } from './operator.ts';
import { requireRole } from './rank.ts';
import { supportTenant } from './support.ts';

/**
 * The door of a route: the callers that the route accepts. The doors `organization` and `member` also let the
 * operator's support session in, which only reads.
 */
export type Who =
  | { door: 'public' }
  /** The partner's routes: only API keys. */
  | {
      door: 'api-key';
      scope: ApiKeyScope;
      /** The handler counts the request toward the rate of the key, because it knows which ones are never refused. */
      isUncounted?: true;
      /** The handler counts each request toward a rate of the key for what the route does. */
      isRated?: true;
    }
  /** A user, also one who has not proved their e-mail address: only for the user's own account [C-14.1]. */
  | { door: 'account' }
  | { door: 'user' }
  /** The operator of the deployment. */
  | { door: 'operator' }
  /** A member of the organization in the path. With `orSelf` also the member that the path names, in any role. */
  | { door: 'organization'; role: Role; orSelf?: true }
  /** A member of the organization in `x-org-id`; if `scope` is set, also an API key with this scope. */
  | {
      door: 'member';
      role: Role;
      scope?: ApiKeyScope;
      isHeaderNeeded?: boolean;
      /** The handler counts the request toward the rate of the user, because it knows which ones are never refused. */
      isUncounted?: true;
      /**
       * For routes that take access away: allowed even if the organization has reached its maximum number of
       * changes in this minute.
       */
      isUrgent?: true;
      /** The handler counts each request toward a rate of the organization or user for what the route does. */
      isRated?: true;
    }
  /**
   * An API key, whose scopes the handler checks, or a member of the organization in `x-org-id`. Only for requests that
   * write nothing to D1.
   */
  | { door: 'key-or-member'; role: Role };

/** The error codes of a door, without those of parameters and body. */
export function errorsOfDoor(who: Who): ApiErrorCode[] {
  const always = ['UNAUTHORIZED', 'TOO_MANY_REQUESTS', 'SERVICE_UNAVAILABLE'] as const;
  const ofUsers = [...always, 'TOKEN_VERSION_MISMATCH', 'ORIGIN_MISMATCH'] as const;
  switch (who.door) {
    case 'public':
      return ['TOO_MANY_REQUESTS', 'SERVICE_UNAVAILABLE'];
    case 'api-key':
      return [...always, 'FORBIDDEN'];
    case 'account':
      return [...ofUsers];
    case 'operator':
      return [...ofUsers, 'SUPER_ADMIN_REQUIRED'];
    case 'user':
      return [...ofUsers, 'FORBIDDEN'];
    case 'organization':
      return [...ofUsers, 'FORBIDDEN', 'ORGANIZATION_NOT_FOUND', 'INSUFFICIENT_ORG_PERMISSIONS'];
    case 'key-or-member':
    case 'member':
      return [
        ...ofUsers,
        ...(['ORG_CONTEXT_REQUIRED', 'ORG_MEMBERSHIP_REQUIRED', 'INSUFFICIENT_ORG_PERMISSIONS'] as const),
        'FORBIDDEN',
      ];
  }
}

/** Returns the middleware that checks the caller and then parses the body, by default of the size that the door allows. */
export function doorOf(who: Who, bodyBytes?: number): MiddlewareHandler<AppContext> {
  const isPublic = who.door === 'public';
  const mostBytes = bodyBytes ?? (isPublic ? LIMIT.publicBodyBytes : LIMIT.restBodyBytes);
  return async (c, next) => {
    const organizationId = who.door === 'organization' ? (c.req.param('id') ?? '') : '';
    if (!isPublic) refuseAgain(c, organizationId);
    await open(c, who).catch((error: unknown) => {
      noteRefusal(c, organizationId, error);
      throw error;
    });
    await parseBody(c, { mostBytes, isPublic });
    await next();
    if (isRated(who)) noteRefusal(c, organizationId, c.error);
  };
}

function isRated(who: Who): boolean {
  return (who.door === 'member' || who.door === 'api-key') && who.isRated === true;
}

async function open(c: Context<AppContext>, who: Who): Promise<void> {
  switch (who.door) {
    case 'public':
      return;
    case 'api-key':
      await openToKey(c, who.scope, who.isUncounted);
      return;
    case 'account':
      return await openToAccount(c);
    case 'operator':
      return await requireOperator(c);
    case 'user':
      await openToAccount(c);
      requireProved(c.get('user'));
      return;
    case 'organization':
      return await openToOrganization(c, who.role, who.orSelf ?? false);
    case 'key-or-member':
      if (c.req.header('x-api-key') === undefined) return await openToMember(c, who);
      requireOwnOrganization(c, await openToKey(c), 'API key');
      return;
    case 'member':
      if (who.scope && c.req.header('x-api-key') !== undefined) {
        const apiKey = await openToKey(c, who.scope);
        requireOwnOrganization(c, apiKey, 'API key');
        return await countChange(c, apiKey, who.isUrgent);
      }
      return await openToMember(c, who);
  }
}

/** `scope` absent: the handler checks the scopes. */
async function openToKey(c: Context<AppContext>, scope?: ApiKeyScope, isUncounted = false): Promise<ApiKey> {
  const apiKey = await requireKey(c);
  if (!isUncounted) await requireKeyRate(c, apiKey);
  if (scope && !apiKey.scopes.has(scope))
    throw forbidden(`The API key lacks the scope "${scope}": use a key that has it`);
  c.set('apiKey', apiKey);
  c.set('tenant', keyTenant(apiKey));
  noteUse(c, apiKey);
  return apiKey;
}

/** Counts a request of a key; throws 429 over its rate. */
export async function requireKeyRate(c: Context<AppContext>, { id, settings }: ApiKey): Promise<void> {
  await requireRate(c, `key:${id}`, settings.restRatePerMinute);
}

/** Counts a request of a member; throws 429 over their rate. */
export async function requireMemberRate(c: Context<AppContext>): Promise<void> {
  const user = c.get('user');
  await countFor(c, user, namedMembership(c, user));
}

async function openToAccount(c: Context<AppContext>): Promise<void> {
  const user = await requireUser(c);
  await countFor(c, user, undefined);
  c.set('user', user);
}

/**
 * [C-14.1] Rejects a user who has not proved their address: anybody can register the address of another
 * person, so an account may do nothing before its owner has proved it.
 */
function requireProved({ row }: User): void {
  if (row.provedAtMs === null)
    throw forbidden(
      `Prove that ${row.email} is your address first: POST /api/v1/auth/verify-email with the mailed token`,
    );
}

async function openToOrganization(c: Context<AppContext>, role: Role, orSelf: boolean): Promise<void> {
  const support = await supportTenant(c);
  if (support) return openToSupport(c, support, organizationInPath(c));
  const user = await requireUser(c);
  const id = (c.req.param('id') ?? '').toLowerCase();
  const membership = user.memberships.find(({ organizationId }) => organizationId === id);
  await countFor(c, user, membership);
  requireProved(user);
  organizationInPath(c);
  if (!membership) throw organizationNotFound();
  requireNotSuspended(membership);
  const isSelf = orSelf && c.req.param('userId')?.toLowerCase() === user.row.id;
  if (!isSelf) requireRole(membership.role, role);
  await countChange(c, membership);
  c.set('user', user);
  c.set('tenant', memberTenant(user, membership));
}

/** The id in the path. Throws 400 INVALID_UUID for any other text. */
function organizationInPath(c: Context<AppContext>): string {
  const id = (c.req.param('id') ?? '').toLowerCase();
  if (!isUuid(id)) throw new ApiError('INVALID_UUID', 'id: must be a UUID');
  return id;
}

function organizationNotFound(): ApiError {
  return new ApiError('ORGANIZATION_NOT_FOUND', 'You are in no organization with this id: list yours');
}

/**
 * Lets the operator's support session in, which only reads. Throws if the path (`named`, if it names one) or the
 * header x-org-id names another organization than the session's.
 */
async function openToSupport(c: Context<AppContext>, tenant: Tenant, named?: string): Promise<void> {
  await requireRate(c, tenant.actor.id, LIMIT.requestsPerMinute);
  if (named !== undefined && named !== tenant.organizationId) throw organizationNotFound();
  requireOwnOrganization(c, tenant, 'support session');
  c.set('tenant', tenant);
}

function requireNotSuspended({ suspendedAtMs }: SessionMembership): void {
  if (suspendedAtMs !== null)
    throw forbidden('The operator has suspended this organization: ask the operator why');
}

async function openToMember(
  c: Context<AppContext>,
  who: Extract<Who, { door: 'member' | 'key-or-member' }>,
): Promise<void> {
  const {
    isHeaderNeeded = false,
    isUncounted = false,
    isUrgent = who.door === 'key-or-member',
  } = who.door === 'member' ? who : {};
  const support = await supportTenant(c);
  if (support) return await openToSupport(c, support);
  const user = await requireUser(c);
  if (!isUncounted) await countFor(c, user, namedMembership(c, user));
  requireProved(user);
  const membership = orgContext(c, user, isHeaderNeeded);
  requireNotSuspended(membership);
  requireRole(membership.role, who.role);
  await countChange(c, membership, isUrgent);
  c.set('user', user);
  c.set('tenant', memberTenant(user, membership));
}

/**
 * Counts a request that may write to D1, which all organizations share, against the organization's ceiling
 * [C-14.2]. A deletion is not counted: the creation of the deleted row was counted, and a key that uses up
 * the ceiling of its organization must not prevent the admins from revoking it.
 */
async function countChange(
  c: Context<AppContext>,
  { organizationId, ceilings }: { organizationId: string; ceilings: Record<string, number> },
  isUrgent = false,
): Promise<void> {
  if (isUrgent || c.req.method === 'DELETE' || SAFE_METHODS.includes(c.req.method)) return;
  const most = ceilingsOf(ceilings).changesPerMinute;
  await requireShare(c, `changes:${organizationId}`, most, 'changes of the organization');
}

/** Counts the request against the user's rate limit in the organization that it names, or outside of organizations. */
async function countFor(
  c: Context<AppContext>,
  { row }: User,
  membership: SessionMembership | undefined,
): Promise<void> {
  const { restRatePerMinute } = organizationSettings.parse(membership?.settings ?? {});
  // One counter per user and organization, because each organization has its own limit; one for all other requests.
  const who = membership ? `user:${row.id}:${membership.organizationId}` : `user:${row.id}`;
  await requireRate(c, who, restRatePerMinute);
}
