/** What objects write to D1: a Site its updates, a Vhost the use and the end of its key. Idempotent. */
import { and, eq, isNull, lt, lte, ne, or } from 'drizzle-orm';
import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1';
import { alerts, apiKeys, devices, plants, subDevices } from '../../migrations/schema.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { auditRow } from './audit-events.ts';
import type { RegistryWrite, StatusChange } from './entries.ts';

/** Writes a Site's updates: the status for REST lists, alerts and audit rows. */
export async function writeRegistry(database: D1Database, writes: readonly RegistryWrite[]): Promise<void> {
  const db = drizzle(database);
  const [first, ...rest] = writes.map((write) => statementOf(db, write));
  if (first) await db.batch([first, ...rest]);
}

function statementOf(db: DrizzleD1Database, write: RegistryWrite) {
  if (write.kind === 'audit') return auditRow(db, write.entry, write.atMs, write.cause);
  if (write.kind === 'alert-begun') {
    return db
      .insert(alerts)
      .values({ ...write.entry, status: 'ACTIVE' })
      .onConflictDoNothing();
  }
  return statusChange(db, write);
}

function statusChange(db: DrizzleD1Database, { kind, id, columns }: StatusChange) {
  if (kind === 'plant') return db.update(plants).set(columns).where(eq(plants.id, id));
  if (kind === 'sub-device') return db.update(subDevices).set(columns).where(eq(subDevices.id, id));
  if (kind === 'alert') {
    // A resolved alert does not change.
    const isOpen = ne(alerts.status, 'RESOLVED');
    return db
      .update(alerts)
      .set(columns)
      .where(and(eq(alerts.id, id), isOpen));
  }
  // Ignore a late status that is older than the one in the registry.
  const { statusAtMs } = columns;
  const isNewer = typeof statusAtMs === 'number' ? lt(devices.statusAtMs, statusAtMs) : undefined;
  return db
    .update(devices)
    .set(columns)
    .where(and(eq(devices.id, id), isNewer));
}

/** Writes `lastUsedAt` of a key, exact to a minute [C-5.2]. */
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

/** Writes the revocation that a Vhost recorded; an earlier one in D1 stays [C-5.6]. */
export async function writeRevoked(database: D1Database, keyId: string, revokedAtMs: number): Promise<void> {
  await drizzle(database)
    .update(apiKeys)
    .set({ revokedAtMs, updatedAtMs: revokedAtMs })
    .where(and(eq(apiKeys.id, keyId), isNull(apiKeys.revokedAtMs)));
}
