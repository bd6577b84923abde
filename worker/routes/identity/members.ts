/**
 * Members of an organization and their roles [C-1.2]. A member cannot grant a role above their own, or change
 * or remove a member who has one.
 */
import type { Context } from 'hono';
import * as z from 'zod';
import type { Role } from '../../../protocol/enums.ts';
import { uuid } from '../../../protocol/ids.ts';
import { type MemberRecord, memberRecord } from '../../../protocol/organization.ts';
import { pageOf, pageSchema } from '../../../protocol/page.ts';
import { roleChange, userRecord } from '../../../protocol/user.ts';
import { withInstants } from '../../../registry/d1.ts';
import {
  changeRole,
  findMember,
  listMembers,
  type MemberRow,
  removeMember,
} from '../../../registry/members.ts';
import { userRecordOf } from '../../../registry/users.ts';
import { auditEntry } from '../../auth/audit-entry.ts';
import { requireWithinRank } from '../../auth/rank.ts';
import type { AppContext } from '../../env.ts';
import { ApiError, conflict } from '../../http/error-response.ts';
import { idParameter, pageParameters } from '../../http/query.ts';
import { recheckStreams } from '../../lifecycle/watches.ts';
import { route } from '../../route.ts';

const memberParameters = z.object({ id: uuid, userId: uuid });

export const memberRoutes = [
  route('GET /api/v1/organizations/{id}/members', {
    summary: 'List the members of an organization',
    who: { door: 'organization', role: 'VIEWER' },
    params: idParameter,
    query: z.object(pageParameters),
    answer: { description: 'A page of members, ordered by e-mail address', body: pageSchema(memberRecord) },
    handler: async (c, { params, query }) => {
      return pageOf(await listMembers(c.env.DB, params.id, query), query, memberRecordOf);
    },
  }),
  route('PATCH /api/v1/organizations/{id}/members/{userId}', {
    summary: "Change a member's role",
    who: { door: 'organization', role: 'ADMIN' },
    params: memberParameters,
    body: roleChange,
    examples: { body: { role: 'ADMIN' } },
    answer: { description: 'The member', body: memberRecord },
    errors: ['MEMBER_NOT_FOUND', 'CONFLICT'],
    handler: async (c, { params, body }) => memberRecordOf(await giveRole(c, params.userId, body.role)),
  }),
  route('DELETE /api/v1/organizations/{id}/members/{userId}', {
    summary: 'Remove a member, or leave the organization',
    who: { door: 'organization', role: 'ADMIN', orSelf: true },
    params: memberParameters,
    answer: {
      description: 'Removed',
      body: z.strictObject({ userId: z.string(), deleted: z.literal(true) }),
    },
    errors: ['MEMBER_NOT_FOUND', 'CONFLICT'],
    handler: async (c, { params: { userId } }) => {
      const { organizationId } = c.get('tenant');
      const isOwn = userId === c.get('user').row.id;
      const member = await requireMember(c, userId);
      const event = isOwn ? 'member.left' : 'member.removed';
      const audit = auditEntry(c, event, { type: 'USER', id: userId }, { role: member.role });
      if (!(await removeMember(c.env.DB, organizationId, userId, member.role, audit, Date.now())))
        throw lastAdmin();
      recheckStreams(c, { kind: 'user', id: userId });
      return { userId, deleted: true as const };
    },
  }),
  route('GET /api/v1/users', {
    summary: 'List the users of the organization',
    who: { door: 'member', role: 'ADMIN' },
    query: z.object(pageParameters),
    answer: { description: 'A page of users, ordered by e-mail address', body: pageSchema(userRecord) },
    handler: async (c, { query }) => {
      const members = await listMembers(c.env.DB, c.get('tenant').organizationId, query);
      return pageOf(members, query, (row) => userInContext(c, row));
    },
  }),
  route('PATCH /api/v1/users/{id}', {
    summary: "Change a user's role in the organization",
    who: { door: 'member', role: 'ADMIN' },
    params: idParameter,
    body: roleChange,
    examples: { body: { role: 'OPERATOR' } },
    answer: { description: 'The user', body: userRecord },
    errors: ['MEMBER_NOT_FOUND', 'CONFLICT'],
    handler: async (c, { params, body }) => userInContext(c, await giveRole(c, params.id, body.role)),
  }),
];

/**
 * Returns the member with this user id. Throws 404 MEMBER_NOT_FOUND for any user who is not a member, and 403
 * when the member's role is above the caller's.
 */
async function requireMember(c: Context<AppContext>, userId: string): Promise<MemberRow> {
  const member = await findMember(c.env.DB, c.get('tenant').organizationId, userId);
  if (!member)
    throw new ApiError(
      'MEMBER_NOT_FOUND',
      'The organization has no member with this user id: list its members',
    );
  requireWithinRank(c, member.role);
  return member;
}

async function giveRole(c: Context<AppContext>, userId: string, role: Role): Promise<MemberRow> {
  const { organizationId } = c.get('tenant');
  const member = await requireMember(c, userId);
  requireWithinRank(c, role);
  if (member.role === role) return member;
  const details = { from: member.role, to: role };
  const audit = auditEntry(c, 'member.role_changed', { type: 'USER', id: userId }, details);
  if (!(await changeRole(c.env.DB, organizationId, userId, details, audit, Date.now()))) throw lastAdmin();
  return { ...member, role };
}

function lastAdmin(): ApiError {
  return conflict(
    'The last ORG_ADMIN must stay, or the member was changed at the same time: name another ORG_ADMIN first',
  );
}

function memberRecordOf({ user, role, createdAtMs }: MemberRow): MemberRecord {
  return { userId: user.id, email: user.email, name: user.name, role, ...withInstants({ createdAtMs }) };
}

function userInContext(c: Context<AppContext>, { user, role }: MemberRow) {
  const { organizationId, slug } = c.get('tenant');
  return userRecordOf(user, [{ organizationId, slug, role }], role);
}
