/**
 * Request rate limits [C-4.7], each counted by an object of its own. Only the limit of a credential (API key,
 * user, support session) is shown in `RateLimit-*` headers; those of an organization or a network are not.
 */
import type { Context } from 'hono';
import { reasonOf } from '../../durable-objects/object/reason.ts';
import type { RequestCount } from '../../durable-objects/request-counter-rpc.ts';
import { LIMIT } from '../../protocol/limits.ts';
import type { AppContext } from '../env.ts';
import { ApiError } from './error-response.ts';

/**
 * Counts one request. Throws 429 with `Retry-After` if the limit is exceeded. If the counter fails, the
 * request is allowed.
 */
export async function requireRate(
  c: Context<AppContext>,
  who: string,
  perMinute: number = LIMIT.requestsPerMinute,
): Promise<void> {
  const count = await countRequest(c, who, perMinute);
  if (!count) return;
  const resetSeconds = Math.max(1, Math.ceil(count.resetMs / 1_000));
  c.header('ratelimit-limit', String(perMinute));
  c.header('ratelimit-remaining', String(count.remaining));
  c.header('ratelimit-reset', String(resetSeconds));
  if (!count.isOver) return;
  throw tooMany(`More than ${perMinute} requests in a minute with this credential`, resetSeconds);
}

/** Counts one request against a limit that many callers share. `what`: the name of these requests in the error. */
export async function requireShare(
  c: Context<AppContext>,
  who: string,
  perMinute: number,
  what: string,
): Promise<void> {
  const counted = await countRequest(c, who, perMinute);
  if (!counted?.isOver) return;
  throw tooMany(
    `More than ${perMinute} ${what} in a minute`,
    Math.max(1, Math.ceil(counted.resetMs / 1_000)),
  );
}

/** Counts one request of `who`, unless the limit is reached. Undefined if the counter fails: the request is allowed. */
export async function countRequest(
  c: Context<AppContext>,
  who: string,
  perMinute: number,
): Promise<RequestCount | undefined> {
  const stub = c.env.REQUESTS.get(c.env.REQUESTS.idFromName(who));
  return await stub.take(perMinute).catch((error: unknown) => {
    console.warn('rate limit not checked because its counter failed, the request goes on', {
      who,
      reason: reasonOf(error),
    });
    return undefined;
  });
}

export function tooMany(what: string, retryAfterSeconds: number): ApiError {
  return new ApiError('TOO_MANY_REQUESTS', `${what}: try again in ${retryAfterSeconds} s`, {
    headers: { 'retry-after': String(retryAfterSeconds) },
  });
}
