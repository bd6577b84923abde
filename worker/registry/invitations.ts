/** Invitations in D1 [C-11.2]. A token is stored only as its SHA-256, and can be used once. */
import { and, desc, eq, gt, lt, lte, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { auditRow, auditRowIfChanged } from '../../durable-objects/registry/audit-events.ts';
import type { AuditEntry } from '../../durable-objects/registry/entries.ts';
import { sha256Hex } from '../../durable-objects/secrets/hmac.ts';
import { invitations, memberships, users } from '../../migrations/schema.ts';
import type { Role } from '../../protocol/enums.ts';
import { formatInstant } from '../../protocol/ids.ts';
import type { InvitationRecord, InvitationStatus } from '../../protocol/invitation.ts';
import { LIMIT } from '../../protocol/limits.ts';
import type { FoundPage, PageRequest } from '../../protocol/page.ts';
import { countOf, isEmpty, readPage, runBatch } from './d1.ts';
import { type MailRow, queuedMail } from './mails.ts';
import { ceilingOf } from './organizations.ts';

export type InvitationRow = typeof invitations.$inferSelect;

const DAY_MS = 86_400_000;
/** How long ended invitations are shown. */
const ENDED_KEPT_MS = 30 * DAY_MS;

export interface Invited {
  organizationId: string;
  email: string;
  role: Role;
  createdBy: string;
}

/**
 * Creates an invitation; a pending one of the same address is revoked. `member`: the address is a member already;
 * `full`: the organization has sent as many within a day as it may.
 */
export async function createInvitation(
  database: D1Database,
  { organizationId, email, role, createdBy }: Invited,
  token: string,
  mail: MailRow | undefined,
  audit: (id: string) => AuditEntry,
  now: number,
): Promise<InvitationRow | 'member' | 'full'> {
  const db = drizzle(database);
  const isMember = and(
    eq(memberships.organizationId, organizationId),
    eq(memberships.userId, sql`(SELECT ${users.id} FROM ${users} WHERE ${users.email} = ${email})`),
  );
  const [[member], sent] = await db.batch([
    countOf(db, memberships, isMember),
    sentToday(db, organizationId, now),
  ]);
  if ((member?.total ?? 0) > 0) return 'member';
  if ((sent[0]?.total ?? 0) >= (await ceilingOf(database, organizationId, 'invitationsPerDay')))
    return 'full';
  const row: InvitationRow = {
    id: crypto.randomUUID(),
    organizationId,
    email,
    role,
    tokenHash: sha256Hex(token),
    status: 'PENDING',
    createdBy,
    createdAtMs: now,
    sentAtMs: now,
    sends: 1,
    expiresAtMs: now + LIMIT.invitationMs,
  };
  const isPending = and(
    eq(invitations.organizationId, organizationId),
    eq(invitations.email, email),
    eq(invitations.status, 'PENDING'),
  );
  await runBatch(db, [
    db.update(invitations).set({ status: 'REVOKED' }).where(isPending),
    db.insert(invitations).values(row),
    auditRow(db, audit(row.id), now),
    ...(mail ? [queuedMail(db, mail)] : []),
  ]);
  return row;
}

/** Gives a pending invitation a new token, valid for the full time from now on; the old token becomes invalid. */
export async function renewInvitation(
  database: D1Database,
  { organizationId, id }: Pick<InvitationRow, 'organizationId' | 'id'>,
  token: string,
  mail: MailRow | undefined,
  audit: AuditEntry,
  now: number,
): Promise<InvitationRow | 'gone' | 'full'> {
  const db = drizzle(database);
  const [sent] = await sentToday(db, organizationId, now);
  if ((sent?.total ?? 0) >= (await ceilingOf(database, organizationId, 'invitationsPerDay'))) return 'full';
  const [renewed] = await runBatch(db, [
    db
      .update(invitations)
      .set({
        tokenHash: sha256Hex(token),
        sentAtMs: now,
        sends: sql`${invitations.sends} + 1`,
        expiresAtMs: now + LIMIT.invitationMs,
      })
      .where(isOpen(organizationId, id))
      .returning(),
    auditRowIfChanged(db, audit, now),
    ...(mail ? [queuedMail(db, mail)] : []),
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
  const { id, email, role, createdBy } = row;
  return {
    id,
    email,
    role,
    status: statusOf(row, now),
    expiresAt: formatInstant(row.expiresAtMs),
    createdBy,
    createdAt: formatInstant(row.createdAtMs),
  };
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

/** How often invitations of the organization that were last sent within a day were sent. */
function sentToday(db: ReturnType<typeof drizzle>, organizationId: string, now: number) {
  return db
    .select({ total: sql<number>`coalesce(sum(${invitations.sends}), 0)` })
    .from(invitations)
    .where(and(eq(invitations.organizationId, organizationId), gt(invitations.sentAtMs, now - DAY_MS)));
}
