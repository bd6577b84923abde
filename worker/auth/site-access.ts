/** The sites that an API key sees. A foreign site, and one outside allowedPlantIds, is not found [C-4.2]. */
import type { Context } from 'hono';
import type { SiteStub } from '../../durable-objects/env.ts';
import type { AppContext } from '../env.ts';
import { ApiError } from '../http/error-response.ts';
import type { ApiKey } from '../registry/api-keys.ts';
import { isPlantOf } from '../registry/plants.ts';

/** Whether the caller may see the plant. A caller without allowedPlantIds sees all plants. */
export function maySee({ allowedPlantIds }: Pick<ApiKey, 'allowedPlantIds'>, plantId: string): boolean {
  return allowedPlantIds?.includes(plantId) ?? true;
}

/** The object of a site. Throws SITE_NOT_FOUND if the key may not see the site. */
export async function requireSite(c: Context<AppContext>, siteId: string): Promise<SiteStub> {
  const apiKey = c.get('apiKey');
  const isThere = await isPlantOf(c.env.DB, apiKey.organizationId, siteId);
  if (!isThere || !maySee(apiKey, siteId)) throw new ApiError('SITE_NOT_FOUND', 'Site not found');
  return c.env.SITE.get(c.env.SITE.idFromName(siteId));
}
