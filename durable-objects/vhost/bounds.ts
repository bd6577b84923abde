/**
 * What a vhost may grow to, in one place: every table and every memory of it that a client, a site or time can fill.
 * What partners meet of these stands in `protocol/limits.ts` (connections, consumers, queues); these are our own.
 */
import { LIMIT } from '../../protocol/limits.ts';

const KIB = 1_024;
const MIB = 1_024 * KIB;

export const VHOST_BOUNDS = {
  /** A telemetry chunk's row, which is written anew as it fills, and the time that its events may span: it is dropped as a whole. */
  chunkChars: 28 * KIB,
  chunkMs: 3_600_000,
  /** What one turn hands out: the rest follows in turns of its own. */
  pumpDeliveries: 512,
  pumpBytes: MIB,
  /** Events of a queue that clients hold and that are in memory alone; beyond it all are stored at once. */
  unstoredMessages: 1_024,
  /** Rows of a queue read ahead at once for delivery. */
  readAhead: 16,
  /** When messages that are handed out past their age are looked at again. */
  heldRecheckMs: 3_600_000,
  /** Messages past their age that one alarm drops from a queue; the rest follows at once. */
  agedPerAlarm: 500,
  /** What the partner's own queues hold together [C-6.6]. */
  ownMessages: LIMIT.queueMessages,
  ownBytes: LIMIT.queueBytes,
  /** How soon after a message came an alarm looks whether it is past its age; whoever asks its queue looks at once. */
  soonestAgedMs: 60_000,
  /** Publishes of one connection that were told to wait: what its bridge may hold, and what was on its way. */
  waitingPublishes: LIMIT.heldPublishes + LIMIT.openPublishes,
  /** Lanes kept with their stubs; beyond it, idle ones are made anew when they are wanted. */
  idleLanes: 1_000,
} as const;
