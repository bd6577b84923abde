/** Waiting without sleeping: for a change, for what is ready to run, and on a clock that the test moves. */
import type { vi } from 'vitest';

/** The timers that the bridge's engines use; input and output keep running. */
export const CLOCK: NonNullable<Parameters<typeof vi.useFakeTimers>[0]> = {
  toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date'],
};

/** Waits for what events bring about: nothing is polled, nothing sleeps. */
export class Signal {
  readonly #listeners = new Set<() => void>();

  /** Whoever waits looks again. */
  changed(): void {
    for (const listener of [...this.#listeners]) listener();
  }

  /** The first value that `look` finds, now or after a change. Rejects with what it throws. */
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

/** Lets everything run that is ready to run: input and output within this process, and what follows from it. */
export async function turns(count = 20): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
}
