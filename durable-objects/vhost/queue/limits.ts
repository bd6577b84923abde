/** What a queue may hold. */
import { LIMIT } from '../../../protocol/limits.ts';
import type { QueueName } from '../../../protocol/routing-keys.ts';

export interface QueueLimits {
  /** Maximum number of waiting messages. */
  maxReady: number;
  /** Maximum number of messages that wait or are leased. */
  maxOpen: number;
  /** Maximum bytes of the chunks. A chunk counts until all of its messages are settled. */
  maxBytes: number;
  maxAgeMs: number;
}

/** The limits of a platform queue [C-6.4]. */
export function limitsOf(queue: QueueName): QueueLimits {
  return {
    maxReady: LIMIT.queueMessages,
    maxOpen: LIMIT.queueMessages,
    maxBytes: queue === 'dead-letter' ? LIMIT.deadLetterBytes : LIMIT.queueBytes,
    maxAgeMs: queue === 'event.telemetry' ? LIMIT.telemetryQueueAgeMs : LIMIT.queueAgeMs,
  };
}
