/** Registry updates of an API key: `lastUsedAt`, exact to a minute [C-5.2], and its revocation [C-5.6]. */
import { and, eq, isNull, lte, or } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { apiKeys } from '../../migrations/schema.ts';
import { LIMIT } from '../../protocol/limits.ts';

export async function markUsed(
  database: D1Database,
  key: { id: string; lastUsedAtMs: number | null },
  now: number,
): Promise<void> {
  if (key.lastUsedAtMs !== null && key.lastUsedAtMs > now - LIMIT.lastUsedStepMs) return;
  const isStale = or(isNull(apiKeys.lastUsedAtMs), lte(apiKeys.lastUsedAtMs, now - LIMIT.lastUsedStepMs));
  await drizzle(database)
    .update(apiKeys)
    .set({ lastUsedAtMs: now })
    .where(and(eq(apiKeys.id, key.id), isStale));
}

/** Writes the revocation that a Vhost recorded; an earlier one in D1 stays. */
export async function writeRevoked(database: D1Database, keyId: string, revokedAtMs: number): Promise<void> {
  await drizzle(database)
    .update(apiKeys)
    .set({ revokedAtMs, updatedAtMs: revokedAtMs })
    .where(and(eq(apiKeys.id, keyId), isNull(apiKeys.revokedAtMs)));
}
