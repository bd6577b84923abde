/** The events that an AMQP connection reports to the process. */
import type { EndReason, PublishResult, RefusalReason } from '../reasons.ts';

/** A client that never opened its connection; `username` and `vhost` as it sent them, if it did. */
export interface Refusal {
  reason: RefusalReason;
  why: string;
  /** Error code in the edge's answer. */
  code?: string;
  username?: string;
  vhost?: string;
}

/** Every connection ends with one event: `closed` if it was opened, otherwise `refused`. */
export interface ConnectionEvents {
  opened(details: { username: string; vhost: string }): void;
  refused(refusal: Refusal): void;
  closed(why: string, reason: EndReason): void;
  published(count: number): void;
  /** Publishes with this result, and how many. */
  settled(result: PublishResult, count: number): void;
  delivered(count: number): void;
}
