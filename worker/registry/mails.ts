/** The outbox of mail in D1 [C-11.1]: a mail stays until it is sent or given up. */
import { and, asc, eq, lte, type SQL, sql } from 'drizzle-orm';
import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1';
import { auditRow } from '../../durable-objects/registry/audit-events.ts';
import type { AuditEntry } from '../../durable-objects/registry/entries.ts';
import { mails } from '../../migrations/schema.ts';
import { runBatch, type Statement } from './d1.ts';

export type MailRow = typeof mails.$inferSelect;

/** Maximum number of waiting mails; above it no mail is queued. */
const MAX_WAITING = 10_000;
/**
 * How long a mail is reserved for the request that sends it. If that request is interrupted, the mail is
 * tried again after this time.
 */
const CLAIM_MS = 2 * 60_000;

/**
 * The statement that queues a mail; it belongs in the same batch as the change that the mail is about. `only`: a
 * condition for it.
 */
export function queuedMail(db: DrizzleD1Database, mail: MailRow, only: SQL = sql`TRUE`): Statement {
  const { id, kind, sealed, organizationId, userId, failures, dueAtMs, createdAtMs } = mail;
  // In the order of the schema's columns, as Drizzle requires.
  return db
    .insert(mails)
    .select(sql`SELECT ${id}, ${kind}, ${sealed}, ${organizationId}, ${userId}, ${failures},
    ${dueAtMs}, ${createdAtMs} WHERE (SELECT count(*) FROM ${mails}) < ${MAX_WAITING} AND ${only}`);
}

/** Reserves up to `most` due mails for the caller and returns them. */
export async function claimMails(database: D1Database, now: number, most: number): Promise<MailRow[]> {
  const db = drizzle(database);
  const due = db
    .select({ id: mails.id })
    .from(mails)
    .where(lte(mails.dueAtMs, now))
    .orderBy(asc(mails.dueAtMs))
    .limit(most);
  return await db
    .update(mails)
    .set({ dueAtMs: now + CLAIM_MS })
    .where(and(lte(mails.dueAtMs, now), sql`${mails.id} IN ${due}`))
    .returning();
}

/** Deletes a mail that was sent. */
export async function dropMail(database: D1Database, id: string): Promise<void> {
  await drizzle(database).delete(mails).where(eq(mails.id, id));
}

/** Called after a failed try: sets the time of the next one. */
export async function postponeMail(database: D1Database, id: string, dueAtMs: number): Promise<void> {
  await drizzle(database)
    .update(mails)
    .set({ dueAtMs, failures: sql`${mails.failures} + 1` })
    .where(eq(mails.id, id));
}

/** Called after the last failed try: deletes the mail and writes an audit event. */
export async function giveUpMail(
  database: D1Database,
  id: string,
  audit: AuditEntry,
  now: number,
): Promise<void> {
  const db = drizzle(database);
  await runBatch(db, [
    db.delete(mails).where(eq(mails.id, id)),
    auditRow(db, audit, now, `mail.undeliverable|${id}`),
  ]);
}
