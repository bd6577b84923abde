/**
 * Counts the REST requests of one API key, user, organization or client network per minute [C-4.7] [C-14.2], and what
 * webhooks post [C-15.3].
 * The counter is only in memory and is lost when the runtime evicts the idle object, so after a pause a new
 * minute may begin early.
 */
import { DurableObject } from 'cloudflare:workers';
import type { Env } from './env.ts';
import type { RequestCount, RequestCounterRpc, RequestLease } from './request-counter-rpc.ts';

const WINDOW_MS = 60_000;

export class RequestCounter extends DurableObject<Env> implements RequestCounterRpc {
  #startedAtMs = 0;
  #count = 0;

  take(perMinute: number): RequestCount {
    const resetMs = this.#resetMs();
    const isOver = this.#count >= perMinute;
    if (!isOver) this.#count++;
    return { isOver, remaining: Math.max(0, perMinute - this.#count), resetMs };
  }

  add(count: number): { count: number; resetMs: number } {
    const resetMs = this.#resetMs();
    this.#count += count;
    return { count: this.#count, resetMs };
  }

  lease(perMinute: number, count: number): RequestLease {
    const resetMs = this.#resetMs();
    const granted = Math.max(0, Math.min(count, perMinute - this.#count));
    this.#count += granted;
    return { granted, resetMs };
  }

  /** Begins a new minute if the last one is over; returns the milliseconds that are left of it. */
  #resetMs(): number {
    const now = Date.now();
    if (now >= this.#startedAtMs + WINDOW_MS) {
      this.#startedAtMs = now;
      this.#count = 0;
    }
    return this.#startedAtMs + WINDOW_MS - now;
  }
}
