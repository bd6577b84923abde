/**
 * Backups of the object of a plant or of an API key: the fence that keeps its data unchanged, and what a restore must
 * not undo. A backup may be older than a revocation, a suspension or a move of a device, so D1 decides about these.
 */

import { type BackupRpc, FENCED, RELOADS } from '../../durable-objects/backup-rpc.ts';
import type { SiteStub } from '../../durable-objects/env.ts';
import { causesOf } from '../../durable-objects/object/reason.ts';
import { objectNamed } from '../../durable-objects/object-id.ts';
import { deviceStates } from '../../registry/sealed.ts';
import type { Env } from '../env.ts';

export interface BackupObject {
  object: 'plant' | 'key';
  id: string;
}

type Stub = Pick<SiteStub, keyof BackupRpc>;

/** A new stub at each call: the stub of an object that reloaded stays broken. */
export function objectOf(env: Env, { object, id }: BackupObject): Stub {
  return object === 'plant' ? objectNamed(env, 'SITE', id) : objectNamed(env, 'VHOST', id);
}

/** Raises a fence. False if another one is up. */
export async function raiseFence(
  env: Env,
  object: BackupObject,
  fence: { id: string; untilMs: number },
): Promise<boolean> {
  await untilReloaded(objectOf(env, object).raiseFence(fence));
  return (await objectOf(env, object).fence())?.id === fence.id;
}

/** Lowers a fence; one that is not up is lowered already. */
export async function lowerFence(env: Env, object: BackupObject, fenceId: string): Promise<void> {
  await untilReloaded(objectOf(env, object).lowerFence(fenceId));
}

/**
 * Calls an object for a change that must not wait, such as a revocation: a fence in its way is lowered, so the backup or
 * restore fails and must begin again. The fence refused the first call before it changed anything.
 */
export async function pastFence<Answer>(
  env: Env,
  object: BackupObject,
  call: () => Promise<Answer>,
): Promise<Answer> {
  try {
    return await call();
  } catch (error) {
    if (!isSaid(error, FENCED) && !isSaid(error, RELOADS)) throw error;
    const fence = await objectOf(env, object).fence();
    if (fence) await lowerFence(env, object, fence.id);
    return await call();
  }
}

/**
 * Makes a restored Site obey D1: deletes the devices that D1 no longer has at this plant, and gives the others their
 * status in D1. Returns how many devices were changed.
 */
export async function settleDevices(env: Env, plantId: string, ids: string[]): Promise<number> {
  const site = objectNamed(env, 'SITE', plantId);
  const states = await deviceStates(env.DB, ids);
  let changed = 0;
  for (const id of ids) {
    const state = states.get(id);
    if (state?.plantId !== plantId) await site.forgetDevice(id);
    else if (state.status === 'PENDING' || !(await site.setDeviceStatus(id, state.status))) continue;
    changed += 1;
  }
  return changed;
}

/** An object that reloads breaks off the call that asked for it. */
async function untilReloaded(call: Promise<void>): Promise<void> {
  try {
    await call;
  } catch (error) {
    if (!isSaid(error, RELOADS)) throw error;
  }
}

/** Whether an object refused a call with this text. */
function isSaid(error: unknown, text: string): boolean {
  return causesOf(error as Error).some(({ message }) => message.includes(text));
}
