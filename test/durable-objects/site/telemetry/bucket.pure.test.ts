/**
 * Buckets have the same numbers however the samples are cut and in whatever order the pieces are merged
 * [C-4.5].
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll, forMany } from '#support/property.ts';
import {
  aggregateOf,
  type Bucket,
  bucketStart,
  bucketsOf,
  defaultAggregate,
  mergeBuckets,
  type Series,
} from '../../../../durable-objects/site/telemetry/bucket.ts';
import { AGGREGATES, BUCKET_MS, SITE_SIGNALS } from '../../../../protocol/telemetry.ts';

const MIDNIGHT_MS = Date.parse('2030-03-06T00:00:00.000Z');
const HOUR = BUCKET_MS['1h'];
const WIDTHS = [BUCKET_MS['1m'], BUCKET_MS['5m'], BUCKET_MS['15m'], HOUR, BUCKET_MS['1d']];

/** Readings of three decimals around a midnight, some of them at the edges of buckets. */
const moment = fc.oneof(
  fc.integer({ min: -5 * HOUR, max: 30 * HOUR }),
  fc.integer({ min: -60, max: 360 }).map((fives) => fives * BUCKET_MS['5m']),
  fc.integer({ min: -60, max: 360 }).map((fives) => fives * BUCKET_MS['5m'] - 1),
);
const samples = fc
  .uniqueArray(fc.tuple(moment, fc.integer({ min: -1_000_000, max: 1_000_000 })), {
    minLength: 1,
    maxLength: 120,
    selector: ([at]) => at,
  })
  .map((pairs) => pairs.sort(([left], [right]) => left - right))
  .map((pairs) => pairs.map(([at, thousandths]) => ({ atMs: MIDNIGHT_MS + at, thousandths })));
type Sample = { atMs: number; thousandths: number };

function seriesOf(own: readonly Sample[]): Series {
  return { atMs: own.map(({ atMs }) => atMs), values: own.map(({ thousandths }) => thousandths / 1_000) };
}

/** The series in pieces, cut before each of the given moments. */
function cut(own: readonly Sample[], cutsMs: readonly number[]): Series[] {
  const edges = [Number.NEGATIVE_INFINITY, ...[...cutsMs].sort((left, right) => left - right), Infinity];
  return edges.slice(1).map((untilMs, index) => {
    const fromMs = edges[index] ?? 0;
    return seriesOf(own.filter(({ atMs }) => atMs >= fromMs && atMs < untilMs));
  });
}

describe('buckets of a series', () => {
  it('the buckets of each width equal the aggregates computed from the readings one by one [C-3.5]', () => {
    forAll(samples, fc.constantFrom(...WIDTHS), (own, widthMs) => {
      const buckets = bucketsOf(seriesOf(own), widthMs);
      const groups = [...Map.groupBy(own, ({ atMs }) => Math.floor(atMs / widthMs) * widthMs)];
      expect(buckets.map(({ startMs }) => startMs)).toEqual(groups.map(([startMs]) => startMs));
      for (const [index, [, group]] of groups.entries()) {
        const thousandths = group.map((sample) => sample.thousandths);
        const sum = thousandths.reduce((left, right) => left + right, 0);
        const last = group.at(-1);
        const bucket = buckets[index] as Bucket;
        const answered = Object.fromEntries(AGGREGATES.map((name) => [name, aggregateOf(bucket, name)]));
        expect(answered).toEqual({
          avg: sum / (1_000 * group.length),
          min: Math.min(...thousandths) / 1_000,
          max: Math.max(...thousandths) / 1_000,
          sum: sum / 1_000,
          count: group.length,
          last: (last?.thousandths ?? 0) / 1_000,
        });
        expect(bucket.lastAtMs).toBe(last?.atMs);
      }
    });
  });

  it('buckets begin in UTC, at whole multiples of their width [C-4.5]', () => {
    const at = MIDNIGHT_MS - 1;
    const starts = WIDTHS.map((widthMs) => new Date(bucketStart(at, widthMs)).toISOString());
    expect(starts).toEqual([
      '2030-03-05T23:59:00.000Z',
      '2030-03-05T23:55:00.000Z',
      '2030-03-05T23:45:00.000Z',
      '2030-03-05T23:00:00.000Z',
      '2030-03-05T00:00:00.000Z',
    ]);
    expect(WIDTHS.map((widthMs) => bucketStart(MIDNIGHT_MS, widthMs))).toEqual(WIDTHS.map(() => MIDNIGHT_MS));
  });

  it('an empty series has no buckets, and empty buckets are left out [C-4.5]', () => {
    expect(bucketsOf({ atMs: [], values: [] }, HOUR)).toEqual([]);
    expect(mergeBuckets([], [], HOUR)).toEqual([]);
    const apart = seriesOf([0, 5].map((hours) => ({ atMs: MIDNIGHT_MS + hours * HOUR, thousandths: 1 })));
    expect(bucketsOf(apart, HOUR)).toHaveLength(2);
  });
});

describe('merged buckets', () => {
  it('equal, at 5 min, those of the whole series at 5 min, 15 min, 1 h and 1 d, wherever the series is cut [C-4.5]', () => {
    forAll(samples, fc.array(moment, { maxLength: 8 }), (own, cuts) => {
      const pieces = cut(
        own,
        cuts.map((at) => MIDNIGHT_MS + at),
      );
      const packed = pieces.reduce<Bucket[]>(
        (page, piece) => mergeBuckets(page, bucketsOf(piece, BUCKET_MS['5m']), BUCKET_MS['5m']),
        [],
      );
      for (const widthMs of WIDTHS.slice(1)) {
        expect(mergeBuckets(packed, [], widthMs)).toEqual(bucketsOf(seriesOf(own), widthMs));
      }
    });
  });

  it('are the same in any order of the pieces, and through any intermediate widths [C-4.5]', () => {
    const order = fc.shuffledSubarray([0, 1, 2, 3], { minLength: 4 });
    const cuts = fc.tuple(moment, moment, moment);
    forAll(samples, cuts, order, fc.subarray(WIDTHS), (own, at, turns, widths) => {
      const pieces = cut(
        own,
        at.map((one) => MIDNIGHT_MS + one),
      );
      let merged: Bucket[] = [];
      for (const turn of turns) {
        const piece = pieces[turn] ?? { atMs: [], values: [] };
        merged = mergeBuckets(merged, bucketsOf(piece, BUCKET_MS['1m']), BUCKET_MS['1m']);
      }
      for (const widthMs of widths) merged = mergeBuckets(merged, [], widthMs);
      expect(mergeBuckets(merged, [], BUCKET_MS['1d'])).toEqual(bucketsOf(seriesOf(own), BUCKET_MS['1d']));
    });
  });

  it('merging does not change its inputs', () => {
    forMany(20, samples, (own) => {
      const fine = bucketsOf(seriesOf(own), BUCKET_MS['5m']);
      const before = structuredClone(fine);
      mergeBuckets(fine, fine, BUCKET_MS['1d']);
      expect(fine).toEqual(before);
    });
  });

  it('merged sums and means are exact decimals, even with digits that no double can hold [C-4.5]', () => {
    const values = [1e12, 0.1, 0.2, 1e-7, -1e12];
    const atMs = values.map((_value, index) => MIDNIGHT_MS + index * BUCKET_MS['5m']);
    const [day] = mergeBuckets(bucketsOf({ atMs, values }, BUCKET_MS['5m']), [], BUCKET_MS['1d']);
    expect(day?.sum).toBe('0.3000001');
    expect(aggregateOf(day as Bucket, 'avg')).toBe(0.06000002);
    expect(aggregateOf(day as Bucket, 'sum')).toBe(0.3000001);
  });

  it('a merged bucket has the register total of the later bucket, and none if its last reading equals the total [C-4.5]', () => {
    const at = (minute: number) => MIDNIGHT_MS + minute * 60_000;
    const one = bucketsOf({ atMs: [at(0), at(1)], values: [5, 1] }, BUCKET_MS['5m'], [undefined, 6]);
    const other = bucketsOf({ atMs: [at(2)], values: [2] }, BUCKET_MS['5m'], [7]);
    const plain = bucketsOf({ atMs: [at(3)], values: [9] }, BUCKET_MS['5m'], [undefined]);
    expect(one).toMatchObject([{ last: 1, total: 6 }]);
    expect(mergeBuckets(one, other, BUCKET_MS['5m'])).toMatchObject([{ last: 2, total: 7 }]);
    expect(mergeBuckets(other, one, BUCKET_MS['5m'])).toMatchObject([{ last: 2, total: 7 }]);
    const [later] = mergeBuckets(mergeBuckets(one, other, HOUR), plain, HOUR);
    expect(later).toMatchObject({ last: 9, count: 4 });
    expect(later).not.toHaveProperty('total');
  });
});

describe('the default aggregate', () => {
  it('is last for a register, and avg for any other metric [C-4.5]', () => {
    expect(defaultAggregate('METER-1/importRegisterKwh')).toBe('last');
    expect(defaultAggregate('importRegisterKwh')).toBe('last');
    for (const metric of [...SITE_SIGNALS, 'registerKwh/powerKw', 'RegisterKwhs', '__proto__'])
      expect(defaultAggregate(metric)).toBe('avg');
  });
});
