/** Waiting without sleeping: for a change, for pending callbacks, and on a clock that the test moves. */
import { vi } from 'vitest';

/** Fakes the timers that the bridge's engines use; input and output keep running. */
const CLOCK: NonNullable<Parameters<typeof vi.useFakeTimers>[0]> = {
  toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date'],
};

/** Waits for a condition that events bring about: no polling, no sleep. */
export class Signal {
  readonly #listeners = new Set<() => void>();

  /** Checks all waiting conditions again. */
  changed(): void {
    for (const listener of [...this.#listeners]) listener();
  }

  /** Resolves with the first defined value of `look`, now or after a change; rejects with its error. */
  until<Value>(look: () => Value | undefined): Promise<Value> {
    return new Promise((resolve, reject) => {
      const listener = () => {
        try {
          const value = look();
          if (value === undefined) return;
          this.#listeners.delete(listener);
          resolve(value);
        } catch (error) {
          this.#listeners.delete(listener);
          reject(error);
        }
      };
      this.#listeners.add(listener);
      listener();
    });
  }
}

/** Runs all pending callbacks: input and output within this process, and their consequences. */
export async function turns(count = 20): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** A clock that stands still until the test moves it. */
export class TestClock {
  constructor() {
    vi.useFakeTimers(CLOCK);
  }

  /** Handles all pending input, moves the clock, and runs the consequences. */
  async pass(ms: number): Promise<void> {
    await turns();
    await vi.advanceTimersByTimeAsync(ms);
    await turns(50);
  }

  /** The number of pending timers. */
  get timers(): number {
    return vi.getTimerCount();
  }

  stop(): void {
    vi.useRealTimers();
  }
}
