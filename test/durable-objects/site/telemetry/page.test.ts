/**
 * Pages of roll-ups in their rows: buckets are added again and again, and each metric keeps all of its own
 * [C-4.5].
 */
import { runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { setScene } from '#workerd/scene.ts';
import { alarmAt, DAY, MINUTE, SECOND, setClock } from '#workerd/site-clock.ts';
import { evictSite, numberOf, rowsOf } from '#workerd/site-rows.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { fillHistory } from '#workerd/telemetry-filling.ts';
import { partCounts, readPoints, storeState } from '#workerd/telemetry-site.ts';
import { turnsOf } from '#workerd/turns.ts';
import { siteOf } from '#workerd/world.ts';
import { Sql } from '../../../../durable-objects/object/sql.ts';
import { type Bucket, bucketsOf, mergeBuckets } from '../../../../durable-objects/site/telemetry/bucket.ts';
import { SEGMENT_BYTES, unpackBuckets } from '../../../../durable-objects/site/telemetry/segment.ts';
import { SegmentRows } from '../../../../durable-objects/site/telemetry/segment-rows.ts';

const DAY_MS = Date.parse('2030-03-05T00:00:00.000Z');
const FIVE = 5 * MINUTE;

let noise = 7;

function nextNoise(): number {
  noise = (noise * 48_271) % 2_147_483_647;
  return noise / 1_000;
}

/** The given number of buckets for each metric, from the given one on, each of two readings. */
function someBuckets(metrics: readonly string[], first: number, count: number): Map<string, Bucket[]> {
  const atMs = Array.from(
    { length: 2 * count },
    (_none, index) => DAY_MS + first * FIVE + (index * FIVE) / 2,
  );
  return new Map(metrics.map((metric) => [metric, bucketsOf({ atMs, values: atMs.map(nextNoise) }, FIVE)]));
}

/** Names whose order differs between UTF-16 and UTF-8, and names that every object has. */
const NAMES = [
  'a',
  'constructor',
  '__proto__',
  'METER-1/powerKw',
  '10',
  'ﬀ',
  '豈',
  '😀',
  '𐀀',
  'z',
  '\ud7ff',
].flatMap((name) => Array.from({ length: 9 }, (_none, index) => `${name}${index === 0 ? '' : index}`));

describe('a page of roll-ups', () => {
  it('has all buckets ever added, each metric in one segment that a read by name finds [C-4.5]', async () => {
    const { plant } = await setScene({ plant: true, telemetry: 'modelled' });
    await runInDurableObject(siteOf(plant.id), (_site, state) => {
      const rows = new SegmentRows(new Sql(state.storage), '5m');
      const runAt = turnsOf(state, () => {});
      const all = new Map<string, Bucket[]>();
      let bytes = 0;
      for (let round = 0; round < 12; round++) {
        // Some metrics pause, new ones begin; the first bucket of a round may exist already.
        const own = NAMES.filter((_name, index) => (index + round) % 4 > 0 && index < 40 + round * 10);
        const added = someBuckets(own, round * 24 - (round % 2), 24);
        bytes += runAt(Date.now(), (turn) => rows.merge(turn, DAY_MS, added));
        for (const [metric, more] of added) all.set(metric, mergeBuckets(all.get(metric) ?? [], more, FIVE));
      }
      const heads = rows.page(DAY_MS);
      expect(heads.length).toBeGreaterThan(2);
      expect([heads[0]?.fromMetric, heads.at(-1)?.untilMetric]).toEqual(['', null]);
      for (const [index, { fromMetric, size }] of heads.entries()) {
        if (index > 0) expect(heads[index - 1]?.untilMetric).toBe(fromMetric);
        expect(size).toBeLessThan(2 * SEGMENT_BYTES);
      }
      expect(heads.reduce((sum, { size }) => sum + size, 0)).toBe(bytes);
      for (const [metric, expected] of all) {
        const found = [...rows.between(DAY_MS, DAY_MS + 1, metric)];
        expect(found, metric).toHaveLength(1);
        expect(
          found.flatMap((segment) => unpackBuckets(segment, metric, FIVE)),
          metric,
        ).toEqual(expected);
      }
      const every = [...rows.between(DAY_MS, DAY_MS + 1)].flatMap(({ directory }) =>
        Object.keys(directory.metrics),
      );
      expect(every.sort()).toEqual([...all.keys()].sort());
    });
  });

  it('stays within a few segments after many small additions, and loses none of them [rule 9]', async () => {
    const { plant } = await setScene({ plant: true, telemetry: 'modelled' });
    const metrics = Array.from({ length: 60 }, (_none, index) => `metric-${index}`);
    await runInDurableObject(siteOf(plant.id), (_site, state) => {
      const rows = new SegmentRows(new Sql(state.storage), '5m');
      const runAt = turnsOf(state, () => {});
      const all = new Map<string, Bucket[]>();
      let bytes = 0;
      // Segments that grow equally become full at the same time.
      for (let first = 0; first < 576; first += 24) {
        const added = someBuckets(metrics, first, 24);
        bytes += runAt(Date.now(), (turn) => rows.merge(turn, DAY_MS, added));
        for (const [metric, more] of added) all.set(metric, [...(all.get(metric) ?? []), ...more]);
      }
      expect(bytes).toBeGreaterThan(4 * SEGMENT_BYTES);
      expect(rows.page(DAY_MS).length).toBeLessThanOrEqual(Math.ceil((2.2 * bytes) / SEGMENT_BYTES));
      for (const [metric, expected] of all) {
        const found = [...rows.between(DAY_MS, DAY_MS + 1, metric)];
        expect(
          found.flatMap((segment) => unpackBuckets(segment, metric, FIVE)),
          metric,
        ).toEqual(expected);
      }
    });
  });
});

describe('a day of many segments', () => {
  it('a day is rolled up segment by segment: reads are the same throughout, and each hour exists once [C-4.5]', async () => {
    const { plant, model } = await setScene({ plant: true, telemetry: 'modelled' });
    const metrics = Array.from({ length: 700 }, (_none, index) => `metric-${index}`);
    const valueAt = (atMs: number) => {
      const thousandths = ((atMs / FIVE) * 48_271) % 999_983;
      model.add('metric', atMs, thousandths);
      return thousandths / 1_000;
    };
    const filling = {
      metrics,
      fromMs: DAY_MS - DAY,
      untilMs: DAY_MS,
      rawFromMs: DAY_MS,
      stepMs: FIVE,
      valueAt,
    };
    await fillHistory(plant.id, filling);
    const { bytes } = await storeState(plant.id);
    // As before the end of the day: its roll-ups of an hour and of a day do not exist yet.
    for (const level of ['1h', '1d']) await rowsOf(plant.id, `DELETE FROM telemetry_${level}`);
    const state = `json_set(value, '$.rolledToMs', ${DAY_MS - DAY}, '$.bytes.1h', 0, '$.bytes.1d', 0)`;
    await rowsOf(plant.id, `UPDATE fact SET value = ${state} WHERE name = 'telemetry'`);
    await evictSite(plant.id);
    expect((await partCounts(plant.id))['5m']).toBeGreaterThan(4);
    // The range begins with the previous day, which counts as rolled up.
    const range = [DAY_MS - 2 * DAY, DAY_MS] as const;
    const check = async () => {
      for (const metric of ['metric-0', 'metric-350', 'metric-699']) {
        for (const granularity of ['1h', '1d'] as const) {
          const points = await readPoints(plant.id, metric, granularity, range);
          expect(points, metric).toEqual(model.points('metric', granularity, range));
        }
      }
    };
    let alarms = 0;
    for (; (await storeState(plant.id)).rolledToMs < DAY_MS; alarms++) {
      await check();
      setClock(Math.max(Date.now() + SECOND, (await alarmAt(plant.id)) ?? 0));
      await runDurableObjectAlarm(siteOf(plant.id));
      if (alarms % 2 === 0) await evictSite(plant.id);
    }
    expect(alarms).toBeLessThanOrEqual(((await partCounts(plant.id))['5m'] ?? 0) + 2);
    await check();
    for (const level of ['1h', '1d'] as const) {
      const held = await numberOf(plant.id, `SELECT sum(size) FROM telemetry_${level}`);
      expect((await storeState(plant.id)).bytes[level]).toBe(held);
      expect(held).toBeGreaterThan(0.8 * (bytes[level] ?? 0));
    }
  });
});
