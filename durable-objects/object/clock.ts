/** The clock of an object: its time never goes back (rule 10). */
export class Clock {
  #lastMs = 0;

  /** Epoch milliseconds. */
  now(): number {
    this.#lastMs = Math.max(this.#lastMs, Date.now());
    return this.#lastMs;
  }
}
