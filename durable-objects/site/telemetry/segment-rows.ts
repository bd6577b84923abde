/**
 * The segments of one level of the telemetry store: packed raw samples or pages of roll-ups, one table per
 * level. A row's id combines the first minute of its stretch of time with the number of the segment, so a
 * stretch is found without an index. A page is a long stretch whose metrics are distributed over segments by
 * name: buckets are added to one segment after the other, and only one is in memory at a time; a segment that
 * grows too large is split.
 */
import { BUCKET_MS, type Granularity } from '../../../protocol/telemetry.ts';
import { compareUtf8, utf8Length } from '../../../protocol/utf8.ts';
import { boundedBytes } from '../../object/row-size.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import { SITE_BOUNDS } from '../bounds.ts';
import { type Bucket, bucketStart, mergeBuckets } from './bucket.ts';
import {
  countOf,
  type Directory,
  metricsOf,
  packBuckets,
  type Segment,
  unpackAllBuckets,
} from './segment.ts';
import { LEVELS } from './storage-levels.ts';

const MINUTE = 60_000;
const SEGMENTS_PER_STRETCH = 1_024;
/**
 * The latest time that a `Date` can have. No segment starts later, and the id for this time is still a safe
 * integer.
 */
const LAST_MS = 8.64e15;
/** Segments in memory at the same time, about 128 KB each. */
const SEGMENTS_AT_ONCE = 8;

/** The columns of a segment except its data. */
const HEAD = `id, end_ms AS endMs, from_metric AS fromMetric, until_metric AS untilMetric, count, size, directory`;

type HeadRow = {
  id: number;
  endMs: number;
  fromMetric: string;
  untilMetric: string | null;
  count: number;
  size: number;
  directory: string;
};

/** A segment with the columns of its row. */
export interface StoredSegment extends Segment {
  id: number;
  startMs: number;
  endMs: number;
  size: number;
}

type SegmentHead = Omit<StoredSegment, 'data'>;

export class SegmentRows {
  readonly #sql: Sql;
  readonly #level: Granularity;
  readonly #table: string;
  /** Null: no stretch may be deleted. Undefined: not read yet. */
  #oldestEndMs: number | null | undefined;

  constructor(sql: Sql, level: Granularity) {
    this.#sql = sql;
    this.#level = level;
    this.#table = `telemetry_${level}`;
  }

  /**
   * The segments of the stretches that overlap [fromMs, toMs), in time order; with `metric`, only those that may
   * hold it.
   */
  *between(fromMs: number, toMs: number, metric?: string): Generator<StoredSegment> {
    const named =
      metric === undefined ? '' : 'AND from_metric <= ? AND (until_metric IS NULL OR until_metric > ?)';
    const before = this.#sql.one<{ id: number }>(
      `SELECT coalesce(max(id), 0) AS id FROM ${this.#table} WHERE id < ?`,
      idOf(fromMs) + SEGMENTS_PER_STRETCH,
    );
    const first = Math.floor((before?.id ?? 0) / SEGMENTS_PER_STRETCH) * SEGMENTS_PER_STRETCH;
    const rows = this.#sql.each<HeadRow & { data: ArrayBuffer }>(
      `SELECT ${HEAD}, data FROM ${this.#table}
       WHERE id < ? AND end_ms > ? ${named} AND id > ? ORDER BY id LIMIT ?`,
      { key: 'id', from: first - 1, rows: SEGMENTS_AT_ONCE },
      idOf(Math.min(toMs, LAST_MS) + MINUTE - 1),
      fromMs,
      ...(metric === undefined ? [] : [metric, metric]),
    );
    for (const row of rows) yield { ...headOf(row), data: new Uint8Array(row.data) };
  }

  /** The segments of the stretch that begins at `startMs`, without their data, ordered by metric. */
  page(startMs: number): SegmentHead[] {
    return this.#sql
      .all<HeadRow>(
        `SELECT ${HEAD} FROM ${this.#table}
         WHERE id >= ? AND id < ? ORDER BY from_metric`,
        idOf(startMs),
        idOf(startMs) + SEGMENTS_PER_STRETCH,
      )
      .map(headOf);
  }

  /** One segment with its data. */
  whole(head: SegmentHead): StoredSegment {
    const row = this.#sql.one<{ data: ArrayBuffer }>(`SELECT data FROM ${this.#table} WHERE id = ?`, head.id);
    return { ...head, data: new Uint8Array(row?.data ?? new ArrayBuffer(0)) };
  }

  /** The start of the first stretch that begins at or after `startMs`. */
  firstFrom(startMs: number): number | undefined {
    const row = this.#sql.one<{ id: number }>(
      `SELECT id FROM ${this.#table} WHERE id >= ? ORDER BY id LIMIT 1`,
      idOf(startMs),
    );
    return row && startOf(row.id);
  }

  /**
   * When the oldest stretch ends; undefined if it is also the newest, which is kept. Cached: called after
   * every turn.
   */
  oldestEndMs(): number | undefined {
    if (this.#oldestEndMs === undefined) {
      const row = this.#sql.one<{ end_ms: number }>(
        `SELECT end_ms FROM ${this.#table} WHERE id = (SELECT min(id) FROM ${this.#table})
         AND id / ${SEGMENTS_PER_STRETCH} < (SELECT max(id) FROM ${this.#table}) / ${SEGMENTS_PER_STRETCH}`,
      );
      this.#oldestEndMs = row?.end_ms ?? null;
    }
    return this.#oldestEndMs ?? undefined;
  }

  /** Adds segments to a stretch, numbered from `number`; returns their size in bytes. */
  add(turn: Turn, startMs: number, endMs: number, segments: readonly Segment[], number = 0): number {
    const first = idOf(startMs) + number;
    return segments.reduce((size, own, index) => size + this.#put(turn, first + index, endMs, own), 0);
  }

  /**
   * Adds buckets to the page that contains `atMs`; returns by how many bytes the page grew. New signals
   * above `signalsPerPage` are not stored; the log shows how many.
   */
  merge(turn: Turn, atMs: number, added: ReadonlyMap<string, readonly Bucket[]>): number {
    if (added.size === 0) return 0;
    const { pageMs } = LEVELS[this.#level];
    const widthMs = BUCKET_MS[this.#level];
    const startMs = bucketStart(atMs, pageMs);
    const endMs = startMs + pageMs;
    const segments = this.page(startMs);
    const buckets = withinPage(segments, added);
    if (segments.length === 0) return this.add(turn, startMs, endMs, packBuckets(buckets, widthMs));
    let grown = 0;
    // Segments are numbered in order of creation, not of their metrics: a split takes the next free number.
    let number = Math.max(...segments.map(({ id }) => id % SEGMENTS_PER_STRETCH)) + 1;
    for (const head of segments) {
      const own = [...buckets].filter(([metric]) => isWithin(head, metric));
      if (own.length === 0) continue;
      const merged = unpackAllBuckets(this.whole(head), widthMs);
      for (const [metric, more] of own)
        merged.set(metric, mergeBuckets(merged.get(metric) ?? [], more, widthMs));
      const [first, ...rest] = packBuckets(merged, widthMs);
      if (!first) continue;
      first.fromMetric = head.fromMetric;
      (rest.at(-1) ?? first).untilMetric = head.untilMetric;
      grown += this.#put(turn, head.id, endMs, first) - head.size;
      grown += this.add(turn, startMs, endMs, rest, number);
      number += rest.length;
    }
    return grown;
  }

  /** Writes one segment; returns its size in bytes. */
  #put(turn: Turn, id: number, endMs: number, segment: Segment): number {
    const directory = JSON.stringify(segment.directory);
    const directoryBytes = utf8Length(directory);
    const size = directoryBytes + segment.data.length;
    this.#changed(turn);
    turn.replace(this.#table, {
      ...{ id, end_ms: endMs, from_metric: segment.fromMetric, until_metric: segment.untilMetric },
      ...{ count: segment.count, size, directory, data: boundedBytes(segment.data, directoryBytes) },
    });
    return size;
  }

  /**
   * Deletes whole stretches, oldest first: those that ended by `beforeMs`, and more until `bytes` are freed,
   * but none after `limit` rows and never the newest. Returns the number of rows and bytes deleted.
   */
  trim(turn: Turn, bytes: number, beforeMs: number, limit: number): { rows: number; bytes: number } {
    this.#changed(turn);
    const heads = this.#sql.all<Pick<HeadRow, 'id' | 'endMs' | 'size'>>(
      `SELECT id, end_ms AS endMs, size FROM ${this.#table} ORDER BY id LIMIT ?`,
      limit + SEGMENTS_PER_STRETCH,
    );
    const newest = this.#sql.one<{ id: number }>(`SELECT id FROM ${this.#table} ORDER BY id DESC LIMIT 1`);
    let [rows, freed] = [0, 0];
    for (const [startMs, segments] of Map.groupBy(heads, ({ id }) => startOf(id))) {
      const isEnough = freed >= bytes && (segments[0]?.endMs ?? 0) > beforeMs;
      if (isEnough || rows >= limit || startMs === startOf(newest?.id ?? 0)) break;
      turn.write(`DELETE FROM ${this.#table} WHERE id < ?`, idOf(startMs) + SEGMENTS_PER_STRETCH);
      rows += segments.length;
      freed += segments.reduce((sum, { size }) => sum + size, 0);
    }
    return { rows, bytes: freed };
  }

  #changed(turn: Turn): void {
    const forget = () => {
      this.#oldestEndMs = undefined;
    };
    turn.undo(forget);
    forget();
  }
}

function isWithin({ fromMetric, untilMetric }: SegmentHead, metric: string): boolean {
  return (
    compareUtf8(fromMetric, metric) <= 0 && (untilMetric === null || compareUtf8(metric, untilMetric) < 0)
  );
}

function withinPage(
  segments: readonly SegmentHead[],
  added: ReadonlyMap<string, readonly Bucket[]>,
): Map<string, readonly Bucket[]> {
  const known = segments.reduce((sum, segment) => sum + metricsOf(segment).length, 0);
  let room = SITE_BOUNDS.signalsPerPage - known;
  const isKnown = (metric: string) => segments.some(({ directory }) => countOf(directory, metric) > 0);
  const kept = [...added].filter(([metric]) => isKnown(metric) || room-- > 0);
  if (kept.length < added.size) {
    console.warn('roll-up page has the maximum number of signal names, further ones left out of it', {
      signalsLeftOut: added.size - kept.length,
    });
  }
  return new Map(kept);
}

function idOf(startMs: number): number {
  return Math.floor(startMs / MINUTE) * SEGMENTS_PER_STRETCH;
}

function startOf(id: number): number {
  return Math.floor(id / SEGMENTS_PER_STRETCH) * MINUTE;
}

function headOf(row: HeadRow): SegmentHead {
  return { ...row, startMs: startOf(row.id), directory: JSON.parse(row.directory) as Directory };
}
