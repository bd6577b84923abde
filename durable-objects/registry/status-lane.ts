/** What a Site has to say to D1: status that lists need, and audit rows. Doing it twice changes nothing. */
import { and, eq, lt } from 'drizzle-orm';
import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1';
import { devices, plants, subDevices } from '../../migrations/schema.ts';
import { auditRow } from './audit-events.ts';
import type { RegistryWrite, StatusChange } from './entries.ts';

export async function writeRegistry(database: D1Database, writes: readonly RegistryWrite[]): Promise<void> {
  const db = drizzle(database);
  const [first, ...rest] = writes.map((write) =>
    write.kind === 'audit' ? auditRow(db, write.entry, write.atMs, write.cause) : statusChange(db, write),
  );
  if (first) await db.batch([first, ...rest]);
}

function statusChange(db: DrizzleD1Database, { kind, id, columns }: StatusChange) {
  if (kind === 'plant') return db.update(plants).set(columns).where(eq(plants.id, id));
  if (kind === 'sub-device') return db.update(subDevices).set(columns).where(eq(subDevices.id, id));
  // A status that is older than what the registry has came late.
  const { statusAtMs } = columns;
  const isNewer = typeof statusAtMs === 'number' ? lt(devices.statusAtMs, statusAtMs) : undefined;
  return db
    .update(devices)
    .set(columns)
    .where(and(eq(devices.id, id), isNewer));
}
