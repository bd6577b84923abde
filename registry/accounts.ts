/**
 * What mailed tokens change in D1: proof of an address, password reset and e-mail change; and the deletion of
 * accounts that never proved their address [C-11.3], [C-11.4], [C-14.1].
 */
import { and, eq, gt, isNull, lt, lte, sql } from 'drizzle-orm';
import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1';
import { sha256Hex } from '../durable-objects/secrets/hmac.ts';
import { LIMIT } from '../protocol/limits.ts';
import { brokenUnique, isEmpty, runBatch } from './d1.ts';
import { IF_CHANGED } from './insert-if.ts';
import { forgetAllAttempts } from './login-failures.ts';
import { type MailRow, queuedMail } from './mails.ts';
import { accountTokens, sessions, type TOKEN_PURPOSES, users } from './schema.ts';
import { endedSessions } from './sessions.ts';

export type TokenPurpose = (typeof TOKEN_PURPOSES)[number];
export type AccountToken = typeof accountTokens.$inferSelect;

/** Expired tokens are kept for this time, so that a late e-mail change is answered with "expired", not "unknown". */
const ENDED_KEPT_MS = 7 * 86_400_000;

interface NewToken {
  userId: string;
  purpose: TokenPurpose;
  email: string;
  token: string;
  lifeMs: number;
}

/**
 * Replaces the user's token of this purpose, and queues its mails. Returns false, and changes nothing, if the present token
 * is less than a minute old.
 */
export async function issueToken(
  database: D1Database,
  { userId, purpose, email, token, lifeMs }: NewToken,
  mails: readonly (MailRow | undefined)[],
  now: number,
): Promise<boolean> {
  const db = drizzle(database);
  const values = { tokenHash: sha256Hex(token), email, createdAtMs: now, expiresAtMs: now + lifeMs };
  const isIssued = sql`EXISTS (SELECT 1 FROM ${accountTokens} WHERE ${accountTokens.tokenHash} = ${values.tokenHash})`;
  const [issued] = await runBatch(db, [
    db
      .insert(accountTokens)
      .values({ ...values, userId, purpose })
      .onConflictDoUpdate({
        target: [accountTokens.userId, accountTokens.purpose],
        set: values,
        setWhere: lte(accountTokens.createdAtMs, now - LIMIT.mailPauseMs),
      })
      .returning({ userId: accountTokens.userId }),
    ...mails.flatMap((mail) => (mail ? [queuedMail(db, mail, isIssued)] : [])),
  ]);
  return !isEmpty(issued);
}

/** Whether the user's token of this purpose is less than a minute old: no other one is mailed. */
export async function isJustIssued(
  database: D1Database,
  userId: string,
  purpose: TokenPurpose,
  now: number,
): Promise<boolean> {
  const token = await findTokenOf(database, userId, purpose);
  return token !== undefined && token.createdAtMs > now - LIMIT.mailPauseMs;
}

export async function findTokenOf(
  database: D1Database,
  userId: string,
  purpose: TokenPurpose,
): Promise<AccountToken | undefined> {
  return await drizzle(database)
    .select()
    .from(accountTokens)
    .where(and(eq(accountTokens.userId, userId), eq(accountTokens.purpose, purpose)))
    .get();
}

/** Also finds tokens that have expired. */
export async function findToken(
  database: D1Database,
  purpose: TokenPurpose,
  token: string,
): Promise<AccountToken | undefined> {
  return await drizzle(database)
    .select()
    .from(accountTokens)
    .where(and(eq(accountTokens.tokenHash, sha256Hex(token)), eq(accountTokens.purpose, purpose)))
    .get();
}

/**
 * The first statement of each use of a token. It deletes the token, so that it can be used only once; it
 * changes no row if the token was used or has expired.
 */
function usedToken(db: DrizzleD1Database, { tokenHash }: AccountToken, now: number) {
  return db
    .delete(accountTokens)
    .where(and(eq(accountTokens.tokenHash, tokenHash), gt(accountTokens.expiresAtMs, now)))
    .returning({ userId: accountTokens.userId });
}

/** Stores that the address is the user's own. False if the token was used or has expired. */
export async function proveEmail(database: D1Database, token: AccountToken, now: number): Promise<boolean> {
  const db = drizzle(database);
  const [used] = await runBatch(db, [
    usedToken(db, token, now),
    db
      .update(users)
      .set({ provedAtMs: sql`coalesce(${users.provedAtMs}, ${now})` })
      .where(and(eq(users.id, token.userId), eq(users.email, token.email), IF_CHANGED)),
  ]);
  return !isEmpty(used);
}

/**
 * Sets a new password, ends all sessions and lifts every lock. The token proves the address, too. False if the token
 * was used or has expired.
 */
export async function resetPassword(
  database: D1Database,
  token: AccountToken,
  passwordHash: string,
  now: number,
): Promise<boolean> {
  const db = drizzle(database);
  const { userId, email } = token;
  const isDone = sql`EXISTS (SELECT 1 FROM ${users} WHERE ${users.id} = ${userId} AND ${users.passwordHash} = ${passwordHash})`;
  const [used] = await runBatch(db, [
    usedToken(db, token, now),
    db
      .update(users)
      .set({
        passwordHash,
        tokenVersion: sql`${users.tokenVersion} + 1`,
        provedAtMs: sql`coalesce(${users.provedAtMs}, ${now})`,
      })
      .where(and(eq(users.id, userId), eq(users.email, email), IF_CHANGED)),
    db
      .update(sessions)
      .set({ revokedAtMs: now })
      .where(and(eq(sessions.userId, userId), isNull(sessions.revokedAtMs), isDone)),
    forgetAllAttempts(db, email),
  ]);
  return !isEmpty(used);
}

/**
 * Replaces the address and ends all sessions but one. `taken`: another account has got the address in the
 * meantime.
 */
export async function confirmEmailChange(
  database: D1Database,
  token: AccountToken,
  keptSessionId: string,
  now: number,
): Promise<'changed' | 'used' | 'taken'> {
  const db = drizzle(database);
  const { userId, email } = token;
  try {
    const [used] = await runBatch(db, [
      usedToken(db, token, now),
      db
        .update(users)
        .set({ email, provedAtMs: sql`coalesce(${users.provedAtMs}, ${now})` })
        .where(and(eq(users.id, userId), IF_CHANGED)),
      endedSessions(db, userId, keptSessionId, now),
      // Deletes the user's other tokens, because they were mailed to the previous address.
      db.delete(accountTokens).where(eq(accountTokens.userId, userId)),
    ]);
    return isEmpty(used) ? 'used' : 'changed';
  } catch (error) {
    if (brokenUnique(error) === 'users.email') return 'taken';
    throw error;
  }
}

/** The change of the user's address that waits for its token, if any. */
export async function findEmailChange(
  database: D1Database,
  userId: string,
  now: number,
): Promise<{ email: string; expiresAtMs: number } | undefined> {
  return await drizzle(database)
    .select({ email: accountTokens.email, expiresAtMs: accountTokens.expiresAtMs })
    .from(accountTokens)
    .where(isPendingChange(userId, now))
    .get();
}

/** False if no change is pending. */
export async function cancelEmailChange(database: D1Database, userId: string, now: number): Promise<boolean> {
  const cancelled = await drizzle(database)
    .delete(accountTokens)
    .where(isPendingChange(userId, now))
    .returning({ userId: accountTokens.userId });
  return cancelled.length > 0;
}

function isPendingChange(userId: string, now: number) {
  return and(
    eq(accountTokens.userId, userId),
    eq(accountTokens.purpose, 'CHANGE_EMAIL'),
    gt(accountTokens.expiresAtMs, now),
  );
}

/** Deletes up to `most` tokens that ended long ago. */
export async function dropOldTokens(database: D1Database, now: number, most: number): Promise<void> {
  const db = drizzle(database);
  const over = db
    .select({ tokenHash: accountTokens.tokenHash })
    .from(accountTokens)
    .where(lt(accountTokens.expiresAtMs, now - ENDED_KEPT_MS))
    .limit(most);
  await db.delete(accountTokens).where(sql`${accountTokens.tokenHash} IN ${over}`);
}
