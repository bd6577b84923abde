/**
 * Failed logins by e-mail address, registered or not [C-1.4]. An attempt is counted before its password is
 * checked, so that parallel attempts cannot bypass the limit.
 */
import { lt, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { loginFailures } from '../../migrations/schema.ts';
import { LIMIT } from '../../protocol/limits.ts';

/**
 * Counts one attempt. If the account is locked, returns how long. The lock starts with the tenth failure;
 * further attempts do not extend it.
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

/** Deletes up to `most` expired rows. Clients can invent e-mail addresses, so the table would grow. */
export async function dropOldFailures(database: D1Database, now: number, most: number): Promise<void> {
  const db = drizzle(database);
  const over = db
    .select({ email: loginFailures.email })
    .from(loginFailures)
    .where(lt(loginFailures.firstAtMs, now - LIMIT.wrongLoginsMs))
    .limit(most);
  await db.delete(loginFailures).where(sql`${loginFailures.email} IN ${over}`);
}
