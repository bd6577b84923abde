/** Invitations in D1 [C-11.2]. A token is stored only as its SHA-256, and can be used once. */
import { type AnyColumn, and, desc, eq, gt, lt, lte, not, type SQL, sql } from 'drizzle-orm';
import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1';
import { sha256Hex } from '../durable-objects/secrets/hmac.ts';
import { ROLES, type Role } from '../protocol/enums.ts';
import type { InvitationRecord, InvitationStatus } from '../protocol/invitation.ts';
import { LIMIT } from '../protocol/limits.ts';
import type { FoundPage, PageRequest } from '../protocol/page.ts';
import { auditRowIfChanged } from './audit-events.ts';
import { countOf, isEmpty, readPage, runBatch, withInstants } from './d1.ts';
import type { AuditEntry } from './entries.ts';
import { insertIf } from './insert-if.ts';
import { type MailRow, queuedMail } from './mails.ts';
import { ceilingIn } from './organizations.ts';
import { invitations, memberships, organizations, users } from './schema.ts';

export type InvitationRow = typeof invitations.$inferSelect;

/** The maker of an invitation that the operator has made with a token. */
const OPERATOR_ID = 'operator';
const DAY_MS = 86_400_000;
/** How long ended invitations are shown. */
const ENDED_KEPT_MS = 30 * DAY_MS;

export interface Invited {
  organizationId: string;
  email: string;
  role: Role;
  createdBy: string;
}

export interface NewToken {
  token: string;
  /** The mail with the token; undefined while mail is off. */
  mail: MailRow | undefined;
}

/** Whether the address is a member's, or the organization has sent as many invitations within a day as it may. */
export async function invitationFault(
  database: D1Database,
  organizationId: string,
  email: string,
  now: number,
): Promise<'member' | 'full' | undefined> {
  const db = drizzle(database);
  const isMember = and(
    eq(memberships.organizationId, organizationId),
    eq(memberships.userId, sql`(SELECT ${users.id} FROM ${users} WHERE ${users.email} = ${email})`),
  );
  const [[member], [room]] = await db.batch([
    countOf(db, memberships, isMember),
    db
      .select({ isLeft: sql<number>`${hasInvitationsLeft(organizationId, now)}` })
      .from(organizations)
      .where(eq(organizations.id, organizationId)),
  ]);
  if ((member?.total ?? 0) > 0) return 'member';
  return room?.isLeft === 1 ? undefined : 'full';
}

/**
 * Creates an invitation, which replaces a pending one of the same address. `full`: other requests have used up the
 * invitations of the day meanwhile.
 */
export async function createInvitation(
  database: D1Database,
  { organizationId, email, role, createdBy }: Invited,
  { token, mail }: NewToken,
  audit: (id: string) => AuditEntry,
  now: number,
): Promise<InvitationRow | 'full'> {
  const db = drizzle(database);
  const id = crypto.randomUUID();
  const row: InvitationRow = {
    ...{ id, organizationId, email, role, createdBy, status: 'PENDING', sends: 1 },
    tokenHash: sha256Hex(token),
    ...{ createdAtMs: now, sentAtMs: now, expiresAtMs: now + LIMIT.invitationMs },
  };
  const isPending = isPendingOf(organizationId, email);
  const hasLeft = hasInvitationsLeft(organizationId, now);
  const isMade = sql`EXISTS (SELECT 1 FROM ${invitations} WHERE ${invitations.id} = ${id})`;
  const [, inserted] = await runBatch(db, [
    db.update(invitations).set({ status: 'REVOKED' }).where(and(isPending, hasLeft)),
    insertIf(db, invitations, row, hasLeft).returning(),
    auditRowIfChanged(db, audit(id), now),
    ...(mail ? [queuedMail(db, mail, isMade)] : []),
  ]);
  return (inserted as InvitationRow[])[0] ?? 'full';
}

/**
 * Changes the pending invitation of an address, whose mailed token stays valid, because the address may get no other mail
 * now. Undefined if there is none.
 */
export async function changePendingInvitation(
  database: D1Database,
  { organizationId, email, role, createdBy }: Invited,
  audit: (id: string) => AuditEntry,
  now: number,
): Promise<InvitationRow | undefined> {
  const db = drizzle(database);
  // The mailed token of one that has expired must not come back.
  const isPending = and(isPendingOf(organizationId, email), gt(invitations.expiresAtMs, now));
  const found = await db.select({ id: invitations.id }).from(invitations).where(isPending).get();
  if (!found) return undefined;
  const [changed] = await runBatch(db, [
    db
      .update(invitations)
      .set({ role, createdBy, expiresAtMs: now + LIMIT.invitationMs })
      .where(and(isPending, eq(invitations.id, found.id)))
      .returning(),
    auditRowIfChanged(db, audit(found.id), now),
  ]);
  return (changed as InvitationRow[])[0];
}

const RANKS = ROLES.map((role, rank) => `WHEN '${role}' THEN ${rank}`).join(' ');
const rankOf = (role: AnyColumn) => sql`CASE ${role} ${sql.raw(RANKS)} END`;

/**
 * Condition: the maker of the invitation could make it now: the operator, a SUPER_ADMIN, or a member whose role includes
 * the invited one [C-15.6].
 */
export const isMakerAble = sql`(${invitations.createdBy} = ${OPERATOR_ID}
  OR EXISTS (SELECT 1 FROM ${users} WHERE ${users.id} = ${invitations.createdBy} AND ${users.superAdmin} = 1)
  OR EXISTS (SELECT 1 FROM ${memberships} WHERE ${memberships.organizationId} = ${invitations.organizationId}
    AND ${memberships.userId} = ${invitations.createdBy} AND ${rankOf(memberships.role)} >= ${rankOf(invitations.role)}))`;

/** The statement that revokes the invitations that a person has made and may not make any more. */
export function endedInvitations(db: DrizzleD1Database, userId: string) {
  return db
    .update(invitations)
    .set({ status: 'REVOKED' })
    .where(and(eq(invitations.createdBy, userId), eq(invitations.status, 'PENDING'), not(isMakerAble)));
}

/**
 * Gives a pending invitation a new token, valid for the full time from now on; the old token becomes invalid. `createdBy`:
 * who sends it.
 */
export async function renewInvitation(
  database: D1Database,
  { organizationId, id, createdBy }: Pick<InvitationRow, 'organizationId' | 'id' | 'createdBy'>,
  { token, mail }: NewToken,
  audit: AuditEntry,
  now: number,
): Promise<InvitationRow | 'gone'> {
  const db = drizzle(database);
  const tokenHash = sha256Hex(token);
  const isRenewed = sql`EXISTS (SELECT 1 FROM ${invitations} WHERE ${invitations.tokenHash} = ${tokenHash})`;
  const [renewed] = await runBatch(db, [
    db
      .update(invitations)
      .set({
        tokenHash,
        createdBy,
        sentAtMs: now,
        sends: sql`${invitations.sends} + 1`,
        expiresAtMs: now + LIMIT.invitationMs,
      })
      .where(and(isOpen(organizationId, id), hasInvitationsLeft(organizationId, now)))
      .returning(),
    auditRowIfChanged(db, audit, now),
    ...(mail ? [queuedMail(db, mail, isRenewed)] : []),
  ]);
  return (renewed as InvitationRow[])[0] ?? 'gone';
}

/** False if there is no such pending invitation. */
export async function revokeInvitation(
  database: D1Database,
  { organizationId, id }: Pick<InvitationRow, 'organizationId' | 'id'>,
  audit: AuditEntry,
  now: number,
): Promise<boolean> {
  const db = drizzle(database);
  const [revoked] = await runBatch(db, [
    db
      .update(invitations)
      .set({ status: 'REVOKED' })
      .where(isOpen(organizationId, id))
      .returning({ id: invitations.id }),
    auditRowIfChanged(db, audit, now),
  ]);
  return !isEmpty(revoked);
}

export async function findInvitation(
  database: D1Database,
  organizationId: string,
  id: string,
): Promise<InvitationRow | undefined> {
  const isMeant = and(eq(invitations.organizationId, organizationId), eq(invitations.id, id));
  return await drizzle(database).select().from(invitations).where(isMeant).get();
}

/** Newest first; only those of `status` if it is given. */
export async function pageInvitations(
  database: D1Database,
  organizationId: string,
  status: InvitationStatus | undefined,
  request: PageRequest,
  now: number,
): Promise<FoundPage<InvitationRow>> {
  const db = drizzle(database);
  const isMeant = and(eq(invitations.organizationId, organizationId), hasStatus(status, now));
  const rows = db
    .select()
    .from(invitations)
    .where(isMeant)
    .orderBy(desc(invitations.createdAtMs), desc(invitations.id));
  return await readPage(db, request, rows, countOf(db, invitations, isMeant));
}

export function statusOf({ status, expiresAtMs }: InvitationRow, now: number): InvitationStatus {
  return status === 'PENDING' && expiresAtMs <= now ? 'EXPIRED' : status;
}

export function invitationRecordOf(row: InvitationRow, now: number): InvitationRecord {
  const { id, email, role, createdBy, createdAtMs, expiresAtMs } = row;
  const status = statusOf(row, now);
  return { id, email, role, status, createdBy, ...withInstants({ createdAtMs, expiresAtMs }) };
}

/** Deletes up to `most` invitations that ended long ago. */
export async function dropOldInvitations(database: D1Database, now: number, most: number): Promise<void> {
  const db = drizzle(database);
  const over = db
    .select({ id: invitations.id })
    .from(invitations)
    .where(lt(invitations.expiresAtMs, now - ENDED_KEPT_MS))
    .limit(most);
  await db.delete(invitations).where(sql`${invitations.id} IN ${over}`);
}

/** Condition: the invitation is the pending one of this address. */
function isPendingOf(organizationId: string, email: string) {
  return and(
    eq(invitations.organizationId, organizationId),
    eq(invitations.email, email),
    eq(invitations.status, 'PENDING'),
  );
}

/** Condition: the invitation is the organization's, and pending. */
export function isOpen(organizationId: string, id: string) {
  return and(
    eq(invitations.organizationId, organizationId),
    eq(invitations.id, id),
    eq(invitations.status, 'PENDING'),
  );
}

function hasStatus(status: InvitationStatus | undefined, now: number) {
  if (status === undefined) return undefined;
  if (status === 'EXPIRED') return and(eq(invitations.status, 'PENDING'), lte(invitations.expiresAtMs, now));
  if (status === 'PENDING') return and(eq(invitations.status, 'PENDING'), gt(invitations.expiresAtMs, now));
  return eq(invitations.status, status);
}

/** Condition: the invitations of the organization that were last sent within a day were sent less often than it may. */
function hasInvitationsLeft(organizationId: string, now: number): SQL {
  return sql`((SELECT coalesce(sum(sent.sends), 0) FROM invitations AS sent
    WHERE sent.organization_id = ${organizationId} AND sent.sent_at_ms > ${now - DAY_MS})
    < ${ceilingIn(organizationId, 'invitationsPerDay')})`;
}
