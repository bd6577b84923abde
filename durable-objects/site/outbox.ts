/**
 * Draining a site's outbox: one lane per destination, each in order, one call under way in each, batches collected
 * meanwhile (rules 5 and 10). A row goes only when its destination says that it has it.
 */
import { eq } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { devices, plants, subDevices } from '../../migrations/schema.ts';
import type { EventKind } from '../../protocol/routing-keys.ts';
import type { Env } from '../env.ts';
import type { OutboxEvent } from '../exchange.ts';
import { within } from '../within.ts';
import { REGISTRY_LANE } from './events.ts';
import type { OutboxRow } from './schema.ts';
import type { SiteState } from './state.ts';

const BATCH_ROWS = 256;
/** Rows of one lane that are kept in memory; beyond it, storage alone has them. */
const MAX_ROWS_AHEAD = 1_024;
const CALL_TIMEOUT_MS = 8_000;
/** How long the answer of a submit has to prove that it arrived, before its events go again. */
const HANDOVER_MS = 5_000;
const MAX_BACKOFF_MS = 60_000;

interface Lane {
  running: boolean;
  failures: number;
  retryAtMs: number;
  /** What its destination has; those rows go with the next transaction, or when the lane is due. */
  received: number;
  /** How far those are deleted. */
  deleted: number;
  /** All rows that its destination does not have; undefined while only storage has them. */
  ahead: OutboxRow[] | undefined;
}

export class Outbox {
  readonly #state: SiteState;
  readonly #env: Env;
  readonly #lanes = new Map<string, Lane>();

  constructor(state: SiteState, env: Env) {
    this.#state = state;
    this.#env = env;
    for (const name of state.storage.outboxLanes()) {
      const lane = this.#lane(name);
      lane.retryAtMs = state.now();
      lane.ahead = undefined;
    }
  }

  /** Rows that were just written: their lanes have a due time from here on, whatever becomes of this run. */
  add(rows: readonly OutboxRow[]): void {
    const dueMs = this.#state.now() + HANDOVER_MS;
    for (const row of rows) {
      const lane = this.#lane(row.lane);
      if (lane.ahead && lane.ahead.length < MAX_ROWS_AHEAD) lane.ahead.push(row);
      else lane.ahead = undefined;
      if (lane.failures === 0) lane.retryAtMs = Math.max(lane.retryAtMs, dueMs);
    }
  }

  /**
   * The events that a key's Vhost does not have yet, for the answer of its own call: the fast path. `isAll`: there
   * are no more than these.
   */
  handOver(keyId: string): { events: OutboxEvent[]; isAll: boolean } {
    const lane = this.#lane(keyId);
    lane.retryAtMs = Math.max(lane.retryAtMs, this.#state.now() + HANDOVER_MS);
    const rows = this.#next(keyId, lane);
    return { events: rows.map(toEvent), isAll: rows.length < BATCH_ROWS };
  }

  /** Drains lanes now, until they are empty or a call fails; one that failed lately waits its time. Never throws. */
  async drain(names: Iterable<string>): Promise<void> {
    const now = this.#state.now();
    const ready = [...new Set(names)].filter((name) => {
      const lane = this.#lane(name);
      return lane.failures === 0 || lane.retryAtMs <= now;
    });
    await Promise.all(ready.map((name) => this.#drainLane(name)));
  }

  /** Drains every lane whose retry is due. */
  async drainDue(now: number): Promise<void> {
    const due = [...this.#lanes].filter(([, lane]) => lane.retryAtMs <= now).map(([name]) => name);
    await this.drain(due);
  }

  /** A destination says how far it has stored. */
  noteReceived(name: string, sequence: number): void {
    const lane = this.#lane(name);
    lane.received = Math.max(lane.received, sequence);
    while ((lane.ahead?.[0]?.sequence ?? Number.POSITIVE_INFINITY) <= lane.received) lane.ahead?.shift();
  }

  /** Deletes what has arrived. Inside a transaction that is there anyway: it needs none of its own. */
  deleteReceived(): void {
    for (const [name, lane] of this.#lanes) {
      if (lane.received <= lane.deleted) continue;
      this.#state.storage.deleteOutbox(name, lane.received);
      lane.deleted = lane.received;
    }
  }

  /** When the next lane wants another try; undefined when nothing waits. One under way asks again when it ends. */
  nextDueMs(): number | undefined {
    let due: number | undefined;
    for (const lane of this.#lanes.values()) {
      if (!lane.running && (due === undefined || lane.retryAtMs < due)) due = lane.retryAtMs;
    }
    return due;
  }

  #lane(name: string): Lane {
    let lane = this.#lanes.get(name);
    if (!lane) {
      lane = { running: false, failures: 0, retryAtMs: 0, received: 0, deleted: 0, ahead: [] };
      this.#lanes.set(name, lane);
    }
    return lane;
  }

  /** The next rows that its destination does not have. */
  #next(name: string, lane: Lane): OutboxRow[] {
    if (lane.ahead) return lane.ahead.slice(0, BATCH_ROWS);
    const rows = this.#state.storage.outboxOf(name, lane.received, BATCH_ROWS);
    if (rows.length < BATCH_ROWS) lane.ahead = [...rows];
    return rows;
  }

  async #drainLane(name: string): Promise<void> {
    const lane = this.#lane(name);
    if (lane.running) return;
    lane.running = true;
    try {
      for (;;) {
        const rows = this.#next(name, lane);
        if (rows.length === 0) {
          if (lane.received <= lane.deleted) this.#lanes.delete(name);
          else lane.retryAtMs = this.#state.now() + HANDOVER_MS;
          return;
        }
        await this.#send(name, rows);
        lane.failures = 0;
      }
    } catch (error) {
      lane.failures += 1;
      const backoffMs = Math.min(MAX_BACKOFF_MS, 250 * 2 ** lane.failures);
      lane.retryAtMs = this.#state.now() + backoffMs;
      console.warn('outbox lane failed', {
        lane: name,
        failures: lane.failures,
        backoffMs,
        error: String(error),
      });
    } finally {
      lane.running = false;
    }
  }

  /** One call; on success the rows that arrived are gone. */
  async #send(name: string, rows: readonly OutboxRow[]): Promise<void> {
    const last = rows.at(-1)?.sequence ?? 0;
    if (name === REGISTRY_LANE) {
      await within(CALL_TIMEOUT_MS, writeRegistry(this.#env.DB, rows));
      this.noteReceived(name, last);
      return;
    }
    const stub = this.#env.VHOST.get(this.#env.VHOST.idFromName(name));
    const siteId = this.#state.siteId ?? '';
    const receipt = await within(CALL_TIMEOUT_MS, stub.receive(siteId, rows.map(toEvent)));
    if (receipt.gone) {
      this.#state.storage.deleteLane(name);
      this.#lane(name).ahead = [];
    } else if (receipt.received >= last) this.noteReceived(name, receipt.received);
    else throw new Error(`the vhost has stored up to ${receipt.received} of ${last}`);
  }
}

function toEvent(row: OutboxRow): OutboxEvent {
  return {
    sequence: row.sequence,
    kind: row.kind as EventKind,
    messageId: row.message_id,
    correlationId: row.correlation_id,
    atMs: row.at_ms,
    payloadText: row.payload,
  };
}

/** Status columns that lists need. Applying a row twice changes nothing. */
async function writeRegistry(database: D1Database, rows: readonly OutboxRow[]): Promise<void> {
  const db = drizzle(database);
  const statements = rows.map((row) => {
    const change = JSON.parse(row.payload);
    if (row.kind === 'plant') return db.update(plants).set(change).where(eq(plants.id, row.message_id));
    if (row.kind === 'device') return db.update(devices).set(change).where(eq(devices.id, row.message_id));
    return db.update(subDevices).set(change).where(eq(subDevices.id, row.message_id));
  });
  const [first, ...rest] = statements;
  if (first) await db.batch([first, ...rest]);
}
