/**
 * What all objects have told, in memory: the last word of each, their counts summed up, and which of it storage lacks. A
 * count never goes back: of an object that was restored to an earlier state nothing counts until it is past what it told.
 */
import { FIGURES_BOUNDS } from './bounds.ts';
import type { Counts } from './families.ts';
import type { KeyQueues, Report } from './report.ts';

export interface Entry {
  class: Report['class'] | 'none';
  counts: Record<string, number>;
  queues: KeyQueues | undefined;
  /** When it told anything last. */
  seenMs: number;
  /** As storage has it. */
  storedSeenMs: number;
  /** When it was so, by its own clock; 0 when that was before this wake. */
  atMs: number;
}

/** Shorter than what counts as awake. */
const SEEN_MS = 150_000;
/** In the place of an object's id: the Worker's counts, and those of objects that are no more. */
const WORKER = 'worker';
const GONE = 'gone';

export class Ledger {
  readonly #entries: Map<string, Entry>;
  readonly #totals = new Map<string, number>();
  readonly #changed = new Set<string>();
  #queueCount = 0;
  /** What found no room, since this wake. */
  readonly leftOut = { report: 0, queue: 0 };

  constructor(entries: Iterable<[object: string, entry: Entry]>) {
    this.#entries = new Map(entries);
    for (const { counts, queues } of this.#entries.values()) {
      this.#sum(counts, 1);
      this.#queueCount += queues?.queues.length ?? 0;
    }
  }

  /** Counts by key, of all there ever were. */
  get totals(): ReadonlyMap<string, number> {
    return this.#totals;
  }

  queues(): KeyQueues[] {
    return [...this.#entries.values()].flatMap(({ queues }) => queues ?? []);
  }

  /** How many of a class have told anything since then. */
  seenSince(of: Entry['class'], sinceMs: number): number {
    let seen = 0;
    for (const entry of this.#entries.values()) if (entry.class === of && entry.seenMs > sinceMs) seen += 1;
    return seen;
  }

  get isChanged(): boolean {
    return this.#changed.size > 0;
  }

  /** What storage lacks; undefined: it is no more. */
  takeChanged(): [object: string, entry: Entry | undefined][] {
    const changed = [...this.#changed].map((object): [string, Entry | undefined] => [
      object,
      this.#entries.get(object),
    ]);
    this.#changed.clear();
    return changed;
  }

  take(report: Report, now: number): void {
    const known = this.#entries.get(report.object);
    if (report.isOver) {
      if (known) this.#forget(report.object, known);
      return;
    }
    if (known && report.atMs < known.atMs) return;
    if (!known && this.#entries.size >= FIGURES_BOUNDS.objects) {
      this.leftOut.report += 1;
      return;
    }
    const entry = known ?? this.#enter(report.object, report.class);
    entry.seenMs = now;
    entry.atMs = report.atMs;
    const isRaised = this.#raise(entry.counts, report.counts);
    const isOther = JSON.stringify(entry.queues) !== JSON.stringify(report.queues);
    if (isOther) this.#setQueues(entry, report.queues);
    // Each time that it is seen would be a row.
    if (!isRaised && !isOther && now - entry.storedSeenMs < SEEN_MS) return;
    entry.storedSeenMs = now;
    this.#changed.add(report.object);
  }

  /** More of what nobody sums up for itself. */
  add(counts: Counts): void {
    this.#addTo(WORKER, counts);
  }

  /** It tells no more: its queues go, what it counted stays counted. */
  #forget(object: string, { counts, queues }: Entry): void {
    this.#queueCount -= queues?.queues.length ?? 0;
    this.#entries.delete(object);
    this.#changed.add(object);
    this.#sum(counts, -1);
    this.#addTo(GONE, counts);
  }

  #addTo(object: string, counts: Counts): void {
    const entry = this.#entries.get(object) ?? this.#enter(object, 'none');
    const sums = Object.entries(counts).map(([key, by]) => [key, (entry.counts[key] ?? 0) + by]);
    if (this.#raise(entry.counts, Object.fromEntries(sums))) this.#changed.add(object);
  }

  #enter(object: string, of: Entry['class']): Entry {
    const entry: Entry = { class: of, counts: {}, queues: undefined, seenMs: 0, storedSeenMs: 0, atMs: 0 };
    this.#entries.set(object, entry);
    return entry;
  }

  #setQueues(entry: Entry, queues: KeyQueues | undefined): void {
    this.#queueCount -= entry.queues?.queues.length ?? 0;
    entry.queues = undefined;
    if (!queues) return;
    const room = FIGURES_BOUNDS.queues - this.#queueCount;
    this.leftOut.queue += Math.max(0, queues.queues.length - room);
    entry.queues = { ...queues, queues: queues.queues.slice(0, room) };
    this.#queueCount += entry.queues.queues.length;
  }

  /** Brings counts up to these, and the sums with them. */
  #raise(counts: Record<string, number>, to: Counts): boolean {
    let isRaised = false;
    for (const [key, count] of Object.entries(to)) {
      const before = counts[key];
      if (count <= (before ?? 0)) continue;
      if (before === undefined && Object.keys(counts).length >= FIGURES_BOUNDS.counts) continue;
      counts[key] = count;
      this.#totals.set(key, (this.#totals.get(key) ?? 0) + count - (before ?? 0));
      isRaised = true;
    }
    return isRaised;
  }

  #sum(counts: Counts, sign: 1 | -1): void {
    for (const [key, count] of Object.entries(counts)) {
      this.#totals.set(key, (this.#totals.get(key) ?? 0) + sign * count);
    }
  }
}
