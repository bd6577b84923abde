/** Users and their memberships in D1. */
import { and, asc, eq } from 'drizzle-orm';
import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1';
import type { Role } from '../protocol/enums.ts';
import type { Membership, UserRecord } from '../protocol/user.ts';
import { brokenUnique, runBatch, type Statement, withInstants } from './d1.ts';
import { newOrganization, newRow, type OrganizationRow } from './organizations.ts';
import { memberships, organizations, users } from './schema.ts';

export type UserRow = typeof users.$inferSelect;

export async function findUserByEmail(database: D1Database, email: string): Promise<UserRow | undefined> {
  return await drizzle(database).select().from(users).where(eq(users.email, email)).get();
}

export async function findUser(database: D1Database, id: string): Promise<UserRow | undefined> {
  return await drizzle(database).select().from(users).where(eq(users.id, id)).get();
}

export async function membershipsOf(database: D1Database, userId: string): Promise<Membership[]> {
  return await drizzle(database)
    .select({ organizationId: organizations.id, slug: organizations.slug, role: memberships.role })
    .from(memberships)
    .innerJoin(organizations, eq(organizations.id, memberships.organizationId))
    .where(eq(memberships.userId, userId))
    .orderBy(asc(organizations.slug));
}

/** Stores a new hash of the same password, unless the password has changed in the meantime. */
export async function replaceHash(
  database: D1Database,
  userId: string,
  old: string,
  passwordHash: string,
): Promise<void> {
  await drizzle(database)
    .update(users)
    .set({ passwordHash })
    .where(and(eq(users.id, userId), eq(users.passwordHash, old)));
}

/** [C-1.5] A user as answers show them. `own`: the memberships to show. */
export function userRecordOf(user: UserRow, own: Membership[], role: Role | null): UserRecord {
  const { id, email, name, lastLoginAtMs, createdAtMs } = user;
  return { id, email, name, role, memberships: own, ...withInstants({ lastLoginAtMs, createdAtMs }) };
}

export interface Registered {
  user: UserRow;
  organization: OrganizationRow | undefined;
}

export interface NewUser {
  email: string;
  name: string;
  passwordHash: string;
  /** When the address was proved; null if it is not yet. */
  provedAtMs: number | null;
}

/**
 * Creates a user and, if requested, an organization [C-1.4]. Returns `email` or `slug` if that is already taken.
 * `further`: statements about the new user, in the same transaction.
 */
export async function registerUser(
  database: D1Database,
  { email, name, passwordHash, provedAtMs }: NewUser,
  organization: { name: string; slug: string } | undefined,
  { address, now }: { address: string | null; now: number },
  further: (db: DrizzleD1Database, userId: string) => Statement[] = () => [],
): Promise<Registered | 'email' | 'slug'> {
  const db = drizzle(database);
  const user: UserRow = {
    id: crypto.randomUUID(),
    email,
    name,
    passwordHash,
    superAdmin: false,
    tokenVersion: 1,
    lastLoginAtMs: null,
    createdAtMs: now,
    provedAtMs,
    deletedAtMs: null,
  };
  const made = organization && { id: crypto.randomUUID(), ...organization };
  try {
    await runBatch(db, [
      db.insert(users).values(user),
      ...(made ? newOrganization(db, made, { id: user.id, email, address }, now) : []),
      ...further(db, user.id),
    ]);
  } catch (error) {
    const broken = brokenUnique(error);
    if (broken === 'users.email') return 'email';
    if (broken === 'organizations.slug') return 'slug';
    throw error;
  }
  return {
    user,
    organization: made && newRow(made, now),
  };
}
