/**
 * The long-term telemetry store of a site. The journal's messages are packed when no message with an earlier
 * `ts` can arrive any more (the tolerance for a device's `ts` is over): the samples of each metric as
 * deflated columns, and 5m roll-ups in pages of a day. When a day is over, 1h and 1d roll-ups follow. Other
 * widths are computed from these on read. Packed data never changes, so repeated reads return the same
 * numbers.
 *
 *   journal ─► raw (30 d)
 *           └► 5m (1 y) ─► 1h, 1d (5 y)          1m from raw, 15m from 5m
 */
import { LIMIT } from '../../../protocol/limits.ts';
import { BUCKET_MS, GRANULARITIES, type Granularity } from '../../../protocol/telemetry.ts';
import { compareUtf8 } from '../../../protocol/utf8.ts';
import type { DueSource } from '../../object/agenda.ts';
import type { KeyValues } from '../../object/key-values.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import { SITE_BOUNDS } from '../bounds.ts';
import type { Budget, Extent } from '../retention.ts';
import { type Bucket, bucketStart, bucketsOf, mergeBuckets, type Series } from './bucket.ts';
import type { Journal } from './journal.ts';
import { boundedRegisters, type RegisterCourse, type RegisterState, totals } from './register.ts';
import { packSamples, unpackAllBuckets } from './segment.ts';
import { SegmentRows } from './segment-rows.ts';
import { metricName } from './snapshot.ts';
import { BASE, BASE_MS, LEVELS, ofLevels, type RetentionSetting, WIDER_LEVELS } from './storage-levels.ts';

const MINUTE = 60_000;
const DAY = BUCKET_MS['1d'];
/** How long messages wait to be packed when many or few wait; with ten times as many as `many` it is a minute. */
const PACK_AFTER_MS = { many: 15 * MINUTE, few: 120 * MINUTE };

interface StoreState {
  /** All samples dated earlier are packed; a whole minute. */
  packedToMs: number;
  /** Earlier blocks hold only samples dated before `packedToMs`. */
  packedBlock: number;
  /** The wider levels contain all days before this one, and of this day the metrics before `rolledMetric`. */
  rolledToMs: number;
  rolledMetric: string;
  bytes: Record<Granularity, number>;
  /** The state of each register at `packedToMs`, by metric. */
  registers: Record<string, RegisterState>;
}

const NOTHING: StoreState = {
  packedToMs: 0,
  packedBlock: 1,
  rolledToMs: 0,
  rolledMetric: '',
  bytes: ofLevels(() => 0),
  registers: {},
};

export class TelemetryStore implements DueSource {
  readonly name = 'telemetry store';
  readonly segments: Readonly<Record<Granularity, SegmentRows>>;
  readonly #journal: Journal;
  readonly #values: KeyValues<'telemetry'>;
  /** What is known of a register besides its values. */
  readonly courseOf: (metric: string) => RegisterCourse;
  #state: StoreState | undefined;
  #waiting: { block: number; openedAtMs: number } | undefined;

  constructor(
    sql: Sql,
    values: KeyValues<'telemetry'>,
    journal: Journal,
    courseOf: (metric: string) => RegisterCourse,
  ) {
    this.courseOf = courseOf;
    this.#values = values;
    this.#journal = journal;
    this.segments = ofLevels((level) => new SegmentRows(sql, level));
  }

  get state(): Readonly<StoreState> {
    this.#state ??= this.#values.get<StoreState>('telemetry') ?? NOTHING;
    return this.#state;
  }

  dueMs(): number | undefined {
    const { packedToMs, rolledToMs, packedBlock } = this.state;
    if (rolledToMs + DAY <= packedToMs) return 0;
    const blocks = this.#journal.newestBlock - packedBlock + 1;
    if (blocks <= 0) return undefined;
    return this.unpackedFromMs + LIMIT.timestampToleranceMs + this.#packAfterMs(blocks);
  }

  /** No unpacked sample is dated earlier; infinity when all samples are packed. */
  get unpackedFromMs(): number {
    const { packedToMs, packedBlock } = this.state;
    if (this.#journal.newestBlock < packedBlock) return Number.POSITIVE_INFINITY;
    return Math.max(packedToMs, this.#waitingSinceMs(packedBlock) - LIMIT.timestampToleranceMs);
  }

  run(turn: Turn): void {
    const { packedToMs, rolledToMs } = this.state;
    if (rolledToMs + DAY <= packedToMs) this.#roll(turn);
    else this.#pack(turn);
  }

  /** The unpacked samples dated in [fromMs, toMs), by metric; only `metric` if given. */
  unpacked(fromMs: number, toMs = Number.POSITIVE_INFINITY, metric?: string): Map<string, Series> {
    const { packedBlock, packedToMs } = this.state;
    return this.#collect(packedBlock, Math.max(fromMs, packedToMs), toMs, metric);
  }

  /** The state of each register now. */
  registersNow(): Record<string, RegisterState> {
    const registers = { ...this.state.registers };
    for (const [metric, series] of this.unpacked(0)) totals(registers, metric, series, this.courseOf);
    return registers;
  }

  /** The levels as tables for retention. `keptMs`: how long the organization keeps rows, by its setting. */
  budgets(keptMs: (setting: RetentionSetting) => number): Budget[] {
    return GRANULARITIES.map((level) => ({
      name: `telemetry ${level}`,
      table: {
        extent: () => this.#extentOf(level),
        trim: (turn, place, beforeMs, limit) => this.#trim(turn, level, place, beforeMs, limit),
      },
      bytes: SITE_BOUNDS[`${level}Bytes`],
      ageMs: () => keptMs(LEVELS[level].keptBy),
    }));
  }

  #extentOf(level: Granularity): Extent {
    return { startsAt: 0, endsAt: this.state.bytes[level], oldestMs: this.segments[level].oldestEndMs() };
  }

  #trim(turn: Turn, level: Granularity, place: number, beforeMs: number, limit: number): number {
    const trimmed = this.segments[level].trim(turn, place, beforeMs, limit);
    if (trimmed.rows > 0) {
      const bytes = { ...this.state.bytes, [level]: this.state.bytes[level] - trimmed.bytes };
      this.#save(turn, { ...this.state, bytes });
    }
    return trimmed.rows;
  }

  #packAfterMs(blocks: number): number {
    if (blocks >= 10 * SITE_BOUNDS.unpackedBlocks) return MINUTE;
    return blocks >= SITE_BOUNDS.unpackedBlocks ? PACK_AFTER_MS.many : PACK_AFTER_MS.few;
  }

  /** When the oldest unpacked block was opened. */
  #waitingSinceMs(block: number): number {
    if (this.#waiting?.block !== block) {
      const [first] = this.#journal.blocksFrom(block);
      if (!first) return 0;
      this.#waiting = { block, openedAtMs: first.openedAtMs };
    }
    return this.#waiting.openedAtMs;
  }

  /** Packs the next stretch of time: at most as much as one turn may hold, and never across midnight UTC. */
  #pack(turn: Turn): void {
    const stretch = this.#nextStretch(turn.now);
    if (!stretch) return;
    const { fromMs, toMs } = stretch;
    const samples = this.#collect(this.state.packedBlock, fromMs, toMs);
    const bytes = { ...this.state.bytes };
    bytes.raw += this.segments.raw.add(turn, fromMs, toMs, packSamples(samples));
    const registers = { ...this.state.registers };
    const buckets = new Map<string, Bucket[]>();
    for (const [metric, series] of samples) {
      buckets.set(metric, bucketsOf(series, BASE_MS, totals(registers, metric, series, this.courseOf)));
    }
    bytes[BASE] += this.segments[BASE].merge(turn, fromMs, buckets);
    const isFirst = this.state.rolledToMs === 0;
    this.#save(turn, {
      ...this.state,
      packedToMs: toMs,
      packedBlock: this.#blockAfter(toMs),
      rolledToMs: isFirst ? bucketStart(fromMs, DAY) : this.state.rolledToMs,
      bytes,
      registers: boundedRegisters(registers),
    });
  }

  #nextStretch(now: number): { fromMs: number; toMs: number } | undefined {
    const { packedBlock, packedToMs } = this.state;
    const tolerance = LIMIT.timestampToleranceMs;
    let fromMs: number | undefined;
    let toMs = 0;
    let chars = 0;
    for (const { openedAtMs, lastAtMs, size } of this.#journal.blocksFrom(packedBlock)) {
      if (fromMs === undefined) {
        fromMs = Math.max(packedToMs, bucketStart(openedAtMs - tolerance, MINUTE));
        toMs = Math.min(
          bucketStart(now - tolerance, MINUTE),
          bucketStart(fromMs, DAY) + DAY,
          fromMs + SITE_BOUNDS.packMs,
        );
      }
      chars += size;
      if (chars <= SITE_BOUNDS.packChars) continue;
      toMs = Math.min(toMs, Math.max(fromMs + MINUTE, bucketStart(lastAtMs - tolerance, MINUTE)));
      break;
    }
    return fromMs !== undefined && toMs > fromMs ? { fromMs, toMs } : undefined;
  }

  #blockAfter(toMs: number): number {
    for (const { id, lastAtMs } of this.#journal.blocksFrom(this.state.packedBlock)) {
      if (lastAtMs + LIMIT.timestampToleranceMs >= toMs) return id;
    }
    return this.#journal.newestBlock + 1;
  }

  /**
   * Samples of the signals in the snapshot [C-3.13]; of equal timestamps the one received later wins [C-4.5].
   * Stops at messages received later than `toMs` plus the tolerance: they are not dated before `toMs`.
   */
  #collect(block: number, fromMs: number, toMs: number, only?: string): Map<string, Series> {
    const byMetric = new Map<string, Map<number, number>>();
    for (const { entry, data } of this.#journal.readingsFrom(block)) {
      if (entry.receivedMs > toMs + LIMIT.timestampToleranceMs) break;
      if (entry.ts < fromMs || entry.ts >= toMs) continue;
      const origin = this.#journal.originOf(entry);
      for (const [name, value] of Object.entries(data)) {
        const metric = metricName(origin, name);
        if (only !== undefined && metric !== only) continue;
        let own = byMetric.get(metric);
        if (!own) {
          if (this.#journal.snapshot.get(metric) === undefined) continue;
          own = new Map();
          byMetric.set(metric, own);
        }
        own.set(entry.ts, value);
      }
    }
    return new Map([...byMetric].map(([metric, own]) => [metric, seriesOf(own)]));
  }

  /** Rolls up one segment of the oldest finished day into the wider levels. */
  #roll(turn: Turn): void {
    const { rolledToMs: dayMs, rolledMetric, packedToMs } = this.state;
    const heads = this.segments[BASE].page(dayMs);
    const head = heads.find(
      ({ untilMetric }) => untilMetric === null || compareUtf8(untilMetric, rolledMetric) > 0,
    );
    const bytes = { ...this.state.bytes };
    if (head) {
      const own = [...unpackAllBuckets(this.segments[BASE].whole(head), BASE_MS)];
      for (const level of WIDER_LEVELS) {
        const rolled = own.map(([metric, all]) => [metric, mergeBuckets(all, [], BUCKET_MS[level])] as const);
        bytes[level] += this.segments[level].merge(turn, dayMs, new Map(rolled));
      }
    }
    const isDone = !head || head.untilMetric === null;
    const nextMs = () => this.segments[BASE].firstFrom(dayMs + DAY) ?? bucketStart(packedToMs, DAY);
    this.#save(turn, {
      ...this.state,
      rolledToMs: isDone ? Math.min(nextMs(), bucketStart(packedToMs, DAY)) : dayMs,
      rolledMetric: isDone ? '' : (head.untilMetric ?? ''),
      bytes,
    });
  }

  #save(turn: Turn, state: StoreState): void {
    const before = this.#state;
    turn.undo(() => {
      this.#state = before;
    });
    this.#state = state;
    this.#values.set(turn, 'telemetry', state);
  }
}

function seriesOf(own: ReadonlyMap<number, number>): Series {
  const ordered = [...own].sort(([left], [right]) => left - right);
  return { atMs: ordered.map(([atMs]) => atMs), values: ordered.map(([, value]) => value) };
}
