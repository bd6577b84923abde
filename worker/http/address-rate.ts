/**
 * Counts requests by client address before a body is read or a credential is looked up [C-14.2]. The counts
 * are in the memory of the isolate, so a rejected request costs neither storage nor a call. After every
 * REPORT_AFTER requests of an address the isolate reports them to the object that counts the requests of this
 * address to all isolates.
 *
 * Two kinds of answers are delayed when there are many of them: rejections of unwanted requests (`UNWANTED`), by up to
 * two seconds, and answers to callers without a valid credential, by a tenth of a second. A client that waits for its answer
 * usually sends no other request, so the isolate has time for the requests of others.
 */

import { createMiddleware } from 'hono/factory';
import { reasonOf } from '../../durable-objects/object/reason.ts';
import { objectNamed } from '../../durable-objects/object-id.ts';
import { networkOf } from '../../protocol/address-range.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { addressOf } from '../auth/address.ts';
import type { AppContext, Env } from '../env.ts';
import { setBounded } from './bounded-map.ts';
import { tooMany } from './rate.ts';

const MINUTE_MS = 60_000;
/** A request that is answered with 401 or 403 counts as this many requests, because it may be a guess. */
const REFUSED_COST = 5;
/**
 * Number of requests after which an isolate reports. An address can exceed its limit by this many requests in
 * each isolate.
 */
const REPORT_AFTER = 50;
const MAX_NETWORKS = 10_000;
/**
 * Statuses that are delayed when an address causes many of them: a body that is too large (413), a request over a
 * rate (429), and too many password checks at once (503).
 */
const UNWANTED = [413, 429, 503];
/** Number of such answers in a minute that are not delayed. */
const FREE_UNWANTED = 20;
/** Number of answers a second to callers without a valid credential, of all addresses, that are not delayed. */
const FREE_ANONYMOUS = 100;
const PAUSE_MS = 100;
/** After each of so many more unwanted answers in a minute the delay is longer by PAUSE_MS, up to the longest. */
const LONGER_AFTER = 10;
const LONGEST_PAUSE_MS = 2_000;
/** Maximum number of answers that an isolate delays in each PAUSE_MS; it sends all others at once. */
const MAX_PAUSED = 1_000;

/** A count that starts again when its period is over. */
interface Period {
  count: number;
  startedAtMs: number;
}

/** The answers of this isolate to callers without a valid credential. */
const anonymous: Period = { count: 0, startedAtMs: 0 };
/**
 * The answers that this isolate began to delay. It does not count those that wait now: the platform may cancel a
 * request whose client has disconnected, and nothing would subtract it.
 */
const paused: Period = { count: 0, startedAtMs: 0 };

/** The requests of one network in its current minute. */
interface Minute {
  count: number;
  unwanted: number;
  unreported: number;
  endsAtMs: number;
  isReporting: boolean;
}

const minutes = new Map<string, Minute>();

export const countAddress = createMiddleware<AppContext>(async (c, next) => {
  const address = addressOf(c);
  if (address === null) return await next();
  const network = networkOf(address);
  const minute = minuteOf(network, Date.now());
  const perMinute = limitOf(c.env);
  if (minute.count >= perMinute) {
    await pauseOf(minute, true, true);
    const seconds = Math.max(1, Math.ceil((minute.endsAtMs - Date.now()) / 1_000));
    throw tooMany(`More than ${perMinute} requests in a minute from your address`, seconds);
  }
  add(minute, 1);
  await next();
  if (c.res.status === 401 || c.res.status === 403) add(minute, REFUSED_COST - 1);
  const hasCredential = c.get('user') ?? c.get('tenant') ?? c.get('operator');
  await pauseOf(minute, UNWANTED.includes(c.res.status), !hasCredential);
  if (minute.unreported >= REPORT_AFTER && !minute.isReporting)
    c.executionCtx.waitUntil(report(c.env, network, minute));
});

/**
 * Counts the answer. Delays it if the address has caused too many unwanted answers in its minute, or if all
 * callers without a valid credential together got too many answers in this second.
 */
async function pauseOf(minute: Minute, isUnwanted: boolean, isAnonymous: boolean): Promise<void> {
  const now = Date.now();
  if (isUnwanted) minute.unwanted += 1;
  const steps = isUnwanted ? Math.ceil((minute.unwanted - FREE_UNWANTED) / LONGER_AFTER) : 0;
  const isOver = steps > 0 || (isAnonymous && countIn(anonymous, 1_000, now) > FREE_ANONYMOUS);
  if (isOver && countIn(paused, PAUSE_MS, now) <= MAX_PAUSED)
    await scheduler.wait(Math.min(Math.max(steps, 1) * PAUSE_MS, LONGEST_PAUSE_MS));
}

/** Counts one more; returns the count of the current period. */
function countIn(period: Period, lastsMs: number, now: number): number {
  const age = now - period.startedAtMs;
  if (age < 0 || age >= lastsMs) Object.assign(period, { count: 0, startedAtMs: now });
  period.count += 1;
  return period.count;
}

/**
 * The limit that the deployment has set, or the default. Throws if the variable is not a whole number, so
 * that a mistyped limit is not replaced by the default unnoticed.
 */
function limitOf({ ADDRESS_RATE_PER_MINUTE: given }: Env): number {
  if (given === undefined) return LIMIT.addressRequestsPerMinute;
  if (!/^[1-9]\d{0,8}$/.test(given))
    throw new Error(`ADDRESS_RATE_PER_MINUTE is "${given}": it must be a whole number from 1 to 999999999`);
  return Number(given);
}

function add(minute: Minute, count: number): void {
  minute.count += count;
  minute.unreported += count;
}

function minuteOf(network: string, now: number): Minute {
  const known = minutes.get(network);
  // A clock that was set back must not extend the minute.
  if (known && now < known.endsAtMs && known.endsAtMs - now <= MINUTE_MS) return known;
  const minute = { count: 0, unwanted: 0, unreported: 0, endsAtMs: now + MINUTE_MS, isReporting: false };
  setBounded(minutes, network, minute, MAX_NETWORKS);
  return minute;
}

async function report(env: Env, network: string, minute: Minute): Promise<void> {
  minute.isReporting = true;
  const { unreported } = minute;
  minute.unreported = 0;
  try {
    const counter = objectNamed(env, 'REQUESTS', `address:${network}`);
    const { count, resetMs } = await counter.add(unreported);
    minute.count = Math.max(minute.count, count + minute.unreported);
    minute.endsAtMs = Date.now() + resetMs;
  } catch (error) {
    console.warn('shared request count of an address not updated, this isolate uses its own count for now', {
      network,
      reason: reasonOf(error),
    });
  }
  minute.isReporting = false;
}
