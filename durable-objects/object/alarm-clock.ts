/**
 * The one alarm of an object. It is set only when something is due earlier than what stands (rule 10), never in the
 * past, and never again at the moment that is being handled: the runtime takes that for the same alarm and drops it
 * when the handler ends. One that should have rung and did not is set anew at the next chance.
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

  /** What stands from before this wake. */
  async load(): Promise<void> {
    this.#setForMs = await this.#storage.getAlarm();
    this.#isLoaded = true;
  }

  /** First thing in the handler. */
  rang(): void {
    this.#rangForMs = Math.max(this.#rangForMs, this.#setForMs ?? 0);
    this.#setForMs = null;
  }

  /**
   * Sets the alarm for that moment, unless an earlier one stands. One that was missed rings now, whatever is due: what it
   * was set for may be known to nobody since the object left memory. Before `load` nobody knows: it arms nothing.
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
      console.error('alarm not set', { reason: reasonOf(error) });
      this.#setForMs = null;
    });
  }
}
