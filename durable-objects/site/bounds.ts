/**
 * What a site may grow to, in one place: every table and every memory of it that a partner, a device or time can fill.
 * What partners and devices meet of these stands in `protocol/limits.ts` (rates, waiting commands, signals); these are
 * our own. At a budget nothing is refused: the oldest leaves, by the agenda (`retention.ts`).
 */
import { LIMIT } from '../../protocol/limits.ts';

const KIB = 1_024;
const MIB = 1_024 * KIB;

export interface RetentionBounds {
  journalBytes: number;
  commandLogBytes: number;
  messageIdBytes: number;
  outboxRows: number;
}

export const SITE_BOUNDS = {
  /** Budgets of storage, of 10 GB that an object has. */
  journalBytes: 1_024 * MIB,
  commandLogBytes: 512 * MIB,
  messageIdBytes: 256 * MIB,
  /** What destinations that do not answer may leave behind: as much as a queue of theirs holds. */
  outboxRows: LIMIT.queueMessages,
  /** A journal block is closed at this size or age; its row is never longer than the size and one message. */
  blockChars: 8 * KIB,
  blockMs: 5 * 60_000,
  /** Blocks are read as they are for so long, by verdicts; then a new one may take the row of one that is packed. */
  hotMs: 26 * 60 * 60_000,
  /** What is packed leaves the journal then, where no new block has taken its row. */
  journalMs: 7 * 24 * 60 * 60_000,
  /** The packed samples, and the roll-ups of five minutes, an hour and a day. */
  rawBytes: 4_096 * MIB,
  fiveMinuteBytes: 2_048 * MIB,
  hourBytes: 512 * MIB,
  dayBytes: 128 * MIB,
  /** Blocks that wait to be packed: from so many on each quarter of an hour, from ten times as many on at once. */
  unpackedBlocks: 20,
  /** What is packed at once, at most: of the journal's text, and of time. */
  packChars: 2 * MIB,
  packMs: 6 * 60 * 60_000,
  /** Signals of one page of a roll-up: names are a device's to invent. */
  signalsPerPage: 3_000,
  /** Points, meter readings and schedules that one call answers with: who asks for more calls again. */
  pointsPerCall: 20_000,
  readingsPerCall: 192,
  schedulesPerCall: 20,
  /** What one verdict reads of the journal: a day of one gateway's messages every 5 s, at 400 bytes each. */
  verdictChars: 8 * MIB,
  /** Nonces remembered, of all devices together, at 32 bytes each: with one batch more they still fit 2^21 slots. */
  nonces: 1_000_000,
  /** Rows that one alarm trims of each table; the rest follows at once. */
  rowsPerAlarm: 500,
} as const satisfies RetentionBounds & Record<string, number>;
