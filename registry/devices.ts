/** Devices in the registry [C-3.1]. Their secrets are in the Site that serves them. */
import { and, eq, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import type { DeviceChange, DeviceRecord, DeviceRequest } from '../protocol/device-record.ts';
import type { AssetType } from '../protocol/enums.ts';
import { formatInstant } from '../protocol/ids.ts';
import { LIMIT } from '../protocol/limits.ts';
import { type OrganizationSettings, organizationSettings } from '../protocol/organization.ts';
import type { Cursor, FoundPage, PageRequest } from '../protocol/page.ts';
import { auditRowIfChanged } from './audit-events.ts';
import { commitChange, commitChangeOf, type RegistryChange } from './changes.ts';
import {
  boundedCountOf,
  brokeForeignKey,
  brokenUnique,
  isAfter,
  isAmong,
  type ListOrder,
  orderBy,
  readPage,
  withInstants,
} from './d1.ts';
import { lostTemplate, templateColumns, templateIdOf } from './device-templates.ts';
import type { AuditEntry } from './entries.ts';
import { IF_CHANGED, insertIf } from './insert-if.ts';
import { alertRules, devices, organizations, subDevices } from './schema.ts';

export type DeviceRow = typeof devices.$inferSelect;

/** A device that connects, with its organization's settings. */
export type DialingDevice = DeviceRow & { settings: OrganizationSettings; isSuspended: boolean };

export async function findDialingDevice(
  database: D1Database,
  id: string,
): Promise<DialingDevice | undefined> {
  const [found] = await drizzle(database)
    .select({ device: devices, settings: organizations.settings, suspendedAtMs: organizations.suspendedAtMs })
    .from(devices)
    .innerJoin(organizations, eq(organizations.id, devices.organizationId))
    .where(eq(devices.id, id));
  if (!found) return undefined;
  const { device, settings, suspendedAtMs } = found;
  return { ...device, settings: organizationSettings.parse(settings), isSuspended: suspendedAtMs !== null };
}

export async function findDevice(
  database: D1Database,
  organizationId: string,
  id: string,
): Promise<DeviceRow | undefined> {
  return await drizzle(database)
    .select()
    .from(devices)
    .where(and(eq(devices.id, id), eq(devices.organizationId, organizationId)))
    .get();
}

const ORDER: ListOrder = { column: devices.name, id: devices.id, direction: 'asc' };

/** Ordered by name; only those of `plantId` if it is given. */
export async function pageDevices(
  database: D1Database,
  { organizationId, allowedPlantIds }: { organizationId: string; allowedPlantIds: string[] | null },
  plantId: string | undefined,
  request: PageRequest,
): Promise<FoundPage<DeviceRow>> {
  const db = drizzle(database);
  const isMeant = and(
    eq(devices.organizationId, organizationId),
    plantId === undefined ? undefined : eq(devices.plantId, plantId),
    isAmong(devices.plantId, allowedPlantIds),
  );
  // Without a filter, uses the organization's counter: counting would read every row.
  const counted =
    plantId === undefined && allowedPlantIds === null
      ? db
          .select({ total: organizations.deviceCount })
          .from(organizations)
          .where(eq(organizations.id, organizationId))
      : boundedCountOf(db, devices, isMeant);
  const rows = db
    .select()
    .from(devices)
    .where(and(isMeant, isAfter(ORDER, request.before)))
    .orderBy(...orderBy(ORDER));
  return await readPage(db, request, rows, counted);
}

/**
 * Creates a device. `serial`: another device has the serial number; `full`: the limit of devices is reached;
 * `plant` or `template`: it was deleted in the meantime.
 */
export async function createDevice(
  database: D1Database,
  organizationId: string,
  request: DeviceRequest,
  audit: (id: string) => AuditEntry,
  now: number,
): Promise<{ row: DeviceRow; change: RegistryChange } | 'serial' | 'full' | 'plant' | 'template'> {
  const id = crypto.randomUUID();
  try {
    const sites = request.plantId === null ? [] : [request.plantId];
    const { results, ...change } = await commitChange(database, organizationId, { sites }, now, (db) => [
      insertIf(
        db,
        devices,
        {
          ...{ id, organizationId, ...request, ...templateColumns(request.templateId) },
          ...{ createdAtMs: now, updatedAtMs: now },
        },
        sql`(SELECT device_count FROM organizations WHERE id = ${organizationId}) < ${LIMIT.devicesPerOrganization}`,
      ).returning(),
      db
        .update(organizations)
        .set({ deviceCount: sql`${organizations.deviceCount} + 1` })
        .where(and(eq(organizations.id, organizationId), IF_CHANGED)),
      auditRowIfChanged(db, audit(id), now),
    ]);
    const [row] = results[0] as DeviceRow[];
    return row ? { row, change } : 'full';
  } catch (error) {
    if (brokenUnique(error)?.includes('devices.serial_number')) return 'serial';
    if (brokeForeignKey(error)) return (await lostTemplate(database, request)) ? 'template' : 'plant';
    throw error;
  }
}

/**
 * Changes any field except the plant, which needs a move. `templateType`: the asset type of the new template. `template`:
 * it was deleted, or a sub-device of another type was linked, in the meantime.
 */
export async function changeDevice(
  database: D1Database,
  { organizationId, id, plantId }: DeviceRow,
  { plantId: _move, ...change }: DeviceChange,
  templateType: AssetType | null,
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange | 'gone' | 'template'> {
  const sites = plantId === null || change.type === undefined ? [] : [plantId];
  try {
    return await commitChangeOf(database, organizationId, { sites }, audit, now, (db) => [
      db
        .update(devices)
        .set({ ...change, ...templateColumns(change.templateId), updatedAtMs: now })
        .where(
          and(eq(devices.id, id), eq(devices.organizationId, organizationId), servesOnly(id, templateType)),
        )
        .returning({ id: devices.id }),
    ]);
  } catch (error) {
    if (brokeForeignKey(error)) return 'template';
    throw error;
  }
}

/** Condition: no sub-device of another asset type is linked to the device. */
function servesOnly(id: string, assetType: AssetType | null) {
  if (assetType === null) return undefined;
  return sql`NOT EXISTS (SELECT 1 FROM ${subDevices}
    WHERE ${subDevices.linkedDeviceId} = ${id} AND ${subDevices.assetType} <> ${assetType})`;
}

/** Deletes the device with its alert rules, and removes it from linked sub-devices. */
export async function deleteDevice(
  database: D1Database,
  { organizationId, id, plantId }: DeviceRow,
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange | 'gone'> {
  const sites = plantId === null ? [] : [plantId];
  return await commitChangeOf(database, organizationId, { sites }, audit, now, (db) => [
    db
      .update(subDevices)
      .set({ linkedDeviceId: null })
      .where(and(eq(subDevices.linkedDeviceId, id), isDeviceOf(organizationId, id))),
    db
      .delete(alertRules)
      .where(and(eq(alertRules.deviceId, id), eq(alertRules.organizationId, organizationId))),
    db.delete(devices).where(and(eq(devices.id, id), eq(devices.organizationId, organizationId))),
    // Only if the previous statement deleted the device.
    db
      .update(organizations)
      .set({ deviceCount: sql`${organizations.deviceCount} - 1` })
      .where(and(eq(organizations.id, organizationId), IF_CHANGED))
      .returning({ id: organizations.id }),
  ]);
}

/** [C-3.1] The device as answers show it, without credentials. */
export function deviceRecordOf(row: DeviceRow, now: number): DeviceRecord {
  const { lastSeenAtMs, provisionedAtMs, suspendedAtMs, tokenExpiresAtMs, createdAtMs } = row;
  const isInGrace = row.hmacGraceUntilMs !== null && now < row.hmacGraceUntilMs;
  return {
    id: row.id,
    organizationId: row.organizationId,
    plantId: row.plantId,
    name: row.name,
    serialNumber: row.serialNumber,
    type: row.type,
    authMethod: row.authMethod,
    metadata: row.metadata,
    templateId: templateIdOf(row),
    status: row.status,
    connectionStatus: row.connectionStatus,
    suspendReason: row.suspendReason,
    ...withInstants({ lastSeenAtMs, provisionedAtMs, suspendedAtMs, tokenExpiresAtMs, createdAtMs }),
    hmacRotation: isInGrace ? { graceUntil: formatInstant(row.hmacGraceUntilMs ?? 0) } : null,
    updatedAt: formatInstant(Math.max(row.updatedAtMs, createdAtMs)),
  };
}

/** Condition for rows that name a device, but no organization. */
function isDeviceOf(organizationId: string, id: string) {
  return sql`EXISTS (SELECT 1 FROM ${devices} WHERE ${devices.id} = ${id} AND ${devices.organizationId} = ${organizationId})`;
}

export function deviceCursorOf({ name, id }: DeviceRow): Cursor {
  return { value: name, id };
}
