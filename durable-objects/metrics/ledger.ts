/**
 * What objects have reported, in memory: the total counts, the last report of each object, and which of these
 * are not stored yet. Storage has one row with all counts, and one row per object.
 */
import type { Migration } from '../object/migrate.ts';
import { boundedRow } from '../object/row-size.ts';
import type { Sql } from '../object/sql.ts';
import type { Turn } from '../object/turn.ts';
import type { CountKey, Counts } from './families.ts';
import type { KeyQueues, Report } from './report.ts';

/** Anything above a limit is dropped and counted. */
export const METRICS_BOUNDS = {
  objects: 30_000,
  /** Queues of all keys together. Each queue adds seven lines to a scrape. */
  queues: 5_000,
  /** Queues of the keys of one organization, so that one organization cannot use up the limit for all. */
  queuesOfOrganization: 500,
  /** Count keys: more than three times the number in `COUNTED`. */
  counts: 200,
} as const;

export const METRICS_MIGRATIONS: readonly Migration[] = [
  {
    lowest: 1,
    sql: `
    -- All counts since the beginning, in one row: JSON, counts by key.
    CREATE TABLE total (
      id INTEGER PRIMARY KEY CHECK (id = 1),
      counts TEXT NOT NULL
    );
    -- The last report of each object.
    CREATE TABLE reporter (
      object TEXT PRIMARY KEY,
      class TEXT NOT NULL,
      -- JSON: the queues of a vhost.
      queues TEXT,
      -- Time of the last report.
      seen_ms INTEGER NOT NULL
    ) WITHOUT ROWID;
    `,
  },
];

type ReporterRow = { object: string; class: Report['class']; queues: string | null; seen_ms: number };

export interface Entry {
  class: Report['class'];
  queues: KeyQueues | undefined;
  /** Time of the last report. */
  seenMs: number;
  /** The stored value of `seenMs`. */
  storedSeenMs: number;
  /** Time of the last report by the clock of the reporting object; 0 if the entry was read from storage. */
  atMs: number;
}

/** Changes that are not stored yet; an undefined entry was deleted. */
interface Unstored {
  totals: Counts | undefined;
  entries: [object: string, entry: Entry | undefined][];
}

/** How often `seenMs` is stored; shorter than the time for which an object counts as awake. */
const SEEN_MS = 150_000;
/**
 * The entry of an object without queues is deleted if the object has sent no report for this time, because
 * the object may no longer exist.
 */
const QUIET_MS = 24 * 3_600_000;

export class Ledger {
  readonly #totals: Map<string, number>;
  readonly #entries: Map<string, Entry>;
  readonly #changed = new Set<string>();
  #areTotalsChanged = false;
  readonly #queueCounts = new Map<string, number>();
  #queueCount = 0;

  constructor(totals: Counts, entries: Iterable<[object: string, entry: Entry]>) {
    this.#totals = new Map(Object.entries(totals));
    this.#entries = new Map(entries);
    for (const { queues } of this.#entries.values()) if (queues) this.#noteQueues(queues, 1);
  }

  /** Counts by key since the beginning. */
  get totals(): ReadonlyMap<string, number> {
    return this.#totals;
  }

  queues(): KeyQueues[] {
    return [...this.#entries.values()].flatMap(({ queues }) => queues ?? []);
  }

  /** Number of objects of a class that reported after `sinceMs`. */
  seenSince(of: Entry['class'], sinceMs: number): number {
    return [...this.#entries.values()].filter((entry) => entry.class === of && entry.seenMs > sinceMs).length;
  }

  get isChanged(): boolean {
    return this.#areTotalsChanged || this.#changed.size > 0;
  }

  takeUnstored(): Unstored {
    const totals = this.#areTotalsChanged ? Object.fromEntries(this.#totals) : undefined;
    const entries: Unstored['entries'] = [...this.#changed].map((one) => [one, this.#entries.get(one)]);
    this.#areTotalsChanged = false;
    this.#changed.clear();
    return { totals, entries };
  }

  add(counts: Counts): void {
    for (const [key, by] of Object.entries(counts)) {
      if (this.#totals.has(key) || this.#totals.size < METRICS_BOUNDS.counts) this.#count(key, by);
      else this.#leaveOut('count', by);
    }
  }

  take(report: Report, now: number): void {
    const known = this.#entries.get(report.object);
    if (report.isOver) {
      if (known) this.#forget(report.object, known);
      return;
    }
    if (known && report.atMs < known.atMs) return;
    if (!known && this.#entries.size >= METRICS_BOUNDS.objects) {
      this.#leaveOut('report', 1);
      return;
    }
    const entry = known ?? { class: report.class, queues: undefined, seenMs: 0, storedSeenMs: 0, atMs: 0 };
    this.#entries.set(report.object, entry);
    entry.seenMs = now;
    entry.atMs = report.atMs;
    const isOther = JSON.stringify(entry.queues) !== JSON.stringify(report.queues);
    if (isOther) this.#setQueues(entry, report.queues);
    // A report that changes nothing is stored only every SEEN_MS, because each store writes a row.
    if (!isOther && now - entry.storedSeenMs < SEEN_MS) return;
    entry.storedSeenMs = now;
    this.#changed.add(report.object);
  }

  forgetQuiet(now: number): void {
    for (const [object, entry] of this.#entries) {
      if (!entry.queues && entry.seenMs <= now - QUIET_MS) this.#forget(object, entry);
    }
  }

  #forget(object: string, entry: Entry): void {
    this.#setQueues(entry, undefined);
    this.#entries.delete(object);
    this.#changed.add(object);
  }

  #setQueues(entry: Entry, queues: KeyQueues | undefined): void {
    if (entry.queues) this.#noteQueues(entry.queues, -1);
    entry.queues = undefined;
    if (!queues) return;
    const ofOrganization = this.#queueCounts.get(queues.organization) ?? 0;
    const room = Math.min(
      METRICS_BOUNDS.queues - this.#queueCount,
      METRICS_BOUNDS.queuesOfOrganization - ofOrganization,
    );
    entry.queues = { ...queues, queues: queues.queues.slice(0, Math.max(0, room)) };
    this.#noteQueues(entry.queues, 1);
    this.#leaveOut('queue', queues.queues.length - entry.queues.queues.length);
  }

  #noteQueues({ organization, queues }: KeyQueues, by: 1 | -1): void {
    const count = (this.#queueCounts.get(organization) ?? 0) + by * queues.length;
    if (count > 0) this.#queueCounts.set(organization, count);
    else this.#queueCounts.delete(organization);
    this.#queueCount += by * queues.length;
  }

  /** Counts what was dropped; these counts are exempt from the limits. */
  #leaveOut(what: 'report' | 'queue' | 'count', by: number): void {
    const key: CountKey = `left_out/${what}`;
    if (by > 0) this.#count(key, by);
  }

  #count(key: string, by: number): void {
    this.#totals.set(key, (this.#totals.get(key) ?? 0) + by);
    this.#areTotalsChanged = true;
  }
}

export function readLedger(sql: Sql): Ledger {
  const total = sql.one<{ counts: string }>('SELECT counts FROM total');
  const rows = sql.all<ReporterRow>('SELECT object, class, queues, seen_ms FROM reporter');
  const entries = rows.map(({ object, class: of, queues: json, seen_ms: seenMs }): [string, Entry] => {
    const queues = json === null ? undefined : (JSON.parse(json) as KeyQueues);
    return [object, { class: of, queues, seenMs, storedSeenMs: seenMs, atMs: 0 }];
  });
  return new Ledger(JSON.parse(total?.counts ?? '{}') as Counts, entries);
}

/** Stores what has changed since the last call. */
export function storeLedger(turn: Turn, ledger: Ledger): void {
  const { totals, entries } = ledger.takeUnstored();
  if (totals) {
    turn.replace('total', { id: 1, counts: boundedRow(JSON.stringify(totals)) });
  }
  for (const [object, entry] of entries) {
    if (!entry) {
      turn.write('DELETE FROM reporter WHERE object = ?', object);
      continue;
    }
    const queues = entry.queues ? boundedRow(JSON.stringify(entry.queues)) : null;
    turn.replace('reporter', { object, class: entry.class, queues, seen_ms: entry.seenMs });
  }
}
