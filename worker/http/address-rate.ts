/**
 * Counts requests by client address before a body is read or a credential is looked up [C-14.2]. The counts are in
 * the memory of the isolate, so a rejected request costs neither storage nor a call. After every few requests of an
 * address the isolate reports them to one counter per address, which knows the requests to all isolates.
 *
 * Answers without use to anybody, and answers to callers without a good credential, wait a tenth of a second once
 * there are many of them: a client that waits for its answer sends no other request, so they leave the isolate to others.
 */
import { createMiddleware } from 'hono/factory';
import { reasonOf } from '../../durable-objects/object/reason.ts';
import { networkOf } from '../../protocol/address-range.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { addressOf } from '../auth/address.ts';
import type { AppContext, Env } from '../env.ts';
import { tooMany } from './rate.ts';

const MINUTE_MS = 60_000;
/** An answer 401 or 403 counts as so many requests: it may be a guess. */
const REFUSED_COST = 5;
/** Requests after which an isolate reports; an address can exceed its limit by so many in each isolate. */
const REPORT_AFTER = 50;
const MAX_NETWORKS = 10_000;
/** Answers to what nobody may do: a body that is too large, too many logins at once, too many requests of the address. */
const UNWANTED = [413, 503];
/** An address with more of them in a minute waits for each further one. */
const FREE_UNWANTED = 20;
/** Answers without a good credential, of all addresses together, that an isolate gives at once in a second. */
const FREE_ANONYMOUS = 100;
const PAUSE_MS = 100;
/** Requests that wait in an isolate; further ones are answered at once. */
const MAX_PAUSED = 1_000;
let paused = 0;
/** The answers without a good credential in the current second of the isolate. */
const anonymous = { count: 0, startedAtMs: 0 };

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

/** Counts the answer. Waits if the address, or all callers without a credential together, had too many like it. */
async function pauseOf(minute: Minute, isUnwanted: boolean, isAnonymous: boolean): Promise<void> {
  if (isUnwanted) minute.unwanted += 1;
  const isOver =
    (isUnwanted && minute.unwanted > FREE_UNWANTED) ||
    (isAnonymous && anonymousInSecond(Date.now()) > FREE_ANONYMOUS);
  if (!isOver || paused >= MAX_PAUSED) return;
  paused += 1;
  await scheduler.wait(PAUSE_MS);
  paused -= 1;
}

/** Counts one more. */
function anonymousInSecond(now: number): number {
  const age = now - anonymous.startedAtMs;
  if (age < 0 || age >= 1_000) Object.assign(anonymous, { count: 0, startedAtMs: now });
  anonymous.count += 1;
  return anonymous.count;
}

/** Throws if the variable is not a whole number: a deployment must not run with a limit that it did not choose. */
function limitOf({ ADDRESS_RATE_PER_MINUTE: given }: Env): number {
  if (given === undefined) return LIMIT.addressRequestsPerMinute;
  if (!/^[1-9]\d{0,8}$/.test(given))
    throw new Error(`ADDRESS_RATE_PER_MINUTE must be a whole number from 1, not "${given}"`);
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
  const [oldest] = minutes.keys();
  minutes.delete(network);
  if (oldest !== undefined && minutes.size >= MAX_NETWORKS) minutes.delete(oldest);
  const minute = { count: 0, unwanted: 0, unreported: 0, endsAtMs: now + MINUTE_MS, isReporting: false };
  minutes.set(network, minute);
  return minute;
}

async function report(env: Env, network: string, minute: Minute): Promise<void> {
  minute.isReporting = true;
  const { unreported } = minute;
  minute.unreported = 0;
  try {
    const counter = env.REQUESTS.get(env.REQUESTS.idFromName(`address:${network}`));
    const { count, resetMs } = await counter.add(unreported);
    minute.count = Math.max(minute.count, count + minute.unreported);
    minute.endsAtMs = Date.now() + resetMs;
  } catch (error) {
    console.warn('shared request count of an address not updated', { network, reason: reasonOf(error) });
  }
  minute.isReporting = false;
}
