/**
 * Counts that travel to the metrics object. They are kept only in memory, because a stored row per turn would
 * cost several times as much as the calls. The price: counts that are not reported when their object is
 * evicted are lost, and counts whose call got no answer may be added twice.
 */
import { within } from '../object/calls.ts';
import type { Clock } from '../object/clock.ts';
import { reasonOf } from '../object/reason.ts';
import type { Turn } from '../object/turn.ts';
import type { CountKey, Counts } from './families.ts';

const ANSWER_MS = 5_000;
/** Pause after a failed call. */
const PAUSE_MS = 60_000;

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
  report(counts: Counts): PromiseLike<void>;
  keepAlive(work: Promise<void>): void;
}

/**
 * The counts of one object. They are reported after the turn that added them, with one call at a time; counts
 * that are added during a call are sent with the next one.
 */
export class OwnCounts {
  readonly #host: OwnCountsHost;
  readonly #tally = new Tally();
  #isReporting = false;
  #notBeforeMs = 0;

  constructor(host: OwnCountsHost) {
    this.#host = host;
  }

  /** Adds to a count when the turn is committed. */
  add(turn: Turn, key: CountKey, by = 1): void {
    if (by > 0) turn.remember(() => this.#tally.add(key, by));
  }

  /** Must be called after each turn. */
  report(): void {
    if (this.#isReporting || this.#tally.isEmpty || this.#host.clock.now() < this.#notBeforeMs) return;
    this.#isReporting = true;
    this.#host.keepAlive(this.#reportAll());
  }

  async #reportAll(): Promise<void> {
    const send = (counts: Counts) => within(ANSWER_MS, this.#host.report(counts));
    while (!this.#tally.isEmpty) {
      if (await this.#tally.report(send)) continue;
      this.#notBeforeMs = this.#host.clock.now() + PAUSE_MS;
      break;
    }
    this.#isReporting = false;
  }
}
