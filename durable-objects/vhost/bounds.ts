/**
 * Limits of tables and memory of a vhost that can grow by clients, sites or time. The limits that partners see
 * (connections, consumers, queues) are in `protocol/limits.ts`; these are internal.
 */
import { LIMIT } from '../../protocol/limits.ts';

const KIB = 1_024;
const MIB = 1_024 * KIB;

export const VHOST_BOUNDS = {
  /**
   * Maximum length of the lines of a chunk, whose row is rewritten as it fills. A longer message is alone in
   * its chunk.
   */
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
  /** Events of the journal that are only in memory; when one is reached, all are stored at once. */
  journalPending: 256,
  journalPendingBytes: 256 * KIB,
  /** Confirmations of events that are only in memory, for up to a second; more are not noted. */
  journalConfirmations: 2_048,
  /** Marks of a row of the journal; a row that has so many characters gets no further ones. */
  journalMarksChars: 16 * KIB,
  /** Maximum number of rows of the journal that one call deletes, or reads. A row has up to `chunkChars`. */
  journalRowsPerLook: 200,
  journalRowsPerRead: 64,
  /** Rows in which the last rejections of a key are looked for: some hundreds of events. */
  journalRowsSearched: 8,
  /** A page of the journal ends after the event with which it has this many characters. */
  journalPageChars: 512 * KIB,
  /** Maximum number of messages in all partner queues of a key together [C-6.6]. */
  partnerQueueMessages: LIMIT.queueMessages,
  partnerQueueBytes: LIMIT.queueBytes,
  /**
   * An alarm for the age of a message is set for at least this long after the message was added, even if its
   * queue has a shorter TTL. It need not be exact, because publishes, deliveries and declarations also drop
   * expired messages.
   */
  soonestAgedMs: 60_000,
  /**
   * Maximum number of held publishes of one connection: those that its bridge may hold, and those that the
   * bridge has already sent.
   */
  waitingPublishes: LIMIT.heldPublishes + LIMIT.openPublishes,
} as const;
