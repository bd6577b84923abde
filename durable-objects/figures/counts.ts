/**
 * What one object counts, told to the Figures object behind the turn that counted: one call at a time, and what comes
 * meanwhile goes with the next. Nothing of it is written, for a row in each turn costs several times what the calls do.
 * What an object had not told when it leaves memory goes with it; a call that did not answer may count twice.
 */
import type { Clock } from '../object/clock.ts';
import { reasonOf } from '../object/reason.ts';
import type { Turn } from '../object/turn.ts';
import { within } from '../object/within.ts';
import type { CountKey, Counts } from './families.ts';
import { Tally } from './tally.ts';

const ANSWER_MS = 5_000;
/** After a call that failed. */
const PAUSE_MS = 60_000;

export interface OwnCountsHost {
  clock: Pick<Clock, 'now'>;
  tell(counts: Counts): PromiseLike<void>;
  keepAlive(work: Promise<void>): void;
}

export class OwnCounts {
  readonly #host: OwnCountsHost;
  readonly #tally = new Tally();
  #isTelling = false;
  #notBeforeMs = 0;

  constructor(host: OwnCountsHost) {
    this.#host = host;
  }

  /** Counts once the turn stands. */
  add(turn: Turn, key: CountKey, by = 1): void {
    if (by > 0) turn.remember(() => this.#tally.add(key, by));
  }

  /** Behind each turn. */
  tell(): void {
    if (this.#isTelling || this.#tally.isEmpty || this.#host.clock.now() < this.#notBeforeMs) return;
    this.#isTelling = true;
    this.#host.keepAlive(this.#tellAll());
  }

  async #tellAll(): Promise<void> {
    while (!this.#tally.isEmpty) {
      const counts = this.#tally.take();
      try {
        await within(ANSWER_MS, this.#host.tell(counts));
      } catch (error) {
        console.warn('counts not told', { reason: reasonOf(error) });
        this.#tally.addAll(counts);
        this.#notBeforeMs = this.#host.clock.now() + PAUSE_MS;
        break;
      }
    }
    this.#isTelling = false;
  }
}
