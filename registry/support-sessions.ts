/**
 * Support sessions in D1: for an hour the operator can read an organization's data, and the organization's
 * list shows the session.
 */
import { and, desc, eq, gt, lt, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { sha256Hex } from '../durable-objects/secrets/hmac.ts';
import type { FoundPage, PageRequest } from '../protocol/page.ts';
import type { SupportSession } from '../protocol/support.ts';
import { auditRow, auditRowIfChanged } from './audit-events.ts';
import { countOf, isEmpty, readPage, runBatch, withInstants } from './d1.ts';
import type { AuditEntry } from './entries.ts';
import { organizations, supportSessions } from './schema.ts';

type SupportSessionRow = typeof supportSessions.$inferSelect;

/** How long ended sessions stay in the list. */
const ENDED_KEPT_MS = 400 * 86_400_000;

export async function startSupport(
  database: D1Database,
  session: { id: string; organizationId: string; token: string; reason: string; expiresAtMs: number },
  audit: AuditEntry,
  now: number,
): Promise<void> {
  const { token, ...columns } = session;
  const db = drizzle(database);
  await runBatch(db, [
    db.insert(supportSessions).values({ ...columns, tokenHash: sha256Hex(token), createdAtMs: now }),
    auditRow(db, audit, now),
  ]);
}

/** The session with this token and its organization; undefined if it is unknown or has ended. */
export async function findSupport(
  database: D1Database,
  token: string,
  now: number,
): Promise<{ id: string; organizationId: string; slug: string } | undefined> {
  return await drizzle(database)
    .select({
      id: supportSessions.id,
      organizationId: supportSessions.organizationId,
      slug: organizations.slug,
    })
    .from(supportSessions)
    .innerJoin(organizations, eq(organizations.id, supportSessions.organizationId))
    .where(and(eq(supportSessions.tokenHash, sha256Hex(token)), gt(supportSessions.expiresAtMs, now)))
    .get();
}

/** Newest first. */
export async function pageSupport(
  database: D1Database,
  organizationId: string,
  request: PageRequest,
): Promise<FoundPage<SupportSessionRow>> {
  const db = drizzle(database);
  const isOwn = eq(supportSessions.organizationId, organizationId);
  const rows = db
    .select()
    .from(supportSessions)
    .where(isOwn)
    .orderBy(desc(supportSessions.createdAtMs), desc(supportSessions.id));
  return await readPage(db, request, rows, countOf(db, supportSessions, isOwn));
}

/** False if the organization has no such session, or it has ended already. */
export async function endSupport(
  database: D1Database,
  organizationId: string,
  id: string,
  audit: AuditEntry,
  now: number,
): Promise<boolean> {
  const db = drizzle(database);
  const isLive = and(
    eq(supportSessions.id, id),
    eq(supportSessions.organizationId, organizationId),
    gt(supportSessions.expiresAtMs, now),
  );
  const [ended] = await runBatch(db, [
    db.update(supportSessions).set({ expiresAtMs: now }).where(isLive).returning({ id: supportSessions.id }),
    auditRowIfChanged(db, audit, now),
  ]);
  return !isEmpty(ended);
}

/** Deletes up to `most` sessions that ended long ago. */
export async function dropOldSupport(database: D1Database, now: number, most: number): Promise<void> {
  const db = drizzle(database);
  const over = db
    .select({ id: supportSessions.id })
    .from(supportSessions)
    .where(lt(supportSessions.expiresAtMs, now - ENDED_KEPT_MS))
    .limit(most);
  await db.delete(supportSessions).where(sql`${supportSessions.id} IN ${over}`);
}

export function supportSessionOf(row: SupportSessionRow, now: number): SupportSession {
  const { id, reason, createdAtMs, expiresAtMs } = row;
  return { id, reason, ...withInstants({ createdAtMs, expiresAtMs }), isActive: expiresAtMs > now };
}
