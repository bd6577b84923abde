/** Users and their memberships in D1. */
import { asc, eq } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { memberships, organizations, users } from '../../migrations/schema.ts';
import { formatInstant } from '../../protocol/ids.ts';
import type { Role } from '../../protocol/roles.ts';
import type { Membership, UserRecord } from '../../protocol/user.ts';

export type UserRow = typeof users.$inferSelect;

export async function findUserByEmail(database: D1Database, email: string): Promise<UserRow | undefined> {
  const [user] = await drizzle(database).select().from(users).where(eq(users.email, email));
  return user;
}

export async function findUser(database: D1Database, id: string): Promise<UserRow | undefined> {
  const [user] = await drizzle(database).select().from(users).where(eq(users.id, id));
  return user;
}

export async function membershipsOf(database: D1Database, userId: string): Promise<Membership[]> {
  return await drizzle(database)
    .select({ organizationId: organizations.id, slug: organizations.slug, role: memberships.role })
    .from(memberships)
    .innerJoin(organizations, eq(organizations.id, memberships.organizationId))
    .where(eq(memberships.userId, userId))
    .orderBy(asc(organizations.slug));
}

/** [C-1.5] A user as answers show them. `own`: the memberships to show. */
export function userRecordOf(user: UserRow, own: Membership[], role: Role | null): UserRecord {
  return {
    id: user.id,
    email: user.email,
    name: user.name,
    role,
    memberships: own,
    lastLoginAt: user.lastLoginAtMs === null ? null : formatInstant(user.lastLoginAtMs),
    createdAt: formatInstant(user.createdAtMs),
  };
}
