/** The device of a path. A foreign device, and one outside the key's plants, is not found [C-1.3], [C-4.2]. */
import type { Context } from 'hono';
import type { AppContext } from '../env.ts';
import { ApiError } from '../http/error-response.ts';
import { settledDevice } from '../lifecycle/device-move.ts';
import { type DeviceRow, findDevice } from '../registry/devices.ts';
import { maySee } from './site-access.ts';

export async function requireDevice(c: Context<AppContext>, id: string): Promise<DeviceRow> {
  const tenant = c.get('tenant');
  const device = await findDevice(c.env.DB, tenant.organizationId, id);
  // A key that is limited to plants does not see devices without a plant.
  if (!device || !maySee(tenant, device.plantId ?? '')) throw deviceNotFound();
  return device;
}

/** As `requireDevice`, but finishes an interrupted move first, so that the device is in the Site that D1 names. */
export async function requireSettledDevice(c: Context<AppContext>, id: string): Promise<DeviceRow> {
  return await settledDevice(c.env, await requireDevice(c, id), Date.now());
}

export function deviceNotFound(): ApiError {
  return new ApiError('NOT_FOUND', 'Device not found');
}
