/**
 * Reads the store one stretch of time after the other. Of samples the unpacked ones are the last stretch;
 * buckets of unpacked samples are merged into the pages of their days. Only one packed stretch is in memory at
 * a time. Ranges are [from, to). A bucket belongs to a range by its start and is always complete [C-4.5].
 */
import { type Aggregate, BUCKET_MS, type BucketName, type Granularity } from '../../../protocol/telemetry.ts';
import {
  aggregateOf,
  type Bucket,
  bucketStart,
  bucketsOf,
  defaultAggregate,
  mergeBuckets,
  type Series,
} from './bucket.ts';
import { totals } from './register.ts';
import { metricsOf, unpackBuckets, unpackSamples } from './segment.ts';
import type { StoredSegment } from './segment-rows.ts';
import { BASE, BASE_MS, WIDER_LEVELS } from './storage-levels.ts';
import type { TelemetryStore } from './store.ts';

const DAY = BUCKET_MS['1d'];

export interface TelemetryRange {
  fromMs: number;
  toMs: number;
  bucket: BucketName;
  /** Undefined: the last value for registers, the mean for every other metric. */
  aggregate?: Aggregate | undefined;
  /** Undefined: all metrics. */
  metric?: string | undefined;
}

/** `count`: the number of readings in a bucket; absent for raw samples. */
export interface Point {
  atMs: number;
  value: number;
  count?: number;
}

/** The points of one stretch of time, by metric. */
export interface Stretch {
  endMs: number;
  metrics(): string[];
  points(metric: string): Point[];
}

/** Yields the stretches in time order. */
export function* stretches(store: TelemetryStore, range: TelemetryRange): Generator<Stretch> {
  const { bucket, fromMs, toMs } = range;
  const widthMs = BUCKET_MS[bucket];
  if (bucket === 'raw') yield* ofSamples(store, range, (series) => pointsOf(series, fromMs, toMs));
  else if (widthMs < BASE_MS) {
    // Only whole buckets: skip samples before the first bucket's start, include those of the last bucket
    // after the end.
    const whole = { ...range, ...wholeBuckets(range) };
    yield* ofSamples(store, whole, (series, metric) => {
      const buckets = bucketsOf(pick(series, whole.fromMs, whole.toMs), widthMs);
      return aggregated(buckets, metric, range);
    });
  } else {
    for (const stretch of bucketStretches(store, range)) {
      yield {
        endMs: stretch.endMs,
        metrics: stretch.metrics,
        points: (metric) => aggregated(stretch.buckets(metric), metric, range),
      };
    }
  }
}

export interface BucketStretch {
  endMs: number;
  metrics(): string[];
  /** The metric's buckets that begin within the range. */
  buckets(metric: string): Bucket[];
}

/** Yields the buckets, of BASE or wider, that `stretches` aggregates. */
export function* bucketStretches(store: TelemetryStore, range: TelemetryRange): Generator<BucketStretch> {
  const widthMs = BUCKET_MS[range.bucket];
  const whole = { ...range, ...wholeBuckets(range) };
  const level = WIDER_LEVELS.find((one) => one === range.bucket);
  const rolledMs = level ? store.state.rolledToMs : 0;
  if (level && whole.fromMs < rolledMs) {
    const rolled = { ...whole, toMs: Math.min(whole.toMs, rolledMs) };
    yield* ofPages(store, level, rolled, widthMs, new Map());
  }
  const fromMs = Math.max(whole.fromMs, rolledMs);
  if (fromMs >= whole.toMs) return;
  const isPacked = whole.toMs <= store.unpackedFromMs;
  const fresh = isPacked ? new Map() : unpackedBuckets(store, fromMs, whole.toMs, range.metric);
  yield* ofPages(store, BASE, { ...whole, fromMs }, widthMs, fresh);
}

/** The unpacked samples as buckets of five minutes. */
function unpackedBuckets(
  store: TelemetryStore,
  fromMs: number,
  toMs: number,
  metric?: string,
): Map<string, Bucket[]> {
  const registers = { ...store.state.registers };
  const buckets = new Map<string, Bucket[]>();
  // Reads all unpacked samples, also those before the range: register totals are counted on from those of the
  // last packed sample.
  for (const [name, series] of store.unpacked(0, Number.POSITIVE_INFINITY, metric)) {
    const all = bucketsOf(series, BASE_MS, totals(registers, name, series, store.courseOf));
    const own = all.filter(({ startMs }) => startMs >= fromMs && startMs < toMs);
    if (own.length > 0) buckets.set(name, own);
  }
  return buckets;
}

/** Yields a level's pages, merged with the unpacked buckets in `fresh`. A page of 5m buckets is one day. */
function* ofPages(
  store: TelemetryStore,
  level: Granularity,
  { fromMs, toMs, metric }: TelemetryRange,
  widthMs: number,
  fresh: ReadonlyMap<string, Bucket[]>,
): Generator<BucketStretch> {
  const days = byDay(fresh);
  const stretch = (
    endMs: number,
    segments: readonly StoredSegment[],
    beside: ReadonlyMap<string, Bucket[]>,
  ) => ({
    // A page may extend beyond the range that is read from this level.
    endMs: Math.min(endMs, toMs),
    metrics: () => [...new Set([...segments.flatMap(metricsOf), ...beside.keys()])],
    buckets: (name: string) => {
      const packed = segments.flatMap((segment) => unpackBuckets(segment, name, BUCKET_MS[level]));
      const merged = mergeBuckets(packed, beside.get(name) ?? [], widthMs);
      return merged.filter(({ startMs }) => startMs >= fromMs && startMs < toMs);
    },
  });
  for (const segments of grouped(store.segments[level].between(fromMs, toMs, metric))) {
    const [{ startMs, endMs } = { startMs: 0, endMs: 0 }] = segments;
    yield stretch(endMs, segments, days.get(startMs) ?? new Map());
    days.delete(startMs);
  }
  for (const [dayMs, own] of [...days].sort(([left], [right]) => left - right))
    yield stretch(dayMs + DAY, [], own);
}

function byDay(fresh: ReadonlyMap<string, Bucket[]>): Map<number, Map<string, Bucket[]>> {
  const days = new Map<number, Map<string, Bucket[]>>();
  for (const [name, buckets] of fresh) {
    for (const [dayMs, own] of Map.groupBy(buckets, ({ startMs }) => bucketStart(startMs, DAY))) {
      const day = days.get(dayMs) ?? new Map<string, Bucket[]>();
      days.set(dayMs, day.set(name, own));
    }
  }
  return days;
}

function* ofSamples(
  store: TelemetryStore,
  { fromMs, toMs, metric }: TelemetryRange,
  points: (series: Series, metric: string) => Point[],
): Generator<Stretch> {
  for (const segments of grouped(store.segments.raw.between(fromMs, toMs, metric))) {
    yield {
      endMs: segments[0]?.endMs ?? 0,
      metrics: () => segments.flatMap(metricsOf),
      points: (name) => segments.flatMap((segment) => points(unpackSamples(segment, name), name)),
    };
  }
  if (toMs <= store.unpackedFromMs) return;
  const fresh = store.unpacked(fromMs, toMs, metric);
  yield {
    endMs: toMs,
    metrics: () => [...fresh.keys()],
    points: (name) => points(fresh.get(name) ?? { atMs: [], values: [] }, name),
  };
}

/** Groups the segments by stretch. */
function* grouped(segments: Iterable<StoredSegment>): Generator<StoredSegment[]> {
  let group: StoredSegment[] = [];
  for (const segment of segments) {
    if (group[0] && group[0].startMs !== segment.startMs) {
      yield group;
      group = [];
    }
    group.push(segment);
  }
  if (group.length > 0) yield group;
}

/** The time that the buckets beginning within a range cover. */
function wholeBuckets({ fromMs, toMs, bucket }: TelemetryRange): { fromMs: number; toMs: number } {
  const widthMs = BUCKET_MS[bucket];
  const up = (atMs: number) => Math.ceil(atMs / widthMs) * widthMs;
  return { fromMs: up(fromMs), toMs: up(toMs) };
}

function pick({ atMs, values }: Series, fromMs: number, toMs: number): Series {
  const first = atMs.findIndex((at) => at >= fromMs);
  if (first < 0) return { atMs: [], values: [] };
  const behind = atMs.findIndex((at) => at >= toMs);
  const end = behind < 0 ? atMs.length : behind;
  return { atMs: atMs.slice(first, end), values: values.slice(first, end) };
}

function pointsOf(series: Series, fromMs: number, toMs: number): Point[] {
  const { atMs, values } = pick(series, fromMs, toMs);
  return atMs.map((at, index) => ({ atMs: at, value: values[index] ?? 0 }));
}

function aggregated(
  buckets: readonly Bucket[],
  metric: string,
  { aggregate = defaultAggregate(metric) }: TelemetryRange,
): Point[] {
  return buckets.map((bucket) => ({
    atMs: bucket.startMs,
    value: aggregateOf(bucket, aggregate),
    count: bucket.count,
  }));
}
