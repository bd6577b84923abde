/**
 * A device moves to another plant's object, or to its own: the way is in D1 first, then each step is done until all are.
 * A request that does not finish it leaves it to the clock, or to whoever next asks something of the device.
 */

import { reasonOf } from '../../durable-objects/object/reason.ts';
import type { AuditEntry } from '../../durable-objects/registry/entries.ts';
import type { Env } from '../env.ts';
import type { RegistryChange } from '../registry/changes.ts';
import { beginMove, devicesOnTheWay, finishMove } from '../registry/device-moves.ts';
import { type DeviceRow, findDialingDevice } from '../registry/devices.ts';
import { siteById, siteIdOf } from './device-site.ts';

const MOVES_PER_ROUND = 10;

/** `linked`: a sub-device holds it where it is; `busy`: somebody else moves or provisions it. */
export async function moveDevice(
  env: Env,
  device: DeviceRow,
  plantId: string | null,
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange | 'linked' | 'busy'> {
  const to = siteIdOf({ id: device.id, plantId });
  const begun = await beginMove(env.DB, device, to, audit, now);
  if (begun !== 'begun') return begun;
  return await completeMove(env, { ...device, movingTo: to }, now);
}

/** A device that is where the registry says, whoever began to move it. */
export async function settledDevice(env: Env, device: DeviceRow, now: number): Promise<DeviceRow> {
  if (device.movingTo === null) return device;
  await completeMove(env, device, now);
  return (await findDialingDevice(env.DB, device.id)) ?? device;
}

/** Moves that a request left under way. */
export async function finishMoves(env: Env, now: number): Promise<void> {
  for (const { id } of await devicesOnTheWay(env.DB, MOVES_PER_ROUND)) {
    try {
      // Where it is by now: those before it took their time.
      const device = await findDialingDevice(env.DB, id);
      if (device) await settledDevice(env, device, now);
    } catch (error) {
      console.error('device not moved yet', { deviceId: id, reason: reasonOf(error) });
    }
  }
}

async function completeMove(env: Env, device: DeviceRow, now: number): Promise<RegistryChange> {
  const { id } = device;
  const from = siteIdOf(device);
  const to = device.movingTo ?? from;
  await carry(env, id, from, to);
  const change = await finishMove(env.DB, device, to === id ? null : to, now);
  if (change !== 'plant') {
    await leave(env, id, from);
    return change;
  }
  // Where it went is no more: it has no plant then.
  await carry(env, id, to, id);
  const home = await finishMove(env.DB, device, null, now);
  if (home === 'plant') throw new Error('a device without a plant needs none');
  for (const siteId of new Set([from, to])) if (siteId !== id) await leave(env, id, siteId);
  return home;
}

/** One that is not there, not provisioned or carried already, has nothing to carry. */
async function carry(env: Env, id: string, from: string, to: string): Promise<void> {
  if (from === to) return;
  const pack = await siteById(env, from).releaseDevice(id, to);
  if (pack) await siteById(env, to).takeDevice(to, id, pack);
}

/** What is left there is nobody's: it goes now, or with the next change of its plant. */
async function leave(env: Env, id: string, siteId: string): Promise<void> {
  await siteById(env, siteId)
    .dropDevice(id)
    .catch((error: unknown) => {
      console.warn('device left something behind', { deviceId: id, siteId, reason: reasonOf(error) });
    });
}
