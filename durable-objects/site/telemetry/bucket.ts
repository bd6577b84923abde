/**
 * What a roll-up keeps of one metric over one bucket of time. Buckets begin at whole multiples of their width since
 * the epoch, so in UTC [C-4.5]. Two of the same bucket merge, and smaller ones into larger: nothing depends on how the
 * samples were cut. Pure.
 */
import { type Aggregate, isRegister } from '../../../protocol/telemetry.ts';
import { ExactSum, sumOf } from './exact-sum.ts';

/** One metric's samples, in the order of their moments; the device's `ts`, each at most once. */
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
  /** The moment of `last`. */
  lastAtMs: number;
  /** Of a register that was reset or fell: what `last` stands for since the register was first heard. */
  total?: number;
}

export function bucketStart(atMs: number, widthMs: number): number {
  return Math.floor(atMs / widthMs) * widthMs;
}

/** `totals`: of each sample what its register stands for, where that is something else. */
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

/** Of two lists in order, buckets of any width up to `widthMs`, one with buckets of that width. */
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

/** Registers by what they last said, everything else by its mean [C-4.5]. */
export function defaultAggregate(metric: string): Aggregate {
  return isRegister(metric) ? 'last' : 'avg';
}
