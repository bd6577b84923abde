/** Parts: what is packed is read back to the last digit, whatever metrics are called and however many they are [C-4.5]. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type Bucket,
  bucketsOf,
  mergeBuckets,
  type Series,
} from '../../../../durable-objects/site/telemetry/bucket.ts';
import {
  countOf,
  metricsOf,
  PART_BYTES,
  type Part,
  packBuckets,
  packSamples,
  unpackBuckets,
  unpackSamples,
} from '../../../../durable-objects/site/telemetry/part.ts';

const START_MS = Date.parse('2030-03-05T09:00:00.000Z');
const FIVE = 5 * 60_000;
const NOTHING: Series = { atMs: [], values: [] };

/** Names that a device may invent, and those that an object of JavaScript has by itself. */
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
  // Behind the surrogates in code units, before what they stand for in UTF-8.
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

/** As it is stored: the directory as JSON, the data as bytes. */
function stored(part: Part): Part {
  return { ...part, directory: JSON.parse(JSON.stringify(part.directory)), data: part.data.slice() };
}

function byBytes(left: string, right: string): number {
  return Buffer.compare(Buffer.from(left), Buffer.from(right));
}

/** Each name belongs into exactly one part, in the order that SQLite compares texts in. */
function expectComplete(parts: readonly Part[], metrics: readonly string[]): void {
  expect(parts[0]?.fromMetric).toBe('');
  expect(parts.at(-1)?.untilMetric).toBeNull();
  for (const [index, part] of parts.slice(1).entries()) {
    expect(parts[index]?.untilMetric).toBe(part.fromMetric);
    expect(byBytes(parts[index]?.fromMetric ?? '', part.fromMetric)).toBeLessThan(0);
  }
  for (const part of parts) {
    for (const metric of metricsOf(part)) {
      expect(byBytes(part.fromMetric, metric)).toBeLessThanOrEqual(0);
      if (part.untilMetric !== null) expect(byBytes(metric, part.untilMetric)).toBeLessThan(0);
    }
  }
  expect(parts.flatMap(metricsOf).sort()).toEqual([...metrics].sort());
}

let noise = 1;

/** Thousandths that no deflating makes shorter, the same in each run. */
function nextNoise(): number {
  noise = (noise * 48_271) % 2_147_483_647;
  return noise / 1_000;
}

/** That many metrics, each of so many buckets of two readings. */
function manyBuckets(metrics: number, buckets: number, fromMs = START_MS): Map<string, Bucket[]> {
  const atMs = Array.from({ length: 2 * buckets }, (_one, index) => fromMs + (index * FIVE) / 2);
  return new Map(
    Array.from({ length: metrics }, (_none, metric) => [
      `metric-${metric}`,
      bucketsOf({ atMs, values: atMs.map(nextNoise) }, FIVE),
    ]),
  );
}

describe('samples in parts', () => {
  it('are read back as they were, of any names and values [C-3.13]', () => {
    fc.assert(
      fc.property(samples, (given) => {
        const parts = packSamples(new Map(given)).map(stored);
        const count = given.reduce((sum, [, { atMs }]) => sum + atMs.length, 0);
        expect(parts.reduce((sum, part) => sum + part.count, 0)).toBe(count);
        if (given.length > 0) {
          expectComplete(
            parts,
            given.map(([metric]) => metric),
          );
        }
        for (const [metric, own] of given) {
          expect(parts.map((part) => unpackSamples(part, metric))).toContainEqual(own);
        }
      }),
    );
  });

  it('of a metric that is not there are none, whatever objects have by themselves [C-3.13]', () => {
    const parts = packSamples(new Map([['powerKw', { atMs: [START_MS], values: [1] }]])).map(stored);
    for (const metric of ['__proto__', 'constructor', 'toString', 'power', '', 'times', 'metrics']) {
      for (const part of parts) {
        expect(unpackSamples(part, metric)).toEqual(NOTHING);
        expect(unpackBuckets(part, metric, FIVE)).toEqual([]);
        expect(countOf(part.directory, metric)).toBe(0);
      }
    }
  });

  it('keep the moments once of metrics that came together', () => {
    const atMs = Array.from(
      { length: 720 },
      (_none, index) => START_MS + index * 5_000 + ((index * 37) % 101),
    );
    const together = packSamples(
      new Map(
        Array.from({ length: 50 }, (_none, index) => [`m${index}`, { atMs, values: atMs.map(() => 1) }]),
      ),
    );
    expect(together).toHaveLength(1);
    expect(together[0]?.directory.times).toHaveLength(1);
    const apart = packSamples(
      new Map(
        Array.from({ length: 50 }, (_none, index) => {
          const own = atMs.map((at) => at + index);
          return [`m${index}`, { atMs: own, values: own.map(() => 1) }];
        }),
      ),
    );
    const bytes = (parts: readonly Part[]) => parts.reduce((sum, { data }) => sum + data.length, 0);
    expect(bytes(together) * 5).toBeLessThan(bytes(apart));
  });

  it('of no metric are no part', () => {
    expect(packSamples(new Map())).toEqual([]);
    expect(packBuckets(new Map(), FIVE)).toEqual([]);
  });

  it('of thousands of metrics are parts that each fit a row, each name in one of them [rule 9]', () => {
    const given = new Map(
      Array.from({ length: 2_000 }, (_none, index): [string, Series] => {
        const atMs = Array.from({ length: 100 }, (_one, second) => START_MS + second * 5_000 + (index % 7));
        const own = { atMs, values: atMs.map(nextNoise) };
        return [`${index % 2 ? '😀' : 'ﬀ'}-${'x'.repeat(100)}-${index}`, own];
      }),
    );
    const parts = packSamples(given).map(stored);
    expect(parts.length).toBeGreaterThan(5);
    expectComplete(parts, [...given.keys()]);
    for (const { data, directory } of parts) {
      expect(data.length).toBeLessThan(PART_BYTES + 10_000);
      expect(data.length + JSON.stringify(directory).length).toBeLessThan(1024 * 1024);
    }
    for (const [metric, own] of [...given].filter((_one, index) => index % 100 === 0)) {
      const [part, ...others] = parts.filter((one) => metricsOf(one).includes(metric));
      expect(others).toEqual([]);
      expect(unpackSamples(part as Part, metric)).toEqual(own);
    }
  });
});

describe('buckets in parts', () => {
  const width = fc.constantFrom(FIVE, 12 * FIVE, 288 * FIVE);

  it('are read back as they were, of any names, sums that no double has included [C-4.5]', () => {
    fc.assert(
      fc.property(samples, width, (given, widthMs) => {
        const buckets = new Map(given.map(([metric, own]) => [metric, bucketsOf(own, widthMs)]));
        const parts = packBuckets(buckets, widthMs).map(stored);
        for (const [metric, own] of buckets) {
          expect(parts.map((part) => unpackBuckets(part, metric, widthMs))).toContainEqual(own);
          expect(parts.map(({ directory }) => countOf(directory, metric))).toContain(own.length);
        }
      }),
    );
  });

  it('keep what registers stand for where that is something else than they say [C-4.5]', () => {
    const atMs = [0, 1, 2].map((index) => START_MS + index * FIVE);
    const own = bucketsOf({ atMs, values: [5, 1, 2] }, FIVE, [undefined, 6, 7]);
    const [part] = packBuckets(new Map([['m', own]]), FIVE).map(stored);
    expect(unpackBuckets(part as Part, 'm', FIVE)).toEqual(own);
    expect(own.map(({ total }) => total)).toEqual([undefined, 6, 7]);
  });

  it('of thousands of metrics are parts of about the same size, each with room for more [rule 9]', () => {
    const given = manyBuckets(3_000, 6);
    const parts = packBuckets(given, FIVE).map(stored);
    expectComplete(parts, [...given.keys()]);
    const sizes = parts.map(({ data }) => data.length);
    expect(sizes.length).toBeGreaterThan(2);
    expect(Math.max(...sizes)).toBeLessThan(PART_BYTES + 1_000);
    expect(Math.min(...sizes)).toBeGreaterThan(0.8 * Math.max(...sizes));
  });

  it('stay few however often more are added: what is full is halved, not chipped at each time [rule 9]', () => {
    let parts: Part[] = [];
    for (let round = 0; round < 36; round++) {
      const more = manyBuckets(60, 24, START_MS + round * 24 * FIVE);
      const merge = (part: Pick<Part, 'directory' | 'data'>, metric: string) =>
        mergeBuckets(unpackBuckets(part, metric, FIVE), more.get(metric) ?? [], FIVE);
      parts =
        parts.length === 0
          ? packBuckets(more, FIVE)
          : parts.flatMap((part) =>
              packBuckets(new Map(metricsOf(part).map((metric) => [metric, merge(part, metric)])), FIVE),
            );
    }
    const bytes = parts.reduce((sum, { data }) => sum + data.length, 0);
    expect(bytes).toBeGreaterThan(4 * PART_BYTES);
    expect(parts.length).toBeLessThanOrEqual(Math.ceil((2.2 * bytes) / PART_BYTES));
    expect(parts.flatMap(metricsOf)).toHaveLength(60);
  });
});
