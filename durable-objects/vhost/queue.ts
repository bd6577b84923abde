/** What every queue of a vhost does; the two kinds differ in what a crash may cost. */
import type { QueueName } from '../../protocol/routing-keys.ts';
import type { Message, Owner } from './schema.ts';

/** Deliveries of one message before it is dead-lettered [C-6.4]. */
export const MAX_DELIVERIES = 20;

export interface QueueLimits {
  maxMessages: number;
  maxBytes: number;
  maxAgeMs: number;
}

const DAY_MS = 24 * 3_600_000;
const MIB = 1024 * 1024;

/** [C-6.4] */
export function limitsOf(queue: QueueName): QueueLimits {
  const maxBytes = queue === 'dead-letter' ? 16 * MIB : 64 * MIB;
  return { maxMessages: 100_000, maxBytes, maxAgeMs: queue === 'event.telemetry' ? DAY_MS : 7 * DAY_MS };
}

/** One message handed out. Without a lease it is gone already (no_ack). */
export interface Taken {
  message: Message;
  redelivered: boolean;
}

export interface Lease {
  id: number;
  owner: Owner;
}

export type SettleOutcome = 'ack' | 'requeue' | 'discard';

/** Where messages go that a queue gives up: too many deliveries, or rejected. */
export type DeadLetter = (message: Message, reason: 'delivery_limit' | 'rejected') => void;

/** All methods that write run inside the caller's transaction. */
export interface Queue {
  readonly name: QueueName;
  /** Messages waiting for a consumer. */
  readonly readyCount: number;
  push(message: Message, now: number): void;
  /** The next message, leased to its owner, or settled at once when `lease` is null. */
  take(owner: Owner, lease: number | null, now: number): Taken | undefined;
  /** An `ack` changes memory alone until `save`: what a crash forgets of it is delivered again. */
  settle(lease: number, outcome: SettleOutcome): void;
  /** Puts back what the matching owners hold, in its place. */
  release(holds: (owner: Owner) => boolean): void;
  leases(): Iterable<Lease>;
  /** Whether `save` would write. */
  readonly isDirty: boolean;
  /** Writes what is acknowledged and counted; last in a transaction. */
  save(): void;
}
