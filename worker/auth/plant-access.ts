/** The plant of a path (admin). Foreign plants and those outside the key's are not found [C-1.3], [C-4.2]. */
import type { Context } from 'hono';
import type { AppContext } from '../env.ts';
import { ApiError } from '../http/error-response.ts';
import { findPlant, type PlantRow } from '../registry/plants.ts';
import { maySee } from './site-access.ts';

export async function requirePlant(c: Context<AppContext>, plantId: string): Promise<PlantRow> {
  const tenant = c.get('tenant');
  const plant = await findPlant(c.env.DB, tenant.organizationId, plantId);
  if (!plant || !maySee(tenant, plantId)) throw plantNotFound();
  return plant;
}

export function plantNotFound(): ApiError {
  return new ApiError('PLANT_NOT_FOUND', 'Plant not found');
}
