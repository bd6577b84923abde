/**
 * The objects that store encrypted (sealed) values: the Vhosts of API keys, and the Sites that serve devices
 * [C-14.7].
 */
import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { apiKeys, devices, plants } from '../../migrations/schema.ts';

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
