/** Reading a history: the points of a range, and the number of calls [C-4.5]. */
import { setScene, type TelemetrySite } from '#workerd/scene.ts';
import { boundSite } from '#workerd/site-bounds.ts';
import { DAY, HOUR, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import {
  readChunk,
  readChunks,
  readOfDevice,
  readPoints,
  storeState,
  type TelemetryMessage,
  untilPacked,
} from '#workerd/telemetry-site.ts';
import { GRANULARITIES } from '../../../../protocol/telemetry.ts';

const METRIC = 'gridPowerKw';
const MIDNIGHT_MS = Date.parse('2030-03-06T00:00:00.000Z');

function reading(ts: number, thousandths = 1_000): TelemetryMessage {
  return { ts, data: { [METRIC]: thousandths } };
}

/** A site with some readings each hour: past days packed and rolled up, and today's not packed. */
async function newSiteOfDays(days: number): Promise<TelemetrySite> {
  const { scene, plant, send } = await setScene({ plant: true, telemetry: 'modelled' });
  setClock(MIDNIGHT_MS - 2 * HOUR);
  for (let hour = 0; hour < 24 * days + 5; hour++) {
    setClock(MIDNIGHT_MS + (hour - 2) * HOUR);
    await send(
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
  it('is [from, to) of a history, and contains each bucket whose start is in it [C-4.5]', async () => {
    const { plant, gateway, send, model } = await setScene({ plant: true, telemetry: 'modelled' });
    const moments = [0, 4.5, 5, 60].map((minutes) => START_MS + minutes * MINUTE);
    for (const ts of moments) {
      setClock(ts);
      await send(reading(ts, ts - START_MS));
    }
    const edges = [START_MS - 1, ...moments.flatMap((ts) => [ts, ts + 1]), MIDNIGHT_MS - DAY, MIDNIGHT_MS];
    for (const state of ['not packed', 'packed', 'rolled up']) {
      if (state === 'packed') await untilPacked(plant.id);
      if (state === 'rolled up') {
        setClock(MIDNIGHT_MS + HOUR);
        await send(reading(Date.now()));
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

  it('is empty without readings, before or after the readings [C-4.5]', async () => {
    const { plant, send } = await setScene({ plant: true, telemetry: 'modelled' });
    const ranges = [
      [0, 1],
      [0, START_MS],
      [START_MS + 1, START_MS + DAY],
      [Date.parse('9998-01-01T00:00:00Z'), Date.parse('9999-01-01T00:00:00Z')],
    ] as const;
    await send(reading(START_MS));
    for (const state of ['not packed', 'packed']) {
      if (state === 'packed') await untilPacked(plant.id);
      for (const range of ranges) expect(await readPoints(plant.id, METRIC, 'raw', range), state).toEqual([]);
      for (const metric of ['gridPowerK', 'gridPowerKw/', '%', '_', `' OR 1=1 --`, 'toString'])
        expect(await readPoints(plant.id, metric, '1d', [0, START_MS + DAY])).toEqual([]);
    }
  });
});

describe('a history in many calls', () => {
  it('a history in calls of a few points is complete, without gaps or repeats [C-4.5]', async () => {
    const scene = await newSiteOfDays(2);
    const { plant, model } = scene;
    // After the end of every page.
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

  it('a history is complete if it is packed and rolled up between two calls [C-4.5]', async () => {
    const scene = await newSiteOfDays(1);
    const { plant, model, send } = scene;
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
      await send(reading(Date.now()));
    }
  });
});
