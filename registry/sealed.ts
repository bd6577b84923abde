/**
 * The objects that store encrypted (sealed) values: the Vhosts of API keys, and the Sites that serve devices
 * [C-14.7].
 */
import { and, eq, isNull, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { isAmong } from './d1.ts';
import { apiKeys, devices, plants } from './schema.ts';

export interface SealedObject {
  kind: 'site' | 'vhost';
  id: string;
}

/**
 * Up to `most` objects whose id follows `after`, in the order of their ids. A device without a plant has an object of its
 * own.
 */
export async function objectsAfter(
  database: D1Database,
  after: string,
  most: number,
): Promise<SealedObject[]> {
  return await drizzle(database).all<SealedObject>(sql`
    SELECT kind, id FROM (
      SELECT 'vhost' AS kind, ${apiKeys.id} AS id FROM ${apiKeys} WHERE ${apiKeys.revokedAtMs} IS NULL
      UNION ALL SELECT 'site', ${plants.id} FROM ${plants}
      UNION ALL SELECT 'site', ${devices.id} FROM ${devices} WHERE ${devices.plantId} IS NULL
    ) WHERE id > ${after} ORDER BY id LIMIT ${most}`);
}

/** The organization of a plant, or of an API key that is in use; undefined: there is no such thing. */
export async function findOwner(
  database: D1Database,
  kind: 'plant' | 'key',
  id: string,
): Promise<string | undefined> {
  const db = drizzle(database);
  const found =
    kind === 'plant'
      ? await db.select({ owner: plants.organizationId }).from(plants).where(eq(plants.id, id)).get()
      : await db
          .select({ owner: apiKeys.organizationId })
          .from(apiKeys)
          .where(and(eq(apiKeys.id, id), eq(apiKeys.state, 'active'), isNull(apiKeys.revokedAtMs)))
          .get();
  return found?.owner;
}

/** The plant and status of each of these devices that D1 has. */
export async function deviceStates(database: D1Database, ids: string[]) {
  const { id, plantId, status } = devices;
  const rows = await drizzle(database).select({ id, plantId, status }).from(devices).where(isAmong(id, ids));
  return new Map(rows.map((row) => [row.id, row]));
}
