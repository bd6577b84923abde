/** Which sites an API key sees: a foreign one, and one outside allowedPlantIds, answers as an absent one [C-4.2]. */
import type { Context } from 'hono';
import type { SiteStub } from '../../durable-objects/env.ts';
import type { AppContext } from '../env.ts';
import { ApiError } from '../http/error-response.ts';
import type { ApiKey } from '../registry/api-keys.ts';
import { isPlantOf } from '../registry/plants.ts';

/** Whether a key's limits leave it a plant; whoever has none sees all. */
export function maySee({ allowedPlantIds }: Pick<ApiKey, 'allowedPlantIds'>, plantId: string): boolean {
  return allowedPlantIds?.includes(plantId) ?? true;
}

/** The object of a site that the key sees. */
export async function requireSite(c: Context<AppContext>, siteId: string): Promise<SiteStub> {
  const apiKey = c.get('apiKey');
  const isThere = await isPlantOf(c.env.DB, apiKey.organizationId, siteId);
  if (!isThere || !maySee(apiKey, siteId)) throw new ApiError('SITE_NOT_FOUND', 'Site not found');
  return c.env.SITE.get(c.env.SITE.idFromName(siteId));
}
