/** The values of the rows in the list of sites. They outlive the rows: a reader who comes back sees the last ones at once. */

import { type Signal, signal } from '@preact/signals';
import { api, mayPoll, read } from './client.ts';
import { platformNow } from './clock.ts';
import { explain } from './site.ts';
import type { Latest, Point } from './types.ts';

/**
 * A row on the screen makes six requests a minute, and the survey of the other rows two a second at most: with forty rows
 * 360 of the 600 requests that a user has.
 */
const LATEST_MS = 20_000;
const ATTENTION_MS = 60_000;
const HOUR_MS = 5 * 60_000;
const HOUR = 3_600_000;
/** Rows that read at the same time. */
const READERS = 4;
/** Values of sites that are kept. */
const KEPT = 2_000;
/** The commands that are looked at for those that wait. */
const COMMANDS = 20;

/** What a site does beside its plan. */
export interface Attention {
  /** The measured power is not the target. */
  deviates: boolean;
  /** Commands that wait: below the target of the plan, for their time, or for the plant. */
  waiting: number;
}

export class RowValues {
  readonly latest: Signal<Latest | undefined> = signal(undefined);
  readonly points: Signal<Point[]> = signal([]);
  readonly attention: Signal<Attention | undefined> = signal(undefined);
  readonly hasFailed = signal(false);
  attentionAtMs = Number.NEGATIVE_INFINITY;
  readonly #id: string;
  #latestAtMs = Number.NEGATIVE_INFINITY;
  #hourAtMs = Number.NEGATIVE_INFINITY;
  #isReading = false;

  constructor(id: string) {
    this.#id = id;
  }

  /** Reads what is old. `isShown`: whether the row is still on the screen when it is its turn. */
  async readSoon(isShown: () => boolean): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      await inTurn(async () => {
        if (isShown() && mayPoll()) await this.#read();
      });
    } finally {
      this.#isReading = false;
    }
  }

  async readAttention(): Promise<void> {
    this.attentionAtMs = performance.now();
    const query = { pageSize: COMMANDS };
    const [{ waiting, measured }, { items }] = await Promise.all([
      explain(this.#id, null),
      read(api.GET('/api/v1/plants/{id}/commands', { params: { path: { id: this.#id }, query } })),
    ]);
    const ids = new Set([
      ...waiting.flatMap(({ commandId }) => commandId ?? []),
      ...items.flatMap(({ id, status }) => (status === 'PENDING' ? [id] : [])),
    ]);
    const { verdict = null } = measured ?? {};
    this.attention.value = {
      deviates: verdict === 'DEVIATES' || verdict === 'DEVIATED',
      waiting: ids.size,
    };
  }

  async #read(): Promise<void> {
    const now = performance.now();
    const isLatestDue = now - this.#latestAtMs >= LATEST_MS;
    try {
      // The time of the try counts: a site that cannot be read is not asked more often than others.
      if (isLatestDue) {
        this.#latestAtMs = now;
        const path = { params: { path: { id: this.#id } } };
        this.latest.value = await read(api.GET('/api/v1/plants/{id}/telemetry/latest', path));
      }
      if (now - this.attentionAtMs >= ATTENTION_MS) await this.readAttention();
      if (now - this.#hourAtMs >= HOUR_MS) {
        this.#hourAtMs = now;
        this.points.value = await readHour(this.#id);
      }
      if (isLatestDue) this.hasFailed.value = false;
    } catch {
      // The row keeps its values, and says that they are old.
      this.hasFailed.value = true;
    }
  }
}

const known = new Map<string, RowValues>();

export function valuesOf(id: string): RowValues {
  const found = known.get(id) ?? new RowValues(id);
  // The one that was used last is dropped last.
  known.delete(id);
  known.set(id, found);
  const [oldest] = known.keys();
  if (known.size > KEPT && oldest !== undefined) known.delete(oldest);
  return found;
}

/** What is known of a site whose row may not have been on the screen yet. */
export function attentionOf(id: string): Attention | undefined {
  return known.get(id)?.attention.peek();
}

/** The site that nobody has looked at for the longest time, if that is long ago. */
export function leastKnown(ids: readonly string[]): string | undefined {
  let [found, oldestMs]: [string | undefined, number] = [undefined, performance.now() - 10 * ATTENTION_MS];
  for (const id of ids) {
    const atMs = known.get(id)?.attentionAtMs ?? Number.NEGATIVE_INFINITY;
    if (atMs < oldestMs) [found, oldestMs] = [id, atMs];
  }
  return found;
}

let running = 0;
const queue: (() => void)[] = [];

/** Lets a few rows read at a time. */
async function inTurn(work: () => Promise<void>): Promise<void> {
  if (running >= READERS) await new Promise<void>((resolve) => queue.push(resolve));
  running += 1;
  try {
    await work();
  } finally {
    running -= 1;
    queue.shift()?.();
  }
}

/** The course of the last hour; of a site that has just begun, its first readings. */
async function readHour(id: string): Promise<Point[]> {
  const now = platformNow();
  const course = async (granularity: 'raw' | '5m', sinceMs: number) => {
    const [from, to] = [new Date(now - sinceMs).toISOString(), new Date(now).toISOString()];
    const query = { metric: 'gridPowerKw', from, to, granularity };
    const call = api.GET('/api/v1/plants/{id}/telemetry', { params: { path: { id }, query } });
    return (await read(call)).readings;
  };
  const hour = await course('5m', HOUR);
  return hour.length > 1 ? hour : await course('raw', HOUR / 6);
}
