/** Readings on their way from the journal into the store: none is lost, moved or counted twice [C-4.5]. */
import { runDurableObjectAlarm } from 'cloudflare:test';
import { vi } from 'vitest';
import { connectDevice } from '#workerd/links.ts';
import { setScene, type TelemetrySite } from '#workerd/scene.ts';
import { boundSite } from '#workerd/site-bounds.ts';
import { alarmAt, DAY, HOUR, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { droppedOf, publishAll, rawTelemetry } from '#workerd/site-devices.ts';
import { breakWrites, evictSite, numberOf, repair, rowsOf } from '#workerd/site-rows.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import {
  partCounts,
  readPoints,
  storeState,
  type TelemetryMessage,
  untilPacked,
} from '#workerd/telemetry-site.ts';
import { type Plant, siteOf } from '#workerd/world.ts';
import { GRANULARITIES } from '../../../../protocol/telemetry.ts';

const MIDNIGHT_MS = Date.parse('2030-03-06T00:00:00.000Z');
const METRIC = 'gridPowerKw';

function reading(ts: number, thousandths: number): TelemetryMessage {
  return { ts, data: { [METRIC]: thousandths } };
}

function messagesEach(fromMs: number, stepMs: number, count: number): TelemetryMessage[] {
  return Array.from({ length: count }, (_none, index) => reading(fromMs + index * stepMs, index * 37 - 500));
}

/**
 * Sends ten readings for each five minutes, at their end. Alarms run when they are due, except for a backlog.
 */
async function sendFor({ plant, send }: TelemetrySite, durationMs: number, isBacklog = false) {
  const untilMs = Date.now() + durationMs;
  while (Date.now() < untilMs) {
    const fromMs = Date.now();
    setClock(fromMs + 5 * MINUTE);
    await send(...messagesEach(fromMs, 30 * SECOND, 10));
    if (!isBacklog) await passTime(plant.id, 0);
  }
}

async function expectAsSent({ plant, model }: TelemetrySite, metrics = model.metrics): Promise<void> {
  const range = [0, Date.now() + DAY] as const;
  for (const metric of metrics) {
    for (const granularity of GRANULARITIES) {
      const points = await readPoints(plant.id, metric, granularity, range);
      expect(points, `${metric} ${granularity}`).toEqual(model.points(metric, granularity, range));
    }
  }
}

/** The exact text of every answer. */
async function answersOf({ id }: Plant): Promise<string[]> {
  const texts: string[] = [];
  for (const granularity of GRANULARITIES) {
    const query = {
      kind: 'telemetry',
      metric: METRIC,
      fromMs: 0,
      toMs: Date.now() + DAY,
      granularity,
    } as const;
    texts.push((await siteOf(id).readHistory(id, query)).items);
  }
  return texts;
}

describe('a reading', () => {
  it('is in the bucket of its own time, packed or not, if it arrives five minutes late or early [C-4.5]', async () => {
    const { scene, plant, send } = await setScene({ plant: true, telemetry: 'modelled' });
    for (const atMs of [START_MS, START_MS + 10 * MINUTE, START_MS + 20 * MINUTE]) {
      setClock(atMs);
      await send(reading(atMs, 1_000), reading(atMs - 5 * MINUTE, 2_000), reading(atMs + 5 * MINUTE, 4_000));
      await send(reading(atMs - 1, 8_000), reading(atMs + 5 * MINUTE - 1, 16_000));
    }
    await expectAsSent(scene);
    await untilPacked(plant.id);
    await expectAsSent(scene);
    expect(await readPoints(plant.id, METRIC, '5m', [START_MS - 5 * MINUTE, START_MS + 1])).toEqual([
      { timestamp: '2030-03-05T08:55:00.000Z', value: 5, count: 2 },
      { timestamp: '2030-03-05T09:00:00.000Z', value: 8.5, count: 2 },
    ]);
  });

  it('a later received reading replaces one of the same moment, in any batch and over a wake [C-4.5]', async () => {
    const { scene, plant, send } = await setScene({ plant: true, telemetry: 'modelled' });
    await send(reading(START_MS, 1_000), reading(START_MS + 1, 5_000), reading(START_MS, 2_000));
    await send(reading(START_MS, 3_000));
    await evictSite(plant.id);
    setClock(START_MS + 5 * MINUTE);
    await send(reading(START_MS, 4_000));
    for (const state of ['not packed', 'packed']) {
      if (state === 'packed') await untilPacked(plant.id);
      expect(await readPoints(plant.id, METRIC, 'raw', [START_MS, START_MS + HOUR]), state).toEqual([
        { timestamp: '2030-03-05T09:00:00.000Z', value: 4 },
        { timestamp: '2030-03-05T09:00:00.001Z', value: 5 },
      ]);
    }
    await expectAsSent(scene);
  });

  it('belongs to its own UTC day, whenever it arrives around midnight [C-4.5]', async () => {
    const { scene, plant, send } = await setScene({ plant: true, telemetry: 'modelled' });
    setClock(MIDNIGHT_MS - MINUTE);
    await send(
      reading(MIDNIGHT_MS - 1, 1_000),
      reading(MIDNIGHT_MS, 2_000),
      reading(MIDNIGHT_MS + 3 * MINUTE, 4_000),
    );
    setClock(MIDNIGHT_MS + 4 * MINUTE);
    await send(reading(MIDNIGHT_MS - MINUTE, 8_000), reading(MIDNIGHT_MS + 1, 16_000));
    await expectAsSent(scene);
    await untilPacked(plant.id);
    await passTime(plant.id, 2 * DAY);
    await expectAsSent(scene);
    expect(await readPoints(plant.id, METRIC, '1d', [MIDNIGHT_MS - DAY, MIDNIGHT_MS + 1])).toEqual([
      { timestamp: '2030-03-05T00:00:00.000Z', value: 4.5, count: 2 },
      { timestamp: '2030-03-06T00:00:00.000Z', value: 22 / 3, count: 3 },
    ]);
  });

  it('named __proto__ has no effect, and all others are kept, packed and returned [C-3.7]', async () => {
    const { scene, plant, gateway, model } = await setScene({ plant: true, telemetry: 'modelled' });
    const link = await connectDevice(plant);
    const held = ['{"polluted":1}', '"text"', 'null', '7', '[1]'];
    const payloads = held.map((text, index) => {
      model.add(METRIC, START_MS + index, index);
      const data = `{"__proto__":${text},"${METRIC}":${index / 1_000},"constructor":1}`;
      return rawTelemetry(gateway, { ts: START_MS + index, data });
    });
    expect(await publishAll(link, payloads)).toEqual(held.map(() => true));
    expect(await droppedOf(plant.id, gateway.id)).toEqual({});
    await evictSite(plant.id);
    await expectAsSent(scene, [METRIC]);
    await untilPacked(plant.id);
    await expectAsSent(scene, [METRIC]);
    expect(await readPoints(plant.id, '__proto__', 'raw', [0, Date.now()])).toEqual([]);
    expect(await readPoints(plant.id, 'constructor', 'raw', [0, Date.now()])).toHaveLength(held.length);
  });
});

describe('packing', () => {
  it('does not change a byte of the answers to reads [C-4.5]', async () => {
    const { plant, send } = await setScene({ plant: true, telemetry: 'modelled' });
    setClock(MIDNIGHT_MS - HOUR);
    for (const stepMs of [0, HOUR, HOUR]) {
      setClock(Date.now() + stepMs);
      await send(
        ...messagesEach(Date.now() - 4 * MINUTE, 13_007, 30),
        reading(Date.now(), 1),
        reading(Date.now() + 7, -333),
      );
    }
    const before = await answersOf(plant);
    expect(await partCounts(plant.id)).toMatchObject({ raw: 0 });
    await untilPacked(plant.id);
    expect(await answersOf(plant)).toEqual(before);
    await passTime(plant.id, 2 * DAY);
    expect(await partCounts(plant.id)).toMatchObject({ '5m': 2, '1h': 1, '1d': 1 });
    expect(await answersOf(plant)).toEqual(before);
  });

  it.for<[string, string, string]>([
    ['samples', 'INSERT ON telemetry_raw', '1'],
    ['buckets of five minutes', 'INSERT ON telemetry_5m', '1'],
    ['buckets of an hour', 'INSERT ON telemetry_1h', '1'],
    ['buckets of a day', 'INSERT ON telemetry_1d', '1'],
    ['its own state', 'INSERT ON fact', `NEW.name = 'telemetry'`],
  ])(
    'loses no reading if it cannot write %s, and continues when it can write again [rule 9]',
    async ([_what, write, when], { telemetrySite: { scene, plant } }) => {
      vi.spyOn(console, 'error').mockReturnValue(undefined);
      setClock(MIDNIGHT_MS - 2 * HOUR);
      await sendFor(scene, HOUR);
      await breakWrites(plant.id, write, when);
      setClock(MIDNIGHT_MS + 5 * HOUR);
      await sendFor(scene, HOUR);
      await evictSite(plant.id);
      await passTime(plant.id, 5 * MINUTE);
      await expectAsSent(scene);
      await repair(plant.id);
      await passTime(plant.id, MINUTE);
      await untilPacked(plant.id);
      await expectAsSent(scene);
      const { bytes, rolledToMs } = await storeState(plant.id);
      expect(rolledToMs).toBe(MIDNIGHT_MS);
      for (const [level, size] of Object.entries(bytes)) {
        expect([level, size]).toEqual([
          level,
          await numberOf(plant.id, `SELECT sum(size) FROM telemetry_${level}`),
        ]);
      }
    },
  );
});

describe('a journal of days that was never packed', () => {
  it('an unpacked journal is packed in segments within a day, and answers are the same throughout [rule 9]', async () => {
    const { scene, plant, model } = await setScene({ plant: true, telemetry: 'modelled' });
    await boundSite(plant.id, { packChars: 20_000, unpackedBlocks: 2 });
    setClock(MIDNIGHT_MS - 3 * HOUR);
    for (const pauseMs of [0, 8 * HOUR, 30 * HOUR]) {
      setClock(Date.now() + pauseMs);
      await sendFor(scene, 2 * HOUR, true);
    }
    expect(await partCounts(plant.id)).toMatchObject({ raw: 0, '5m': 0 });
    const range = [0, Date.now() + DAY] as const;
    let alarms = 0;
    for (; ((await alarmAt(plant.id)) ?? Number.POSITIVE_INFINITY) <= Date.now() + SECOND; alarms++) {
      setClock(Date.now() + 1);
      await runDurableObjectAlarm(siteOf(plant.id));
      if (alarms % 3 === 0) await evictSite(plant.id);
      expect(await readPoints(plant.id, METRIC, '1h', range)).toEqual(model.points(METRIC, '1h', range));
    }
    await expectAsSent(scene);
    const stretches = await rowsOf<{ start_ms: number; end_ms: number }>(
      plant.id,
      'SELECT id / 1024 * 60000 AS start_ms, end_ms FROM telemetry_raw ORDER BY id',
    );
    expect(stretches.length).toBeGreaterThan(6);
    expect(alarms).toBeLessThan(3 * stretches.length);
    for (const [index, { start_ms, end_ms }] of stretches.entries()) {
      expect(end_ms).toBeGreaterThan(start_ms);
      expect(start_ms).toBeGreaterThanOrEqual(stretches[index - 1]?.end_ms ?? 0);
      expect(Math.floor(start_ms / DAY)).toBe(Math.floor((end_ms - 1) / DAY));
      expect(end_ms - start_ms).toBeLessThanOrEqual(6 * HOUR);
    }
  });
});
