/**
 * Pauses the lanes of a key that publishes without a break: the runtime handles other events of the object
 * only when it is idle. From time to time all lanes therefore start nothing new for a moment. They must pause
 * together: a single lane that pauses would only lose its place to the others.
 */

/** Time without a pause after which one is due. */
const BUSY_MS = 25;
const PAUSE_MS = 1;

export class YieldTimer {
  readonly #now: () => number;
  #busySinceMs = 0;
  #pause: Promise<void> | undefined;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Restarts the busy timer; called when the lanes were idle. */
  begin(): void {
    this.#busySinceMs = this.#now();
  }

  /** The pause to await before a batch is sent; undefined if none is due. */
  due(): Promise<void> | undefined {
    if (this.#pause || this.#now() - this.#busySinceMs < BUSY_MS) return this.#pause;
    this.#pause = new Promise<void>((resolve) => setTimeout(resolve, PAUSE_MS)).then(() => {
      this.#busySinceMs = this.#now();
      this.#pause = undefined;
    });
    return this.#pause;
  }
}
