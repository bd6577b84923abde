/**
 * Spreads password hashes over time [C-14.2]: a hash blocks the isolate, so between two of them other requests must
 * run. A few hashes in a row do not wait. The queue is fair by network [C-15.6]: the network whose last turn is
 * longest ago is next, known browsers before all others.
 */
import { networkOf } from '../../protocol/address-range.ts';
import { setBounded } from '../http/bounded-map.ts';
import { unavailable } from '../http/error-response.ts';

/** The time between the starts of two hashes is three times as long as one hash takes. */
const TURN_OF_HASH = 3;
/** The same for the hashes of one lane: a flood from a few networks leaves most of the time to the requests of others. */
const TURN_OF_LANE = 20;
/** How long a hash takes, until it was measured; a measured one counts within these bounds. */
const HASH_MS = 160;
const LONGEST_HASH_MS = 800;
/** The least of the last ones counts: what else runs between two looks at the clock makes a hash seem longer. */
const MEASURED = 8;
/** Hashes that may follow each other without a pause. */
const FREE_TURNS = 4;
/** The same of one lane: as many people of one office may log in at once. */
const FREE_TURNS_OF_LANE = 6;
const MAX_WAITING = 64;
const MAX_WAITING_PER_NETWORK = 2;
const RETRY_AFTER_S = 5;

/** How often a waiter looks whether it is next, and after which time without a look it has gone. */
const LOOK_MS = 40;
const GONE_MS = 5_000;
const MAX_NETWORKS = 10_000;
const OWN_MACHINE = [networkOf('127.0.0.1'), networkOf('::1')];

export interface HashWaiter {
  /** Null if the client's address is not known; such requests share only the limit of all. */
  network: string | null;
  /** The account, if the browser is known to belong to it; else null. */
  account: string | null;
}

interface Waiting extends HashWaiter {
  lookedMs: number;
}

/** In the order in which they came. Each waits on a timer of its own request: another request could not wake it. */
let queue: Waiting[] = [];
/** The place of the last turn of a network while others waited. */
const lastTurns = new Map<string | null, number>();
let turns = 0;

let measuredMs: readonly number[] = [];

/** When the last of the assigned turns ends, by `performance.now()`, which is never set back. */
let endsAtMs = 0;
/** The same of each lane. */
const laneEnds = new Map<string, number>();

/**
 * Resolves when the caller may hash one password. `share`: the work of that hash as a fraction of the work of
 * a new hash. Throws 503 if too many already wait, of one network or of all.
 */
export async function turnToHash({ network, account }: HashWaiter, share = 1): Promise<void> {
  dropGone();
  const lane = laneOf({ network, account });
  if (queue.length === 0 && waitMs() <= 0 && isFree(lane)) return take(lane, share);
  requirePlace({ network });
  const waiter = { network, account, lookedMs: performance.now() };
  queue.push(waiter);
  while (waitMs() > 0 || next() !== waiter) {
    await scheduler.wait(LOOK_MS);
    if (!queue.includes(waiter)) throw tooManyWait();
    waiter.lookedMs = performance.now();
    dropGone();
  }
  queue = queue.filter((one) => one !== waiter);
  noteTurn(network);
  take(lane, share);
}

/**
 * The hashes of a network share a lane; each known browser has its own, so that an office has more than its network. Those
 * of the own machine have none: all clients of a development stack come from there.
 */
function laneOf({ network, account }: HashWaiter): string | null {
  if (network !== null && OWN_MACHINE.includes(network)) return null;
  if (network === null || account === null) return network;
  return `${network} ${account}`;
}

/**
 * Throws 503 if too many already wait. A request of a stranger asks this before it reads the database for an account, so
 * that a refusal costs nothing.
 */
export function requirePlace({ network }: Pick<HashWaiter, 'network'>): void {
  const own = network === null ? 0 : queue.filter((one) => one.network === network).length;
  if (own >= MAX_WAITING_PER_NETWORK || queue.length >= MAX_WAITING) throw tooManyWait();
}

function hashMs(): number {
  const leastMs = measuredMs.length < MEASURED ? HASH_MS : Math.min(...measuredMs);
  return Math.min(Math.max(leastMs, HASH_MS), LONGEST_HASH_MS);
}

function waitMs(): number {
  return endsAtMs - performance.now() - FREE_TURNS * TURN_OF_HASH * hashMs();
}

/** Whether a hash of the lane may begin, as far as the lane's own turns go. */
function isFree(lane: string | null): boolean {
  const leftMs = lane === null ? 0 : (laneEnds.get(lane) ?? 0) - performance.now();
  return leftMs <= FREE_TURNS_OF_LANE * TURN_OF_LANE * hashMs();
}

function take(lane: string | null, share: number): void {
  const now = performance.now();
  endsAtMs = Math.max(now, endsAtMs) + share * TURN_OF_HASH * hashMs();
  if (lane === null) return;
  const ends = Math.max(now, laneEnds.get(lane) ?? 0) + share * TURN_OF_LANE * hashMs();
  setBounded(laneEnds, lane, ends, MAX_NETWORKS);
}

/**
 * Measures the hash that the caller computes next. Meanwhile the clock stands still; it goes on with the next timer. Not
 * called when a turn begins, because some callers read the database before they hash.
 */
export async function measureHash(share: number): Promise<void> {
  const startedMs = performance.now();
  await scheduler.wait(0);
  measuredMs = [...measuredMs, (performance.now() - startedMs) / share].slice(-MEASURED);
}

/**
 * Known browsers go first, each network for its first turn, so that one of them keeps no stranger out; then the network
 * whose last turn is longest ago.
 */
function next(): Waiting | undefined {
  const isFirst = (one: Waiting) => Number(one.account !== null && !lastTurns.has(one.network));
  const lastTurn = (one: Waiting) => lastTurns.get(one.network) ?? 0;
  const free = queue.filter((one) => isFree(laneOf(one)));
  return free.toSorted((one, other) => isFirst(other) - isFirst(one) || lastTurn(one) - lastTurn(other))[0];
}

function noteTurn(network: string | null): void {
  turns += 1;
  if (queue.length === 0) {
    lastTurns.clear();
    return;
  }
  setBounded(lastTurns, network, turns, MAX_NETWORKS);
}

/** Forgets requests that the platform has cancelled. */
function dropGone(): void {
  const now = performance.now();
  queue = queue.filter(({ lookedMs }) => now - lookedMs < GONE_MS);
}

function tooManyWait() {
  return unavailable(`Too many passwords are being checked: try again in ${RETRY_AFTER_S} s`, RETRY_AFTER_S);
}
