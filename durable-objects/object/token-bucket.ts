/**
 * A rate limit with a burst. The number of tokens is only in memory, so the bucket is full whenever the
 * object is loaded.
 */
export class TokenBucket {
  #tokens: number;
  #atMs = 0;

  constructor(burst: number) {
    this.#tokens = burst;
  }

  /**
   * Takes `amount` tokens if available. `perSecond` and `burst` are the current settings and may change
   * between calls.
   */
  take(amount: number, perSecond: number, burst: number, now: number): boolean {
    this.fill(perSecond, burst, now);
    if (this.#tokens < amount) return false;
    this.#tokens -= amount;
    return true;
  }

  /** Refills the bucket; returns the available tokens. */
  fill(perSecond: number, burst: number, now: number): number {
    const elapsedMs = this.#atMs === 0 ? 0 : Math.max(0, now - this.#atMs);
    this.#tokens = Math.min(burst, this.#tokens + (elapsedMs * perSecond) / 1_000);
    this.#atMs = now;
    return this.#tokens;
  }
}
