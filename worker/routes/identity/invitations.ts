/** The routes by which admins create, list, send again and revoke the invitations of their organization [C-11.2]. */
import type { Context } from 'hono';
import * as z from 'zod';
import { randomToken } from '../../../durable-objects/secrets/base64.ts';
import { ceilingsOf } from '../../../protocol/ceilings.ts';
import type { Role } from '../../../protocol/enums.ts';
import { uuid } from '../../../protocol/ids.ts';
import {
  INVITATION_STATUSES,
  type InvitationRecord,
  invitationRecord,
  invitedMember,
} from '../../../protocol/invitation.ts';
import { memberRequest } from '../../../protocol/organization.ts';
import { pageOf, pageSchema } from '../../../protocol/page.ts';
import type { Actor, AuditEntry } from '../../../registry/entries.ts';
import {
  changePendingInvitation,
  createInvitation,
  findInvitation,
  type InvitationRow,
  invitationFault,
  invitationRecordOf,
  pageInvitations,
  renewInvitation,
  revokeInvitation,
} from '../../../registry/invitations.ts';
import type { MailRow } from '../../../registry/mails.ts';
import { auditEntry, auditEntryOf } from '../../auth/audit-entry.ts';
import { requireWithinRank } from '../../auth/rank.ts';
import type { AppContext } from '../../env.ts';
import { type ApiError, conflict } from '../../http/error-response.ts';
import { idParameter, pageParameters } from '../../http/query.ts';
import { tooMany } from '../../http/rate.ts';
import { restOrigin } from '../../lifecycle/connection-bundle.ts';
import { isMailOn, mailOrigin, mailRow, mayMail, requireRoom, sendQueued } from '../../mail/outbox.ts';
import { invitationMail } from '../../mail/texts.ts';
import { route } from '../../route.ts';
import { invitationAlreadyAccepted, invitationNotFound } from './accept-invitation.ts';

const ADMIN = { door: 'organization', role: 'ADMIN' } as const;
const invitationParameters = z.object({ id: uuid, invitationId: uuid });
const EXAMPLE = { email: 'petr@example.com', role: 'OPERATOR' };

export const invitationRoutes = [
  route('POST /api/v1/organizations/{id}/invitations', {
    summary: 'Invite a person to an organization',
    who: ADMIN,
    params: idParameter,
    body: memberRequest,
    examples: { body: EXAMPLE },
    answer: {
      status: 201,
      description: 'The invitation. It replaces a pending one of the same address',
      body: invitationRecord,
    },
    errors: ['CONFLICT', 'TOO_MANY_REQUESTS'],
    handler: (c, { body }) => inviteAsMember(c, body),
  }),
  route('POST /api/v1/organizations/{id}/members', {
    summary: 'Invite a person to an organization; the person becomes a member by accepting',
    who: ADMIN,
    params: idParameter,
    body: memberRequest,
    examples: { body: EXAMPLE },
    answer: {
      status: 201,
      description: 'The invitation; the same answer for a registered and an unknown address',
      body: invitedMember,
    },
    errors: ['CONFLICT', 'TOO_MANY_REQUESTS'],
    handler: async (c, { body }) => ({ ...(await inviteAsMember(c, body)), status: 'INVITED' as const }),
  }),
  route('GET /api/v1/organizations/{id}/invitations', {
    summary: 'List the invitations of an organization',
    who: ADMIN,
    params: idParameter,
    query: z.object({ ...pageParameters, status: z.enum(INVITATION_STATUSES).optional() }),
    answer: { description: 'A page of invitations, newest first', body: pageSchema(invitationRecord) },
    handler: async (c, { params, query }) => {
      const now = Date.now();
      const found = await pageInvitations(c.env.DB, params.id, query.status, query, now);
      return pageOf(found, query, (row) => invitationRecordOf(row, now));
    },
  }),
  route('DELETE /api/v1/organizations/{id}/invitations/{invitationId}', {
    summary: 'Revoke a pending invitation',
    who: ADMIN,
    params: invitationParameters,
    answer: {
      description: 'Revoked; its token is no longer valid',
      body: z.strictObject({ id: z.string(), revoked: z.literal(true) }),
    },
    errors: ['INVITATION_NOT_FOUND', 'INVITATION_ALREADY_ACCEPTED'],
    handler: async (c, { params: { id: organizationId, invitationId: id } }) => {
      const invitation = await requirePending(c, organizationId, id);
      const audit = auditEntry(c, 'member.invitation_revoked', target(id), { email: invitation.email });
      if (!(await revokeInvitation(c.env.DB, { organizationId, id }, audit, Date.now())))
        throw invitationNotFound();
      return { id, revoked: true as const };
    },
  }),
  route('POST /api/v1/organizations/{id}/invitations/{invitationId}/resend', {
    summary: 'Send a pending invitation again, with a new token',
    who: ADMIN,
    params: invitationParameters,
    answer: { description: 'The invitation; its old token is no longer valid', body: invitationRecord },
    errors: ['INVITATION_NOT_FOUND', 'INVITATION_ALREADY_ACCEPTED', 'TOO_MANY_REQUESTS'],
    handler: async (c, { params: { id: organizationId, invitationId: id } }) => {
      const now = Date.now();
      const { email, role } = await requirePending(c, organizationId, id);
      requireWithinRank(c, role);
      const createdBy = c.get('user').row.id;
      const audit = (target: AuditEntry['target']) =>
        auditEntry(c, 'member.invited', target, { email, role, resent: true });
      if ((await invitationFault(c.env.DB, organizationId, email, now)) === 'full')
        throw tooManyInvitations(c);
      await requireRoom(c, email);
      if (!(await mayInvite(c, organizationId, email, now))) {
        const invited = { organizationId, email, role, createdBy };
        const changed = await changePendingInvitation(c.env.DB, invited, (one) => audit(target(one)), now);
        if (!changed) throw invitationNotFound();
        return invitationRecordOf(changed, now);
      }
      const token = randomToken();
      const mail = mailOf(c, c.get('tenant'), { email, role }, token, now);
      const again = { organizationId, id, createdBy };
      const renewed = await renewInvitation(c.env.DB, again, { token, mail }, audit(target(id)), now);
      if (renewed === 'gone') {
        // Other requests may have used up the invitations of the day.
        if ((await invitationFault(c.env.DB, organizationId, email, now)) === 'full')
          throw tooManyInvitations(c);
        throw invitationNotFound();
      }
      return answerOf(c, renewed, token, now);
    },
  }),
];

interface Invitee {
  email: string;
  role: Role;
}

/** The organization that invites, and the actor who invites for it. */
interface Inviter {
  organizationId: string;
  slug: string;
  actor: Actor;
}

async function inviteAsMember(c: Context<AppContext>, invitee: Invitee): Promise<InvitationRecord> {
  requireWithinRank(c, invitee.role);
  return await invite(c, c.get('tenant'), invitee);
}

/** Creates an invitation and its mail. Throws CONFLICT for a member, TOO_MANY_REQUESTS above the ceiling of a day. */
export async function invite(
  c: Context<AppContext>,
  inviter: Inviter,
  { email, role }: Invitee,
): Promise<InvitationRecord> {
  const now = Date.now();
  const { organizationId, actor } = inviter;
  const fault = await invitationFault(c.env.DB, organizationId, email, now);
  if (fault === 'member')
    throw conflict(`${email} is already a member: change the role of the member instead`);
  if (fault === 'full') throw tooManyInvitations(c);
  await requireRoom(c, email);
  const invited = { organizationId, email, role, createdBy: actor.id };
  const audit = (id: string) => auditEntryOf(c, inviter, 'member.invited', target(id), { email, role });
  const isMailed = await mayInvite(c, organizationId, email, now);
  const changed = isMailed ? undefined : await changePendingInvitation(c.env.DB, invited, audit, now);
  if (changed) return invitationRecordOf(changed, now);
  const token = randomToken();
  const mail = isMailed ? mailOf(c, inviter, { email, role }, token, now) : undefined;
  const made = await createInvitation(c.env.DB, invited, { token, mail }, audit, now);
  if (made === 'full') throw tooManyInvitations(c);
  return answerOf(c, made, token, now);
}

/** Whether the address may get the mail of an invitation. While mail is off, the answer has the token, and nothing counts. */
async function mayInvite(
  c: Context<AppContext>,
  organizationId: string,
  email: string,
  now: number,
): Promise<boolean> {
  return !isMailOn(c.env) || (await mayMail(c, email, { kind: 'invitation', organizationId }, now));
}

/** The mail with the token; undefined while mail is off. */
function mailOf(
  c: Context<AppContext>,
  { organizationId, slug, actor }: Inviter,
  { email, role }: Invitee,
  token: string,
  now: number,
): MailRow | undefined {
  const mail = invitationMail(
    email,
    { organization: slug, role, inviter: actor.name },
    { token, origin: mailOrigin(c.env) },
  );
  return mailRow(c.env, mail, { organizationId }, now);
}

/**
 * The invitation as the answer shows it. While mail is off it contains the token, which the admin must give
 * to the invited person [C-11.1].
 */
function answerOf(c: Context<AppContext>, row: InvitationRow, token: string, now: number): InvitationRecord {
  if (isMailOn(c.env)) {
    sendQueued(c);
    return invitationRecordOf(row, now);
  }
  // The token is after the #, which browsers do not send to servers, so no server can log it.
  const url = `${restOrigin(c.env, c.req.raw)}/accept-invitation#token=${token}`;
  return { ...invitationRecordOf(row, now), token, url };
}

async function requirePending(
  c: Context<AppContext>,
  organizationId: string,
  id: string,
): Promise<InvitationRow> {
  const found = await findInvitation(c.env.DB, organizationId, id);
  if (found?.status === 'ACCEPTED') throw invitationAlreadyAccepted();
  if (found?.status !== 'PENDING') throw invitationNotFound();
  return found;
}

const target = (id: string) => ({ type: 'INVITATION', id });

function tooManyInvitations(c: Context<AppContext>): ApiError {
  const most = ceilingsOf(c.get('tenant').ceilings).invitationsPerDay;
  return tooMany(`The organization has sent ${most} invitations within a day`, 3_600);
}
