/** Plants in D1, and the sub-device list of the partner surface. */
import { and, asc, eq, or, type SQL, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import type { Cursor, FoundPage, PageRequest } from '../protocol/page.ts';
import type { PlantChange, PlantRequest } from '../protocol/plant-record.ts';
import { type ChangeTargets, commitChangeOf, type RegistryChange } from './changes.ts';
import {
  areFewer,
  boundedCountOf,
  brokeForeignKey,
  brokenUnique,
  isAfter,
  isAmong,
  type ListOrder,
  orderBy,
  preparedOnce,
  readPage,
} from './d1.ts';
import type { AuditEntry } from './entries.ts';
import { insertIf } from './insert-if.ts';
import { ceilingIn } from './organizations.ts';
import { alertRules, plants, subDevices } from './schema.ts';

export type PlantRow = typeof plants.$inferSelect;
export type SubDeviceRow = typeof subDevices.$inferSelect;

const BY_NAME = [asc(plants.name), asc(plants.id)];

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
    .orderBy(...BY_NAME);
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

/** What the partner's list of sites shows: the plants as of `listPlants`, and sub-devices ordered by external id. */
export async function listSites(database: D1Database, organizationId: string, ean?: string) {
  const db = drizzle(database);
  const isMeant = ofOrganization(organizationId, ean);
  const { id, name, status, externalPlantId, eanCons, eanProd } = plants;
  const { plantId, externalId: deviceId, assetType } = subDevices;
  const [ofPlants, ofSubDevices] = await db.batch([
    db
      .select({ id, name, status, externalPlantId, eanCons, eanProd })
      .from(plants)
      .where(isMeant)
      .orderBy(...BY_NAME),
    db
      .select({ plantId, deviceId, assetType, name: subDevices.name, status: subDevices.status })
      .from(subDevices)
      .innerJoin(plants, eq(plants.id, plantId))
      .where(isMeant)
      .orderBy(asc(deviceId)),
  ]);
  return { plants: ofPlants, subDevices: ofSubDevices };
}

const ORDER: ListOrder = { column: plants.name, id: plants.id, direction: 'asc' };

/** A page of plants, ordered by name; only `allowed` plants unless it is null. */
export async function pagePlants(
  database: D1Database,
  organizationId: string,
  allowed: readonly string[] | null,
  request: PageRequest,
): Promise<FoundPage<PlantRow>> {
  const db = drizzle(database);
  const isMeant = and(eq(plants.organizationId, organizationId), isAmong(plants.id, allowed));
  const rows = db
    .select()
    .from(plants)
    .where(and(isMeant, isAfter(ORDER, request.before)))
    .orderBy(...orderBy(ORDER));
  return await readPage(db, request, rows, boundedCountOf(db, plants, isMeant));
}

export async function findPlant(
  database: D1Database,
  organizationId: string,
  id: string,
): Promise<PlantRow | undefined> {
  const [found] = await plantIn(database).execute({ id, organizationId });
  return found;
}

const plantIn = preparedOnce((database) =>
  drizzle(database)
    .select()
    .from(plants)
    .where(
      and(eq(plants.id, sql.placeholder('id')), eq(plants.organizationId, sql.placeholder('organizationId'))),
    )
    .prepare(),
);

/** Creates a plant. `taken`: another plant has the EAN or external id; `full`: the limit of plants is reached. */
export async function createPlant(
  database: D1Database,
  organizationId: string,
  request: PlantRequest,
  audit: (id: string) => AuditEntry,
  now: number,
): Promise<{ row: PlantRow; change: RegistryChange } | 'taken' | 'full'> {
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
    const isOwn = eq(plants.organizationId, organizationId);
    const hasRoom = areFewer(plants, isOwn, ceilingIn(organizationId, 'plants'));
    const change = await commitChangeOf(
      database,
      organizationId,
      { vhosts: true },
      audit(row.id),
      now,
      (db) => [insertIf(db, plants, row, hasRoom).returning({ id: plants.id })],
    );
    return change === 'gone' ? 'full' : { row, change };
  });
}

export async function changePlant(
  database: D1Database,
  { organizationId, id }: { organizationId: string; id: string },
  change: PlantChange,
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange | 'taken' | 'gone'> {
  // SQLite needs a column to set, even if the request changes none.
  const columns = { ...change, name: change.name ?? sql`${plants.name}` };
  return await orTaken(() =>
    commitChangeOf(database, organizationId, { vhosts: true }, audit, now, (db) => [
      db
        .update(plants)
        .set(columns)
        .where(and(eq(plants.id, id), eq(plants.organizationId, organizationId)))
        .returning({ id: plants.id }),
    ]),
  );
}

/**
 * Deletes a plant with its sub-devices and alert rules. Once the caller has announced the change, the Site of the
 * plant ends all open commands. `devices`: the plant still has devices; `gone`: the plant was already deleted.
 */
export async function deletePlant(
  database: D1Database,
  { organizationId, id }: { organizationId: string; id: string },
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange | 'devices' | 'gone'> {
  try {
    const affected: ChangeTargets = { sites: [id], vhosts: true };
    return await commitChangeOf(database, organizationId, affected, audit, now, (db) => [
      db.delete(subDevices).where(and(eq(subDevices.plantId, id), isPlantOfOrganization(organizationId, id))),
      db
        .delete(alertRules)
        .where(and(eq(alertRules.plantId, id), eq(alertRules.organizationId, organizationId))),
      db
        .delete(plants)
        .where(and(eq(plants.id, id), eq(plants.organizationId, organizationId)))
        .returning({ id: plants.id }),
    ]);
  } catch (error) {
    if (brokeForeignKey(error)) return 'devices';
    throw error;
  }
}

/** Condition for rows of a plant, which name no organization themselves. */
export function isPlantOfOrganization(organizationId: string, plantId: string): SQL {
  return sql`EXISTS (SELECT 1 FROM ${plants} WHERE ${plants.id} = ${plantId} AND ${plants.organizationId} = ${organizationId})`;
}

async function orTaken<Value>(work: () => Promise<Value>): Promise<Value | 'taken'> {
  try {
    return await work();
  } catch (error) {
    if (brokenUnique(error)?.includes('plants.')) return 'taken';
    throw error;
  }
}

export function plantCursorOf({ name, id }: PlantRow): Cursor {
  return { value: name, id };
}
