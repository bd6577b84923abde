/** What the screen of a site reads, and how it follows the site. */
import { type Signal, signal } from '@preact/signals';
import { EXPLAIN_CHANGES } from '../limits.ts';
import { api, read } from './client.ts';
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
const SLOW_MS = 20_000;
const COMMANDS = 20;
/** Pages of changes that are read for one range: more would hold up the screen. */
const CHANGE_PAGES = 20;

export const RANGES = {
  '15m': { ms: 15 * 60_000, granularity: 'raw' },
  '1h': { ms: 60 * 60_000, granularity: 'raw' },
  '6h': { ms: 6 * 60 * 60_000, granularity: 'raw' },
  '1d': { ms: 24 * 60 * 60_000, granularity: 'raw' },
  '7d': { ms: 7 * 24 * 60 * 60_000, granularity: '5m' },
  '30d': { ms: 30 * 24 * 60 * 60_000, granularity: '1h' },
  '90d': { ms: 90 * 24 * 60 * 60_000, granularity: '1h' },
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

export interface Course {
  points: Point[];
  changes: PlanChange[];
  /** Whether the range has more changes than were read. */
  isCut: boolean;
}

export async function readCourse(id: string, name: RangeName, toMs: number): Promise<Course> {
  const { ms, granularity } = RANGES[name];
  const [from, to] = [new Date(toMs - ms).toISOString(), new Date(toMs).toISOString()];
  const query = { metric: 'gridPowerKw', from, to, granularity };
  const history = api.GET('/api/v1/plants/{id}/telemetry', { params: { path: { id }, query } });
  const [{ readings }, { changes, isCut }] = await Promise.all([read(history), readChanges(id, from, to)]);
  return { points: readings, changes, isCut };
}

/** The changes of the range, with what was in force at its begin as the first one. */
async function readChanges(id: string, from: string, to: string): Promise<Pick<Course, 'changes' | 'isCut'>> {
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
    next = answer.changes.length < EXPLAIN_CHANGES ? null : answer.next;
  }
  return { changes, isCut: next !== null };
}

/** The live values of a site, until `close`. */
export class LiveSite {
  readonly latest: Signal<Latest | undefined> = signal(undefined);
  readonly explanation: Signal<Explanation | undefined> = signal(undefined);
  readonly commands: Signal<Command[] | undefined> = signal(undefined);
  readonly alerts: Signal<Alert[] | undefined> = signal(undefined);
  /** Readings and changes since the screen was opened. */
  readonly newPoints: Signal<Point[]> = signal([]);
  /** Grows when the plan may have changed. */
  readonly changed = signal(0);
  /** When a value was last read; the platform may be away. */
  readonly readAtMs = signal(Date.now());
  readonly failed = signal(false);
  readonly state: Signal<StreamState>;
  readonly #id: string;
  readonly #close: () => void;
  #settling: ReturnType<typeof setTimeout> | undefined;

  constructor(id: string) {
    this.#id = id;
    const stream = openPlantStream(id, (event) => this.#take(event));
    this.state = stream.state;
    const timers = [
      setInterval(() => void this.#readLatest(), LATEST_MS),
      setInterval(() => void this.readAll(), SLOW_MS),
    ];
    this.#close = () => {
      stream.close();
      clearTimeout(this.#settling);
      for (const timer of timers) clearInterval(timer);
    };
    void this.#readLatest();
    void this.readAll();
  }

  close(): void {
    this.#close();
  }

  /** Reads commands, alerts and the explanation again. */
  async readAll(): Promise<void> {
    if (document.hidden) return;
    const id = this.#id;
    const query = { pageSize: COMMANDS };
    const active = { plantId: id, status: 'ACTIVE' as const, limit: 50 };
    await Promise.all([
      keep(
        this.commands,
        async () =>
          (await read(api.GET('/api/v1/plants/{id}/commands', { params: { path: { id }, query } }))).items,
      ),
      keep(
        this.alerts,
        async () => (await read(api.GET('/api/v1/alerts', { params: { query: active } }))).data as Alert[],
      ),
      keep(this.explanation, () => explain(id, null)),
    ]);
    this.changed.value += 1;
  }

  async #readLatest(): Promise<void> {
    if (document.hidden) return;
    const path = { params: { path: { id: this.#id } } };
    try {
      this.#show(await read(api.GET('/api/v1/plants/{id}/telemetry/latest', path)));
      // The first answer after a failure: what happened meanwhile is read, too.
      if (this.failed.value) void this.readAll();
      this.failed.value = false;
    } catch {
      this.failed.value = true;
    }
  }

  #show(latest: Latest): void {
    this.readAtMs.value = Date.now();
    const { timestamp } = latest;
    const isNew = timestamp !== this.latest.value?.timestamp;
    this.latest.value = latest;
    const value = latest.payload.gridPowerKw;
    if (isNew && value !== null)
      this.newPoints.value = [...this.newPoints.value.slice(-20_000), { timestamp, value }];
  }

  #take({ kind }: StreamedEvent): void {
    if (kind === 'telemetry') {
      void this.#readLatest();
      return;
    }
    clearTimeout(this.#settling);
    this.#settling = setTimeout(() => void this.readAll(), SETTLE_MS);
  }
}

/** Replaces a value unless it cannot be read: then the screen keeps the last one, and says that it is not live. */
async function keep<Value>(target: Signal<Value | undefined>, load: () => Promise<Value>): Promise<void> {
  try {
    target.value = await load();
  } catch {
    // `failed` of the latest values says that the platform does not answer.
  }
}
