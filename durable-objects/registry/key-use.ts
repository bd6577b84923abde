/** `lastUsedAt` of API keys: exact to a minute, so a busy key is not a write for each use [C-5.2]. */
import { and, eq, isNull, lt, or } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { apiKeys } from '../../migrations/schema.ts';
import { LIMIT } from '../../protocol/limits.ts';

export async function markUsed(
  database: D1Database,
  key: { id: string; lastUsedAtMs: number | null },
  now: number,
): Promise<void> {
  if (key.lastUsedAtMs !== null && key.lastUsedAtMs >= now - LIMIT.lastUsedStepMs) return;
  const isStale = or(isNull(apiKeys.lastUsedAtMs), lt(apiKeys.lastUsedAtMs, now - LIMIT.lastUsedStepMs));
  await drizzle(database)
    .update(apiKeys)
    .set({ lastUsedAtMs: now })
    .where(and(eq(apiKeys.id, key.id), isStale));
}
