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
  /** Maximum deliveries of one turn; the rest follows in later turns. */
  pumpDeliveries: 512,
  pumpBytes: MIB,
  /** Messages of a queue that are only in memory; above this number all are stored at once. */
  unstoredMessages: 1_024,
  /** Maximum number of expired messages that one look drops from a queue; the next alarm follows at once. */
  agedPerLook: 5_000,
  /** Shared by all partner queues of a key [C-6.6]. */
  partnerQueueMessages: LIMIT.queueMessages,
  partnerQueueBytes: LIMIT.queueBytes,
  /** Earliest alarm for the age of a message. Deliveries and declarations check the age of their queue themselves. */
  soonestAgedMs: 60_000,
  /** Held publishes of one connection: those that its bridge may hold, and those already on their way. */
  waitingPublishes: LIMIT.heldPublishes + LIMIT.openPublishes,
} as const;
