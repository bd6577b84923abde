/**
 * Request rate limits [C-4.7], each counted by an object of its own. Only the limit of a credential (API key,
 * user, support session) is shown in `RateLimit-*` headers; those of an organization or a network are not.
 */

import type { Context } from 'hono';
import { reasonOf } from '../../durable-objects/object/reason.ts';
import { objectNamed } from '../../durable-objects/object-id.ts';
import type { RequestCount } from '../../durable-objects/request-counter-rpc.ts';
import { networkOf } from '../../protocol/address-range.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { addressOf } from '../auth/address.ts';
import type { AppContext } from '../env.ts';
import { setBounded } from './bounded-map.ts';
import { ApiError } from './error-response.ts';

const MINUTE_MS = 60_000;
const MAX_FULL = 10_000;

/** When the minute of a full counter ends, by who is counted and how many are allowed: it need not be asked again before. */
const full = new Map<string, number>();

/** 429 because a rate is used up: each request until `untilMs` is refused, too. */
export class TooManyRequests extends ApiError {
  readonly #what: string;
  readonly #untilMs: number;
  /** The rate that the headers show. */
  readonly #shown: number | undefined;

  constructor(what: string, untilMs: number, shown?: number) {
    const seconds = Math.max(1, Math.ceil((untilMs - Date.now()) / 1_000));
    super('TOO_MANY_REQUESTS', `${what}: try again in ${seconds} s`, {
      headers: { 'retry-after': String(seconds) },
    });
    this.#what = what;
    this.#untilMs = untilMs;
    this.#shown = shown;
  }

  /** Also if the clock was set back, which must not extend the minute. */
  hasEnded(now: number): boolean {
    return isMinuteOver(this.#untilMs, now);
  }

  /** The same refusal for another request. */
  again(c: Context<AppContext>): TooManyRequests {
    const refusal = new TooManyRequests(this.#what, this.#untilMs, this.#shown);
    if (this.#shown !== undefined) showRate(c, this.#shown, 0, this.#untilMs - Date.now());
    return refusal;
  }
}

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
  showRate(c, perMinute, count.remaining, count.resetMs);
  if (!count.isOver) return;
  const what = `More than ${perMinute} requests in a minute with this credential`;
  throw new TooManyRequests(what, Date.now() + count.resetMs, perMinute);
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
  throw new TooManyRequests(`More than ${perMinute} ${what} in a minute`, Date.now() + counted.resetMs);
}

/** The same for one of the limits of a client's network, which has none if addresses are not known. `kind`: names it. */
export async function requireNetworkShare(
  c: Context<AppContext>,
  kind: string,
  perMinute: number,
  what: string,
): Promise<void> {
  const address = addressOf(c);
  if (address !== null) await requireShare(c, `${kind}:${networkOf(address)}`, perMinute, what);
}

/** Counts one request of `who`, unless the limit is reached. Undefined if the counter fails: the request is allowed. */
export async function countRequest(
  c: Context<AppContext>,
  who: string,
  perMinute: number,
): Promise<RequestCount | undefined> {
  const [name, now] = [`${perMinute} of ${who}`, Date.now()];
  const fullUntilMs = full.get(name);
  if (fullUntilMs !== undefined && !isMinuteOver(fullUntilMs, now))
    return { isOver: true, remaining: 0, resetMs: fullUntilMs - now };
  full.delete(name);
  try {
    const count = await objectNamed(c.env, 'REQUESTS', who).take(perMinute);
    if (count.isOver) setBounded(full, name, Date.now() + count.resetMs, MAX_FULL);
    return count;
  } catch (error) {
    console.warn('rate limit not checked because its counter failed, the request goes on', {
      who,
      reason: reasonOf(error),
    });
    return undefined;
  }
}

function isMinuteOver(untilMs: number, now: number): boolean {
  return now >= untilMs || untilMs - now > MINUTE_MS;
}

function showRate(c: Context<AppContext>, perMinute: number, remaining: number, resetMs: number): void {
  c.header('ratelimit-limit', String(perMinute));
  c.header('ratelimit-remaining', String(remaining));
  c.header('ratelimit-reset', String(Math.max(1, Math.ceil(resetMs / 1_000))));
}

export function tooMany(what: string, retryAfterSeconds: number): ApiError {
  return new ApiError('TOO_MANY_REQUESTS', `${what}: try again in ${retryAfterSeconds} s`, {
    headers: { 'retry-after': String(retryAfterSeconds) },
  });
}
