/** Plants in D1, and the sub-device list of the partner surface. */
import { and, asc, count, eq, getTableColumns, or, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { auditRow, auditRowIfChanged } from '../../durable-objects/registry/audit-events.ts';
import type { AuditEntry } from '../../durable-objects/registry/entries.ts';
import { alertRules, plants, subDevices } from '../../migrations/schema.ts';
import { LIMIT } from '../../protocol/limits.ts';
import type { PageRequest } from '../../protocol/page.ts';
import type { PlantChange, PlantRequest } from '../../protocol/plant-record.ts';
import { brokeForeignKey, brokenUnique, isEmpty } from './broken.ts';
import { type ChangeTargets, commitChange, type RegistryChange } from './changes.ts';

export type PlantRow = typeof plants.$inferSelect;
export type SubDeviceRow = typeof subDevices.$inferSelect;

/** An organization's plants, ordered by name; only those with the metering point `ean` if it is given. */
export async function listPlants(
  database: D1Database,
  organizationId: string,
  ean?: string | undefined,
): Promise<PlantRow[]> {
  return await drizzle(database)
    .select()
    .from(plants)
    .where(ofOrganization(organizationId, ean))
    .orderBy(asc(plants.name), asc(plants.id));
}

function ofOrganization(organizationId: string, ean: string | undefined) {
  const isMetered = ean ? or(eq(plants.eanCons, ean), eq(plants.eanProd, ean)) : undefined;
  return and(eq(plants.organizationId, organizationId), isMetered);
}

export async function isPlantOf(
  database: D1Database,
  organizationId: string,
  plantId: string,
): Promise<boolean> {
  const found = await drizzle(database)
    .select({ id: plants.id })
    .from(plants)
    .where(and(eq(plants.id, plantId), eq(plants.organizationId, organizationId)));
  return found.length > 0;
}

/** The sub-devices of all plants, or of the plants with the metering point `ean`, ordered by external id. */
export async function listSubDevices(
  database: D1Database,
  organizationId: string,
  ean?: string,
): Promise<SubDeviceRow[]> {
  return await drizzle(database)
    .select(getTableColumns(subDevices))
    .from(subDevices)
    .innerJoin(plants, eq(plants.id, subDevices.plantId))
    .where(ofOrganization(organizationId, ean))
    .orderBy(asc(subDevices.externalId));
}

/** A page of plants, ordered by name; only `allowed` plants unless it is null. */
export async function pagePlants(
  database: D1Database,
  organizationId: string,
  allowed: readonly string[] | null,
  { page, limit }: PageRequest,
): Promise<{ rows: PlantRow[]; total: number }> {
  if (allowed) {
    const rows = (await listPlants(database, organizationId)).filter(({ id }) => allowed.includes(id));
    return { rows: rows.slice((page - 1) * limit, page * limit), total: rows.length };
  }
  const db = drizzle(database);
  const isOwn = eq(plants.organizationId, organizationId);
  const [rows, [total]] = await db.batch([
    db
      .select()
      .from(plants)
      .where(isOwn)
      .orderBy(asc(plants.name), asc(plants.id))
      .limit(limit)
      .offset((page - 1) * limit),
    db.select({ total: count() }).from(plants).where(isOwn),
  ]);
  return { rows, total: total?.total ?? 0 };
}

export async function findPlant(
  database: D1Database,
  organizationId: string,
  id: string,
): Promise<PlantRow | undefined> {
  const [row] = await drizzle(database)
    .select()
    .from(plants)
    .where(and(eq(plants.id, id), eq(plants.organizationId, organizationId)));
  return row;
}

/** `taken`: another plant has the EAN or external id; `full`: the limit of plants is reached. */
export async function createPlant(
  database: D1Database,
  organizationId: string,
  request: PlantRequest,
  audit: (id: string) => AuditEntry,
  now: number,
): Promise<{ row: PlantRow; change: RegistryChange } | 'taken' | 'full'> {
  const [own] = await drizzle(database)
    .select({ total: count() })
    .from(plants)
    .where(eq(plants.organizationId, organizationId));
  if ((own?.total ?? 0) >= LIMIT.plantsPerOrganization) return 'full';
  const row: PlantRow = {
    id: crypto.randomUUID(),
    organizationId,
    name: request.name,
    externalPlantId: request.externalPlantId ?? null,
    eanCons: request.eanCons ?? null,
    eanProd: request.eanProd ?? null,
    timezone: request.timezone ?? 'UTC',
    status: 'PENDING',
    createdAtMs: now,
  };
  return await orTaken(async () => {
    const change = await commitChange(database, organizationId, { vhosts: true }, now, (db) => [
      db.insert(plants).values(row),
      auditRow(db, audit(row.id), now),
    ]);
    return { row, change };
  });
}

export async function changePlant(
  database: D1Database,
  { organizationId, id }: { organizationId: string; id: string },
  change: PlantChange,
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange | 'taken' | 'gone'> {
  const columns = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));
  return await orTaken(async () => {
    const { results, ...affected } = await commitChange(
      database,
      organizationId,
      { vhosts: true },
      now,
      (db) => [
        db
          .update(plants)
          .set({ name: sql`${plants.name}`, ...columns })
          .where(eq(plants.id, id))
          .returning({ id: plants.id }),
        auditRowIfChanged(db, audit, now),
      ],
    );
    return isEmpty(results[0]) ? 'gone' : affected;
  });
}

/**
 * Deletes a plant with its sub-devices and alert rules; its Site then ends all open commands. `devices`: the
 * plant still has devices; `gone`: it was already deleted.
 */
export async function deletePlant(
  database: D1Database,
  { organizationId, id }: { organizationId: string; id: string },
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange | 'devices' | 'gone'> {
  try {
    const affected: ChangeTargets = { sites: [id], vhosts: true };
    const { results, ...change } = await commitChange(database, organizationId, affected, now, (db) => [
      db.delete(subDevices).where(eq(subDevices.plantId, id)),
      db.delete(alertRules).where(eq(alertRules.plantId, id)),
      db.delete(plants).where(eq(plants.id, id)).returning({ id: plants.id }),
      auditRowIfChanged(db, audit, now),
    ]);
    return isEmpty(results[2]) ? 'gone' : change;
  } catch (error) {
    if (brokeForeignKey(error)) return 'devices';
    throw error;
  }
}

async function orTaken<Value>(work: () => Promise<Value>): Promise<Value | 'taken'> {
  try {
    return await work();
  } catch (error) {
    if (brokenUnique(error)?.includes('plants.')) return 'taken';
    throw error;
  }
}
