/**
 * Deletes a user's account: everything personal goes, and audit events keep only the id. The row stays without a name and
 * an address, because keys name their maker.
 */
import { and, eq, isNotNull, or, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { auditRow } from '../../durable-objects/registry/audit-events.ts';
import type { AuditEntry } from '../../durable-objects/registry/entries.ts';
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
} from '../../migrations/schema.ts';
import { runBatch } from './d1.ts';
import type { UserRow } from './users.ts';

const ROWS_PER_STATEMENT = 5_000;
const MAX_STATEMENTS = 200;

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

/** All sessions of the user are dead when this returns. May be repeated. */
export async function deleteUser(
  database: D1Database,
  { id, email }: Pick<UserRow, 'id' | 'email'>,
  audit: AuditEntry,
  now: number,
): Promise<void> {
  const db = drizzle(database);
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
        email: `${id}@deleted.invalid`,
        name: 'Deleted user',
        passwordHash: null,
        superAdmin: false,
        tokenVersion: sql`${users.tokenVersion} + 1`,
        lastLoginAtMs: null,
        // An account that never proved its address would be dropped with its row.
        provedAtMs: sql`coalesce(${users.provedAtMs}, ${now})`,
        deletedAtMs: now,
      })
      .where(eq(users.id, id)),
    auditRow(db, audit, now, `user.deleted|${id}`),
  ]);
  await removeFromAudit(database, id, email);
}

/** Removes client addresses of what the user did, and the e-mail address from all details. */
async function removeFromAudit(database: D1Database, userId: string, email: string): Promise<void> {
  const db = drizzle(database);
  const isPersonal = or(
    and(
      eq(auditEvents.actor, userId),
      or(isNotNull(auditEvents.address), sql`("details" ->> '$.previousEmail') IS NOT NULL`),
    ),
    sql`("details" ->> '$.email') = ${email}`,
  );
  const some = db
    .select({ id: auditEvents.id })
    .from(auditEvents)
    .where(isPersonal)
    .limit(ROWS_PER_STATEMENT);
  for (let statement = 0; statement < MAX_STATEMENTS; statement++) {
    const { meta } = await db
      .update(auditEvents)
      .set({
        address: sql`iif(${auditEvents.actor} = ${userId}, NULL, ${auditEvents.address})`,
        details: sql`json_remove(${auditEvents.details}, '$.email', '$.previousEmail')`,
      })
      .where(sql`${auditEvents.id} IN ${some}`);
    if (meta.changes < ROWS_PER_STATEMENT) return;
  }
  throw new Error('more audit events than one request may change: delete the user again');
}
