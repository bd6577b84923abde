/**
 * Makes registry changes effective before their request is answered (after it with `announceLater`): D1 stores
 * the change with a version, then the Sites and Vhosts with a copy apply it, up to MAX_NOTIFIED of them. If there
 * are more, or one fails, the change stays in D1 and is announced again by the next change and by the scheduled
 * task.
 */

import type { Context } from 'hono';
import { reasonOf } from '../../durable-objects/object/reason.ts';
import { objectNamed } from '../../durable-objects/object-id.ts';
import { dueChanges, type RegistryChange, storeTargetsLeft, type Target } from '../../registry/changes.ts';
import type { AppContext, Env } from '../env.ts';
import { unavailable } from '../http/error-response.ts';

const AT_ONCE = 50;
/**
 * Maximum number of objects that one request notifies, because Cloudflare limits the calls of a request. The
 * scheduled task notifies the others within a minute.
 */
const MAX_NOTIFIED = 900;
const ANSWER_MS = 5_000;
const DUE_PER_ROUND = 10;

/**
 * Notifies up to MAX_NOTIFIED objects and returns when all of these have applied the change. Throws 503 if
 * one of them has not. Objects that did not confirm the change are notified again later.
 */
export async function announce(c: Context<AppContext>, change: RegistryChange): Promise<void> {
  const { env } = c;
  const { failed, left } = await notify(env, change);
  await storeTargetsLeft(env.DB, change.id, left, Date.now());
  // Each change also retries earlier changes that are due.
  c.executionCtx.waitUntil(announceDue(env, Date.now()).catch((error: unknown) => warn(error)));
  if (failed === 0) return;
  console.warn('registry change not confirmed by all objects, housekeeping will notify the others', {
    organizationId: change.organizationId,
    failed,
  });
  throw unavailable('The change is stored and takes effect within a minute: do not repeat it', 60);
}

/**
 * Announces a change after the answer, and only logs a failure. For changes on which the client's next request does not
 * depend.
 */
export function announceLater(c: Context<AppContext>, change: RegistryChange): void {
  const affected = announce(c, change).catch((error: unknown) => warn(error));
  c.executionCtx.waitUntil(affected);
}

/** Announces changes again whose retry is due. */
export async function announceDue(env: Env, now: number): Promise<void> {
  for (const change of await dueChanges(env.DB, now, DUE_PER_ROUND)) {
    const { left } = await notify(env, change);
    await storeTargetsLeft(env.DB, change.id, left, Date.now());
  }
}

function warn(error: unknown): void {
  console.warn('background announcement of registry changes failed, housekeeping will repeat it', {
    reason: reasonOf(error),
  });
}

/** Notifies up to MAX_NOTIFIED targets. `failed`: failed calls; `left`: their targets and those not notified. */
async function notify(
  env: Env,
  { version, targets }: RegistryChange,
): Promise<{ failed: number; left: Target[] }> {
  const left = targets.slice(MAX_NOTIFIED);
  const beyond = left.length;
  for (let start = 0; start < Math.min(targets.length, MAX_NOTIFIED); start += AT_ONCE) {
    const some = targets.slice(start, Math.min(start + AT_ONCE, MAX_NOTIFIED));
    const taken = await Promise.all(some.map((target) => notifyOne(env, target, version)));
    left.push(...some.filter((_target, index) => !taken[index]));
  }
  return { failed: left.length - beyond, left };
}

async function notifyOne(env: Env, target: Target, version: number): Promise<boolean> {
  const [kind, id = ''] = target.split(':');
  const call =
    kind === 'site'
      ? objectNamed(env, 'SITE', id).registryChanged(id, version)
      : objectNamed(env, 'VHOST', id).registryChanged(version);
  const { promise: limit, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new Error(`no answer within ${ANSWER_MS} ms from the object`)),
    ANSWER_MS,
  );
  try {
    await Promise.race([call, limit]);
    return true;
  } catch (error) {
    console.warn('object did not confirm a registry change, housekeeping will notify it again', {
      target,
      version,
      reason: reasonOf(error),
    });
    return false;
  } finally {
    clearTimeout(timer);
  }
}
