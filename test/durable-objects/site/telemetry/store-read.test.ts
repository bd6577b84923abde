/** Reading a history: what belongs into a range, and in how many calls it comes [C-4.5]. */
import { describe, expect, it } from 'vitest';
import { boundSite, restoreBounds } from '#workerd/site-bounds.ts';
import { DAY, HOUR, holdClock, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import {
  newTelemetrySite,
  readChunk,
  readChunks,
  readOfDevice,
  readPoints,
  storeState,
  type TelemetrySite,
  type Told,
  untilPacked,
} from '#workerd/telemetry-site.ts';

holdClock();
restoreBounds();

const METRIC = 'gridPowerKw';
const GRANULARITIES = ['raw', '5m', '1h', '1d'] as const;
const MIDNIGHT_MS = Date.parse('2030-03-06T00:00:00.000Z');

function reading(ts: number, thousandths = 1_000): Told {
  return { ts, data: { [METRIC]: thousandths } };
}

/** Some readings each hour of days that are over, packed and rolled up, and some of today that are not packed. */
async function newSiteOfDays(days: number): Promise<TelemetrySite> {
  const scene = await newTelemetrySite();
  const { plant, tell } = scene;
  setClock(MIDNIGHT_MS - 2 * HOUR);
  for (let hour = 0; hour < 24 * days + 5; hour++) {
    setClock(MIDNIGHT_MS + (hour - 2) * HOUR);
    await tell(
      ...[4, 3, 2, 1, 0].map((minutes) => reading(Date.now() - minutes * MINUTE, hour * 100 + minutes)),
    );
    await passTime(plant.id, SECOND);
  }
  const { packedToMs, rolledToMs } = await storeState(plant.id);
  expect(rolledToMs).toBe(MIDNIGHT_MS + days * DAY);
  expect(packedToMs).toBeLessThan(Date.now() - 10 * MINUTE);
  return scene;
}

describe('a range', () => {
  it('begins with its start and ends before its end; a bucket belongs by its start and is answered whole [C-4.5]', async () => {
    const scene = await newTelemetrySite();
    const { plant, gateway, tell, model } = scene;
    const moments = [0, 4.5, 5, 60].map((minutes) => START_MS + minutes * MINUTE);
    for (const ts of moments) {
      setClock(ts);
      await tell(reading(ts, ts - START_MS));
    }
    const edges = [START_MS - 1, ...moments.flatMap((ts) => [ts, ts + 1]), MIDNIGHT_MS - DAY, MIDNIGHT_MS];
    for (const state of ['not packed', 'packed', 'rolled up']) {
      if (state === 'packed') await untilPacked(plant.id);
      if (state === 'rolled up') {
        setClock(MIDNIGHT_MS + HOUR);
        await tell(reading(Date.now()));
        await untilPacked(plant.id);
        await passTime(plant.id, MINUTE);
        expect((await storeState(plant.id)).rolledToMs).toBe(MIDNIGHT_MS);
      }
      for (const fromMs of edges) {
        for (const toMs of edges.filter((edge) => edge > fromMs)) {
          for (const granularity of GRANULARITIES) {
            const expected = model.points(METRIC, granularity, [fromMs, toMs]);
            const what = `${state} ${granularity} ${fromMs - START_MS} ${toMs - START_MS}`;
            expect(await readPoints(plant.id, METRIC, granularity, [fromMs, toMs]), what).toEqual(expected);
          }
        }
        const minutes = await readOfDevice(plant.id, gateway.id, { fromMs, toMs: fromMs + 1, bucket: '1m' });
        const expected = model.points(METRIC, '1m', [fromMs, fromMs + 1]);
        expect(minutes.rows).toEqual(expected.map((point) => ({ ...point, metric: METRIC })));
      }
    }
  });

  it('without readings is empty, whichever side of them it lies on [C-4.5]', async () => {
    const scene = await newTelemetrySite();
    const { plant, tell } = scene;
    const ranges = [
      [0, 1],
      [0, START_MS],
      [START_MS + 1, START_MS + DAY],
      [Date.parse('9998-01-01T00:00:00Z'), Date.parse('9999-01-01T00:00:00Z')],
    ] as const;
    await tell(reading(START_MS));
    for (const state of ['not packed', 'packed']) {
      if (state === 'packed') await untilPacked(plant.id);
      for (const range of ranges) expect(await readPoints(plant.id, METRIC, 'raw', range), state).toEqual([]);
      for (const metric of ['gridPowerK', 'gridPowerKw/', '%', '_', `' OR 1=1 --`, 'toString'])
        expect(await readPoints(plant.id, metric, '1d', [0, START_MS + DAY])).toEqual([]);
    }
  });
});

describe('a history in many calls', () => {
  it('of a few points each is whole, without a gap or a repeat, however few [C-4.5]', async () => {
    const scene = await newSiteOfDays(2);
    const { plant, model } = scene;
    // Behind the end of every page.
    const last = Date.now() + 600 * DAY;
    const ranges = [
      [0, last],
      [MIDNIGHT_MS - 90 * MINUTE, last],
      [MIDNIGHT_MS + 25 * HOUR + 1, MIDNIGHT_MS + 2 * DAY - 1],
    ] as const;
    for (const pointsPerCall of [1, 3, 40]) {
      await boundSite(plant.id, { pointsPerCall });
      for (const granularity of GRANULARITIES) {
        for (const range of ranges) {
          const { points, calls } = await readChunks(plant.id, METRIC, granularity, range);
          const what = `${granularity} ${pointsPerCall}`;
          expect(points, what).toEqual(model.points(METRIC, granularity, range));
          expect(calls, what).toBeLessThanOrEqual(Math.ceil(points.length / pointsPerCall) + 1);
        }
      }
      expect((await readChunks(plant.id, METRIC, '5m', ranges[0])).calls).toBeGreaterThan(2);
    }
  });

  it('is whole where it is packed and rolled up between two of them [C-4.5]', async () => {
    const scene = await newSiteOfDays(1);
    const { plant, model, tell } = scene;
    await boundSite(plant.id, { pointsPerCall: 1 });
    for (const granularity of GRANULARITIES) {
      const range = [0, Date.now() + 600 * DAY] as const;
      const expected = model.points(METRIC, granularity, range);
      const first = await readChunk(plant.id, METRIC, granularity, range);
      expect(first.nextMs).not.toBeNull();
      await untilPacked(plant.id);
      setClock(Date.now() + 20 * HOUR);
      await passTime(plant.id, SECOND);
      const rest = await readPoints(plant.id, METRIC, granularity, [first.nextMs ?? 0, range[1]]);
      expect([...first.points, ...rest], granularity).toEqual(expected);
      await tell(reading(Date.now()));
    }
  });
});
