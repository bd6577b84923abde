/** The interface of every queue of a vhost. The implementations differ in what a crash may lose. */
import { LIMIT } from '../../../protocol/limits.ts';
import type { QueueName } from '../../../protocol/routing-keys.ts';
import type { Turn } from '../../object/turn.ts';
import type { Drops } from './drops.ts';
import type { Message, Owner } from './rows.ts';

/** The internal key of a queue: a platform queue, or a partner queue by its name [C-6.6]. */
export type QueueKey = QueueName | `own/${string}`;

export function ownKey(name: string): QueueKey {
  return `own/${name}`;
}

export interface QueueLimits {
  maxMessages: number;
  maxBytes: number;
  maxAgeMs: number;
}

/** The limits of a platform queue [C-6.4]. */
export function limitsOf(queue: QueueName): QueueLimits {
  return {
    maxMessages: LIMIT.queueMessages,
    maxBytes: queue === 'dead-letter' ? LIMIT.deadLetterBytes : LIMIT.queueBytes,
    maxAgeMs: queue === 'event.telemetry' ? LIMIT.telemetryQueueAgeMs : LIMIT.queueAgeMs,
  };
}

/** One delivered message. If it was taken without a lease (no_ack), it is already removed from the queue. */
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

/** Dead-letters a message that was delivered too often or rejected. */
export type DeadLetter = (
  turn: Turn,
  from: QueueKey,
  message: Message,
  reason: 'delivery_limit' | 'rejected',
) => void;

export interface Queue {
  readonly key: QueueKey;
  /** Maximum age of a message. */
  readonly maxAgeMs: number;
  /** Number of messages that wait for a consumer. */
  readonly readyCount: number;
  /** Time of the first message, or an earlier time; undefined if the queue is empty. */
  readonly oldestMs: number | undefined;
  /** Exact time of the oldest message that waits or is leased; undefined if there is none. */
  readonly openSinceMs: number | undefined;
  readonly drops: Drops;
  /** Adds a message. `keptBy`: its site keeps it, so it need not be stored while it is leased. */
  push(turn: Turn, message: Message, keptBy?: KeptBy): void;
  /** Takes the next message and leases it to the owner, or settles it at once if `lease` is null. */
  take(turn: Turn, owner: Owner, lease: number | null): Taken | undefined;
  /** Changes only memory until `save`; after a crash before that the message is delivered again. */
  acknowledge(lease: number): void;
  /** Puts a message back in its place at the client's request; this counts toward the delivery limit. */
  requeue(turn: Turn, lease: number): void;
  /** Moves a message to the dead-letter queue. */
  discard(turn: Turn, lease: number): void;
  /** Puts the messages that matching owners hold back in their place. */
  release(turn: Turn, holds: (owner: Owner) => boolean): void;
  /** Drops all waiting messages; returns their number. */
  purge(turn: Turn): number;
  /** Drops expired messages, a limited number per call. */
  dropAged(turn: Turn): void;
  leases(): Iterable<Lease>;
  /** Whether `save` would write. */
  readonly isDirty: boolean;
  /** Writes acknowledgements and counts; called last in a turn. */
  save(turn: Turn): void;
}
