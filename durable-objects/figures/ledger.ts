/** All reports in memory: the total counts, the last report of each object, and which of them are not stored yet. */
import { FIGURES_BOUNDS } from './bounds.ts';
import type { CountKey, Counts } from './families.ts';
import type { KeyQueues, Report } from './report.ts';

export interface Entry {
  class: Report['class'];
  queues: KeyQueues | undefined;
  /** Time of the last report. */
  seenMs: number;
  /** The stored value of `seenMs`. */
  storedSeenMs: number;
  /** Time of the report by the clock of its object; 0 if it was read from storage. */
  atMs: number;
}

/** Changes that are not stored yet; an undefined entry was deleted. */
export interface Unstored {
  totals: Counts | undefined;
  entries: [object: string, entry: Entry | undefined][];
}

/** How often `seenMs` is stored; shorter than the time for which an object counts as awake. */
const SEEN_MS = 150_000;
/** An object without queues that sent no report for this time is forgotten: it may no longer exist. */
const QUIET_MS = 24 * 3_600_000;

export class Ledger {
  readonly #totals: Map<string, number>;
  readonly #entries: Map<string, Entry>;
  readonly #changed = new Set<string>();
  #areTotalsChanged = false;
  #queueCount = 0;

  constructor(totals: Counts, entries: Iterable<[object: string, entry: Entry]>) {
    this.#totals = new Map(Object.entries(totals));
    this.#entries = new Map(entries);
    for (const { queues } of this.#entries.values()) this.#queueCount += queues?.queues.length ?? 0;
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
    let seen = 0;
    for (const entry of this.#entries.values()) if (entry.class === of && entry.seenMs > sinceMs) seen += 1;
    return seen;
  }

  get isChanged(): boolean {
    return this.#areTotalsChanged || this.#changed.size > 0;
  }

  takeUnstored(): Unstored {
    const totals = this.#areTotalsChanged ? Object.fromEntries(this.#totals) : undefined;
    const entries = [...this.#changed].map((object): Unstored['entries'][number] => [
      object,
      this.#entries.get(object),
    ]);
    this.#areTotalsChanged = false;
    this.#changed.clear();
    return { totals, entries };
  }

  add(counts: Counts): void {
    for (const [key, by] of Object.entries(counts)) {
      const before = this.#totals.get(key);
      if (before === undefined && this.#totals.size >= FIGURES_BOUNDS.counts) this.#leaveOut('count', by);
      else this.#totals.set(key, (before ?? 0) + by);
      this.#areTotalsChanged = true;
    }
  }

  take(report: Report, now: number): void {
    const known = this.#entries.get(report.object);
    if (report.isOver) {
      if (known) this.#forget(report.object, known);
      return;
    }
    if (known && report.atMs < known.atMs) return;
    if (!known && this.#entries.size >= FIGURES_BOUNDS.objects) {
      this.#leaveOut('report', 1);
      return;
    }
    const entry = known ?? this.#enter(report);
    entry.seenMs = now;
    entry.atMs = report.atMs;
    const isOther = JSON.stringify(entry.queues) !== JSON.stringify(report.queues);
    if (isOther) this.#setQueues(entry, report.queues);
    // Storing every report would write a row each time.
    if (!isOther && now - entry.storedSeenMs < SEEN_MS) return;
    entry.storedSeenMs = now;
    this.#changed.add(report.object);
  }

  forgetQuiet(now: number): void {
    for (const [object, entry] of this.#entries) {
      if (!entry.queues && entry.seenMs <= now - QUIET_MS) this.#forget(object, entry);
    }
  }

  #enter({ object, class: of }: Report): Entry {
    const entry: Entry = { class: of, queues: undefined, seenMs: 0, storedSeenMs: 0, atMs: 0 };
    this.#entries.set(object, entry);
    return entry;
  }

  #forget(object: string, { queues }: Entry): void {
    this.#queueCount -= queues?.queues.length ?? 0;
    this.#entries.delete(object);
    this.#changed.add(object);
  }

  #setQueues(entry: Entry, queues: KeyQueues | undefined): void {
    this.#queueCount -= entry.queues?.queues.length ?? 0;
    entry.queues = undefined;
    if (!queues) return;
    const room = FIGURES_BOUNDS.queues - this.#queueCount;
    this.#leaveOut('queue', Math.max(0, queues.queues.length - room));
    entry.queues = { ...queues, queues: queues.queues.slice(0, room) };
    this.#queueCount += entry.queues.queues.length;
  }

  /** Counts what was dropped; these counts are exempt from the limits. */
  #leaveOut(what: 'report' | 'queue' | 'count', by: number): void {
    if (by === 0) return;
    const key: CountKey = `left_out/${what}`;
    this.#totals.set(key, (this.#totals.get(key) ?? 0) + by);
    this.#areTotalsChanged = true;
  }
}
