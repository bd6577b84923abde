/**
 * The operator's routes to list, suspend, reactivate and delete organizations, to delete users, and to start a
 * support session; and the organization's own routes to list and end its support sessions [C-14.1].
 */
import type { Context } from 'hono';
import * as z from 'zod';
import { randomToken } from '../../durable-objects/secrets/base64.ts';
import type { AuditEventName } from '../../protocol/audit-names.ts';
import { formatInstant, uuid } from '../../protocol/ids.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { pageOf, pageSchema } from '../../protocol/page.ts';
import { SUPPORT_TOKEN_PREFIX, supportSession } from '../../protocol/support.ts';
import { email } from '../../protocol/user.ts';
import { withInstants } from '../../registry/d1.ts';
import { markDeleted, pageAllOrganizations, setSuspended } from '../../registry/organization-end.ts';
import { findAnyOrganization, type OrganizationRow } from '../../registry/organizations.ts';
import { endSupport, pageSupport, startSupport, supportSessionOf } from '../../registry/support-sessions.ts';
import { releaseUser } from '../../registry/unproved.ts';
import { deleteUser, onlyAdminOf } from '../../registry/user-end.ts';
import { findUserByEmail } from '../../registry/users.ts';
import { auditEntry, auditEntryOf } from '../auth/audit-entry.ts';
import type { AppContext } from '../env.ts';
import { ApiError, conflict } from '../http/error-response.ts';
import { idParameter, pageParameters } from '../http/query.ts';
import { endPlantlessSessions } from '../lifecycle/organization-end.ts';
import { announce } from '../lifecycle/registry-change.ts';
import { recheckMembers, recheckStreams } from '../lifecycle/watches.ts';
import { route } from '../route.ts';
import { requireOrganization } from './identity/organizations.ts';

const OPERATOR = { door: 'operator' } as const;
const reason = z.string().trim().min(1).max(LIMIT.supportReasonCharacters);
const withReason = z.strictObject({ reason });

const organizationState = z.strictObject({
  id: z.string(),
  name: z.string(),
  slug: z.string(),
  status: z.enum(['ACTIVE', 'SUSPENDED', 'DELETED']),
  createdAt: z.string(),
});

export const operatorEndRoutes = [
  route('GET /api/v1/platform/organizations', {
    summary: 'List all organizations, or the one with a slug',
    who: OPERATOR,
    query: z.object({ ...pageParameters, slug: z.string().max(40).optional() }),
    answer: {
      description: 'A page of organizations, by slug. A deleted one keeps its slug',
      body: pageSchema(organizationState),
    },
    handler: async (c, { query }) =>
      pageOf(await pageAllOrganizations(c.env.DB, query.slug, query), query, stateOf),
  }),
  route('POST /api/v1/platform/organizations/{id}/suspend', {
    summary: 'Suspend an organization',
    who: OPERATOR,
    params: idParameter,
    body: withReason,
    examples: { body: { reason: 'The account was taken over' } },
    answer: {
      description:
        'The organization. Its keys, members and devices are refused, and their connections are closed; it keeps its data',
      body: organizationState,
    },
    errors: ['ORGANIZATION_NOT_FOUND', 'CONFLICT'],
    handler: async (c, { params: { id }, body }) => {
      const now = Date.now();
      return await changeState(c, id, 'organization.suspended', body, async (entry) => {
        const change = await setSuspended(c.env.DB, id, now, entry, now);
        if (change === 'gone') return change;
        // The Sites end the streams of their plants, too, but those of many plants take turns.
        await Promise.all([endPlantlessSessions(c.env, now, id), recheckMembers(c.env, id)]);
        return change;
      });
    },
  }),
  route('POST /api/v1/platform/organizations/{id}/reactivate', {
    summary: 'Reactivate a suspended organization',
    who: OPERATOR,
    params: idParameter,
    answer: { description: 'The organization', body: organizationState },
    errors: ['ORGANIZATION_NOT_FOUND', 'CONFLICT'],
    handler: async (c, { params: { id } }) =>
      await changeState(c, id, 'organization.reactivated', {}, (entry) =>
        setSuspended(c.env.DB, id, null, entry, Date.now()),
      ),
  }),
  route('DELETE /api/v1/platform/organizations/{id}', {
    summary: 'Delete a suspended organization with all its data',
    who: OPERATOR,
    params: idParameter,
    answer: {
      description:
        'The organization. Members and invitations are deleted and keys are revoked at once. Housekeeping erases the plants and devices, 150 of each a minute. Audit events stay for their retention period',
      body: organizationState,
    },
    errors: ['ORGANIZATION_NOT_FOUND', 'CONFLICT'],
    handler: async (c, { params: { id } }) =>
      await changeState(c, id, 'organization.deleted', {}, (entry) =>
        markDeleted(c.env.DB, id, entry, Date.now()),
      ),
  }),
  route('POST /api/v1/platform/organizations/{id}/support', {
    summary: 'Start a support session: read for an hour what an ORG_ADMIN can read',
    who: OPERATOR,
    params: idParameter,
    body: withReason,
    examples: { body: { reason: 'Ticket 4711: no telemetry' } },
    answer: {
      status: 201,
      description:
        'The token, shown only now. The organization sees the session and its reason, and can end it',
      body: supportSession.omit({ isActive: true }).extend({ token: z.string() }),
    },
    errors: ['ORGANIZATION_NOT_FOUND'],
    handler: async (c, { params, body }) => {
      const { id: organizationId } = await requireOrganization(c.env.DB, params.id);
      const now = Date.now();
      const session = {
        id: crypto.randomUUID(),
        organizationId,
        token: `${SUPPORT_TOKEN_PREFIX}${randomToken()}`,
        reason: body.reason,
        expiresAtMs: now + LIMIT.supportSessionMs,
      };
      const target = { type: 'SUPPORT_SESSION', id: session.id };
      const by = { organizationId, actor: c.get('operator') };
      await startSupport(c.env.DB, session, auditEntryOf(c, by, 'support.started', target, body), now);
      const { id, token } = session;
      const [createdAt, expiresAt] = [formatInstant(now), formatInstant(session.expiresAtMs)];
      return { id, reason: body.reason, createdAt, expiresAt, token };
    },
  }),
  route('GET /api/v1/organizations/{id}/support-sessions', {
    summary: 'List the support sessions in which the operator read the data of the organization',
    who: { door: 'organization', role: 'ADMIN' },
    params: idParameter,
    query: z.object(pageParameters),
    answer: { description: 'A page of support sessions, newest first', body: pageSchema(supportSession) },
    handler: async (c, { params: { id }, query }) => {
      const now = Date.now();
      return pageOf(await pageSupport(c.env.DB, id, query), query, (row) => supportSessionOf(row, now));
    },
  }),
  route('DELETE /api/v1/organizations/{id}/support-sessions/{sessionId}', {
    summary: 'End a support session of the operator',
    who: { door: 'organization', role: 'ORG_ADMIN' },
    params: z.object({ id: uuid, sessionId: uuid }),
    answer: {
      description: 'The session has ended: its token is refused from now on',
      body: z.strictObject({ id: z.string(), ended: z.literal(true) }),
    },
    errors: ['NOT_FOUND'],
    handler: async (c, { params: { id, sessionId } }) => {
      const audit = auditEntry(c, 'support.ended', { type: 'SUPPORT_SESSION', id: sessionId });
      if (!(await endSupport(c.env.DB, id, sessionId, audit, Date.now())))
        throw new ApiError(
          'NOT_FOUND',
          'The operator has no open support session with this id in your organization: list the support sessions',
        );
      recheckStreams(c, { kind: 'support', id: sessionId });
      return { id: sessionId, ended: true as const };
    },
  }),
  route('POST /api/v1/platform/users/delete', {
    summary: 'Delete the account of a user with all personal data',
    who: OPERATOR,
    body: z.strictObject({ email }),
    examples: { body: { email: 'jana@example.com' } },
    answer: {
      description: 'The account and its sessions are deleted. Audit events keep the id of the user',
      body: z.strictObject({ userId: z.string(), deleted: z.literal(true) }),
    },
    errors: ['NOT_FOUND', 'CONFLICT'],
    handler: async (c, { body }) => {
      const user = await findUserByEmail(c.env.DB, body.email);
      if (!user) throw new ApiError('NOT_FOUND', `No account has the e-mail address ${body.email}: check it`);
      const alone = await onlyAdminOf(c.env.DB, user.id);
      if (alone.length > 0)
        throw conflict(
          `${body.email} is the only ORG_ADMIN of ${alone.join(', ')}: invite another ORG_ADMIN, or delete the organization first`,
        );
      const by = { organizationId: null, actor: c.get('operator') };
      const audit = auditEntryOf(c, by, 'user.deleted', { type: 'USER', id: user.id });
      await deleteUser(c.env.DB, user, audit, Date.now());
      recheckStreams(c, { kind: 'user', id: user.id });
      return { userId: user.id, deleted: true as const };
    },
  }),
  route('POST /api/v1/platform/users/release', {
    summary: 'Give an e-mail address back to its owner',
    who: OPERATOR,
    body: z.strictObject({ email }),
    examples: { body: { email: 'jana@example.com' } },
    answer: {
      description:
        'The unproved account with this address is deleted, and each organization that nobody else is in. The owner of the address can register or be invited again',
      body: z.strictObject({ userId: z.string(), released: z.literal(true) }),
    },
    errors: ['NOT_FOUND', 'CONFLICT'],
    handler: async (c, { body }) => {
      const user = await findUserByEmail(c.env.DB, body.email);
      if (!user) throw new ApiError('NOT_FOUND', `No account has the e-mail address ${body.email}: check it`);
      const by = { organizationId: null, actor: c.get('operator') };
      const audit = auditEntryOf(c, by, 'user.released', { type: 'USER', id: user.id });
      if (user.provedAtMs !== null || !(await releaseUser(c.env.DB, user, audit, Date.now())))
        throw conflict(`${body.email} has proved its address: use delete-user`);
      return { userId: user.id, released: true as const };
    },
  }),
];

type Change = Awaited<ReturnType<typeof setSuspended>>;

/**
 * Changes the state of an organization and announces the change. Throws 409 if the present state does not
 * allow it.
 */
async function changeState(
  c: Context<AppContext>,
  id: string,
  event: AuditEventName,
  details: Record<string, unknown>,
  make: (entry: ReturnType<typeof auditEntryOf>) => Promise<Change>,
) {
  const before = await findAnyOrganization(c.env.DB, id);
  if (!before) throw new ApiError('ORGANIZATION_NOT_FOUND', `No organization has the id ${id}: check it`);
  const by = { organizationId: id, actor: c.get('operator') };
  const change = await make(auditEntryOf(c, by, event, { type: 'ORGANIZATION', id }, details));
  if (change === 'gone')
    throw conflict(
      `The organization is ${stateOf(before).status}: only an ACTIVE one can be suspended, and only a SUSPENDED one can be reactivated or deleted`,
    );
  await announce(c, change);
  return stateOf((await findAnyOrganization(c.env.DB, id)) ?? before);
}

function stateOf({ id, name, slug, suspendedAtMs, deletedAtMs, createdAtMs }: OrganizationRow) {
  const status: 'ACTIVE' | 'SUSPENDED' | 'DELETED' =
    deletedAtMs !== null ? 'DELETED' : suspendedAtMs !== null ? 'SUSPENDED' : 'ACTIVE';
  return { id, name, slug, status, ...withInstants({ createdAtMs }) };
}
