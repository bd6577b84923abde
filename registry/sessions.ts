/** User sessions [C-1.4]. Each request looks its session up, so that an ended session is invalid at once. */
import { and, asc, desc, eq, gt, isNull, lt, ne, sql } from 'drizzle-orm';
import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1';
import type { Role } from '../protocol/enums.ts';
import { LIMIT } from '../protocol/limits.ts';
import { isEmpty, preparedOnce, runBatch } from './d1.ts';
import { insertIf } from './insert-if.ts';
import { forgetAttempts } from './login-failures.ts';
import { accountTokens, memberships, organizations, sessions, users } from './schema.ts';
import type { UserRow } from './users.ts';

export type SessionRow = typeof sessions.$inferSelect;

export interface SessionMembership {
  organizationId: string;
  slug: string;
  role: Role;
  settings: Record<string, unknown>;
  ceilings: Record<string, number>;
  /** Null unless the operator has suspended the organization. */
  suspendedAtMs: number | null;
}

export interface LiveSession {
  user: UserRow;
  memberships: SessionMembership[];
}

/** Reads the user of a session, whether the session is still valid, and the memberships, in one round trip. */
export async function findSession(
  database: D1Database,
  { userId, sessionId }: { userId: string; sessionId: string },
  now: number,
): Promise<(LiveSession & { isLive: boolean }) | undefined> {
  const rows = await sessionIn(database).execute({ userId, sessionId });
  const [first] = rows;
  if (!first) return undefined;
  const { user, expiresAtMs, revokedAtMs } = first;
  return {
    user,
    memberships: rows.flatMap(({ role, organization }) =>
      role !== null && organization !== null ? [{ ...organization, role }] : [],
    ),
    isLive: revokedAtMs === null && expiresAtMs !== null && expiresAtMs > now,
  };
}

/** Each request with a session makes this query: a row for each membership, or one if the user has none. */
const sessionIn = preparedOnce((database) =>
  drizzle(database)
    .select({
      user: users,
      expiresAtMs: sessions.expiresAtMs,
      revokedAtMs: sessions.revokedAtMs,
      role: memberships.role,
      organization: {
        organizationId: organizations.id,
        slug: organizations.slug,
        settings: organizations.settings,
        ceilings: organizations.ceilings,
        suspendedAtMs: organizations.suspendedAtMs,
      },
    })
    .from(users)
    .leftJoin(sessions, and(eq(sessions.userId, users.id), eq(sessions.id, sql.placeholder('sessionId'))))
    .leftJoin(memberships, eq(memberships.userId, users.id))
    .leftJoin(organizations, eq(organizations.id, memberships.organizationId))
    .where(eq(users.id, sql.placeholder('userId')))
    .orderBy(asc(organizations.slug))
    .prepare(),
);

/** Where a session is opened: what a person needs to recognize it in the list of their sessions. */
export interface Place {
  address: string | null;
  userAgent: string | null;
  /** The client's network. A successful login deletes the count of failed attempts from it. */
  network: string;
}

/**
 * Creates the session of a login and stores the login's time. Undefined if the password was changed since it
 * was checked. Over the limit of sessions the oldest are deleted.
 */
export async function openSession(
  database: D1Database,
  { id: userId, tokenVersion, email }: Pick<UserRow, 'id' | 'tokenVersion' | 'email'>,
  { address, userAgent, network }: Place,
  now: number,
): Promise<{ id: string; hasEndedOthers: boolean } | undefined> {
  const db = drizzle(database);
  const id = crypto.randomUUID();
  const isOwn = eq(sessions.userId, userId);
  const isAsJudged = and(eq(users.id, userId), eq(users.tokenVersion, tokenVersion));
  const kept = db
    .select({ id: sessions.id })
    .from(sessions)
    .where(isOwn)
    .orderBy(desc(sessions.createdAtMs), desc(sessions.id))
    .limit(LIMIT.sessionsPerUser);
  const [, opened, ended] = await runBatch(db, [
    insertIf(
      db,
      sessions,
      newSession({ id, userId, address, userAgent }, now),
      sql`EXISTS (SELECT 1 FROM ${users} WHERE ${isAsJudged})`,
    ),
    db.update(users).set({ lastLoginAtMs: now }).where(isAsJudged).returning({ id: users.id }),
    db
      .delete(sessions)
      .where(and(isOwn, sql`${sessions.id} NOT IN ${kept}`))
      .returning({ id: sessions.id }),
    forgetAttempts(db, email, network),
  ]);
  return isEmpty(opened) ? undefined : { id, hasEndedOthers: !isEmpty(ended) };
}

/**
 * Stores a new password, ends all other sessions, and makes older access tokens and this session's refresh token
 * invalid. Returns the new token version and generation; undefined if the password was changed in the meantime.
 */
export async function changePasswordHash(
  database: D1Database,
  { id: userId, tokenVersion }: Pick<UserRow, 'id' | 'tokenVersion'>,
  passwordHash: string,
  keptSessionId: string,
  now: number,
): Promise<{ tokenVersion: number; generation: number } | undefined> {
  const db = drizzle(database);
  const next = tokenVersion + 1;
  const isKept = and(eq(sessions.userId, userId), eq(sessions.id, keptSessionId));
  const [changed, , refreshed] = await runBatch(db, [
    db
      .update(users)
      .set({ passwordHash, tokenVersion: next })
      .where(and(eq(users.id, userId), eq(users.tokenVersion, tokenVersion)))
      .returning({ id: users.id }),
    db
      .update(sessions)
      .set({ revokedAtMs: now })
      .where(
        and(
          isOther(userId, keptSessionId),
          sql`EXISTS (SELECT 1 FROM ${users} WHERE ${users.id} = ${userId} AND ${users.passwordHash} = ${passwordHash})`,
        ),
      ),
    db
      .update(sessions)
      .set({ generation: sql`${sessions.generation} + 1`, lastUsedAtMs: now })
      .where(isKept)
      .returning({ generation: sessions.generation }),
    // A mail that resets the password is void after any change of it [C-15.6].
    db
      .delete(accountTokens)
      .where(
        and(
          eq(accountTokens.userId, userId),
          eq(accountTokens.purpose, 'RESET_PASSWORD'),
          sql`EXISTS (SELECT 1 FROM ${users} WHERE ${users.id} = ${userId} AND ${users.passwordHash} = ${passwordHash})`,
        ),
      ),
  ]);
  const [session] = refreshed as { generation: number }[];
  if (isEmpty(changed) || !session) return undefined;
  return { tokenVersion: next, generation: session.generation };
}

/** Condition: a session of the user that is not revoked, and not this one. */
function isOther(userId: string, sessionId: string) {
  return and(eq(sessions.userId, userId), ne(sessions.id, sessionId), isNull(sessions.revokedAtMs));
}

/** The statement that ends every session of a user but this one; without one, every session. */
export function endedSessions(db: DrizzleD1Database, userId: string, keptSessionId: string, now: number) {
  return db.update(sessions).set({ revokedAtMs: now }).where(isOther(userId, keptSessionId));
}

/** The live sessions of a user, the last used one first. */
export async function listSessions(database: D1Database, userId: string, now: number): Promise<SessionRow[]> {
  return await drizzle(database)
    .select()
    .from(sessions)
    .where(and(eq(sessions.userId, userId), isNull(sessions.revokedAtMs), gt(sessions.expiresAtMs, now)))
    .orderBy(desc(sessions.lastUsedAtMs), desc(sessions.id));
}

/** Ends one session of a user. False if it is not theirs, or has ended. */
export async function revokeSession(
  database: D1Database,
  userId: string,
  sessionId: string,
  now: number,
): Promise<boolean> {
  const ended = await drizzle(database)
    .update(sessions)
    .set({ revokedAtMs: now })
    .where(
      and(
        eq(sessions.userId, userId),
        eq(sessions.id, sessionId),
        isNull(sessions.revokedAtMs),
        gt(sessions.expiresAtMs, now),
      ),
    )
    .returning({ id: sessions.id });
  return ended.length > 0;
}

/** Ends all sessions of a user but this one. Returns how many. */
export async function revokeOtherSessions(
  database: D1Database,
  userId: string,
  keptSessionId: string,
  now: number,
): Promise<number> {
  const db = drizzle(database);
  return (await endedSessions(db, userId, keptSessionId, now).returning({ id: sessions.id })).length;
}

export type Refreshed =
  | { outcome: 'refreshed'; userId: string; generation: number }
  | { outcome: 'unknown' | 'revoked' | 'expired' }
  | { outcome: 'reused'; userId: string };

/**
 * Moves the session to its next generation. If the token is not of the newest generation, it was used before
 * and may be stolen: the session ends.
 */
export async function refreshSession(
  database: D1Database,
  { sessionId, generation }: { sessionId: string; generation: number },
  now: number,
): Promise<Refreshed> {
  const db = drizzle(database);
  const isSession = eq(sessions.id, sessionId);
  const isLive = and(isNull(sessions.revokedAtMs), gt(sessions.expiresAtMs, now));
  const [next] = await db
    .update(sessions)
    .set({
      generation: generation + 1,
      expiresAtMs: sql`min(${now + LIMIT.refreshTokenMs}, ${sessions.createdAtMs} + ${LIMIT.sessionMs})`,
      lastUsedAtMs: now,
    })
    .where(and(isSession, isLive, eq(sessions.generation, generation)))
    .returning({ userId: sessions.userId });
  if (next) return { outcome: 'refreshed', userId: next.userId, generation: generation + 1 };
  const [row] = await db.select().from(sessions).where(isSession);
  if (!row) return { outcome: 'unknown' };
  if (row.revokedAtMs !== null) return { outcome: 'revoked' };
  if (row.expiresAtMs <= now) return { outcome: 'expired' };
  await endSession(database, sessionId, now);
  return { outcome: 'reused', userId: row.userId };
}

export async function endSession(database: D1Database, sessionId: string, now: number): Promise<void> {
  await drizzle(database)
    .update(sessions)
    .set({ revokedAtMs: now })
    .where(and(eq(sessions.id, sessionId), isNull(sessions.revokedAtMs)));
}

/** Deletes up to `most` expired sessions. */
export async function dropExpiredSessions(database: D1Database, now: number, most: number): Promise<void> {
  const db = drizzle(database);
  const over = db.select({ id: sessions.id }).from(sessions).where(lt(sessions.expiresAtMs, now)).limit(most);
  await db.delete(sessions).where(sql`${sessions.id} IN ${over}`);
}

/** The row of a session that begins. */
export function newSession(
  begun: Pick<typeof sessions.$inferInsert, 'id' | 'userId' | 'address' | 'userAgent'>,
  now: number,
): typeof sessions.$inferInsert {
  return { ...begun, createdAtMs: now, expiresAtMs: now + LIMIT.refreshTokenMs, lastUsedAtMs: now };
}
