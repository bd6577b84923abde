/**
 * A key that publishes without a break would keep the runtime from whoever else speaks to it: it turns to others only
 * when nothing is left to do. So all its lanes begin nothing new for a moment now and then, together; a lane that
 * paused by itself would only stand behind the others.
 */

/** After so long without a rest. */
const BUSY_MS = 25;
const PAUSE_MS = 1;

export class Rest {
  readonly #now: () => number;
  #busySinceMs = 0;
  #rest: Promise<void> | undefined;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Nothing is under way: the next publish is no part of a run. */
  begin(): void {
    this.#busySinceMs = this.#now();
  }

  /** To be waited for before a batch goes out; undefined when none is due. */
  due(): Promise<void> | undefined {
    if (this.#rest || this.#now() - this.#busySinceMs < BUSY_MS) return this.#rest;
    this.#rest = new Promise<void>((resolve) => setTimeout(resolve, PAUSE_MS)).then(() => {
      this.#busySinceMs = this.#now();
      this.#rest = undefined;
    });
    return this.#rest;
  }
}
