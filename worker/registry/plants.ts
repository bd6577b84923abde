/** Plants and their sub-devices as the Worker reads them. */
import { and, asc, eq, inArray, or } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { plants, subDevices } from '../../migrations/schema.ts';

export type PlantRow = typeof plants.$inferSelect;
export type SubDeviceRow = typeof subDevices.$inferSelect;

/** An organization's plants by name; those with that metering point alone, when there is one. */
export async function listPlants(
  database: D1Database,
  organizationId: string,
  ean?: string | undefined,
): Promise<PlantRow[]> {
  return await drizzle(database)
    .select()
    .from(plants)
    .where(
      and(
        eq(plants.organizationId, organizationId),
        ean ? or(eq(plants.eanCons, ean), eq(plants.eanProd, ean)) : undefined,
      ),
    )
    .orderBy(asc(plants.name), asc(plants.id));
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

/** A hundred bound parameters is D1's limit: ids go in slices. */
const IDS_PER_QUERY = 90;

/** By external id, whatever plant they are of. */
export async function listSubDevices(
  database: D1Database,
  plantIds: readonly string[],
): Promise<SubDeviceRow[]> {
  const db = drizzle(database);
  const slices: string[][] = [];
  for (let start = 0; start < plantIds.length; start += IDS_PER_QUERY) {
    slices.push(plantIds.slice(start, start + IDS_PER_QUERY));
  }
  const found = await Promise.all(
    slices.map((ids) =>
      db
        .select()
        .from(subDevices)
        .where(inArray(subDevices.plantId, ids))
        .orderBy(asc(subDevices.externalId)),
    ),
  );
  return found.flat();
}
