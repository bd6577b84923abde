/**
 * Ends organizations: a suspended one is refused everywhere at once, and of a deleted one housekeeping erases the objects
 * of its keys, plants and devices, then their rows. A step that fails is repeated in the next round.
 */
import { reasonOf } from '../../durable-objects/object/reason.ts';
import type { Env } from '../env.ts';
import { deleteRest, deleteRows, findRemains, onlineWithoutPlant } from '../registry/organization-end.ts';
import { discardVhost } from './api-key.ts';
import { siteById, siteOf } from './device-site.ts';

/** Objects of each kind in one round of housekeeping. */
const OBJECTS_PER_ROUND = 50;
const ROWS_PER_ROUND = 5_000;
/** Devices without a plant whose sessions one request ends. */
const MAX_ENDED = 500;

/**
 * Ends the sessions of devices without a plant, which have no copy of the registry. A device that is missed here keeps its
 * session until its token expires, and then gets no other one.
 */
export async function endPlantlessSessions(env: Env, organizationId: string, now: number): Promise<void> {
  const devices = await onlineWithoutPlant(env.DB, organizationId, MAX_ENDED);
  const ended = await Promise.allSettled(
    devices.map((device) => siteOf(env, device).endSessionBy(device.id, now)),
  );
  for (const one of ended) {
    if (one.status === 'rejected')
      console.warn('session of a device not ended', { organizationId, reason: reasonOf(one.reason) });
  }
}

/** Erases a part of what is left of a deleted organization. */
export async function eraseRemains(env: Env): Promise<void> {
  const remains = await findRemains(env.DB, OBJECTS_PER_ROUND);
  if (!remains) return;
  const { organizationId, keyIds, plantIds, devices } = remains;
  await Promise.all([
    ...keyIds.map((id) => discardVhost(env, id)),
    ...plantIds.map((id) => siteById(env, id).erase()),
    ...devices.map((device) => siteOf(env, device).erase()),
  ]);
  await deleteRows(env.DB, remains);
  const isAll = [keyIds, plantIds, devices].every(({ length }) => length < OBJECTS_PER_ROUND);
  if (isAll) await deleteRest(env.DB, organizationId, ROWS_PER_ROUND);
}
