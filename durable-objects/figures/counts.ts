/**
 * The counts of one object, reported to the metrics object after the turn that counted: one call at a time,
 * later counts go with the next call. Counts are not stored, because a row per turn costs several times as
 * much as the calls. Counts that are not reported when the object is evicted are lost; a call without an
 * answer may count twice.
 */
import type { Clock } from '../object/clock.ts';
import { reasonOf } from '../object/reason.ts';
import type { Turn } from '../object/turn.ts';
import { within } from '../object/within.ts';
import type { CountKey, Counts } from './families.ts';
import { Tally } from './tally.ts';

const ANSWER_MS = 5_000;
/** Pause after a failed call. */
const PAUSE_MS = 60_000;

export interface OwnCountsHost {
  clock: Pick<Clock, 'now'>;
  report(counts: Counts): PromiseLike<void>;
  keepAlive(work: Promise<void>): void;
}

export class OwnCounts {
  readonly #host: OwnCountsHost;
  readonly #tally = new Tally();
  #isReporting = false;
  #notBeforeMs = 0;

  constructor(host: OwnCountsHost) {
    this.#host = host;
  }

  /** Counts once the turn is committed. */
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
    while (!this.#tally.isEmpty) {
      const counts = this.#tally.take();
      try {
        await within(ANSWER_MS, this.#host.report(counts));
      } catch (error) {
        console.warn('failed to report counters', { reason: reasonOf(error) });
        this.#tally.addAll(counts);
        this.#notBeforeMs = this.#host.clock.now() + PAUSE_MS;
        break;
      }
    }
    this.#isReporting = false;
  }
}
