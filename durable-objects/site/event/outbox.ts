/**
 * A site's outbox: one lane per destination, each in order, one call under way in each, batches collected meanwhile
 * (rules 5 and 10). A row goes only when its destination says that it needs it no more; one that it has in memory alone
 * stays, and is sent again when that takes long. A lane's call has its deadline on the agenda: a crash strands nothing.
 */
import { type DueSource, earliest } from '../../object/agenda.ts';
import type { Calls } from '../../object/calls.ts';
import type { Clock } from '../../object/clock.ts';
import { reasonOf } from '../../object/reason.ts';
import type { Turn, Turns } from '../../object/turn.ts';
import type { OutboxEvent } from '../../rpc.ts';
import { toEvent } from './events.ts';
import { REGISTRY_LANE } from './registry-rows.ts';
import type { NewOutboxRow, OutboxRow, OutboxRows } from './rows.ts';

const BATCH_ROWS = 256;
/** Rows of one lane that are kept in memory; beyond it, storage alone has them. */
const MAX_ROWS_AHEAD = 1_024;
const CALL_LIMIT_MS = 8_000;
/** The registry's own lane has longer than a session is looked at: no alarm is set for its deadline alone. */
const REGISTRY_LIMIT_MS = 100_000;
/** How long a destination has to say that it needs rows no more, before they go again. */
const HANDOVER_MS = 5_000;
const MAX_BACKOFF_MS = 60_000;
/** The lane of what an admin set: it has no key whose vhost would be told. */
const NOBODY = '';

interface Lane {
  isCalling: boolean;
  failures: number;
  retryAtMs: number;
  /** What its destination needs no more; those rows go with the next transaction, or when the lane is due. */
  received: number;
  /** How far it has them, in memory at least. */
  seen: number;
  /** How far they are deleted. */
  deleted: number;
  /** All rows that its destination may need; undefined while only storage has them. */
  ahead: OutboxRow[] | undefined;
}

/** How far the destination needs rows no more, and has them (absent: as far); or that it is no more, and they go. */
export type Delivered = { received: number; seen?: number } | 'gone';

export interface OutboxHost {
  clock: Clock;
  turns: Turns;
  calls: Calls;
  deliver(lane: string, rows: readonly OutboxRow[]): Promise<Delivered>;
  keepAlive(work: Promise<void>): void;
  /** Due times have changed by themselves: a call has ended. */
  changed(): void;
}

export class Outbox implements DueSource {
  readonly name = 'outbox';
  readonly #rows: OutboxRows;
  readonly #host: OutboxHost;
  readonly #lanes = new Map<string, Lane>();
  /** Rows of the turn that is under way: they are written at its end. */
  readonly #emitted: NewOutboxRow[] = [];
  /** Lanes that were written to and are not being drained yet. */
  readonly #written = new Set<string>();

  constructor(rows: OutboxRows, host: OutboxHost) {
    this.#rows = rows;
    this.#host = host;
    for (const name of rows.lanes()) {
      const lane = this.#lane(name);
      lane.retryAtMs = host.clock.now();
      lane.ahead = undefined;
    }
  }

  emit(turn: Turn, ...rows: readonly NewOutboxRow[]): void {
    const before = this.#emitted.length;
    turn.undo(() => {
      this.#emitted.length = before;
    });
    this.#emitted.push(...rows.filter(({ lane }) => lane !== NOBODY));
  }

  /**
   * Last in every turn: what was emitted, and what has arrived of earlier ones is deleted along with it. A lane has a
   * due time from here on, whatever becomes of this run.
   */
  write(turn: Turn): void {
    for (const row of this.#emitted.splice(0)) {
      const stored = this.#rows.insert(turn, row);
      turn.remember(() => this.#add(stored));
    }
    for (const [name, lane] of this.#lanes) {
      if (lane.received <= lane.deleted) continue;
      this.#rows.deleteThrough(turn, name, lane.received);
      lane.deleted = lane.received;
    }
  }

  /**
   * The events that a key's Vhost does not have yet, for the answer of its own call: the fast path. They need no
   * call of their own, unless there are more than these.
   */
  handOver(keyId: string): OutboxEvent[] {
    const lane = this.#lane(keyId);
    lane.retryAtMs = Math.max(lane.retryAtMs, this.#host.clock.now() + HANDOVER_MS);
    const rows = this.#next(keyId, lane);
    if (rows.length < BATCH_ROWS) this.#written.delete(keyId);
    return rows.map(toEvent);
  }

  /**
   * Drains what was written to, until it is empty or a call fails; a lane that failed lately waits its time. Once it is
   * stored, and so behind what the same turn tells devices: of a thousand sites at one moment each its plant first.
   */
  drainWritten(stored: () => Promise<void>): void {
    if (this.#written.size === 0) return;
    const drain = () => {
      const names = [...this.#written];
      this.#written.clear();
      this.#drain(names);
    };
    this.#host.keepAlive(stored().then(drain));
  }

  /** A destination says what it has of this site; what is written from here on is above it. */
  noteSeen(name: string, received: number, seen: number = received): void {
    this.#rows.raise(seen);
    const lane = this.#lane(name);
    // Less than before, where it has died meanwhile.
    lane.seen = seen;
    lane.received = Math.max(lane.received, received);
    while ((lane.ahead?.[0]?.sequence ?? Number.POSITIVE_INFINITY) <= lane.received) lane.ahead?.shift();
  }

  dueMs(): number | undefined {
    const resting = [...this.#lanes.values()].filter((lane) => !lane.isCalling);
    return earliest(resting.map((lane) => lane.retryAtMs));
  }

  /** Not awaited: a slow destination delays no other due time. What it has had in memory for long goes again. */
  run(turn: Turn): void {
    const due = [...this.#lanes].filter(([, lane]) => lane.retryAtMs <= turn.now);
    turn.send(() => {
      for (const [, lane] of due) lane.seen = lane.received;
      this.#drain(due.map(([name]) => name));
    });
  }

  #add(row: OutboxRow): void {
    const lane = this.#lane(row.lane);
    if (lane.ahead && lane.ahead.length < MAX_ROWS_AHEAD) lane.ahead.push(row);
    else lane.ahead = undefined;
    if (lane.failures === 0) {
      lane.retryAtMs = Math.max(lane.retryAtMs, this.#host.clock.now() + HANDOVER_MS);
    }
    this.#written.add(row.lane);
  }

  #lane(name: string): Lane {
    let lane = this.#lanes.get(name);
    if (!lane) {
      lane = { isCalling: false, failures: 0, retryAtMs: 0, received: 0, seen: 0, deleted: 0, ahead: [] };
      this.#lanes.set(name, lane);
    }
    return lane;
  }

  /** The next rows that its destination does not have. */
  #next(name: string, lane: Lane): OutboxRow[] {
    const from = Math.max(lane.received, lane.seen);
    if (lane.ahead) {
      const first = lane.ahead.findIndex(({ sequence }) => sequence > from);
      return first < 0 ? [] : lane.ahead.slice(first, first + BATCH_ROWS);
    }
    const rows = this.#rows.of(name, from, BATCH_ROWS);
    if (rows.length < BATCH_ROWS && from === lane.received) lane.ahead = [...rows];
    return rows;
  }

  #drain(names: readonly string[]): void {
    const now = this.#host.clock.now();
    const ready = names.filter((name) => {
      const lane = this.#lane(name);
      return !lane.isCalling && (lane.failures === 0 || lane.retryAtMs <= now);
    });
    if (ready.length === 0) return;
    const work = Promise.all(ready.map((name) => this.#drainLane(name)));
    this.#host.keepAlive(work.then(() => this.#host.changed()));
  }

  async #drainLane(name: string): Promise<void> {
    const lane = this.#lane(name);
    try {
      for (;;) {
        const rows = this.#next(name, lane);
        if (rows.length === 0) {
          if (lane.ahead?.length === 0 && lane.received <= lane.deleted) this.#lanes.delete(name);
          else lane.retryAtMs = this.#host.clock.now() + HANDOVER_MS;
          return;
        }
        await this.#send(name, lane, rows);
        lane.failures = 0;
      }
    } catch (error) {
      lane.failures += 1;
      const backoffMs = Math.min(MAX_BACKOFF_MS, 250 * 2 ** lane.failures);
      lane.retryAtMs = this.#host.clock.now() + backoffMs;
      console.warn('outbox lane failed', {
        lane: name,
        failures: lane.failures,
        backoffMs,
        reason: reasonOf(error),
      });
    } finally {
      lane.isCalling = false;
    }
  }

  /** One call; on success the rows that are needed no more are gone. */
  async #send(name: string, lane: Lane, rows: readonly OutboxRow[]): Promise<void> {
    const last = rows.at(-1)?.sequence ?? 0;
    lane.isCalling = true;
    const { calls, clock } = this.#host;
    const limitMs = name === REGISTRY_LANE ? REGISTRY_LIMIT_MS : CALL_LIMIT_MS;
    const delivered = await calls.until(clock.now() + limitMs, this.#host.deliver(name, rows));
    if (delivered === 'gone') {
      this.#host.turns.run((turn) => this.#rows.deleteLane(turn, name));
      lane.ahead = [];
      return;
    }
    const { received, seen = received } = delivered;
    this.noteSeen(name, received, seen);
    if (seen < last) throw new Error(`the destination has up to ${seen} of ${last}`);
    // What D1 has goes at once, in a turn for it alone: an alarm for it would be a row more.
    if (name === REGISTRY_LANE) this.#host.turns.run(() => undefined);
  }
}
