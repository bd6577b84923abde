/**
 * Deletes a user's account: deletes all personal data; audit events keep only the user's id. The row stays,
 * without name and address, because API keys refer to the user who created them.
 */
import { and, eq, isNotNull, or, type SQL, sql } from 'drizzle-orm';
import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1';
import { auditRow } from './audit-events.ts';
import { runBatch } from './d1.ts';
import type { AuditEntry } from './entries.ts';
import { endedInvitations } from './invitations.ts';
import {
  accountTokens,
  auditEvents,
  invitations,
  loginFailures,
  mails,
  memberships,
  organizations,
  sessions,
  users,
} from './schema.ts';
import type { UserRow } from './users.ts';

const ROWS_PER_STATEMENT = 5_000;
const MAX_STATEMENTS = 200;
const MAX_ADDRESSES = 100;

/** The slugs of the organizations whose only ORG_ADMIN the user is. */
export async function onlyAdminOf(database: D1Database, userId: string): Promise<string[]> {
  const rows = await drizzle(database)
    .select({ slug: organizations.slug })
    .from(memberships)
    .innerJoin(organizations, eq(organizations.id, memberships.organizationId))
    .where(
      and(
        eq(memberships.userId, userId),
        eq(memberships.role, 'ORG_ADMIN'),
        sql`NOT EXISTS (SELECT 1 FROM memberships AS other WHERE other.organization_id = ${memberships.organizationId}
          AND other.user_id <> ${userId} AND other.role = 'ORG_ADMIN')`,
      ),
    );
  return rows.map(({ slug }) => slug);
}

/**
 * Deletes a user. When this returns, all sessions of the user have ended. If it fails, the caller may repeat
 * it, because the address, by which rows are found, is replaced only with the last statements.
 */
export async function deleteUser(
  database: D1Database,
  { id, email }: Pick<UserRow, 'id' | 'email'>,
  audit: AuditEntry,
  now: number,
): Promise<void> {
  const db = drizzle(database);
  await removeFromAudit(database, id, email);
  const own = await db
    .select({ organizationId: memberships.organizationId })
    .from(memberships)
    .where(eq(memberships.userId, id));
  await runBatch(db, [
    db.delete(sessions).where(eq(sessions.userId, id)),
    db.delete(accountTokens).where(eq(accountTokens.userId, id)),
    db.delete(memberships).where(eq(memberships.userId, id)),
    db.delete(mails).where(eq(mails.userId, id)),
    db.delete(invitations).where(eq(invitations.email, email)),
    db.delete(loginFailures).where(eq(loginFailures.email, email)),
    db
      .update(users)
      .set({
        // A random address and not one made from the user's id: others may know the id, and could register
        // such an address before.
        email: `${crypto.randomUUID()}@deleted.invalid`,
        name: 'Deleted user',
        passwordHash: null,
        superAdmin: false,
        tokenVersion: sql`${users.tokenVersion} + 1`,
        lastLoginAtMs: null,
        // Without this time housekeeping would delete the row as an account that never proved its address.
        provedAtMs: sql`coalesce(${users.provedAtMs}, ${now})`,
        deletedAtMs: now,
      })
      .where(eq(users.id, id)),
    endedInvitations(db, id),
    ...[null, ...own.map(({ organizationId }) => organizationId)].map((organizationId) =>
      auditRow(db, { ...audit, organizationId }, now, `user.deleted|${id}|${organizationId}`),
    ),
  ]);
  // Again, for rows that were written since the first call.
  await removeFromAudit(database, id, email);
}

/** Removes client addresses of what the user did, and the user's present and earlier e-mail addresses from all details. */
async function removeFromAudit(database: D1Database, userId: string, email: string): Promise<void> {
  const db = drizzle(database);
  const isOwn = eq(auditEvents.actor, userId);
  const earlier = await db
    .select({ email: sql<string>`"details" ->> '$.previousEmail'` })
    .from(auditEvents)
    .where(and(isOwn, eq(auditEvents.event, 'user.email_changed')))
    .limit(MAX_ADDRESSES);
  const emails = [email, ...earlier.map((row) => row.email).filter((text) => text !== null)];
  for (const one of emails) await removeAll(db, sql`("details" ->> '$.email') = ${one}`, userId);
  const isPersonal = or(
    isNotNull(auditEvents.address),
    sql`("details" ->> '$.previousEmail') IS NOT NULL`,
    sql`("details" -> '$.earlier') IS NOT NULL`,
  );
  await removeAll(db, and(isOwn, isPersonal), userId);
}

/** Removes personal data from all rows with this condition. Rows of other actors keep their client address. */
async function removeAll(db: DrizzleD1Database, condition: SQL | undefined, userId: string): Promise<void> {
  const some = db.select({ id: auditEvents.id }).from(auditEvents).where(condition).limit(ROWS_PER_STATEMENT);
  for (let statement = 0; statement < MAX_STATEMENTS; statement++) {
    const { meta } = await db
      .update(auditEvents)
      .set({
        address: sql`iif(${auditEvents.actor} = ${userId}, NULL, ${auditEvents.address})`,
        // `earlier` and `address` are removed, too, because they may contain further client addresses of
        // equal events.
        details: sql`json_remove(${auditEvents.details}, '$.email', '$.previousEmail', '$.earlier', '$.address')`,
      })
      .where(sql`${auditEvents.id} IN ${some}`);
    if (meta.changes < ROWS_PER_STATEMENT) return;
  }
  throw new Error(
    'the user has more audit events than one request may change: delete the user again to continue',
  );
}
