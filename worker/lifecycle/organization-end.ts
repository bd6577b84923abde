/**
 * The end of organizations. The sessions of a suspended organization end at once. Of a deleted one,
 * housekeeping erases the objects of its keys, plants and devices, and then their rows; a step that fails is
 * repeated in the next round.
 */
import { reasonOf } from '../../durable-objects/object/reason.ts';
import { deleteRest, deleteRows, findRemains, onlineWithoutPlant } from '../../registry/organization-end.ts';
import type { Env } from '../env.ts';
import { discardVhost } from './api-key.ts';
import { siteById, siteOf } from './device-site.ts';

/**
 * Maximum number of objects of each kind in one step; for all kinds together less than the number that
 * Cloudflare allows a request to call.
 */
const OBJECTS_PER_STEP = 50;
const STEPS_PER_ROUND = 3;
const ROWS_PER_ROUND = 5_000;
const SESSIONS_PER_ROUND = 200;

/**
 * Ends the sessions of devices without a plant in suspended organizations. The Site of a plant ends its
 * sessions when its copy of the registry changes, but the object of a device without a plant has no such
 * copy. Housekeeping repeats it until none is left.
 */
export async function endPlantlessSessions(env: Env, now: number, organizationId?: string): Promise<void> {
  const devices = await onlineWithoutPlant(env.DB, organizationId, SESSIONS_PER_ROUND);
  const ended = await Promise.allSettled(
    devices.map((device) => siteOf(env, device).endSessionBy(device.id, now)),
  );
  for (const one of ended) {
    if (one.status === 'rejected')
      console.warn('session of a device in a suspended organization not ended, housekeeping will retry', {
        reason: reasonOf(one.reason),
      });
  }
}

/** Erases a part of what deleted organizations have left. */
export async function eraseRemains(env: Env): Promise<void> {
  for (let step = 0; step < STEPS_PER_ROUND; step++) {
    if (!(await eraseSome(env))) return;
  }
}

/** Erases some objects with their rows. Returns false if nothing is left. */
async function eraseSome(env: Env): Promise<boolean> {
  const remains = await findRemains(env.DB, OBJECTS_PER_STEP);
  if (!remains) return false;
  const { organizationId, devices } = remains;
  // If an object cannot be erased, its row is kept, so that a later round erases it; the others are erased now.
  const keyIds = await erased(remains.keyIds, (id) => discardVhost(env, id));
  const plantIds = await erased(remains.plantIds, (id) => siteById(env, id).erase());
  const alone = await erased(devices, (device) => siteOf(env, device).erase());
  await deleteRows(env.DB, { organizationId, keyIds, plantIds, devices: alone });
  const isEmpty = remains.keyIds.length + remains.plantIds.length + devices.length === 0;
  if (isEmpty) await deleteRest(env.DB, organizationId, ROWS_PER_ROUND);
  return true;
}

/** Calls `erase` for all items; returns those for which it succeeded. */
async function erased<Item>(
  items: readonly Item[],
  erase: (item: Item) => Promise<unknown>,
): Promise<Item[]> {
  const results = await Promise.allSettled(items.map(erase));
  return items.filter((_item, index) => {
    const result = results[index];
    if (result?.status === 'rejected')
      console.error('object of a deleted organization not erased, housekeeping will retry', {
        reason: reasonOf(result.reason),
      });
    return result?.status === 'fulfilled';
  });
}
