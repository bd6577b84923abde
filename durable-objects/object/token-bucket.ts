/** A rate with a burst, in memory alone: an object that was away comes back with a full one. */
export class TokenBucket {
  #tokens: number;
  #atMs = 0;

  constructor(burst: number) {
    this.#tokens = burst;
  }

  /** Takes that much when it is there; `perSecond` and `burst` as they are set at this moment. */
  take(amount: number, perSecond: number, burst: number, now: number): boolean {
    this.fill(perSecond, burst, now);
    if (this.#tokens < amount) return false;
    this.#tokens -= amount;
    return true;
  }

  /** What is there now. */
  fill(perSecond: number, burst: number, now: number): number {
    const elapsedMs = this.#atMs === 0 ? 0 : Math.max(0, now - this.#atMs);
    this.#tokens = Math.min(burst, this.#tokens + (elapsedMs * perSecond) / 1_000);
    this.#atMs = now;
    return this.#tokens;
  }
}
