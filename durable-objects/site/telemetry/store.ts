/**
 * The long-term telemetry store of a site. The journal's messages are packed as soon as no earlier-dated
 * message can arrive (the tolerance of a device's `ts`): samples of each metric as deflated columns, and 5m
 * roll-ups in pages of a day. When a day is over, 1h and 1d roll-ups follow. Other widths are computed from
 * these on read. Packed data never changes, so repeated reads return the same numbers.
 *
 *   journal ─► raw (30 d)
 *           └► 5m (1 y) ─► 1h, 1d (5 y)          1m from raw, 15m from 5m
 */
import { LIMIT } from '../../../protocol/limits.ts';
import { BUCKET_MS } from '../../../protocol/telemetry.ts';
import { compareUtf8 } from '../../../protocol/utf8.ts';
import type { DueSource } from '../../object/agenda.ts';
import type { Facts } from '../../object/facts.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import { SITE_BOUNDS } from '../bounds.ts';
import type { Trimmable } from '../retention.ts';
import { type Bucket, bucketStart, bucketsOf, mergeBuckets, type Series } from './bucket.ts';
import type { Journal } from './journal.ts';
import { mergePage } from './page.ts';
import { metricsOf, packSamples, unpackBuckets } from './part.ts';
import { PAGE_MS, PartRows, type RolledLevel } from './part-rows.ts';
import { boundedRegisters, type RegisterState, totals } from './register.ts';
import { metricName } from './snapshot.ts';
import type { Level } from './tables.ts';

const MINUTE = 60_000;
const DAY = BUCKET_MS['1d'];
/** How long messages wait to be packed: a quarter of an hour when many wait, two hours when few do. */
const PACK_AFTER_MS = { many: 15 * MINUTE, few: 120 * MINUTE };

interface StoreState {
  /** All samples dated earlier are packed; a whole minute. */
  packedToMs: number;
  /** Earlier blocks hold only samples dated before `packedToMs`. */
  packedBlock: number;
  /** All earlier days are in the 1h and 1d roll-ups; of this day, the metrics before `rolledMetric`. */
  rolledToMs: number;
  rolledMetric: string;
  bytes: Record<Level, number>;
  /** State at `packedToMs`, by metric. */
  registers: Record<string, RegisterState>;
}

const NOTHING: StoreState = {
  packedToMs: 0,
  packedBlock: 1,
  rolledToMs: 0,
  rolledMetric: '',
  bytes: { raw: 0, '5m': 0, '1h': 0, '1d': 0 },
  registers: {},
};

export class TelemetryStore implements DueSource {
  readonly name = 'telemetry store';
  readonly parts: Readonly<Record<Level, PartRows>>;
  readonly #journal: Journal;
  readonly #facts: Facts<'telemetry'>;
  #state: StoreState | undefined;
  #waiting: { block: number; openedAtMs: number } | undefined;

  constructor(sql: Sql, facts: Facts<'telemetry'>, journal: Journal) {
    this.#facts = facts;
    this.#journal = journal;
    this.parts = {
      raw: new PartRows(sql, 'raw'),
      '5m': new PartRows(sql, '5m'),
      '1h': new PartRows(sql, '1h'),
      '1d': new PartRows(sql, '1d'),
    };
  }

  get state(): Readonly<StoreState> {
    this.#state ??= this.#facts.get<StoreState>('telemetry') ?? NOTHING;
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

  /** The level as a table for retention. */
  rowsOf(level: Level): Trimmable {
    const rows = this.parts[level];
    return {
      extent: () => ({ startsAt: 0, endsAt: this.state.bytes[level], oldestMs: rows.oldestEndMs() }),
      trim: (turn, place, beforeMs, limit) => {
        const trimmed = rows.trim(turn, place, beforeMs, limit);
        if (trimmed.rows > 0) {
          const bytes = { ...this.state.bytes, [level]: this.state.bytes[level] - trimmed.bytes };
          this.#save(turn, { ...this.state, bytes });
        }
        return trimmed.rows;
      },
    };
  }

  #packAfterMs(blocks: number): number {
    if (blocks >= 10 * SITE_BOUNDS.unpackedBlocks) return MINUTE;
    return blocks >= SITE_BOUNDS.unpackedBlocks ? PACK_AFTER_MS.many : PACK_AFTER_MS.few;
  }

  /** When the oldest unpacked block was opened. */
  #waitingSinceMs(block: number): number {
    if (this.#waiting?.block !== block) {
      const openedAtMs = this.#journal.openedFrom(block);
      if (openedAtMs === undefined) return 0;
      this.#waiting = { block, openedAtMs };
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
    bytes.raw += this.parts.raw.add(turn, fromMs, toMs, packSamples(samples));
    const registers = { ...this.state.registers };
    const buckets = new Map<string, Bucket[]>();
    for (const [metric, series] of samples) {
      buckets.set(metric, bucketsOf(series, BUCKET_MS['5m'], totals(registers, metric, series)));
    }
    bytes['5m'] += this.#merge(turn, '5m', fromMs, buckets);
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
    for (const { opened_at_ms: openedAtMs, last_at_ms: lastAtMs, size } of this.#journal.blocksFrom(
      packedBlock,
    )) {
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
    for (const { id, last_at_ms: lastAtMs } of this.#journal.blocksFrom(this.state.packedBlock)) {
      if (lastAtMs + LIMIT.timestampToleranceMs >= toMs) return id;
    }
    return this.#journal.newestBlock + 1;
  }

  /**
   * Samples of the signals in the snapshot [C-3.13]; of equal timestamps the one received later wins [C-4.5].
   * Stops at messages received later than `toMs` plus the tolerance: they are dated after `toMs`.
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

  /** Rolls up one part of the oldest finished day into 1h and 1d buckets. */
  #roll(turn: Turn): void {
    const { rolledToMs: dayMs, rolledMetric, packedToMs } = this.state;
    const heads = this.parts['5m'].page(dayMs);
    const head = heads.find(
      ({ untilMetric }) => untilMetric === null || compareUtf8(untilMetric, rolledMetric) > 0,
    );
    const bytes = { ...this.state.bytes };
    if (head) {
      const part = this.parts['5m'].whole(head);
      const own = metricsOf(part).map(
        (metric) => [metric, unpackBuckets(part, metric, BUCKET_MS['5m'])] as const,
      );
      for (const level of ['1h', '1d'] as const) {
        const rolled = new Map<string, Bucket[]>();
        for (const [metric, buckets] of own) rolled.set(metric, mergeBuckets(buckets, [], BUCKET_MS[level]));
        bytes[level] += this.#merge(turn, level, dayMs, rolled);
      }
    }
    const isDone = !head || head.untilMetric === null;
    const nextMs = () => this.parts['5m'].firstFrom(dayMs + DAY) ?? bucketStart(packedToMs, DAY);
    this.#save(turn, {
      ...this.state,
      rolledToMs: isDone ? Math.min(nextMs(), bucketStart(packedToMs, DAY)) : dayMs,
      rolledMetric: isDone ? '' : (head.untilMetric ?? ''),
      bytes,
    });
  }

  /** Adds buckets to the level's page that contains `atMs`; returns by how many bytes the page grew. */
  #merge(turn: Turn, level: RolledLevel, atMs: number, buckets: ReadonlyMap<string, Bucket[]>): number {
    const startMs = bucketStart(atMs, PAGE_MS[level]);
    const page = { startMs, endMs: startMs + PAGE_MS[level], widthMs: BUCKET_MS[level] };
    return mergePage(turn, this.parts[level], page, buckets);
  }

  #save(turn: Turn, state: StoreState): void {
    const before = this.#state;
    turn.undo(() => {
      this.#state = before;
    });
    this.#state = state;
    this.#facts.set(turn, 'telemetry', state);
  }
}

function seriesOf(own: ReadonlyMap<number, number>): Series {
  const ordered = [...own].sort(([left], [right]) => left - right);
  return { atMs: ordered.map(([atMs]) => atMs), values: ordered.map(([, value]) => value) };
}
