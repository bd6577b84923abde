/**
 * The nonces of received messages, each remembered until max(received, ts) + 300 s. The time of receipt alone
 * would be too early, because the `ts` of a message may be five minutes in the future, and the message is
 * valid until five minutes after its `ts` [C-3.8]. After a wake they are rebuilt from the journal's blocks,
 * which hold most of them, and from a table for the others.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { DueSource } from '../../object/agenda.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import type { DevicePack, NoncePlace } from '../../rpc.ts';
import { SITE_BOUNDS } from '../bounds.ts';
import { hashNonce, randomNonceKey } from './nonce-hash.ts';

/** Blocks older than this hold no nonce that is still valid. */
export const REPLAY_HORIZON_MS = LIMIT.nonceWindowMs + LIMIT.timestampToleranceMs;

const FULL_RECHECK_MS = 5_000;
const WORDS = 4;
const MIN_SLOTS = 256;
/** The table is rebuilt when more than this share of its slots is used. */
const MAX_LOAD = 0.6;
/** Nonces per row; with the longest nonces, a third of the maximum row size. */
const PER_ROW = 1_000;
/** Nonces in one call between two objects; with the longest nonces, a fifth of the maximum size of a call. */
const PER_PART = 20_000;

export interface NonceUse {
  deviceId: string;
  nonce: string;
  /** The first 16 hex characters of the signature. */
  digest: string;
  ts: number;
  receivedMs: number;
}

/** Until when the nonce must not be used again [C-3.8]. */
export function validUntilMs({ ts, receivedMs }: Pick<NonceUse, 'ts' | 'receivedMs'>): number {
  return Math.max(receivedMs, ts) + LIMIT.nonceWindowMs;
}

/**
 * The part of the nonces that begins at a place. Ordered by expiry, because those that expire between two parts are then
 * before the place.
 */
export function partOf(nonces: readonly NonceUse[], from?: NoncePlace): Pick<DevicePack, 'nonces' | 'next'> {
  const placed = nonces.map((use) => ({ use, place: { untilMs: validUntilMs(use), nonce: use.nonce } }));
  const rest = placed.filter(({ place }) => !from || compare(place, from) >= 0);
  rest.sort((left, right) => compare(left.place, right.place));
  const next = rest[PER_PART]?.place;
  return { nonces: rest.slice(0, PER_PART).map(({ use }) => use), ...(next && { next }) };
}

function compare(left: NoncePlace, right: NoncePlace): number {
  return left.untilMs - right.untilMs || (left.nonce < right.nonce ? -1 : left.nonce > right.nonce ? 1 : 0);
}

/**
 * The nonces in memory, sixteen bytes each: eight of a hash, four for the second of expiry, four of the message's
 * signature.
 */
export class ReplayGuard {
  readonly #maxNonces: number;
  readonly #key = randomNonceKey();
  /** Per slot: hash, hash, second of expiry (0: free), digest. Open addressing with linear probing. */
  #slots = new Uint32Array(MIN_SLOTS * WORDS);
  #used = 0;
  /** While the table is full: when it is searched for expired nonces again. */
  #fullUntilMs = 0;

  constructor(maxNonces: number = SITE_BOUNDS.nonces) {
    this.#maxNonces = maxNonces;
  }

  /** `repeat`: the same message again, a resend; `replay`: the same nonce with another message. */
  judge(use: NonceUse): 'new' | 'repeat' | 'replay' {
    const at = this.#find(hashNonce(this.#key, `${use.deviceId}|${use.nonce}`));
    const second = this.#slots[at + 2] ?? 0;
    if (second === 0 || second * 1_000 < use.receivedMs) return 'new';
    return this.#slots[at + 3] === digestWord(use.digest) ? 'repeat' : 'replay';
  }

  /** Stores a nonce unless it has already expired at `now`. */
  remember(use: NonceUse, now: number = use.receivedMs): void {
    const second = Math.ceil(validUntilMs(use) / 1_000);
    if (second * 1_000 < now) return;
    if (this.#used + 1 > (this.#slots.length / WORDS) * MAX_LOAD) this.#makeRoom(now);
    const hash = hashNonce(this.#key, `${use.deviceId}|${use.nonce}`);
    const at = this.#find(hash);
    if (this.#slots[at + 2] === 0) this.#used += 1;
    this.#slots.set([hash[0], hash[1], second, digestWord(use.digest)], at);
  }

  /** Whether the table is full: callers must wait until some nonces expire. */
  isFull(now: number): boolean {
    if (this.#used < this.#maxNonces) return false;
    if (now < this.#fullUntilMs) return true;
    this.#makeRoom(now);
    const isFull = this.#used >= this.#maxNonces;
    if (isFull) this.#fullUntilMs = now + FULL_RECHECK_MS;
    return isFull;
  }

  /** The slot of a hash, or the free slot for it. */
  #find([high, low]: readonly [number, number]): number {
    const slots = this.#slots.length / WORDS;
    for (let slot = low % slots; ; slot = (slot + 1) % slots) {
      const at = slot * WORDS;
      if (this.#slots[at + 2] === 0) return at;
      if (this.#slots[at] === high && this.#slots[at + 1] === low) return at;
    }
  }

  /** Drops expired nonces and resizes the table for the remaining ones. */
  #makeRoom(now: number): void {
    const before = this.#slots;
    const isOver = (at: number) => (before[at + 2] ?? 0) * 1_000 < now;
    let live = 0;
    for (let at = 0; at < before.length; at += WORDS) if (!isOver(at)) live += 1;
    let slots = MIN_SLOTS;
    while (live > slots / 2) slots *= 2;
    this.#slots = new Uint32Array(slots * WORDS);
    this.#used = live;
    for (let at = 0; at < before.length; at += WORDS) {
      if (isOver(at)) continue;
      const entry = before.subarray(at, at + WORDS);
      this.#slots.set(entry, this.#find([entry[0] ?? 0, entry[1] ?? 0]));
    }
  }
}

type Row = { id: number; until_ms: number; data: string };

/**
 * Nonces that are not in the journal: those of devices moved from another object, and those of token
 * requests. Kept until they are no longer valid for replay detection.
 */
export class MovedNonces implements DueSource {
  readonly name = 'moved nonces';
  readonly #sql: Sql;
  /** When the next row can be deleted. Undefined: not read yet; null: there are no rows. */
  #dueMs: number | null | undefined;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  *all(): Generator<NonceUse> {
    const rows = this.#sql.each<Row>(
      'SELECT id, until_ms, data FROM moved_nonce WHERE id > ? ORDER BY id LIMIT ?',
      { key: 'id', from: 0, rows: 16 },
    );
    for (const { data } of rows) yield* JSON.parse(data) as NonceUse[];
  }

  /** Adds the nonces of a moved device that are not here yet: a move that is repeated must not store them twice. */
  addMoved(turn: Turn, nonces: readonly NonceUse[]): void {
    const known = new Set<string>();
    if (nonces.length > 0) for (const use of this.all()) known.add(nameOf(use));
    this.add(
      turn,
      nonces.filter((use) => !known.has(nameOf(use))),
    );
  }

  add(turn: Turn, nonces: readonly NonceUse[]): void {
    this.#dueMs = undefined;
    for (let start = 0; start < nonces.length; start += PER_ROW) {
      const some = nonces.slice(start, start + PER_ROW);
      const untilMs = Math.max(...some.map(validUntilMs));
      turn.insert('moved_nonce', { until_ms: untilMs, data: JSON.stringify(some) });
    }
  }

  dueMs(): number | undefined {
    if (this.#dueMs === undefined) {
      const row = this.#sql.one<{ due: number | null }>('SELECT min(until_ms) AS due FROM moved_nonce');
      this.#dueMs = row?.due ?? null;
    }
    return this.#dueMs ?? undefined;
  }

  run(turn: Turn): void {
    this.#dueMs = undefined;
    turn.write('DELETE FROM moved_nonce WHERE until_ms <= ?', turn.now);
  }
}

function nameOf({ deviceId, nonce }: NonceUse): string {
  return `${deviceId}|${nonce}`;
}

function digestWord(digest: string): number {
  return Number.parseInt(digest.slice(0, 8), 16) >>> 0;
}
