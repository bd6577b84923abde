/**
 * The internal limits of a site's storage and memory. Limits that partners and devices notice are in
 * `protocol/limits.ts` (rates, waiting commands, signals, diagnostics). Nothing is rejected when a storage
 * budget is exceeded: the agenda deletes the oldest rows (`retention.ts`).
 */
import { LIMIT } from '../../protocol/limits.ts';

const KIB = 1_024;
const MIB = 1_024 * KIB;

export const SITE_BOUNDS = {
  /** Storage budgets; an object has 10 GB in total. */
  journalBytes: 1_024 * MIB,
  commandLogBytes: 512 * MIB,
  messageIdBytes: 256 * MIB,
  planHistoryBytes: 128 * MIB,
  /** Outbox rows of all destinations together: as many as a queue of a Vhost holds messages. */
  outboxRows: LIMIT.queueMessages,
  /**
   * A journal block is closed at this size or age. Its row is at most this size plus one message, because the
   * last message may exceed the size.
   */
  blockChars: 8 * KIB,
  blockMs: 5 * 60_000,
  /**
   * How long journal blocks are kept for verdicts; after this time a new block may overwrite the row of a
   * packed block.
   */
  hotMs: 26 * 60 * 60_000,
  /** Age at which packed blocks are deleted, if no new block has overwritten them earlier. */
  journalMs: 7 * 24 * 60 * 60_000,
  /** Storage budget of each level of telemetry. */
  rawBytes: 4_096 * MIB,
  '5mBytes': 2_048 * MIB,
  '1hBytes': 512 * MIB,
  '1dBytes': 128 * MIB,
  /**
   * From this many unpacked blocks on, they are packed every quarter of an hour; from ten times as many on,
   * every minute.
   */
  unpackedBlocks: 20,
  /** Maximum amount of journal text and of time packed in one turn. */
  packChars: 2 * MIB,
  packMs: 6 * 60 * 60_000,
  /** Maximum number of signals in one roll-up page; limited because devices may invent signal names. */
  signalsPerPage: 3_000,
  /**
   * After how many points, meter readings or schedules a call ends; a call for points or readings first
   * finishes its stretch of time or its day. Callers repeat the call for more.
   */
  pointsPerCall: 20_000,
  readingsPerCall: 192,
  schedulesPerCall: 20,
  /**
   * Maximum journal text read for one verdict: a day of one gateway's messages, one every 5 s of 400 bytes.
   */
  verdictChars: 8 * MIB,
  /**
   * Nonces remembered for all devices together, at 32 bytes each; with one more batch they still fit 2^21
   * slots.
   */
  nonces: 1_000_000,
  /** Events of the plant that are in memory while it has a stream. */
  plantEvents: 500,
  plantEventChars: MIB,
  /**
   * About how many rows one alarm deletes from each table over its limit. If more rows are over it, the next
   * alarm follows immediately.
   */
  rowsPerAlarm: 500,
} as const satisfies Record<string, number>;
