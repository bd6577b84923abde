/** Sub-devices in D1, as admins manage them [C-2.2]. The caller announces each change to the plant's Site. */
import { and, asc, eq, isNull, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { ASSETS } from '../protocol/asset.ts';
import type { AssetType } from '../protocol/enums.ts';
import { LIMIT } from '../protocol/limits.ts';
import type { FoundPage, PageRequest } from '../protocol/page.ts';
import type { SubDeviceChange, SubDeviceRequest } from '../protocol/plant-record.ts';
import { commitChangeOf, type RegistryChange } from './changes.ts';
import { areFewer, brokeForeignKey, brokenUnique, countOf, readPage } from './d1.ts';
import { lostTemplate, type TemplateColumns, templateColumns } from './device-templates.ts';
import type { AuditEntry } from './entries.ts';
import { insertIf } from './insert-if.ts';
import { isPlantOfOrganization, type SubDeviceRow } from './plants.ts';
import { devices, subDevices } from './schema.ts';

/**
 * Why the registry rejects a change. `external-id`: another sub-device has it; `linked`: the device is linked
 * to another sub-device; `full`: the plant has reached its limit; `plant` or `gone`: the plant or the
 * sub-device was deleted in the meantime; `device`: the device to link no longer belongs to the plant; `template`:
 * the template was deleted in the meantime.
 */
export type SubDeviceRefusal = 'external-id' | 'linked' | 'full' | 'plant' | 'gone' | 'device' | 'template';

export interface Whose {
  organizationId: string;
  plantId: string;
}

export async function listSubDevicesOf(
  database: D1Database,
  plantId: string,
  request: PageRequest,
): Promise<FoundPage<SubDeviceRow>> {
  const db = drizzle(database);
  const isOfPlant = eq(subDevices.plantId, plantId);
  const rows = db.select().from(subDevices).where(isOfPlant).orderBy(asc(subDevices.externalId));
  return await readPage(db, request, rows, countOf(db, subDevices, isOfPlant));
}

/** Some of the sub-devices of a plant, by external id; none without a plant. */
export async function someSubDevices(
  database: D1Database,
  plantId: string | undefined,
  most: number,
): Promise<Pick<SubDeviceRow, 'externalId' | 'assetType'>[]> {
  if (plantId === undefined) return [];
  return await drizzle(database)
    .select({ externalId: subDevices.externalId, assetType: subDevices.assetType })
    .from(subDevices)
    .where(eq(subDevices.plantId, plantId))
    .orderBy(asc(subDevices.externalId))
    .limit(most);
}

export async function findSubDevice(
  database: D1Database,
  plantId: string,
  id: string,
): Promise<SubDeviceRow | undefined> {
  return await drizzle(database)
    .select()
    .from(subDevices)
    .where(and(eq(subDevices.id, id), eq(subDevices.plantId, plantId)))
    .get();
}

/** The device, if it belongs to this plant and is not moving, so that it can serve a sub-device. */
export async function findDeviceOf(
  database: D1Database,
  { organizationId, plantId }: Whose,
  deviceId: string,
): Promise<TemplateColumns | undefined> {
  return await drizzle(database)
    .select({ templateId: devices.templateId, systemTemplate: devices.systemTemplate })
    .from(devices)
    .where(
      and(
        eq(devices.id, deviceId),
        eq(devices.organizationId, organizationId),
        eq(devices.plantId, plantId),
        isNull(devices.movingTo),
      ),
    )
    .get();
}

/** The type of the asset that is linked to a device; null: none is. */
export async function assetTypeOfDevice(database: D1Database, deviceId: string): Promise<AssetType | null> {
  const [found] = await drizzle(database)
    .select({ assetType: subDevices.assetType })
    .from(subDevices)
    .where(eq(subDevices.linkedDeviceId, deviceId));
  return found?.assetType ?? null;
}

export async function createSubDevice(
  database: D1Database,
  { organizationId, plantId }: Whose,
  request: SubDeviceRequest,
  audit: (id: string) => AuditEntry,
  now: number,
): Promise<{ row: SubDeviceRow; change: RegistryChange } | SubDeviceRefusal> {
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
    ...templateColumns(request.templateId ?? null),
    createdAtMs: now,
  };
  return await orRefusal(database, request, async () => {
    const linkedDeviceId = row.linkedDeviceId && deviceHere(row.linkedDeviceId, row);
    const hasRoom = areFewer(subDevices, eq(subDevices.plantId, plantId), LIMIT.subDevicesPerPlant);
    const change = await commitChangeOf(
      database,
      organizationId,
      { sites: [plantId] },
      audit(row.id),
      now,
      (batch) => [
        insertIf(batch, subDevices, { ...row, linkedDeviceId }, hasRoom).returning({ id: subDevices.id }),
      ],
    );
    return change === 'gone' ? 'full' : { row, change };
  });
}

export async function changeSubDevice(
  database: D1Database,
  { organizationId, plantId }: Whose,
  { id, assetType }: Pick<SubDeviceRow, 'id' | 'assetType'>,
  change: SubDeviceChange,
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange | SubDeviceRefusal> {
  const { linkedDeviceId, templateId } = change;
  const columns = {
    ...change,
    ...templateColumns(templateId),
    // UPDATE needs at least one column, even if the request changes none; this one then keeps its value.
    name: change.name ?? sql`${subDevices.name}`,
    linkedDeviceId: linkedDeviceId && deviceHere(linkedDeviceId, { plantId, assetType }),
  };
  return await orRefusal(database, change, () =>
    commitChangeOf(database, organizationId, { sites: [plantId] }, audit, now, (db) => [
      db
        .update(subDevices)
        .set(columns)
        .where(isSubDeviceOf({ organizationId, plantId }, id))
        .returning({ id: subDevices.id }),
    ]),
  );
}

export async function deleteSubDevice(
  database: D1Database,
  { organizationId, plantId }: Whose,
  id: string,
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange | 'gone'> {
  return await commitChangeOf(database, organizationId, { sites: [plantId] }, audit, now, (db) => [
    db
      .delete(subDevices)
      .where(isSubDeviceOf({ organizationId, plantId }, id))
      .returning({ id: subDevices.id }),
  ]);
}

function isSubDeviceOf({ organizationId, plantId }: Whose, id: string) {
  return and(
    eq(subDevices.id, id),
    eq(subDevices.plantId, plantId),
    isPlantOfOrganization(organizationId, plantId),
  );
}

/**
 * SQL for the device's id, if the device belongs to this plant, is not moving, and has no template for another type of
 * asset when the row is written; otherwise an invalid id, which violates the foreign key.
 */
function deviceHere(deviceId: string, { plantId, assetType }: Pick<SubDeviceRow, 'plantId' | 'assetType'>) {
  const ofTemplate = sql`(SELECT asset_type FROM device_templates WHERE device_templates.id = devices.template_id)`;
  return sql<string>`coalesce((SELECT id FROM devices
    WHERE id = ${deviceId} AND plant_id = ${plantId} AND moving_to IS NULL
      AND coalesce(system_template, ${ofTemplate}, ${assetType}) = ${assetType}), 'not here')`;
}

async function orRefusal<Value>(
  database: D1Database,
  change: Pick<SubDeviceChange, 'linkedDeviceId' | 'templateId'>,
  work: () => Promise<Value>,
): Promise<Value | 'external-id' | 'linked' | 'plant' | 'device' | 'template'> {
  try {
    return await work();
  } catch (error) {
    const broken = brokenUnique(error);
    if (broken?.includes('sub_devices.external_id')) return 'external-id';
    if (broken?.includes('sub_devices.linked_device_id')) return 'linked';
    if (!brokeForeignKey(error)) throw error;
    if (await lostTemplate(database, change)) return 'template';
    return change.linkedDeviceId ? 'device' : 'plant';
  }
}
