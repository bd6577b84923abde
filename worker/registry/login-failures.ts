/** Wrong logins, by e-mail, known or not [C-1.4]: each attempt counts before it is judged, so none slips by in parallel. */
import { lt, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { loginFailures } from '../../migrations/schema.ts';
import { LIMIT } from '../../protocol/limits.ts';

/**
 * Counts one attempt. When it may not be judged: how long until one may be. The lock begins with the tenth wrong one, and
 * knocking does not prolong it.
 */
export async function countAttempt(
  database: D1Database,
  email: string,
  now: number,
): Promise<{ lockedMs: number } | undefined> {
  const isOver = sql`${loginFailures.firstAtMs} <= ${now - LIMIT.wrongLoginsMs}`;
  const isLast = sql`${loginFailures.failures} + 1 = ${LIMIT.wrongLogins}`;
  const [row] = await drizzle(database)
    .insert(loginFailures)
    .values({ email, failures: 1, firstAtMs: now })
    .onConflictDoUpdate({
      target: loginFailures.email,
      set: {
        failures: sql`CASE WHEN ${isOver} THEN 1 ELSE ${loginFailures.failures} + 1 END`,
        firstAtMs: sql`CASE WHEN ${isOver} OR ${isLast} THEN ${now} ELSE ${loginFailures.firstAtMs} END`,
      },
    })
    .returning({ failures: loginFailures.failures, firstAtMs: loginFailures.firstAtMs });
  if (!row || row.failures <= LIMIT.wrongLogins) return undefined;
  return { lockedMs: row.firstAtMs + LIMIT.wrongLoginsMs - now };
}

/** Clears away so many of those whose time is over: e-mails are anybody's to make up. */
export async function dropOldFailures(database: D1Database, now: number, most: number): Promise<void> {
  const db = drizzle(database);
  const over = db
    .select({ email: loginFailures.email })
    .from(loginFailures)
    .where(lt(loginFailures.firstAtMs, now - LIMIT.wrongLoginsMs))
    .limit(most);
  await db.delete(loginFailures).where(sql`${loginFailures.email} IN ${over}`);
}
