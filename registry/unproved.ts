/** Accounts that never proved their address: they end after seven days, or when the operator gives the address back [C-14.1]. */
import { and, eq, isNull, lte, sql } from 'drizzle-orm';
import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1';
import type { SQLiteColumn } from 'drizzle-orm/sqlite-core';
import { LIMIT } from '../protocol/limits.ts';
import { auditRowIfChanged } from './audit-events.ts';
import { isAmong, isEmpty, runBatch, type Statement } from './d1.ts';
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
  supportSessions,
  users,
} from './schema.ts';
import type { UserRow } from './users.ts';

/**
 * Deletes up to `most` accounts that never proved their address, with the organizations in which they are
 * alone: such an account cannot have used its organization. If they were kept, the owners of the address and
 * of the slug could not register.
 */
export async function dropUnproved(database: D1Database, now: number, most: number): Promise<void> {
  const db = drizzle(database);
  const over = await db
    .select({ id: users.id })
    .from(users)
    .where(and(isNull(users.provedAtMs), lte(users.createdAtMs, now - LIMIT.unprovedAccountMs)))
    // In random order, so that an account that cannot be deleted does not block the others.
    .orderBy(sql`random()`)
    .limit(most);
  if (over.length === 0) return;
  await removeUnproved(
    db,
    over.map(({ id }) => id),
  );
}

/**
 * Gives an address back: deletes the account that a stranger registered with it and has not proved, as `dropUnproved`
 * does after seven days. False if the account has proved its address in the meantime.
 */
export async function releaseUser(
  database: D1Database,
  { id, email: address }: Pick<UserRow, 'id' | 'email'>,
  audit: AuditEntry,
  now: number,
): Promise<boolean> {
  const db = drizzle(database);
  const results = await removeUnproved(db, [id], [auditRowIfChanged(db, audit, now)]);
  if (isEmpty(results.at(-2))) return false;
  await runBatch(db, [
    db.delete(mails).where(eq(mails.userId, id)),
    db.delete(loginFailures).where(eq(loginFailures.email, address)),
    endedInvitations(db, id),
  ]);
  return true;
}

/** Deletes accounts that are still unproved, and the organizations that nobody else is in. The last result: the users. */
async function removeUnproved(
  db: DrizzleD1Database,
  ids: readonly string[],
  further: readonly Statement[] = [],
): Promise<unknown[]> {
  const isOver = (column: SQLiteColumn) =>
    and(
      isAmong(column, ids),
      sql`EXISTS (SELECT 1 FROM ${users} WHERE ${users.id} = ${column} AND ${users.provedAtMs} IS NULL)`,
    );
  const own = await db
    .select({ id: memberships.organizationId })
    .from(memberships)
    .where(isOver(memberships.userId));
  const isIn = (column: SQLiteColumn) =>
    isAmong(
      column,
      own.map(({ id }) => id),
    );
  const isEmptyOf = (column: SQLiteColumn) =>
    sql`NOT EXISTS (SELECT 1 FROM ${memberships} WHERE ${memberships.organizationId} = ${column})`;
  return await runBatch(db, [
    db.delete(accountTokens).where(isOver(accountTokens.userId)),
    db.delete(sessions).where(isOver(sessions.userId)),
    db.delete(memberships).where(isOver(memberships.userId)),
    db
      .delete(auditEvents)
      .where(and(isIn(auditEvents.organizationId), isEmptyOf(auditEvents.organizationId))),
    ...[supportSessions, invitations].map((table) =>
      db.delete(table).where(and(isIn(table.organizationId), isEmptyOf(table.organizationId))),
    ),
    db.delete(organizations).where(and(isIn(organizations.id), isEmptyOf(organizations.id))),
    db
      .delete(users)
      .where(and(isAmong(users.id, ids), isNull(users.provedAtMs)))
      .returning({ id: users.id }),
    ...further,
  ]);
}
