/** What every queue of a vhost does; the kinds differ in what a crash may cost, and in whose they are. */
import { LIMIT } from '../../../protocol/limits.ts';
import type { QueueName } from '../../../protocol/routing-keys.ts';
import type { Turn } from '../../object/turn.ts';
import type { Drops } from './drops.ts';
import type { Message, Owner } from './rows.ts';

/** A queue as the vhost knows it: one of ours, or the partner's own by its name [C-6.6]. */
export type QueueKey = QueueName | `own/${string}`;

export function ownKey(name: string): QueueKey {
  return `own/${name}`;
}

export interface QueueLimits {
  maxMessages: number;
  maxBytes: number;
  maxAgeMs: number;
}

/** [C-6.4] */
export function limitsOf(queue: QueueName): QueueLimits {
  return {
    maxMessages: LIMIT.queueMessages,
    maxBytes: queue === 'dead-letter' ? LIMIT.deadLetterBytes : LIMIT.queueBytes,
    maxAgeMs: queue === 'event.telemetry' ? LIMIT.telemetryQueueAgeMs : LIMIT.queueAgeMs,
  };
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

/** The site that keeps a message until it is stored here or acknowledged, and its sequence there. */
export interface KeptBy {
  siteId: string;
  sequence: number;
}

/** Where messages go that a queue gives up: too many deliveries, or rejected. */
export type DeadLetter = (
  turn: Turn,
  from: QueueKey,
  message: Message,
  reason: 'delivery_limit' | 'rejected',
) => void;

export interface Queue {
  readonly key: QueueKey;
  /** Of its messages. */
  readonly maxAgeMs: number;
  /** Messages waiting for a consumer. */
  readonly readyCount: number;
  /** When its first message came, or earlier; undefined for an empty queue. */
  readonly oldestMs: number | undefined;
  /** When the oldest of those that wait or are held came, exactly; undefined when there is none. */
  readonly openSinceMs: number | undefined;
  readonly drops: Drops;
  /** `keptBy`: it need not be stored while a client holds it. */
  push(turn: Turn, message: Message, keptBy?: KeptBy): void;
  /** The next message, leased to its owner, or settled at once when `lease` is null. */
  take(turn: Turn, owner: Owner, lease: number | null): Taken | undefined;
  /** Changes memory alone until `save`: what a crash forgets of it is delivered again. */
  acknowledge(lease: number): void;
  /** Puts a message back in its place, as its client said: it counts toward the delivery limit. */
  requeue(turn: Turn, lease: number): void;
  /** Gives a message up for the dead-letter queue. */
  discard(turn: Turn, lease: number): void;
  /** Puts back what the matching owners hold, in its place. */
  release(turn: Turn, holds: (owner: Owner) => boolean): void;
  /** Drops all that waits; answers how many. */
  purge(turn: Turn): number;
  /** Drops messages past their age, some at a time. */
  dropAged(turn: Turn): void;
  leases(): Iterable<Lease>;
  /** Whether `save` would write. */
  readonly isDirty: boolean;
  /** Writes what is acknowledged and counted; last in a turn. */
  save(turn: Turn): void;
}
