/** Segments: packed data is read back to the last digit, for any names and any number of metrics [C-4.5]. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll } from '#support/property.ts';
import {
  type Bucket,
  bucketsOf,
  mergeBuckets,
  type Series,
} from '../../../../durable-objects/site/telemetry/bucket.ts';
import {
  countOf,
  metricsOf,
  packBuckets,
  packSamples,
  SEGMENT_BYTES,
  type Segment,
  unpackBuckets,
  unpackSamples,
} from '../../../../durable-objects/site/telemetry/segment.ts';

const START_MS = Date.parse('2030-03-05T09:00:00.000Z');
const FIVE = 5 * 60_000;
const NOTHING: Series = { atMs: [], values: [] };

/** Names that a device may invent, and names that every JavaScript object has. */
const name = fc.oneof(
  fc.constantFrom('__proto__', 'constructor', 'toString', 'hasOwnProperty', 'length', '0', '10', '9', '-1'),
  fc.constantFrom(
    'a',
    'a/',
    'A',
    '"\\"',
    'METER-1/importRegisterKwh',
    '%',
    '_',
    "'; DROP TABLE telemetry_raw--",
  ),
  // Names after the surrogates in code units, but before the characters of surrogate pairs in UTF-8.
  fc.constantFrom(
    '\ue000',
    '\uf8ff',
    '\ufb00',
    '\uffee',
    '\uffff',
    '😀',
    '𐀀',
    '\u{10ffff}',
    '\ud7ff',
    'ﬀ😀',
    '😀ﬀ',
  ),
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 6 }),
);
const value = fc.oneof(
  fc.integer({ min: -1_000_000, max: 1_000_000 }).map((thousandths) => thousandths / 1_000),
  fc.double({ min: -1e12, max: 1e12, noNaN: true }).map((double) => (double === 0 ? 0 : double)),
);
const series: fc.Arbitrary<Series> = fc
  .uniqueArray(fc.tuple(fc.nat(6 * 3_600_000), value), {
    minLength: 1,
    maxLength: 12,
    selector: ([at]) => at,
  })
  .map((pairs) => pairs.sort(([left], [right]) => left - right))
  .map((pairs) => ({ atMs: pairs.map(([at]) => START_MS + at), values: pairs.map(([, one]) => one) }));
const samples = fc.uniqueArray(fc.tuple(name, series), { maxLength: 12, selector: ([metric]) => metric });

/** A segment as it is stored: the directory as JSON, the data as bytes. */
function stored(segment: Segment): Segment {
  return { ...segment, directory: JSON.parse(JSON.stringify(segment.directory)), data: segment.data.slice() };
}

function byBytes(left: string, right: string): number {
  return Buffer.compare(Buffer.from(left), Buffer.from(right));
}

/** Expects that each name belongs to exactly one segment, in the order in which SQLite compares texts. */
function expectComplete(segments: readonly Segment[], metrics: readonly string[]): void {
  expect(segments[0]?.fromMetric).toBe('');
  expect(segments.at(-1)?.untilMetric).toBeNull();
  for (const [index, segment] of segments.slice(1).entries()) {
    expect(segments[index]?.untilMetric).toBe(segment.fromMetric);
    expect(byBytes(segments[index]?.fromMetric ?? '', segment.fromMetric)).toBeLessThan(0);
  }
  for (const segment of segments) {
    for (const metric of metricsOf(segment)) {
      expect(byBytes(segment.fromMetric, metric)).toBeLessThanOrEqual(0);
      if (segment.untilMetric !== null) expect(byBytes(metric, segment.untilMetric)).toBeLessThan(0);
    }
  }
  expect(segments.flatMap(metricsOf).sort()).toEqual([...metrics].sort());
}

let noise = 1;

/** Thousandths that deflate cannot compress, the same in each run. */
function nextNoise(): number {
  noise = (noise * 48_271) % 2_147_483_647;
  return noise / 1_000;
}

/** The given number of metrics, each with the given number of buckets of two readings. */
function manyBuckets(metrics: number, buckets: number, fromMs = START_MS): Map<string, Bucket[]> {
  const atMs = Array.from({ length: 2 * buckets }, (_one, index) => fromMs + (index * FIVE) / 2);
  return new Map(
    Array.from({ length: metrics }, (_none, metric) => [
      `metric-${metric}`,
      bucketsOf({ atMs, values: atMs.map(nextNoise) }, FIVE),
    ]),
  );
}

describe('samples in segments', () => {
  it('samples are read back unchanged, for any names and values [C-3.13]', () => {
    forAll(samples, (given) => {
      const segments = packSamples(new Map(given)).map(stored);
      const count = given.reduce((sum, [, { atMs }]) => sum + atMs.length, 0);
      expect(segments.reduce((sum, segment) => sum + segment.count, 0)).toBe(count);
      const names = given.map(([metric]) => metric);
      if (names.length > 0) expectComplete(segments, names);
      for (const [metric, own] of given) {
        expect(segments.map((segment) => unpackSamples(segment, metric))).toContainEqual(own);
      }
    });
  });

  it('an unknown metric has no samples, even with a name that every object has [C-3.13]', () => {
    const segments = packSamples(new Map([['powerKw', { atMs: [START_MS], values: [1] }]])).map(stored);
    for (const metric of ['__proto__', 'constructor', 'toString', 'power', '', 'times', 'metrics']) {
      for (const segment of segments) {
        expect(unpackSamples(segment, metric)).toEqual(NOTHING);
        expect(unpackBuckets(segment, metric, FIVE)).toEqual([]);
        expect(countOf(segment.directory, metric)).toBe(0);
      }
    }
  });

  it('metrics with the same moments store them once', () => {
    const atMs = Array.from(
      { length: 720 },
      (_none, index) => START_MS + index * 5_000 + ((index * 37) % 101),
    );
    const fifty = (stepMs: number) =>
      Array.from({ length: 50 }, (_none, index): [string, Series] => {
        const own = atMs.map((at) => at + index * stepMs);
        return [`m${index}`, { atMs: own, values: own.map(() => 1) }];
      });
    const [together, apart] = [packSamples(new Map(fifty(0))), packSamples(new Map(fifty(1)))];
    expect(together).toHaveLength(1);
    expect(together[0]?.directory.times).toHaveLength(1);
    const bytes = (segments: readonly Segment[]) => segments.reduce((sum, { data }) => sum + data.length, 0);
    expect(bytes(together) * 5).toBeLessThan(bytes(apart));
  });

  it('samples and buckets of no metric make no segment', () => {
    expect(packSamples(new Map())).toEqual([]);
    expect(packBuckets(new Map(), FIVE)).toEqual([]);
  });

  it('samples of thousands of metrics make segments that each fit a row, with each name in one of them [rule 9]', () => {
    const given = new Map(
      Array.from({ length: 2_000 }, (_none, index): [string, Series] => {
        const atMs = Array.from({ length: 100 }, (_one, second) => START_MS + second * 5_000 + (index % 7));
        const own = { atMs, values: atMs.map(nextNoise) };
        return [`${index % 2 ? '😀' : 'ﬀ'}-${'x'.repeat(100)}-${index}`, own];
      }),
    );
    const segments = packSamples(given).map(stored);
    expect(segments.length).toBeGreaterThan(5);
    expectComplete(segments, [...given.keys()]);
    for (const { data, directory } of segments) {
      expect(data.length).toBeLessThan(SEGMENT_BYTES + 10_000);
      expect(data.length + JSON.stringify(directory).length).toBeLessThan(1024 * 1024);
    }
    for (const [metric, own] of [...given].filter((_one, index) => index % 100 === 0)) {
      const [segment, ...others] = segments.filter((one) => metricsOf(one).includes(metric));
      expect(others).toEqual([]);
      expect(unpackSamples(segment as Segment, metric)).toEqual(own);
    }
  });
});

describe('buckets in segments', () => {
  const width = fc.constantFrom(FIVE, 12 * FIVE, 288 * FIVE);

  it('buckets are read back unchanged, for any names, including sums that no double can hold [C-4.5]', () => {
    forAll(samples, width, (given, widthMs) => {
      const buckets = new Map(given.map(([metric, own]) => [metric, bucketsOf(own, widthMs)]));
      const segments = packBuckets(buckets, widthMs).map(stored);
      for (const [metric, own] of buckets) {
        expect(segments.map((segment) => unpackBuckets(segment, metric, widthMs))).toContainEqual(own);
        expect(segments.map(({ directory }) => countOf(directory, metric))).toContain(own.length);
      }
    });
  });

  it("buckets keep the total of a register if it differs from the register's value [C-4.5]", () => {
    const atMs = [0, 1, 2].map((index) => START_MS + index * FIVE);
    const own = bucketsOf({ atMs, values: [5, 1, 2] }, FIVE, [undefined, 6, 7]);
    const [segment] = packBuckets(new Map([['m', own]]), FIVE).map(stored);
    expect(unpackBuckets(segment as Segment, 'm', FIVE)).toEqual(own);
    expect(own.map(({ total }) => total)).toEqual([undefined, 6, 7]);
  });

  it('buckets of thousands of metrics make segments of about the same size, each with room for more [rule 9]', () => {
    const given = manyBuckets(3_000, 6);
    const segments = packBuckets(given, FIVE).map(stored);
    expectComplete(segments, [...given.keys()]);
    const sizes = segments.map(({ data }) => data.length);
    expect(sizes.length).toBeGreaterThan(2);
    expect(Math.max(...sizes)).toBeLessThan(SEGMENT_BYTES + 1_000);
    expect(Math.min(...sizes)).toBeGreaterThan(0.8 * Math.max(...sizes));
  });

  it('the number of segments stays low after many additions, because a full segment is halved [rule 9]', () => {
    let segments: Segment[] = [];
    for (let round = 0; round < 36; round++) {
      const more = manyBuckets(60, 24, START_MS + round * 24 * FIVE);
      const merge = (segment: Pick<Segment, 'directory' | 'data'>, metric: string) =>
        mergeBuckets(unpackBuckets(segment, metric, FIVE), more.get(metric) ?? [], FIVE);
      segments =
        segments.length === 0
          ? packBuckets(more, FIVE)
          : segments.flatMap((segment) =>
              packBuckets(
                new Map(metricsOf(segment).map((metric) => [metric, merge(segment, metric)])),
                FIVE,
              ),
            );
    }
    const bytes = segments.reduce((sum, { data }) => sum + data.length, 0);
    expect(bytes).toBeGreaterThan(4 * SEGMENT_BYTES);
    expect(segments.length).toBeLessThanOrEqual(Math.ceil((2.2 * bytes) / SEGMENT_BYTES));
    expect(segments.flatMap(metricsOf)).toHaveLength(60);
  });
});
