/**
 * Moves a device to the Site of another plant, or to a Site of its own if it has no plant. D1 stores the
 * destination first; every step can be repeated. An interrupted move is finished by the scheduled task, or by the
 * next request for the device that does more than read its record or its telemetry.
 */

import { reasonOf } from '../../durable-objects/object/reason.ts';
import type { RegistryChange } from '../../registry/changes.ts';
import { beginMove, devicesOnTheWay, finishMove } from '../../registry/device-moves.ts';
import { type DeviceRow, findDialingDevice } from '../../registry/devices.ts';
import type { AuditEntry } from '../../registry/entries.ts';
import type { Env } from '../env.ts';
import { siteById, siteIdOf } from './device-site.ts';

const MOVES_PER_ROUND = 10;

/**
 * Moves a device. `linked`: refused, because a sub-device is linked to the device; `busy`: refused, because
 * another request is moving or provisioning it.
 */
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

/** Returns the device after finishing an interrupted move. */
export async function deviceAfterMove(env: Env, device: DeviceRow, now: number): Promise<DeviceRow> {
  if (device.movingTo === null) return device;
  await completeMove(env, device, now);
  return (await findDialingDevice(env.DB, device.id)) ?? device;
}

/** Finishes interrupted moves. */
export async function finishMoves(env: Env, now: number): Promise<void> {
  for (const { id } of await devicesOnTheWay(env.DB, MOVES_PER_ROUND)) {
    try {
      // Reads the device again: finishing the previous moves took time.
      const device = await findDialingDevice(env.DB, id);
      if (device) await deviceAfterMove(env, device, now);
    } catch (error) {
      console.error('move of a device failed, housekeeping will retry in a minute', {
        deviceId: id,
        reason: reasonOf(error),
      });
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
  // The destination plant was deleted in the meantime: the device gets no plant.
  await carry(env, id, to, id);
  const home = await finishMove(env.DB, device, null, now);
  if (home === 'plant')
    throw new Error(`device ${id} moves to no plant, but D1 answered that its new plant does not exist`);
  for (const siteId of new Set([from, to])) if (siteId !== id) await leave(env, id, siteId);
  return home;
}

/** Moves the device's data to another Site. Does nothing if it is not provisioned or already moved. */
async function carry(env: Env, id: string, from: string, to: string): Promise<void> {
  if (from === to) return;
  const [source, target] = [siteById(env, from), siteById(env, to)];
  const pack = await source.releaseDevice(id, to);
  if (!pack) return;
  // A device may have more nonces than one call can carry.
  for (let { next } = pack; next; ) {
    const part = await source.releaseDevice(id, to, next);
    if (part) await target.takeDevice(to, id, part);
    next = part?.next;
  }
  await target.takeDevice(to, id, pack);
}

/**
 * Deletes the data in the previous Site. If that fails, the Site deletes it with the next change of its plant; the
 * object of a device that had no plant keeps it until the device returns there.
 */
async function leave(env: Env, id: string, siteId: string): Promise<void> {
  await siteById(env, siteId)
    .dropDevice(id)
    .catch((error: unknown) => {
      console.warn(
        'moved device not deleted from its previous site, the next change of its old plant, if any, deletes it',
        {
          deviceId: id,
          siteId,
          reason: reasonOf(error),
        },
      );
    });
}
