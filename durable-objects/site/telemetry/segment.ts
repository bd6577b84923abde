/**
 * A segment: some metrics of a stretch of time in one row. Each metric's columns are JSON, deflated separately,
 * so one metric can be read without the others; the directory gives the position of each. Metrics with equal
 * timestamps share one column of timestamps. Pure.
 */
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { compareUtf8 } from '../../../protocol/utf8.ts';
import type { Bucket, Series } from './bucket.ts';

/** A segment is closed at this size; a single metric never takes more than a tenth of a row. */
export const SEGMENT_BYTES = 128 * 1_024;

/** [offset, length] in the segment's data. */
type Place = readonly [number, number];

export interface Directory {
  /** Columns of timestamps; several metrics may share one. */
  times?: Place[];
  /**
   * Per metric: its place, its number of samples or buckets, and for samples the index of its timestamp
   * column.
   */
  metrics: Record<string, readonly [...Place, number, number?]>;
}

export interface Segment {
  /** The segment holds metrics from `fromMetric` up to, but excluding, `untilMetric`; null = no upper end. */
  fromMetric: string;
  untilMetric: string | null;
  count: number;
  directory: Directory;
  data: Uint8Array;
}

/** Collects the deflated columns of a segment. */
class Columns {
  readonly #pieces: Uint8Array[] = [];
  length = 0;

  add(column: unknown): Place {
    const piece = deflateRawSync(JSON.stringify(column));
    const place: Place = [this.length, piece.length];
    this.#pieces.push(piece);
    this.length += piece.length;
    return place;
  }

  join(): Uint8Array {
    const data = new Uint8Array(this.length);
    let offset = 0;
    for (const piece of this.#pieces) {
      data.set(piece, offset);
      offset += piece.length;
    }
    return data;
  }
}

function column(data: Uint8Array, [offset, length]: Place): unknown {
  return JSON.parse(new TextDecoder().decode(inflateRawSync(data.subarray(offset, offset + length))));
}

/** Packs the samples of all metrics of a stretch of time into segments, ordered by metric name. */
export function packSamples(samples: ReadonlyMap<string, Series>): Segment[] {
  return inSegments([...samples], SEGMENT_BYTES, (columns, directory, [metric, { atMs, values }], known) => {
    directory.times ??= [];
    const moments = JSON.stringify(atMs);
    let time = known.get(moments);
    if (time === undefined) {
      time = directory.times.length;
      known.set(moments, time);
      directory.times.push(columns.add(deltasOf(atMs)));
    }
    directory.metrics[metric] = [...columns.add(values), values.length, time];
    return values.length;
  });
}

export function unpackSamples(
  { directory, data }: Pick<Segment, 'directory' | 'data'>,
  metric: string,
): Series {
  const entry = entryOf(directory, metric);
  const time = entry && directory.times?.[entry[3] ?? -1];
  if (!entry || !time) return { atMs: [], values: [] };
  const atMs = fromDeltas(column(data, time) as number[]);
  return { atMs, values: column(data, [entry[0], entry[1]]) as number[] };
}

/**
 * Packs buckets of one width into segments, ordered by metric name. If one segment is too small the buckets are
 * spread evenly over several: a full segment would be split again by the next bucket that is added to it.
 */
export function packBuckets(buckets: ReadonlyMap<string, readonly Bucket[]>, widthMs: number): Segment[] {
  const segments = bucketSegments(buckets, widthMs, SEGMENT_BYTES);
  if (segments.length < 2) return segments;
  const bytes = segments.reduce((sum, { data }) => sum + data.length, 0);
  return bucketSegments(buckets, widthMs, bytes / segments.length);
}

function bucketSegments(
  buckets: ReadonlyMap<string, readonly Bucket[]>,
  widthMs: number,
  segmentBytes: number,
): Segment[] {
  return inSegments([...buckets], segmentBytes, (columns, directory, [metric, own]) => {
    const place = columns.add([
      deltasOf(own.map(({ startMs }) => startMs / widthMs)),
      own.map(({ count }) => count),
      own.map(({ sum }) => (String(Number(sum)) === sum ? Number(sum) : sum)),
      own.map(({ min }) => min),
      own.map(({ max }) => max),
      own.map(({ last }) => last),
      own.map(({ startMs, lastAtMs }) => lastAtMs - startMs),
      own.flatMap(({ total }, index) => (total === undefined ? [] : [[index, total]])),
    ]);
    directory.metrics[metric] = [...place, own.length];
    return own.length;
  });
}

type BucketColumns = [
  starts: number[],
  counts: number[],
  sums: (number | string)[],
  mins: number[],
  maxs: number[],
  lasts: number[],
  lastOffsets: number[],
  totals: [number, number][],
];

export function unpackBuckets(
  { directory, data }: Pick<Segment, 'directory' | 'data'>,
  metric: string,
  widthMs: number,
): Bucket[] {
  const entry = entryOf(directory, metric);
  if (!entry) return [];
  const columns = column(data, [entry[0], entry[1]]) as BucketColumns;
  const [starts, counts, sums, mins, maxs, lasts, lastOffsets, totals] = columns;
  const buckets = fromDeltas(starts).map((start, index): Bucket => {
    const startMs = start * widthMs;
    return {
      startMs,
      count: counts[index] ?? 0,
      sum: String(sums[index] ?? 0),
      min: mins[index] ?? 0,
      max: maxs[index] ?? 0,
      last: lasts[index] ?? 0,
      lastAtMs: startMs + (lastOffsets[index] ?? 0),
    };
  });
  for (const [index, total] of totals) {
    const bucket = buckets[index];
    if (bucket) bucket.total = total;
  }
  return buckets;
}

/** The buckets of all metrics of a segment. */
export function unpackAllBuckets(
  segment: Pick<Segment, 'directory' | 'data'>,
  widthMs: number,
): Map<string, Bucket[]> {
  return new Map(metricsOf(segment).map((metric) => [metric, unpackBuckets(segment, metric, widthMs)]));
}

export function metricsOf({ directory }: Pick<Segment, 'directory'>): string[] {
  return Object.keys(directory.metrics);
}

/** The number of samples or buckets of a metric in a segment. */
export function countOf(directory: Directory, metric: string): number {
  return entryOf(directory, metric)?.[2] ?? 0;
}

/** Checks own properties only: a metric may be named like an inherited one, such as `toString`. */
function entryOf({ metrics }: Directory, metric: string) {
  return Object.hasOwn(metrics, metric) ? metrics[metric] : undefined;
}

/** `write` adds one metric's columns and returns its number of samples or buckets. */
function inSegments<Own>(
  own: [string, Own][],
  segmentBytes: number,
  write: (columns: Columns, directory: Directory, entry: [string, Own], known: Map<string, number>) => number,
): Segment[] {
  const segments: Segment[] = [];
  let columns = new Columns();
  let known = new Map<string, number>();
  let segment: Segment | undefined;
  for (const entry of own.sort(([left], [right]) => compareUtf8(left, right))) {
    if (segment && columns.length >= segmentBytes) {
      segment.untilMetric = entry[0];
      segment.data = columns.join();
      segment = undefined;
    }
    if (!segment) {
      [columns, known] = [new Columns(), new Map()];
      const fromMetric = segments.length === 0 ? '' : entry[0];
      const directory: Directory = { metrics: Object.create(null) as Directory['metrics'] };
      segment = { fromMetric, untilMetric: null, count: 0, directory, data: new Uint8Array() };
      segments.push(segment);
    }
    segment.count += write(columns, segment.directory, entry, known);
  }
  if (segment) segment.data = columns.join();
  return segments;
}

function deltasOf(numbers: readonly number[]): number[] {
  return numbers.map((number, index) => number - (numbers[index - 1] ?? 0));
}

function fromDeltas(deltas: readonly number[]): number[] {
  let sum = 0;
  return deltas.map((delta) => {
    sum += delta;
    return sum;
  });
}
