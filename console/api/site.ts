/** What the screen of a site reads, and how it follows the site. */

import { type Signal, signal } from '@preact/signals';
import { api, type CallError, callError, mayPoll, read } from './client.ts';
import { platformNow } from './clock.ts';
import { openPlantStream, type StreamedEvent, type StreamState } from './stream.ts';
import type {
  Alert,
  Command,
  Explanation,
  Latest,
  PlanChange,
  Plant,
  Point,
  SiteConfig,
  SubDevice,
} from './types.ts';

const LATEST_MS = 2_000;
/** Events that come together are read together. */
const SETTLE_MS = 250;
/** The shortest time between two reads of all values: a busy site must not use up the rate of the API. */
const APART_MS = 2_000;
const SLOW_MS = 20_000;
/** New readings that are kept; older ones are in the history, which is read again. */
const KEPT_POINTS = 5_000;
/** Commands and alerts that the page of a site lists. */
export const COMMANDS = 20;
export const ALERTS = 100;
/** Pages of changes that are read for one range: more would hold up the screen. */
const CHANGE_PAGES = 20;

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** `gapMs`: readings further apart are not joined by a line; `apartMs`: the plan is read again after this time at the soonest. */
export const RANGES = {
  '15m': { ms: 15 * MINUTE, granularity: 'raw', gapMs: 5 * MINUTE, apartMs: 300 },
  '1h': { ms: 60 * MINUTE, granularity: 'raw', gapMs: 5 * MINUTE, apartMs: 2_000 },
  '6h': { ms: 6 * 60 * MINUTE, granularity: 'raw', gapMs: 5 * MINUTE, apartMs: 10_000 },
  '1d': { ms: DAY, granularity: 'raw', gapMs: 5 * MINUTE, apartMs: 30_000 },
  '7d': { ms: 7 * DAY, granularity: '5m', gapMs: 20 * MINUTE, apartMs: 60_000 },
  '30d': { ms: 30 * DAY, granularity: '1h', gapMs: 150 * MINUTE, apartMs: 60_000 },
  '90d': { ms: 90 * DAY, granularity: '1h', gapMs: 150 * MINUTE, apartMs: 60_000 },
} as const;
export type RangeName = keyof typeof RANGES;

export interface SiteData {
  plant: Plant;
  config: SiteConfig;
  subDevices: SubDevice[];
}

export async function readSite(id: string): Promise<SiteData> {
  const path = { params: { path: { id } } };
  const [plant, config, { data: subDevices }] = await Promise.all([
    read(api.GET('/api/v1/plants/{id}', path)),
    read(api.GET('/api/v1/plants/{id}/config', path)),
    read(api.GET('/api/v1/plants/{id}/sub-devices', { params: { ...path.params, query: { limit: 100 } } })),
  ]);
  return { plant, config, subDevices };
}

/** Why the site does what it does; null: now. */
export async function explain(id: string, atMs: number | null): Promise<Explanation> {
  const query = atMs === null ? {} : { at: new Date(atMs).toISOString() };
  const answer = await read(api.GET('/api/v1/plants/{id}/explain', { params: { path: { id }, query } }));
  return answer as Explanation;
}

export async function readHistory(id: string, name: RangeName): Promise<Point[]> {
  const { ms, granularity } = RANGES[name];
  const [from, to] = [new Date(platformNow() - ms).toISOString(), new Date(platformNow()).toISOString()];
  const query = { metric: 'gridPowerKw', from, to, granularity };
  const call = api.GET('/api/v1/plants/{id}/telemetry', { params: { path: { id }, query } });
  return (await read(call)).readings;
}

export interface Changes {
  changes: PlanChange[];
  /** Whether the range has more changes than were read. */
  isCut: boolean;
}

/** The changes of the range, with what was in force at its begin as the first one. */
export async function readChanges(id: string, name: RangeName): Promise<Changes> {
  const [from, to] = [
    new Date(platformNow() - RANGES[name].ms).toISOString(),
    new Date(platformNow()).toISOString(),
  ];
  const before = await explain(id, Date.parse(from));
  const changes: PlanChange[] = [];
  if (before.target)
    changes.push({
      ...{ at: from, cause: 'BEGINNING', commandId: null, reason: null, target: before.target },
      ...{ waiting: before.waiting, session: before.session ?? 'NONE' },
    });
  let next: string | null = from;
  for (let page = 0; next !== null && page < CHANGE_PAGES; page++) {
    const query: { from: string; to: string } = { from: next, to };
    const answer = (await read(
      api.GET('/api/v1/plants/{id}/explain', { params: { path: { id }, query } }),
    )) as {
      changes: PlanChange[];
      next: string | null;
    };
    changes.push(...answer.changes);
    next = answer.next;
  }
  return { changes, isCut: next !== null };
}

/** The live values of a site, until `close`. */
export class LiveSite {
  readonly latest: Signal<Latest | undefined> = signal(undefined);
  readonly explanation: Signal<Explanation | undefined> = signal(undefined);
  readonly commands: Signal<Command[] | undefined> = signal(undefined);
  readonly alerts: Signal<Alert[] | undefined> = signal(undefined);
  readonly plant: Signal<Plant | undefined> = signal(undefined);
  /** Readings since the screen was opened. */
  readonly newPoints: Signal<Point[]> = signal([]);
  /** Grows when the plan may have changed. */
  readonly changed = signal(0);
  /** When the values were last read; the platform may be away. */
  readonly readAtMs = signal(platformNow());
  readonly hasFailed = signal(false);
  /** Why commands, alerts and the explanation could not be read; undefined: they were. */
  readonly error: Signal<CallError | undefined> = signal(undefined);
  readonly state: Signal<StreamState>;
  readonly #id: string;
  readonly #close: () => void;
  #isReadingLatest = false;
  #isReading = false;
  #mustReadAgain = false;
  #readAllAtMs = Number.NEGATIVE_INFINITY;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(id: string) {
    this.#id = id;
    const stream = openPlantStream(id, (event) => this.#take(event));
    this.state = stream.state;
    const timers = [
      setInterval(() => void this.#readLatest(), LATEST_MS),
      setInterval(() => this.readSoon(), SLOW_MS),
    ];
    const onSeen = () => {
      if (document.hidden) return;
      void this.#readLatest();
      this.readSoon();
    };
    document.addEventListener('visibilitychange', onSeen);
    this.#close = () => {
      document.removeEventListener('visibilitychange', onSeen);
      stream.close();
      clearTimeout(this.#timer);
      for (const timer of timers) clearInterval(timer);
    };
    void this.#readLatest();
    void this.#readAll();
  }

  close(): void {
    this.#close();
  }

  /** What the page shows; undefined: not read yet. */
  get values() {
    const { explanation, latest, alerts, commands } = this;
    return {
      ...{ explanation: explanation.value, latest: latest.value },
      ...{ alerts: alerts.value, commands: commands.value },
    };
  }

  /** Reads commands, alerts and the explanation again: soon, and not more often than the rate of the API allows. */
  readSoon(): void {
    const waitMs = Math.max(SETTLE_MS, this.#readAllAtMs + APART_MS - performance.now());
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.#readAll();
    }, waitMs);
  }

  async #readAll(): Promise<void> {
    this.#mustReadAgain = this.#isReading;
    if (!mayPoll() || this.#isReading) return;
    this.#isReading = true;
    this.#readAllAtMs = performance.now();
    const path = { path: { id: this.#id } };
    // The list of a time to come is that of the open alerts.
    const open = { plantId: this.#id, at: new Date(platformNow() + DAY).toISOString(), limit: ALERTS };
    try {
      const [{ items }, { data: alerts }, explanation, plant] = await Promise.all([
        read(api.GET('/api/v1/plants/{id}/commands', { params: { ...path, query: { pageSize: COMMANDS } } })),
        read(api.GET('/api/v1/alerts', { params: { query: open } })),
        explain(this.#id, null),
        read(api.GET('/api/v1/plants/{id}', { params: path })),
      ]);
      this.commands.value = items;
      this.alerts.value = alerts as Alert[];
      this.explanation.value = explanation;
      this.plant.value = plant;
      this.changed.value += 1;
      this.error.value = undefined;
    } catch (failure) {
      // The screen keeps the last values, and says that they are not live.
      this.hasFailed.value = true;
      this.error.value = callError(failure);
    } finally {
      this.#isReading = false;
    }
    if (this.#mustReadAgain) this.readSoon();
  }

  async #readLatest(): Promise<void> {
    if (!mayPoll() || this.#isReadingLatest) return;
    this.#isReadingLatest = true;
    const path = { params: { path: { id: this.#id } } };
    try {
      this.#show(await read(api.GET('/api/v1/plants/{id}/telemetry/latest', path)));
      // The first answer after a failure: what happened meanwhile is read, too.
      if (this.hasFailed.value) this.readSoon();
      this.hasFailed.value = false;
    } catch {
      this.hasFailed.value = true;
    } finally {
      this.#isReadingLatest = false;
    }
  }

  #show(latest: Latest): void {
    this.readAtMs.value = platformNow();
    const { timestamp } = latest;
    const isNew = timestamp !== this.latest.value?.timestamp;
    this.latest.value = latest;
    const value = latest.payload.gridPowerKw;
    if (isNew && value !== null)
      this.newPoints.value = [...this.newPoints.value.slice(-KEPT_POINTS), { timestamp, value }];
  }

  #take({ kind }: StreamedEvent): void {
    if (kind === 'telemetry') void this.#readLatest();
    else this.readSoon();
  }
}
