/**
 * The only alarm of an object. It is set only for an earlier time than the current one (rule 10), never in
 * the past, and never again for the time that is being handled: the runtime takes that for the same alarm and
 * drops it when the handler ends. An alarm that did not ring in time is set again at the next opportunity.
 */

import type { Clock } from './clock.ts';
import { reasonOf } from './reason.ts';

const OVERDUE_MS = 1_000;

export class AlarmClock {
  readonly #storage: DurableObjectStorage;
  readonly #clock: Clock;
  #isLoaded = false;
  #setForMs: number | null = null;
  #rangForMs = 0;

  constructor(storage: DurableObjectStorage, clock: Clock) {
    this.#storage = storage;
    this.#clock = clock;
  }

  /** Reads the alarm that was set before the object was loaded. */
  async load(): Promise<void> {
    this.#setForMs = await this.#storage.getAlarm();
    this.#isLoaded = true;
  }

  /** Must be called first in the alarm handler. */
  rang(): void {
    this.#rangForMs = Math.max(this.#rangForMs, this.#setForMs ?? 0);
    this.#setForMs = null;
  }

  /**
   * Sets the alarm for `dueMs`, unless an earlier one is set. A missed alarm is set for now, whatever is due:
   * the work it was set for may have been forgotten when the object was evicted. Does nothing before `load`.
   */
  arm(dueMs: number | undefined): void {
    if (!this.#isLoaded) return;
    const now = this.#clock.now();
    const isMissed = this.#setForMs !== null && this.#setForMs <= now - OVERDUE_MS;
    const wantedMs = isMissed ? now : dueMs;
    if (wantedMs === undefined) return;
    if (!isMissed && this.#setForMs !== null && this.#setForMs <= wantedMs) return;
    const at = Math.max(wantedMs, now, this.#rangForMs + 1);
    this.#setForMs = at;
    this.#storage.setAlarm(at).catch((error: unknown) => {
      console.error('wake-up alarm of the object not set, due work may be late', { reason: reasonOf(error) });
      this.#setForMs = null;
    });
  }
}
