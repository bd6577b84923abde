/**
 * The aggregates of one metric over one bucket of time. Buckets begin at whole multiples of their width since
 * the epoch, that is in UTC [C-4.5]. Aggregates of the same bucket merge, and narrow buckets merge into wider
 * ones, so the result does not depend on how the samples were split. Pure.
 */
import { type Aggregate, isRegister } from '../../../protocol/telemetry.ts';
import { ExactSum, sumOf } from './exact-sum.ts';

/** One metric's samples, ordered by the device's `ts`; each `ts` occurs at most once. */
export interface Series {
  atMs: number[];
  values: number[];
}

export interface Bucket {
  startMs: number;
  count: number;
  /** The exact sum as decimal digits. */
  sum: string;
  min: number;
  max: number;
  last: number;
  /** The time of `last`. */
  lastAtMs: number;
  /** Only for a register that was reset or fell: its value at `last`, as if that had not happened. */
  total?: number;
}

export function bucketStart(atMs: number, widthMs: number): number {
  return Math.floor(atMs / widthMs) * widthMs;
}

/** `totals`: the corrected register total of each sample; undefined where it equals the value. */
export function bucketsOf(
  { atMs, values }: Series,
  widthMs: number,
  totals?: readonly (number | undefined)[],
): Bucket[] {
  const buckets: Bucket[] = [];
  for (let index = 0; index < atMs.length; ) {
    const startMs = bucketStart(atMs[index] ?? 0, widthMs);
    const first = index;
    const sum = new ExactSum();
    let [min, max] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    for (; index < atMs.length && (atMs[index] ?? 0) < startMs + widthMs; index++) {
      const value = values[index] ?? 0;
      sum.add(value);
      min = Math.min(min, value);
      max = Math.max(max, value);
    }
    const total = totals?.[index - 1];
    buckets.push({
      startMs,
      count: index - first,
      sum: sum.toString(),
      min,
      max,
      last: values[index - 1] ?? 0,
      lastAtMs: atMs[index - 1] ?? 0,
      ...(total === undefined ? {} : { total }),
    });
  }
  return buckets;
}

/**
 * Merges two ordered lists of buckets into buckets of `widthMs`. The given buckets may have any width up to
 * `widthMs`.
 */
export function mergeBuckets(one: readonly Bucket[], other: readonly Bucket[], widthMs: number): Bucket[] {
  const ordered =
    other.length === 0 ? one : [...one, ...other].sort((left, right) => left.startMs - right.startMs);
  const merged: Bucket[] = [];
  for (const bucket of ordered) {
    const startMs = bucketStart(bucket.startMs, widthMs);
    const open = merged.at(-1);
    if (open?.startMs === startMs) merged[merged.length - 1] = merge(open, bucket);
    else merged.push(bucket.startMs === startMs ? bucket : { ...bucket, startMs });
  }
  return merged;
}

function merge(one: Bucket, other: Bucket): Bucket {
  const sum = sumOf(one.sum);
  sum.addText(other.sum);
  const { last, lastAtMs, total } = other.lastAtMs >= one.lastAtMs ? other : one;
  return {
    startMs: one.startMs,
    count: one.count + other.count,
    sum: sum.toString(),
    min: Math.min(one.min, other.min),
    max: Math.max(one.max, other.max),
    last,
    lastAtMs,
    ...(total === undefined ? {} : { total }),
  };
}

/** [C-3.5] */
export function aggregateOf(bucket: Bucket, aggregate: Aggregate): number {
  switch (aggregate) {
    case 'avg':
      return sumOf(bucket.sum).mean(bucket.count);
    case 'sum':
      return sumOf(bucket.sum).toNumber();
    default:
      return bucket[aggregate];
  }
}

/** The last value for registers, the mean for every other metric [C-4.5]. */
export function defaultAggregate(metric: string): Aggregate {
  return isRegister(metric) ? 'last' : 'avg';
}
