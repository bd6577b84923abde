/** Creates a user and, if requested, an organization, in one transaction [C-1.4]. */
import { drizzle } from 'drizzle-orm/d1';
import { users } from '../../migrations/schema.ts';
import { runBatch } from './batch.ts';
import { brokenUnique } from './broken.ts';
import { newOrganization, type OrganizationRow } from './organizations.ts';
import type { UserRow } from './users.ts';

export interface Registered {
  user: UserRow;
  organization: OrganizationRow | undefined;
}

/** Returns `email` or `slug` if that value is already taken. */
export async function registerUser(
  database: D1Database,
  { email, name, passwordHash }: { email: string; name: string; passwordHash: string },
  organization: { name: string; slug: string } | undefined,
  { address, now }: { address: string | null; now: number },
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
  };
  const made = organization && { id: crypto.randomUUID(), ...organization };
  try {
    await runBatch(db, [
      db.insert(users).values(user),
      ...(made ? newOrganization(db, made, { id: user.id, email, address }, now) : []),
    ]);
  } catch (error) {
    const broken = brokenUnique(error);
    if (broken === 'users.email') return 'email';
    if (broken === 'organizations.slug') return 'slug';
    throw error;
  }
  return {
    user,
    organization: made && { ...made, settings: {}, registryVersion: 1, deviceCount: 0, createdAtMs: now },
  };
}
