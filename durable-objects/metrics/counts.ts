/**
 * Counts that travel to the metrics object. They are kept only in memory, because a stored row per turn would
 * cost several times as much as the calls. The price: counts that are not reported when their object is
 * evicted are lost, and counts whose call got no answer may be added twice.
 */
import type { DueSource } from '../object/agenda.ts';
import type { Calls } from '../object/calls.ts';
import type { Clock } from '../object/clock.ts';
import { reasonOf } from '../object/reason.ts';
import type { Turn } from '../object/turn.ts';
import type { CountKey, Counts } from './families.ts';

const ANSWER_MS = 5_000;
/** How long turns only add to the counts after a report. */
const PAUSE_MS = 2_000;
/**
 * When counts are reported at the latest. The runtime evicts an idle object after ten seconds, and an object that
 * has just sent events has an alarm after five seconds anyway.
 */
const LATEST_MS = 5_000;
/** Pause after a failed call. */
const RETRY_MS = 60_000;

/** Counts by key that are not reported yet. */
export class Tally {
  #counts: Record<string, number> = {};

  get isEmpty(): boolean {
    return Object.keys(this.#counts).length === 0;
  }

  add(key: CountKey, by = 1): void {
    this.#counts[key] = (this.#counts[key] ?? 0) + by;
  }

  /** Reports all counts. Returns whether the call succeeded; after a failure the next call includes the counts. */
  async report(send: (counts: Counts) => PromiseLike<void>): Promise<boolean> {
    const counts = this.#counts;
    this.#counts = {};
    try {
      await send(counts);
      return true;
    } catch (error) {
      console.warn('counts not confirmed by the metrics object, the next call repeats them', {
        reason: reasonOf(error),
      });
      for (const [key, by] of Object.entries(counts)) this.add(key as CountKey, by);
      return false;
    }
  }
}

export interface OwnCountsHost {
  clock: Pick<Clock, 'now'>;
  calls: Pick<Calls, 'until'>;
  report(counts: Counts): PromiseLike<void>;
  keepAlive(work: Promise<void>): void;
  /** Called when due times have changed because a call ended. */
  changed(): void;
}

/**
 * The counts of one object. A turn that counts something reports at once if the last report was some time ago;
 * otherwise the counts wait, so that a busy object does not call after each turn. They leave with a later turn,
 * or with the next alarm: there is no timer, because a timer keeps an idle object awake.
 */
export class OwnCounts implements DueSource {
  readonly name = 'counts';
  readonly #host: OwnCountsHost;
  readonly #tally = new Tally();
  #isReporting = false;
  /** When the oldest unreported count was added. */
  #sinceMs: number | undefined;
  /** No turn reports before this time, only an alarm. */
  #pauseUntilMs = 0;
  /** No call before this time. */
  #notBeforeMs = 0;

  constructor(host: OwnCountsHost) {
    this.#host = host;
  }

  /** Adds to a count when the turn is committed. */
  add(turn: Turn, key: CountKey, by = 1): void {
    if (by <= 0) return;
    turn.remember(() => {
      this.#sinceMs ??= turn.now;
      this.#tally.add(key, by);
    });
  }

  /** Must be called after each turn. */
  report(): void {
    if (this.#host.clock.now() >= this.#pauseUntilMs) this.#call();
  }

  dueMs(): number | undefined {
    if (this.#isReporting || this.#sinceMs === undefined) return undefined;
    return Math.max(this.#sinceMs + LATEST_MS, this.#notBeforeMs);
  }

  run(turn: Turn): void {
    turn.send(() => this.#call());
  }

  ride(turn: Turn): void {
    this.run(turn);
  }

  #call(): void {
    if (this.#isReporting || this.#tally.isEmpty || this.#host.clock.now() < this.#notBeforeMs) return;
    this.#isReporting = true;
    this.#host.keepAlive(this.#reportAll());
  }

  async #reportAll(): Promise<void> {
    const { clock, calls, report, changed } = this.#host;
    const now = clock.now();
    this.#sinceMs = undefined;
    this.#pauseUntilMs = now + PAUSE_MS;
    const isReported = await this.#tally.report((counts) => calls.until(now + ANSWER_MS, report(counts)));
    this.#isReporting = false;
    if (!isReported) {
      this.#sinceMs ??= now;
      this.#notBeforeMs = clock.now() + RETRY_MS;
    }
    if (this.#sinceMs !== undefined) changed();
  }
}
