/**
 * What objects write to D1: a Site its updates, a Vhost the use and the revocation of its key. The Worker, too,
 * writes the use of keys. Idempotent.
 */
import { and, eq, isNull, lt, lte, ne, or, type SQL, sql } from 'drizzle-orm';
import type { BatchItem } from 'drizzle-orm/batch';
import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1';
import { LIMIT } from '../protocol/limits.ts';
import { auditRow } from './audit-events.ts';
import type { AlertEntry, AuditEntry, RegistryWrite, StatusChange } from './entries.ts';
import { insertIf } from './insert-if.ts';
import { alerts, apiKeys, devices, organizations, plants, subDevices } from './schema.ts';

/** Writes a Site's updates: the status for REST lists, alerts and audit rows. */
export async function writeRegistry(database: D1Database, writes: readonly RegistryWrite[]): Promise<void> {
  const db = drizzle(database);
  const [first, ...rest] = writes.flatMap((write) => statementsOf(db, write));
  if (first) await db.batch([first, ...rest]);
}

function statementsOf(db: DrizzleD1Database, write: RegistryWrite): BatchItem<'sqlite'>[] {
  if (write.kind === 'audit') return [auditRow(db, write.entry, write.atMs, write.cause)];
  if (write.kind === 'alert-begun') return begunAlert(db, write.entry);
  return [statusChange(db, write)];
}

/**
 * Inserts an alert. If the organization has the maximum number of alerts, the resolved alert with the earliest
 * `resolvedAt` is deleted, or the oldest alert if none is resolved. `only`: a condition for it.
 */
export function begunAlert(
  db: DrizzleD1Database,
  alert: AlertEntry,
  only: SQL = sql`TRUE`,
): [BatchItem<'sqlite'>, BatchItem<'sqlite'>] {
  const { organizationId } = alert;
  const isFull = sql`(SELECT ${organizations.alertCount} FROM ${organizations} WHERE ${organizations.id} = ${organizationId})
    >= ${LIMIT.alertsKept}`;
  const isNew = sql`NOT EXISTS (SELECT 1 FROM alerts AS known WHERE known.id = ${alert.id})`;
  // Both subqueries read an index, which SQLite uses only if the status is a literal.
  const resolved = sql`(SELECT old.id FROM alerts AS old WHERE old.organization_id = ${organizationId}
    AND old.status = 'RESOLVED' ORDER BY old.resolved_at_ms LIMIT 1)`;
  const oldest = sql`(SELECT old.id FROM alerts AS old WHERE old.organization_id = ${organizationId}
    ORDER BY old.first_seen_at_ms LIMIT 1)`;
  const row = { ...alert, status: 'ACTIVE' as const };
  return [
    db
      .delete(alerts)
      .where(
        sql`${alerts.id} = iif(${isFull} AND ${isNew} AND ${only}, coalesce(${resolved}, ${oldest}), NULL)`,
      ),
    insertIf(db, alerts, row, sql`NOT ${isFull} AND ${only}`).onConflictDoNothing(),
  ];
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

/** Writes the revocation that a Vhost recorded, with its audit event, once; an earlier one in D1 stays [C-5.6]. */
export async function writeRevoked(
  database: D1Database,
  { keyId, revokedAtMs, audit }: { keyId: string; revokedAtMs: number; audit?: AuditEntry | undefined },
): Promise<void> {
  const db = drizzle(database);
  await db.batch([
    db
      .update(apiKeys)
      .set({ revokedAtMs, updatedAtMs: revokedAtMs })
      .where(and(eq(apiKeys.id, keyId), isNull(apiKeys.revokedAtMs))),
    ...(audit ? [auditRow(db, audit, revokedAtMs, `api_key.revoked|${keyId}`)] : []),
  ]);
}
