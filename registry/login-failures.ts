/**
 * Failed logins by e-mail address, registered or not, and client network [C-14.4]: a stranger who guesses from one
 * network locks only that network out. Attempts from all networks are counted, too, and lock at a higher number. A
 * check of the password inside a session counts for the session only. An attempt is counted before its
 * password is checked, so that parallel attempts cannot bypass the limit.
 */
import { and, eq, inArray, lt, sql } from 'drizzle-orm';
import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1';
import { LIMIT } from '../protocol/limits.ts';
import { loginFailures } from './schema.ts';

/** Stored as the network of the count of attempts from all networks. */
const EVERYWHERE = '*';

/** How often the e-mail address was tried in the present window, this attempt included, and when the window ends. */
export interface Attempts {
  here: number;
  everywhere: number;
  hereEndsMs: number;
  everywhereEndsMs: number;
}

/**
 * Counts one attempt. The time of a lock starts with the last allowed attempt; later attempts do not extend
 * it.
 */
export async function countAttempt(
  database: D1Database,
  { email, network }: { email: string; network: string },
  now: number,
): Promise<Attempts> {
  const [here, [everywhere]] = await Promise.all([
    countHere(database, { email, network }, now),
    counted(drizzle(database), email, EVERYWHERE, LIMIT.wrongLoginsEverywhere, now),
  ]);
  if (!everywhere) throw new Error('D1 returned no count for a login attempt');
  const everywhereEndsMs = everywhere.firstAtMs + LIMIT.wrongLoginsMs;
  return { ...here, everywhere: everywhere.failures, everywhereEndsMs };
}

/** Counts one attempt from this network only, and not among those from all networks. */
export async function countHere(
  database: D1Database,
  { email, network }: { email: string; network: string },
  now: number,
): Promise<Pick<Attempts, 'here' | 'hereEndsMs'>> {
  const [here] = await counted(drizzle(database), email, network, LIMIT.wrongLogins, now);
  if (!here) throw new Error('D1 returned no count for a login attempt');
  return { here: here.failures, hereEndsMs: here.firstAtMs + LIMIT.wrongLoginsMs };
}

function counted(db: DrizzleD1Database, email: string, network: string, most: number, now: number) {
  const isOver = sql`${loginFailures.firstAtMs} <= ${now - LIMIT.wrongLoginsMs}`;
  const isLast = sql`${loginFailures.failures} + 1 = ${most}`;
  return db
    .insert(loginFailures)
    .values({ email, network, failures: 1, firstAtMs: now })
    .onConflictDoUpdate({
      target: [loginFailures.email, loginFailures.network],
      set: {
        failures: sql`CASE WHEN ${isOver} THEN 1 ELSE ${loginFailures.failures} + 1 END`,
        firstAtMs: sql`CASE WHEN ${isOver} OR ${isLast} THEN ${now} ELSE ${loginFailures.firstAtMs} END`,
      },
    })
    .returning({ failures: loginFailures.failures, firstAtMs: loginFailures.firstAtMs });
}

/**
 * The statement that deletes counts after a correct password: the count of its network, and the count of all
 * networks.
 */
export function forgetAttempts(db: DrizzleD1Database, email: string, network: string) {
  return db
    .delete(loginFailures)
    .where(and(eq(loginFailures.email, email), inArray(loginFailures.network, [network, EVERYWHERE])));
}

/** Deletes the count of one network. */
export async function dropAttempts(database: D1Database, email: string, network: string): Promise<void> {
  await drizzle(database)
    .delete(loginFailures)
    .where(and(eq(loginFailures.email, email), eq(loginFailures.network, network)));
}

/** The statement that lifts every lock of an address. */
export function forgetAllAttempts(db: DrizzleD1Database, email: string) {
  return db.delete(loginFailures).where(eq(loginFailures.email, email));
}

/** Deletes up to `most` counts whose window is over. */
export async function dropOldFailures(database: D1Database, now: number, most: number): Promise<void> {
  const db = drizzle(database);
  const over = db
    .select({ rowid: sql`rowid` })
    .from(loginFailures)
    .where(lt(loginFailures.firstAtMs, now - LIMIT.wrongLoginsMs))
    .limit(most);
  await db.delete(loginFailures).where(sql`rowid IN ${over}`);
}
