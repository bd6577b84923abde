/**
 * A change is in force when its request answers: D1 first, with a version, then each Site and Vhost that holds a copy
 * takes it. What one of them has not taken stands in D1 and is told again, by the next change and by the clock.
 */
import type { Context } from 'hono';
import { reasonOf } from '../../durable-objects/object/reason.ts';
import type { AppContext, Env } from '../env.ts';
import { ApiError } from '../http/error-response.ts';
import { dueChanges, type RegistryChange, settleChange, type Target } from '../registry/changes.ts';

const AT_ONCE = 50;
/** So many are told within a request: the platform bounds its calls. Those beyond follow within a minute. */
const MAX_TOLD = 900;
const ANSWER_MS = 5_000;
const DUE_PER_ROUND = 10;

/** Returns once all have taken it. Throws 503 when one of them has not: the change stands, and is told again. */
export async function announce(c: Context<AppContext>, change: RegistryChange): Promise<void> {
  const { env } = c;
  const { failed, left } = await tell(env, change);
  await settleChange(env.DB, change.id, left, Date.now());
  // Who changes something helps those along that were left over.
  c.executionCtx.waitUntil(announceDue(env, Date.now()).catch((error: unknown) => warn(error)));
  if (failed === 0) return;
  console.warn('registry change not in force yet', { organizationId: change.organizationId, failed });
  throw new ApiError('SERVICE_UNAVAILABLE', 'The change is stored, and will be in force within a minute', {
    headers: { 'retry-after': '60' },
  });
}

/** For what nobody's next request depends on: told behind the answer. */
export function announceLater(c: Context<AppContext>, change: RegistryChange): void {
  const told = announce(c, change).catch((error: unknown) => warn(error));
  c.executionCtx.waitUntil(told);
}

/** Tells what is due again. */
export async function announceDue(env: Env, now: number): Promise<void> {
  for (const change of await dueChanges(env.DB, now, DUE_PER_ROUND)) {
    const { left } = await tell(env, change);
    await settleChange(env.DB, change.id, left, Date.now());
  }
}

function warn(error: unknown): void {
  console.warn('registry change is told again', { reason: reasonOf(error) });
}

/** Tells so many; `left`: who has not taken it, or was not told. */
async function tell(
  env: Env,
  { version, targets }: RegistryChange,
): Promise<{ failed: number; left: Target[] }> {
  const left = targets.slice(MAX_TOLD);
  const beyond = left.length;
  for (let start = 0; start < Math.min(targets.length, MAX_TOLD); start += AT_ONCE) {
    const some = targets.slice(start, Math.min(start + AT_ONCE, MAX_TOLD));
    const taken = await Promise.all(some.map((target) => tellOne(env, target, version)));
    left.push(...some.filter((_target, index) => !taken[index]));
  }
  return { failed: left.length - beyond, left };
}

async function tellOne(env: Env, target: Target, version: number): Promise<boolean> {
  const [kind, id = ''] = target.split(':');
  const call =
    kind === 'site'
      ? env.SITE.get(env.SITE.idFromName(id)).registryChanged(id, version)
      : env.VHOST.get(env.VHOST.idFromName(id)).registryChanged(version);
  const { promise: limit, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no answer within ${ANSWER_MS} ms`)), ANSWER_MS);
  try {
    await Promise.race([call, limit]);
    return true;
  } catch (error) {
    console.warn('registry change not taken', { target, version, reason: reasonOf(error) });
    return false;
  } finally {
    clearTimeout(timer);
  }
}
