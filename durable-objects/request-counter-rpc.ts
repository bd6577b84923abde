/** The RPC contract of the request counter. Add fields, never change the meaning of one (see rpc.ts). */

/** The REST requests of one key, user, organization or client network in the current minute. */
export interface RequestCount {
  isOver: boolean;
  /** Requests left in the current minute; `resetMs`: milliseconds until the next one. */
  remaining: number;
  resetMs: number;
}

/** What a caller may do of what a minute allows. */
export interface RequestLease {
  /** As many as asked for, or what is left; 0: nothing is left. */
  granted: number;
  /** Milliseconds until the end of the minute, with which they end. */
  resetMs: number;
}

export interface RequestCounterRpc {
  /** Counts one request if the limit of `perMinute` is not yet reached. */
  take(perMinute: number): RequestCount;
  /**
   * Adds requests that an isolate of the Worker has already accepted; returns the number of requests in the
   * current minute and the milliseconds until its end.
   */
  add(count: number): { count: number; resetMs: number };
  /** Counts up to `count` at once, as far as the limit of `perMinute` allows. */
  lease(perMinute: number, count: number): RequestLease;
}
