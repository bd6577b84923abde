/** Writes a Site's updates to D1: the status for REST lists, alerts and audit rows. Idempotent. */
import { and, eq, lt, ne } from 'drizzle-orm';
import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1';
import { alerts, devices, plants, subDevices } from '../../migrations/schema.ts';
import { auditRow } from './audit-events.ts';
import type { RegistryWrite, StatusChange } from './entries.ts';

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
