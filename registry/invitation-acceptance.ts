/**
 * The acceptance of an invitation in D1 [C-11.2]: the user who has its token becomes a member, and the token
 * proves that the invited address is theirs [C-14.1].
 */
import { and, eq, gt, isNull, ne, sql } from 'drizzle-orm';
import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1';
import { sha256Hex } from '../durable-objects/secrets/hmac.ts';
import { LIMIT } from '../protocol/limits.ts';
import { auditRowIfChanged } from './audit-events.ts';
import { brokenUnique, isEmpty, runBatch, type Statement } from './d1.ts';
import type { AuditEntry } from './entries.ts';
import { IF_CHANGED, insertIf } from './insert-if.ts';
import { endedInvitations, type InvitationRow, isMakerAble, isOpen } from './invitations.ts';
import { accountTokens, invitations, memberships, organizations, sessions, users } from './schema.ts';
import type { Place } from './sessions.ts';
import { newSession } from './sessions.ts';
import { findUser, type UserRow } from './users.ts';

export interface FoundInvitation {
  invitation: InvitationRow;
  organization: { id: string; name: string; slug: string };
  /** The account of the invited address. */
  userId: string | null;
  /** Whether that account has proved that the address is its own. */
  isProved: boolean;
}

export async function findByToken(database: D1Database, token: string): Promise<FoundInvitation | undefined> {
  return await drizzle(database)
    .select({
      invitation: invitations,
      organization: { id: organizations.id, name: organizations.name, slug: organizations.slug },
      userId: users.id,
      isProved: sql`${users.provedAtMs} IS NOT NULL`.mapWith(Boolean),
    })
    .from(invitations)
    .innerJoin(organizations, eq(organizations.id, invitations.organizationId))
    .leftJoin(users, eq(users.email, invitations.email))
    .where(eq(invitations.tokenHash, sha256Hex(token)))
    .get();
}

/**
 * The user who accepts, or the account to create, with its first session. `replaces`: an existing account
 * that never proved the invited address. It becomes the account of the person who accepts, because the token
 * proves that the address is theirs [C-14.1].
 */
export type Accepting =
  | { userId: string }
  | { name: string; passwordHash: string; place: Place; replaces: string | null };

export type Accepted =
  | { outcome: 'joined'; user: UserRow; sessionId: string | undefined }
  /**
   * `used`: the invitation was accepted or revoked or has expired in the meantime, or a limit is reached;
   * `registered`: an account of the address was registered in the meantime.
   */
  | { outcome: 'used' }
  | { outcome: 'registered' };

/**
 * Creates the membership and, for a new address, the account and its session. All of it is one transaction
 * whose first statement marks the invitation as accepted, so of two concurrent requests only one succeeds,
 * and no limit is exceeded.
 */
export async function acceptInvitation(
  database: D1Database,
  { invitation }: FoundInvitation,
  accepting: Accepting,
  audit: (userId: string) => AuditEntry,
  now: number,
): Promise<Accepted> {
  const db = drizzle(database);
  const { id, organizationId, email, role } = invitation;
  const isNew = !('userId' in accepting);
  const userId = isNew ? (accepting.replaces ?? crypto.randomUUID()) : accepting.userId;
  const sessionId = crypto.randomUUID();
  const hasRoom = and(
    sql`(SELECT count(*) FROM ${memberships} WHERE ${memberships.organizationId} = ${organizationId}) < ${LIMIT.membersPerOrganization}`,
    sql`(SELECT count(*) FROM ${memberships} WHERE ${memberships.userId} = ${userId}) < ${LIMIT.organizationsPerUser}`,
    sql`NOT EXISTS (SELECT 1 FROM ${memberships} WHERE ${memberships.organizationId} = ${organizationId} AND ${memberships.userId} = ${userId})`,
  );
  const isMeant = and(
    eq(invitations.tokenHash, invitation.tokenHash),
    isOpen(organizationId, id),
    gt(invitations.expiresAtMs, now),
    isMakerAble,
    hasRoom,
  );
  const account = isNew
    ? accepting.replaces === null
      ? [
          insertIf(
            db,
            users,
            {
              id: userId,
              email,
              name: accepting.name,
              passwordHash: accepting.passwordHash,
              lastLoginAtMs: now,
              createdAtMs: now,
              provedAtMs: now,
            },
            IF_CHANGED,
          ),
        ]
      : replacedAccount(db, userId, accepting, now)
    : [provedAccount(db, userId, now)];
  const session = isNew
    ? [
        insertIf(
          db,
          sessions,
          newSession(
            {
              id: sessionId,
              userId,
              address: accepting.place.address,
              userAgent: accepting.place.userAgent,
            },
            now,
          ),
          IF_CHANGED,
        ),
      ]
    : [];
  try {
    const [changed] = await runBatch(db, [
      db.update(invitations).set({ status: 'ACCEPTED' }).where(isMeant).returning({ id: invitations.id }),
      ...account,
      insertIf(db, memberships, { organizationId, userId, role, createdAtMs: now }, IF_CHANGED),
      ...session,
      auditRowIfChanged(db, audit(userId), now),
      ...(isNew && accepting.replaces !== null
        ? leftByStranger(db, userId, accepting.passwordHash, { organizationId, sessionId }, now)
        : []),
    ]);
    if (isEmpty(changed)) return { outcome: 'used' };
  } catch (error) {
    if (brokenUnique(error) === 'users.email') return { outcome: 'registered' };
    throw error;
  }
  const user = await findUser(database, userId);
  return user ? { outcome: 'joined', user, sessionId: isNew ? sessionId : undefined } : { outcome: 'used' };
}

/** Gives an account that never proved its address to the person who did; only if the previous statement changed a row. */
function replacedAccount(
  db: DrizzleD1Database,
  userId: string,
  { name, passwordHash }: { name: string; passwordHash: string },
  now: number,
): Statement[] {
  return [
    db
      .update(users)
      .set({ name, passwordHash, tokenVersion: sql`${users.tokenVersion} + 1`, provedAtMs: now })
      .where(and(eq(users.id, userId), isNull(users.provedAtMs), IF_CHANGED)),
  ];
}

/**
 * Stores that the user has proved the address, because they accept with a token that was mailed to it. Like
 * `replacedAccount`, only if the previous statement changed a row.
 */
function provedAccount(db: DrizzleD1Database, userId: string, now: number): Statement {
  return db
    .update(users)
    .set({ provedAtMs: sql`coalesce(${users.provedAtMs}, ${now})` })
    .where(and(eq(users.id, userId), IF_CHANGED));
}

/**
 * Ends the sessions, and deletes the memberships and mailed tokens, of a stranger who registered the address
 * before its owner.
 */
function leftByStranger(
  db: DrizzleD1Database,
  userId: string,
  passwordHash: string,
  kept: { organizationId: string; sessionId: string },
  now: number,
): Statement[] {
  const isReplaced = sql`EXISTS (SELECT 1 FROM ${users} WHERE ${users.id} = ${userId} AND ${users.passwordHash} = ${passwordHash})`;
  return [
    db
      .update(sessions)
      .set({ revokedAtMs: now })
      .where(and(eq(sessions.userId, userId), ne(sessions.id, kept.sessionId), isReplaced)),
    db
      .delete(memberships)
      .where(
        and(eq(memberships.userId, userId), ne(memberships.organizationId, kept.organizationId), isReplaced),
      ),
    db.delete(accountTokens).where(and(eq(accountTokens.userId, userId), isReplaced)),
    endedInvitations(db, userId),
  ];
}
