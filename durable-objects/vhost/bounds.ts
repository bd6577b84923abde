/**
 * Limits of every table and memory of a vhost that can grow by clients, sites or time. The limits that
 * partners see (connections, consumers, queues) are in `protocol/limits.ts`; these are internal.
 */
import { LIMIT } from '../../protocol/limits.ts';

const KIB = 1_024;
const MIB = 1_024 * KIB;

export const VHOST_BOUNDS = {
  /** Maximum size of a chunk's row, which is rewritten as it fills. */
  chunkChars: 28 * KIB,
  /** Maximum number of deliveries in one turn; later turns send the rest. */
  pumpDeliveries: 512,
  pumpBytes: MIB,
  /**
   * Maximum number of messages of a queue that are only in memory; when it is exceeded, all are stored at
   * once.
   */
  unstoredMessages: 1_024,
  /**
   * Maximum number of expired messages that one call drops from a queue; an alarm is then set for now to drop
   * the rest.
   */
  agedPerLook: 5_000,
  /** Maximum number of messages in all partner queues of a key together [C-6.6]. */
  partnerQueueMessages: LIMIT.queueMessages,
  partnerQueueBytes: LIMIT.queueBytes,
  /**
   * An alarm for the age of a message is set at least this far ahead. It need not be exact, because each
   * delivery and declaration also drops the expired messages of its queue.
   */
  soonestAgedMs: 60_000,
  /**
   * Maximum number of held publishes of one connection: those that its bridge may hold, and those that the
   * bridge has already sent.
   */
  waitingPublishes: LIMIT.heldPublishes + LIMIT.openPublishes,
} as const;
