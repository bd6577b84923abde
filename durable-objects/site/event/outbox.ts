/**
 * A site's outbox: one ordered lane per destination, with one call at a time; rows collect while the call runs
 * (rules 5 and 10). A row is deleted only when its destination no longer needs it, or as one of the oldest when
 * the outbox has too many (`retention.ts`). A row that the destination has only in memory stays, and is sent
 * again if it is not confirmed in time. The agenda holds the deadline of each lane's call, so rows are also
 * resent after a crash.
 */
import { type DueSource, earliest } from '../../object/agenda.ts';
import type { Calls } from '../../object/calls.ts';
import type { Clock } from '../../object/clock.ts';
import { reasonOf } from '../../object/reason.ts';
import type { Turn, Turns } from '../../object/turn.ts';
import type { OutboxEvent, PassingEvent } from '../../rpc.ts';
import type { DestinationOf } from './destinations.ts';
import { REGISTRY_LANE, toEvent } from './event-rows.ts';
import type { NewOutboxRow, OutboxRow, OutboxRows } from './rows.ts';

const BATCH_ROWS = 256;
/** Maximum number of rows of one lane that are also kept in memory; a lane with more rows is read from storage. */
const MAX_ROWS_AHEAD = 1_024;
/** How long a destination has to confirm rows before they are sent again. */
const HANDOVER_MS = 5_000;
const MAX_BACKOFF_MS = 60_000;
/** The lane of commands that no key sent, so there is no Vhost to notify; rows for it are dropped. */
const NOBODY = '';

interface Lane {
  isCalling: boolean;
  failures: number;
  retryAtMs: number;
  /** Highest sequence that the destination no longer needs. The next turn deletes the rows up to it. */
  received: number;
  /** Highest sequence that the destination has, at least in memory; lower again if the destination lost some. */
  seen: number;
  /** Highest sequence whose row was deleted here. */
  deleted: number;
  /** All rows after `received`; undefined if they are only in storage. */
  ahead: OutboxRow[] | undefined;
}

export interface OutboxHost {
  clock: Clock;
  turns: Turns;
  calls: Calls;
  destination: DestinationOf;
  keepAlive(work: Promise<void>): void;
  /** Gets each event of a turn that was committed while the plant has a stream, once for each key. */
  plantEvents: { readonly isWatched: boolean; add(event: PassingEvent): void };
  /** Gets the next due time after the lanes that were ready have finished their deliveries. */
  changed(dueMs: number | undefined): void;
}

export class Outbox implements DueSource {
  readonly name = 'outbox';
  readonly #rows: OutboxRows;
  readonly #host: OutboxHost;
  readonly #lanes = new Map<string, Lane>();
  /** Rows of the current turn: written at its end. */
  readonly #emitted: NewOutboxRow[] = [];
  /** Lanes with new rows that are not being drained yet. */
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
    const { plantEvents } = this.#host;
    if (!plantEvents.isWatched) return;
    const events = rows.filter(({ lane }) => lane !== REGISTRY_LANE);
    turn.remember(() => {
      for (const event of events) plantEvents.add(toEvent({ ...event, sequence: 0 }));
    });
  }

  /**
   * Called last in every turn: writes the emitted rows and deletes confirmed ones. From here on each lane
   * with rows has a due time, even if the following delivery fails.
   */
  write(turn: Turn): void {
    const emitted = this.#emitted.splice(0);
    if (emitted.length > 0) {
      const stored = this.#rows.insert(turn, emitted);
      turn.remember(() => {
        for (const row of stored) this.#add(row);
      });
    }
    for (const [name, lane] of this.#lanes) {
      if (lane.received <= lane.deleted) continue;
      this.#rows.deleteThrough(turn, name, lane.received);
      lane.deleted = lane.received;
    }
  }

  /**
   * Returns the next batch of events that a key's Vhost does not have yet. The Site sends them in its answer
   * to the Vhost's call, so they need no separate call unless there is more than one batch.
   */
  handOver(keyId: string): OutboxEvent[] {
    const lane = this.#lane(keyId);
    lane.retryAtMs = Math.max(lane.retryAtMs, this.#host.clock.now() + HANDOVER_MS);
    const rows = this.#next(keyId, lane);
    if (rows.length < BATCH_ROWS) this.#written.delete(keyId);
    return rows.map(toEvent);
  }

  /**
   * Must be called after each turn: drains lanes with new rows until they are empty or a call fails; a lane that
   * failed waits for its retry time. The calls leave when the rows are stored.
   */
  drainWritten(): void {
    if (this.#written.size === 0) return;
    const names = [...this.#written];
    this.#written.clear();
    this.#drain(names);
  }

  /**
   * Notes up to which sequence a destination has the rows of this site (see `Receipt` in rpc.ts); new rows
   * get higher sequences.
   */
  noteSeen(name: string, received: number, seen: number): void {
    this.#rows.raise(seen);
    const lane = this.#lane(name);
    // May be lower than before: the destination loses its memory in a crash.
    lane.seen = seen;
    lane.received = Math.max(lane.received, received);
    while ((lane.ahead?.[0]?.sequence ?? Number.POSITIVE_INFINITY) <= lane.received) lane.ahead?.shift();
  }

  dueMs(): number | undefined {
    const resting = [...this.#lanes.values()].filter((lane) => !lane.isCalling);
    return earliest(resting.map((lane) => lane.retryAtMs));
  }

  /**
   * Delivers the lanes that are due, and sends again the rows that a destination has only in memory. The
   * deliveries are not awaited, so a slow destination delays nothing else.
   */
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

  /** The next rows that the destination does not have. */
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
    this.#host.keepAlive(work.then(() => this.#host.changed(this.dueMs())));
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
      console.warn('outbox rows not confirmed by their destination, sent again after backoffMs', {
        lane: name,
        failures: lane.failures,
        backoffMs,
        reason: reasonOf(error),
      });
    } finally {
      lane.isCalling = false;
    }
  }

  /**
   * Sends rows in one call and notes what the destination confirmed. Throws if it does not have all of them.
   */
  async #send(name: string, lane: Lane, rows: readonly OutboxRow[]): Promise<void> {
    const last = rows.at(-1)?.sequence ?? 0;
    lane.isCalling = true;
    const { calls, clock } = this.#host;
    const destination = this.#host.destination(name);
    const delivered = await calls.until(clock.now() + destination.limitMs, destination.deliver(rows));
    if (delivered === 'gone') {
      this.#host.turns.run((turn) => this.#rows.deleteLane(turn, name));
      lane.ahead = [];
      return;
    }
    const { received, seen = received } = delivered;
    this.noteSeen(name, received, seen);
    if (seen < last)
      throw new Error(
        `the destination confirmed only the rows up to sequence ${seen}, but rows up to ${last} were sent`,
      );
    if (destination.deletesAtOnce) this.#host.turns.run(() => undefined);
  }
}
