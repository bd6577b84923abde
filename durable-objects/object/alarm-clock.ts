/**
 * The one alarm of an object. It is set only when something is due earlier than what stands (rule 10), never in the
 * past, and never again at the moment that is being handled: the runtime takes that for the same alarm and drops it
 * when the handler ends. One that should have rung and did not is set anew at the next chance.
 */
import type { Clock } from './clock.ts';

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

  /** Sets the alarm for that moment, unless an earlier one stands. Before `load` nobody knows: it arms nothing. */
  arm(dueMs: number | undefined): void {
    if (dueMs === undefined || !this.#isLoaded) return;
    const now = this.#clock.now();
    const stands = this.#setForMs !== null && this.#setForMs > now - OVERDUE_MS;
    if (stands && (this.#setForMs ?? 0) <= dueMs) return;
    const at = Math.max(dueMs, now, this.#rangForMs + 1);
    this.#setForMs = at;
    this.#storage.setAlarm(at).catch((error: unknown) => {
      console.error('alarm not set', { error });
      this.#setForMs = null;
    });
  }
}
