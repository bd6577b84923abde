/** Sub-devices in D1, as admins manage them [C-2.2]. Each change is announced to the plant's Site. */
import { and, asc, count, eq, isNull, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { auditRow, auditRowIfChanged } from '../../durable-objects/registry/audit-events.ts';
import type { AuditEntry } from '../../durable-objects/registry/entries.ts';
import { devices, subDevices } from '../../migrations/schema.ts';
import { ASSETS } from '../../protocol/asset.ts';
import { LIMIT } from '../../protocol/limits.ts';
import type { PageRequest } from '../../protocol/page.ts';
import type { SubDeviceChange, SubDeviceRequest } from '../../protocol/plant-record.ts';
import { brokeForeignKey, brokenUnique, isEmpty } from './broken.ts';
import { commitChange, type RegistryChange } from './changes.ts';
import type { SubDeviceRow } from './plants.ts';

/**
 * Why the registry rejects a change. `external-id`: another sub-device has it; `linked`: the device is linked
 * to another sub-device; `full`: the plant has reached its limit; `plant` or `gone`: the plant or the
 * sub-device was deleted in the meantime; `device`: the device to link no longer belongs to the plant.
 */
export type SubDeviceRefusal = 'external-id' | 'linked' | 'full' | 'plant' | 'gone' | 'device';

export interface Whose {
  organizationId: string;
  plantId: string;
}

export async function listSubDevicesOf(
  database: D1Database,
  plantId: string,
  { page, limit }: PageRequest,
): Promise<{ rows: SubDeviceRow[]; total: number }> {
  const db = drizzle(database);
  const isOfPlant = eq(subDevices.plantId, plantId);
  const [rows, [total]] = await db.batch([
    db
      .select()
      .from(subDevices)
      .where(isOfPlant)
      .orderBy(asc(subDevices.externalId))
      .limit(limit)
      .offset((page - 1) * limit),
    db.select({ total: count() }).from(subDevices).where(isOfPlant),
  ]);
  return { rows, total: total?.total ?? 0 };
}

export async function findSubDevice(
  database: D1Database,
  plantId: string,
  id: string,
): Promise<SubDeviceRow | undefined> {
  const [row] = await drizzle(database)
    .select()
    .from(subDevices)
    .where(and(eq(subDevices.id, id), eq(subDevices.plantId, plantId)));
  return row;
}

/** Whether the device belongs to this plant and is not moving, so that it can serve a sub-device. */
export async function isDeviceOf(
  database: D1Database,
  { organizationId, plantId }: Whose,
  deviceId: string,
): Promise<boolean> {
  const found = await drizzle(database)
    .select({ id: devices.id })
    .from(devices)
    .where(
      and(
        eq(devices.id, deviceId),
        eq(devices.organizationId, organizationId),
        eq(devices.plantId, plantId),
        isNull(devices.movingTo),
      ),
    );
  return found.length > 0;
}

export async function createSubDevice(
  database: D1Database,
  { organizationId, plantId }: Whose,
  request: SubDeviceRequest,
  audit: (id: string) => AuditEntry,
  now: number,
): Promise<{ row: SubDeviceRow; change: RegistryChange } | SubDeviceRefusal> {
  const db = drizzle(database);
  const [own] = await db.select({ total: count() }).from(subDevices).where(eq(subDevices.plantId, plantId));
  if ((own?.total ?? 0) >= LIMIT.subDevicesPerPlant) return 'full';
  const row: SubDeviceRow = {
    id: crypto.randomUUID(),
    plantId,
    externalId: request.externalId,
    assetType: request.assetType,
    name: request.name,
    status: 'UNKNOWN',
    linkedDeviceId: request.linkedDeviceId ?? null,
    ratedPowerKw: request.ratedPowerKw ?? null,
    capacityKwh: request.capacityKwh ?? null,
    meterRole: request.meterRole ?? ASSETS[request.assetType].meterRole,
    createdAtMs: now,
  };
  return await orRefusal(row.linkedDeviceId, async () => {
    const linkedDeviceId = row.linkedDeviceId && deviceHere(row.linkedDeviceId, plantId);
    const change = await commitChange(database, organizationId, { sites: [plantId] }, now, (batch) => [
      batch.insert(subDevices).values({ ...row, linkedDeviceId }),
      auditRow(batch, audit(row.id), now),
    ]);
    return { row, change };
  });
}

export async function changeSubDevice(
  database: D1Database,
  { organizationId, plantId }: Whose,
  id: string,
  change: SubDeviceChange,
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange | SubDeviceRefusal> {
  const columns: Record<string, unknown> = Object.fromEntries(
    Object.entries(change).filter(([, value]) => value !== undefined),
  );
  const { linkedDeviceId } = change;
  if (linkedDeviceId) columns.linkedDeviceId = deviceHere(linkedDeviceId, plantId);
  return await orRefusal(linkedDeviceId, async () => {
    const { results, ...affected } = await commitChange(
      database,
      organizationId,
      { sites: [plantId] },
      now,
      (db) => [
        db
          .update(subDevices)
          .set({ name: sql`${subDevices.name}`, ...columns })
          .where(eq(subDevices.id, id))
          .returning({ id: subDevices.id }),
        auditRowIfChanged(db, audit, now),
      ],
    );
    return isEmpty(results[0]) ? 'gone' : affected;
  });
}

export async function deleteSubDevice(
  database: D1Database,
  { organizationId, plantId }: Whose,
  id: string,
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange | 'gone'> {
  const { results, ...affected } = await commitChange(
    database,
    organizationId,
    { sites: [plantId] },
    now,
    (db) => [
      db.delete(subDevices).where(eq(subDevices.id, id)).returning({ id: subDevices.id }),
      auditRowIfChanged(db, audit, now),
    ],
  );
  return isEmpty(results[0]) ? 'gone' : affected;
}

/**
 * SQL for the device's id, if the device belongs to this plant and is not moving when the row is written;
 * otherwise an invalid id, which violates the foreign key.
 */
function deviceHere(deviceId: string, plantId: string) {
  return sql<string>`coalesce((SELECT id FROM devices
    WHERE id = ${deviceId} AND plant_id = ${plantId} AND moving_to IS NULL), 'not here')`;
}

async function orRefusal<Value>(
  linkedDeviceId: string | null | undefined,
  work: () => Promise<Value>,
): Promise<Value | 'external-id' | 'linked' | 'plant' | 'device'> {
  try {
    return await work();
  } catch (error) {
    const broken = brokenUnique(error);
    if (broken?.includes('sub_devices.external_id')) return 'external-id';
    if (broken?.includes('sub_devices.linked_device_id')) return 'linked';
    if (brokeForeignKey(error)) return linkedDeviceId ? 'device' : 'plant';
    throw error;
  }
}
