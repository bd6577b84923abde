/** Moves of devices to another plant [C-3.1]. The registry stores the destination until the move is finished. */
import { and, eq, isNotNull, isNull, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { auditRowIfChanged } from './audit-events.ts';
import { commitChange, type RegistryChange } from './changes.ts';
import { brokeForeignKey } from './d1.ts';
import { isUnclaimed } from './device-credentials.ts';
import type { DeviceRow } from './devices.ts';
import type { AuditEntry } from './entries.ts';
import { devices, subDevices } from './schema.ts';

/** Starts a move. `linked`: a sub-device links to the device; `busy`: it is already moving or being provisioned. */
export async function beginMove(
  database: D1Database,
  { id, organizationId }: DeviceRow,
  toSiteId: string,
  audit: AuditEntry,
  now: number,
): Promise<'linked' | 'begun' | 'busy'> {
  const db = drizzle(database);
  // Writes the audit row now: the move will be finished even if this request is interrupted.
  const [links, moved] = await db.batch([
    db.select({ id: subDevices.id }).from(subDevices).where(eq(subDevices.linkedDeviceId, id)),
    db
      .update(devices)
      .set({ movingTo: toSiteId })
      .where(
        and(
          eq(devices.id, id),
          eq(devices.organizationId, organizationId),
          isNull(devices.movingTo),
          isUnclaimed(now),
          sql`NOT EXISTS (SELECT 1 FROM sub_devices WHERE linked_device_id = ${id})`,
        ),
      )
      .returning({ id: devices.id }),
    auditRowIfChanged(db, audit, now),
  ]);
  if (links.length > 0) return 'linked';
  return moved.length > 0 ? 'begun' : 'busy';
}

/**
 * Finishes a move, unless another one has started. The returned change must be announced to the Sites of both
 * plants. `plant`: the destination plant was deleted in the meantime.
 */
export async function finishMove(
  database: D1Database,
  { id, organizationId, plantId: from, movingTo }: DeviceRow,
  to: string | null,
  now: number,
): Promise<RegistryChange | 'plant'> {
  const sites = [from, to].filter((site) => site !== null);
  try {
    const { results: _rows, ...change } = await commitChange(
      database,
      organizationId,
      { sites },
      now,
      (db) => [
        db
          .update(devices)
          .set({ plantId: to, movingTo: null, updatedAtMs: now })
          .where(
            and(
              eq(devices.id, id),
              eq(devices.organizationId, organizationId),
              eq(devices.movingTo, movingTo ?? ''),
            ),
          ),
      ],
    );
    return change;
  } catch (error) {
    if (brokeForeignKey(error)) return 'plant';
    throw error;
  }
}

/** Devices with an unfinished move, in random order, so that one that keeps failing does not block the others. */
export async function devicesOnTheWay(database: D1Database, most: number): Promise<DeviceRow[]> {
  return await drizzle(database)
    .select()
    .from(devices)
    .where(isNotNull(devices.movingTo))
    .orderBy(sql`random()`)
    .limit(most);
}
