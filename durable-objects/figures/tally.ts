/** Counts by key that are not reported yet. */
import type { CountKey, Counts } from './families.ts';

export class Tally {
  #counts: Record<string, number> = {};

  get isEmpty(): boolean {
    return Object.keys(this.#counts).length === 0;
  }

  add(key: CountKey, by = 1): void {
    this.addAll({ [key]: by });
  }

  addAll(counts: Counts): void {
    for (const [key, by] of Object.entries(counts)) this.#counts[key] = (this.#counts[key] ?? 0) + by;
  }

  /** Returns all counts and clears them. */
  take(): Counts {
    const counts = this.#counts;
    this.#counts = {};
    return counts;
  }
}
