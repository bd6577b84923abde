/** The outbox of mail in D1 [C-11.1]: a mail stays until it is sent or given up. */
import { and, eq, gt, lte, type SQL, sql } from 'drizzle-orm';
import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1';
import { sha256Hex } from '../durable-objects/secrets/hmac.ts';
import { LIMIT } from '../protocol/limits.ts';
import { auditRow } from './audit-events.ts';
import { areFewer, isAmong, runBatch, type Statement } from './d1.ts';
import type { AuditEntry } from './entries.ts';
import { insertIf } from './insert-if.ts';
import { mailShares, mails } from './schema.ts';

export type MailRow = typeof mails.$inferSelect;

/** The most waiting mails; above it no mail is queued. */
const MOST_WAITING = 10_000;
/** The most waiting mails to one domain, of those that people cause: one domain cannot fill the queue [C-15.5]. */
const MOST_OF_LANE = MOST_WAITING / 4;
/** The lane of mails that no request of a person causes: it has no share. */
export const NO_LANE = '';
/** Room that is kept for requests at the same time: who saw room a moment ago finds some. */
const SPARE = 25;
/**
 * How long a mail is reserved for the request that sends it. If that request is interrupted, the mail is
 * tried again after this time.
 */
const CLAIM_MS = 2 * 60_000;
/** Mails of a day that only resets of a password and proofs of the address may use: invitations must not use up all. */
const KEPT_A_DAY = 3;
const HOUR_MS = 60 * 60_000;
const DAY_MS = 24 * HOUR_MS;

/** Whether the queue has room for a mail in each of these lanes. */
export async function hasRoom(database: D1Database, lanes: readonly string[]): Promise<boolean> {
  const counts = await drizzle(database).get<{ total: number; ofLane: number }>(sql`
    SELECT (SELECT count(*) FROM ${mails}) AS total, coalesce(max(waiting), 0) AS ofLane FROM (
      SELECT count(*) AS waiting FROM ${mails} WHERE ${isAmong(mails.lane, lanes)} GROUP BY ${mails.lane})`);
  return counts.total < MOST_WAITING - SPARE && counts.ofLane < MOST_OF_LANE - SPARE;
}

/**
 * The statement that queues a mail; it belongs in the same batch as the change that the mail is about. `only`: a
 * condition for it.
 */
export function queuedMail(db: DrizzleD1Database, mail: MailRow, only: SQL = sql`TRUE`): Statement {
  const hasRoom = areFewer(mails, undefined, MOST_WAITING);
  const ofLane = areFewer(mails, eq(mails.lane, mail.lane), MOST_OF_LANE);
  const isFree = mail.lane === NO_LANE ? hasRoom : sql`${hasRoom} AND ${ofLane}`;
  return insertIf(db, mails, mail, sql`${isFree} AND ${only}`).returning({ id: mails.id });
}

/** The statements that queue all of these mails, or none if the queue has no room for them. */
export function queuedTogether(
  db: DrizzleD1Database,
  all: readonly MailRow[],
  only: SQL = sql`TRUE`,
): Statement[] {
  return all.map((mail, index) => {
    const left = all.length - index;
    return queuedMail(
      db,
      mail,
      sql`${only} AND (SELECT count(*) FROM ${mails}) + ${left} <= ${MOST_WAITING}`,
    );
  });
}

/** The condition of a later statement that the mails of `queuedTogether` are in the queue. */
export function areQueued(all: readonly MailRow[]): SQL {
  const last = all.at(-1);
  if (!last) return sql`TRUE`;
  return sql`EXISTS (SELECT 1 FROM ${mails} WHERE ${mails.id} = ${last.id})`;
}

/**
 * Takes one of the mails that an address may get because of requests that not only its owner can make [C-15.5]. False if
 * it has had as many as it may. `isOwn`: about the account that has the address.
 */
export async function takeShare(
  database: D1Database,
  address: string,
  isOwn: boolean,
  now: number,
): Promise<boolean> {
  const hash = sha256Hex(address.toLowerCase());
  const fewer = (ms: number, most: number) =>
    areFewer(mailShares, and(eq(mailShares.address, hash), gt(mailShares.atMs, now - ms)), most);
  const kept = isOwn ? 0 : KEPT_A_DAY;
  const hasLeft = sql`${fewer(HOUR_MS, LIMIT.mailsPerHour)} AND ${fewer(DAY_MS, LIMIT.mailsPerDay - kept)}`;
  const share = { id: crypto.randomUUID(), address: hash, atMs: now };
  const taken = await insertIf(drizzle(database), mailShares, share, hasLeft).returning({
    id: mailShares.id,
  });
  return taken.length > 0;
}

/** Deletes up to `most` shares that are too old to count. */
export async function dropOldShares(database: D1Database, now: number, most: number): Promise<void> {
  const db = drizzle(database);
  const over = db
    .select({ id: mailShares.id })
    .from(mailShares)
    .where(lte(mailShares.atMs, now - DAY_MS))
    .limit(most);
  await db.delete(mailShares).where(sql`${mailShares.id} IN ${over}`);
}

/** The ids of up to `most` due mails. The lanes take turns: the oldest mail of each comes before the second one of any. */
export async function dueMails(database: D1Database, now: number, most: number): Promise<string[]> {
  const rows = await drizzle(database).all<{ id: string }>(sql`
    SELECT id FROM (SELECT id, due_at_ms, row_number() OVER (PARTITION BY lane ORDER BY due_at_ms) AS place
      FROM ${mails} WHERE due_at_ms <= ${now}) ORDER BY place, due_at_ms LIMIT ${most}`);
  return rows.map(({ id }) => id);
}

/** Reserves a mail for the caller and returns it; undefined if another caller has reserved or sent it. */
export async function claimMail(database: D1Database, id: string, now: number): Promise<MailRow | undefined> {
  const [row] = await drizzle(database)
    .update(mails)
    .set({ dueAtMs: now + CLAIM_MS })
    .where(and(eq(mails.id, id), lte(mails.dueAtMs, now)))
    .returning();
  return row;
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
