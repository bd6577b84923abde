/** Which people may still read the streams that they have opened [C-15.4]. */
import { and, eq, gt, isNull } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import type { Watcher } from '../durable-objects/watches-rpc.ts';
import { memberships, organizations, sessions, supportSessions } from './schema.ts';

/** Reads the live sessions and memberships of one person, or a support session, and returns who may go on. */
export async function mayWatch(
  database: D1Database,
  [one]: readonly Watcher[],
  now: number,
): Promise<(watcher: Watcher) => boolean> {
  if (!one) return () => false;
  return one.kind === 'user'
    ? await mayUserWatch(database, one.id, now)
    : await maySupport(database, one.id, now);
}

async function mayUserWatch(database: D1Database, userId: string, now: number) {
  const db = drizzle(database);
  const isLive = and(
    eq(sessions.userId, userId),
    isNull(sessions.revokedAtMs),
    gt(sessions.expiresAtMs, now),
  );
  const [live, own] = await db.batch([
    db.select({ id: sessions.id }).from(sessions).where(isLive),
    db
      .select({ id: organizations.id })
      .from(memberships)
      .innerJoin(organizations, eq(organizations.id, memberships.organizationId))
      .where(and(eq(memberships.userId, userId), isNull(organizations.suspendedAtMs))),
  ]);
  const [sessionIds, organizationIds] = [idsOf(live), idsOf(own)];
  return ({ sessionId, organizationId }: Watcher) =>
    sessionIds.has(sessionId) && organizationIds.has(organizationId);
}

async function maySupport(database: D1Database, id: string, now: number) {
  const isLive = and(eq(supportSessions.id, id), gt(supportSessions.expiresAtMs, now));
  const found = await drizzle(database)
    .select({ id: supportSessions.id })
    .from(supportSessions)
    .where(isLive);
  return ({ sessionId }: Watcher) => idsOf(found).has(sessionId);
}

function idsOf(rows: readonly { id: string }[]): ReadonlySet<string> {
  return new Set(rows.map(({ id }) => id));
}
