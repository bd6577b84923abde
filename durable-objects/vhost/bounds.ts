/**
 * Limits of every table and memory of a vhost that can grow by clients, sites or time. The limits that
 * partners see (connections, consumers, queues) are in `protocol/limits.ts`; these are internal.
 */
import { LIMIT } from '../../protocol/limits.ts';

const KIB = 1_024;
const MIB = 1_024 * KIB;

export const VHOST_BOUNDS = {
  /** Maximum size of a telemetry chunk's row, which is rewritten as it fills. */
  chunkChars: 28 * KIB,
  /** Maximum time that the events of a chunk span: an old chunk is dropped as a whole. */
  chunkMs: 3_600_000,
  /** Maximum deliveries of one turn; the rest follows in later turns. */
  pumpDeliveries: 512,
  pumpBytes: MIB,
  /** Leased events of a queue that are only in memory; above this number all are stored at once. */
  unstoredMessages: 1_024,
  /** Rows of a queue that are read ahead for delivery. */
  readAhead: 16,
  /** Interval of the age check while the oldest messages are leased and therefore cannot be dropped. */
  heldRecheckMs: 3_600_000,
  /** Maximum number of expired messages that one alarm drops from a queue; the next alarm follows at once. */
  agedPerAlarm: 500,
  /** Shared by all partner queues of a key [C-6.6]. */
  ownMessages: LIMIT.queueMessages,
  ownBytes: LIMIT.queueBytes,
  /** Earliest alarm for the age of a message. Deliveries and declarations check the age of their queue themselves. */
  soonestAgedMs: 60_000,
  /** Held publishes of one connection: those that its bridge may hold, and those already on their way. */
  waitingPublishes: LIMIT.heldPublishes + LIMIT.openPublishes,
  /** Lanes that are kept with their stubs; above this number idle ones are deleted and created again when needed. */
  idleLanes: 1_000,
} as const;
