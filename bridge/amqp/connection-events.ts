/** What the process wants to know of a connection. */
import type { EndReason, PublishResult, RefusalReason } from '../reasons.ts';

/** A client that never opened its connection. `username`, `vhost`: as it said them, so far as it came. */
export interface Refusal {
  reason: RefusalReason;
  why: string;
  /** Of the edge's answer. */
  code?: string;
  username?: string;
  vhost?: string;
}

/** Of each connection either `refused` or, once it was opened, `closed` is told in the end. */
export interface ConnectionEvents {
  opened(details: { username: string; vhost: string }): void;
  refused(refusal: Refusal): void;
  closed(why: string, reason: EndReason): void;
  published(count: number): void;
  /** Publishes that came to that. */
  settled(result: PublishResult, count: number): void;
  delivered(count: number): void;
}
