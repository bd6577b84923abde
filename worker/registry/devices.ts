/** Devices in the registry [C-3.1]. Their secrets are in the Site that serves them. */
import { and, asc, count, eq, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { auditRow, auditRowIfChanged } from '../../durable-objects/registry/audit-events.ts';
import type { AuditEntry } from '../../durable-objects/registry/entries.ts';
import { alertRules, devices, organizations, subDevices } from '../../migrations/schema.ts';
import type { DeviceChange, DeviceRequest } from '../../protocol/device-record.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { type OrganizationSettings, organizationSettings } from '../../protocol/organization.ts';
import type { PageRequest } from '../../protocol/page.ts';
import { brokeForeignKey, brokenUnique, isEmpty } from './broken.ts';
import { commitChange, type RegistryChange } from './changes.ts';

export type DeviceRow = typeof devices.$inferSelect;

/** A device that connects, with its organization's settings. */
export type DialingDevice = DeviceRow & { settings: OrganizationSettings };

export async function findDialingDevice(
  database: D1Database,
  id: string,
): Promise<DialingDevice | undefined> {
  const [found] = await drizzle(database)
    .select({ device: devices, settings: organizations.settings })
    .from(devices)
    .innerJoin(organizations, eq(organizations.id, devices.organizationId))
    .where(eq(devices.id, id));
  return found && { ...found.device, settings: organizationSettings.parse(found.settings) };
}

export async function findDevice(
  database: D1Database,
  organizationId: string,
  id: string,
): Promise<DeviceRow | undefined> {
  const [row] = await drizzle(database)
    .select()
    .from(devices)
    .where(and(eq(devices.id, id), eq(devices.organizationId, organizationId)));
  return row;
}

/** Ordered by name; only those of `plantId` if it is given. */
export async function pageDevices(
  database: D1Database,
  { organizationId, allowedPlantIds }: { organizationId: string; allowedPlantIds: string[] | null },
  plantId: string | undefined,
  { page, limit }: PageRequest,
): Promise<{ rows: DeviceRow[]; total: number }> {
  const db = drizzle(database);
  const isMeant = and(
    eq(devices.organizationId, organizationId),
    plantId === undefined ? undefined : eq(devices.plantId, plantId),
    allowedPlantIds === null
      ? undefined
      : sql`${devices.plantId} IN (SELECT value FROM json_each(${JSON.stringify(allowedPlantIds)}))`,
  );
  // Without a filter, uses the organization's counter: counting would read every row.
  const total =
    plantId === undefined && allowedPlantIds === null
      ? db
          .select({ total: organizations.deviceCount })
          .from(organizations)
          .where(eq(organizations.id, organizationId))
      : db.select({ total: count() }).from(devices).where(isMeant);
  const [rows, [known]] = await db.batch([
    db
      .select()
      .from(devices)
      .where(isMeant)
      .orderBy(asc(devices.name), asc(devices.id))
      .limit(limit)
      .offset((page - 1) * limit),
    total,
  ]);
  return { rows, total: known?.total ?? 0 };
}

/** `serial`: another device has the serial number; `full`: device limit reached; `plant`: the plant was deleted. */
export async function createDevice(
  database: D1Database,
  organizationId: string,
  request: DeviceRequest,
  audit: (id: string) => AuditEntry,
  now: number,
): Promise<{ row: DeviceRow; change: RegistryChange } | 'serial' | 'full' | 'plant'> {
  const [own] = await drizzle(database)
    .select({ total: organizations.deviceCount })
    .from(organizations)
    .where(eq(organizations.id, organizationId));
  if ((own?.total ?? 0) >= LIMIT.devicesPerOrganization) return 'full';
  const id = crypto.randomUUID();
  try {
    const sites = request.plantId === null ? [] : [request.plantId];
    const { results, ...change } = await commitChange(database, organizationId, { sites }, now, (db) => [
      db
        .insert(devices)
        .values({ id, organizationId, ...request, createdAtMs: now, updatedAtMs: now })
        .returning(),
      db
        .update(organizations)
        .set({ deviceCount: sql`${organizations.deviceCount} + 1` })
        .where(eq(organizations.id, organizationId)),
      auditRow(db, audit(id), now),
    ]);
    const [row] = results[0] as DeviceRow[];
    if (!row) throw new Error('the insert returned no row');
    return { row, change };
  } catch (error) {
    if (brokenUnique(error)?.includes('devices.serial_number')) return 'serial';
    if (brokeForeignKey(error)) return 'plant';
    throw error;
  }
}

/** Changes any field except the plant, which needs a move. */
export async function changeDevice(
  database: D1Database,
  { organizationId, id, plantId }: DeviceRow,
  { plantId: _move, ...change }: DeviceChange,
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange | 'gone'> {
  const columns = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));
  const sites = plantId === null || change.type === undefined ? [] : [plantId];
  const { results, ...affected } = await commitChange(database, organizationId, { sites }, now, (db) => [
    db
      .update(devices)
      .set({ ...columns, updatedAtMs: now })
      .where(eq(devices.id, id))
      .returning({ id: devices.id }),
    auditRowIfChanged(db, audit, now),
  ]);
  return isEmpty(results[0]) ? 'gone' : affected;
}

/** Deletes the device with its alert rules, and removes it from linked sub-devices. */
export async function deleteDevice(
  database: D1Database,
  { organizationId, id, plantId }: DeviceRow,
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange | 'gone'> {
  const sites = plantId === null ? [] : [plantId];
  const { results, ...affected } = await commitChange(database, organizationId, { sites }, now, (db) => [
    db.update(subDevices).set({ linkedDeviceId: null }).where(eq(subDevices.linkedDeviceId, id)),
    db.delete(alertRules).where(eq(alertRules.deviceId, id)),
    db.delete(devices).where(eq(devices.id, id)).returning({ id: devices.id }),
    auditRowIfChanged(db, audit, now),
    // `changes()` counts the audit row of the previous statement, which exists only if the device was deleted.
    db
      .update(organizations)
      .set({ deviceCount: sql`${organizations.deviceCount} - 1` })
      .where(and(eq(organizations.id, organizationId), sql`changes() > 0`)),
  ]);
  return isEmpty(results[2]) ? 'gone' : affected;
}
