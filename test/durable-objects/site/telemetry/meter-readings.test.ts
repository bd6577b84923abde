/**
 * The register readings of a site over time: the reading of a quarter of an hour is what was known at that
 * time [C-4.1], [C-4.5].
 */
import { setScene, type TelemetrySite } from '#workerd/scene.ts';
import { boundSite } from '#workerd/site-bounds.ts';
import { DAY, HOUR, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { countRowsRead } from '#workerd/site-statements.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { storeState, untilPacked } from '#workerd/telemetry-site.ts';
import { siteOf } from '#workerd/world.ts';
import type { MeterReading } from '../../../../protocol/meter.ts';

const QUARTER = 15 * MINUTE;
const IMPORT = 'METER-1/importRegisterKwh';
const CHARGE = 'BESS-1/chargeRegisterKwh';

/** All chunks of a range put together. */
async function readingsOf(siteId: string, fromMs: number, toMs: number): Promise<MeterReading[]> {
  const readings: MeterReading[] = [];
  for (let nextMs: number | null = fromMs; nextMs !== null; ) {
    const chunk = await siteOf(siteId).readHistory(siteId, { kind: 'meter-readings', fromMs: nextMs, toMs });
    readings.push(...(JSON.parse(`[${chunk.items}]`) as MeterReading[]));
    if (chunk.nextMs !== null) expect(chunk.nextMs).toBeGreaterThan(nextMs);
    nextMs = chunk.nextMs;
  }
  return readings;
}

/** Sends registers at the given minutes, in Wh by metric. */
async function sendAt(
  { send }: TelemetrySite,
  messages: readonly (readonly [number, Record<string, number>])[],
) {
  for (const [minutes, data] of messages) {
    setClock(Math.max(Date.now(), START_MS + minutes * MINUTE));
    await send({ ts: START_MS + minutes * MINUTE, data });
  }
}

function gridAt(minutes: number, importRegisterKwh: number, dataQuality: string) {
  const readingAt = new Date(START_MS + minutes * MINUTE).toISOString();
  return { readingAt, meters: [{ deviceId: 'METER-1', role: 'GRID', importRegisterKwh }], dataQuality };
}

describe('meter readings', () => {
  it('the meter reading of each quarter of an hour equals the meter state at that time, over days, resets and gaps [C-4.5]', async () => {
    const { plant, send } = await setScene({ plant: true, telemetry: 'modelled' });
    const known: MeterReading[] = [];
    const counted = { [IMPORT]: 1_000_000, [CHARGE]: 500_000 };
    const pauses = [3, 7, 4, 11, 1, 22, 2, 9, 4, 70];
    let nextMs = START_MS + 10 * HOUR + SECOND;
    const fromMs = nextMs;
    for (let step = 0; step < 58; step++) {
      setClock(nextMs);
      for (const metric of [IMPORT, CHARGE] as const) {
        const isReset = step % 17 === 16 && metric === IMPORT;
        counted[metric] = isReset ? 7 : counted[metric] + step * 13;
      }
      await send({ ts: nextMs, data: counted });
      if (step % 9 === 0) await evictSite(plant.id);
      const untilMs = nextMs + (pauses[step % pauses.length] ?? 1) * MINUTE;
      const first = Math.ceil(nextMs / QUARTER) * QUARTER;
      for (let quarterMs = first; quarterMs < untilMs; quarterMs += QUARTER) {
        setClock(quarterMs);
        await passTime(plant.id, 0);
        const reading = await siteOf(plant.id).readMeterState(plant.id);
        if (reading) known.push(reading);
      }
      nextMs = untilMs;
    }
    expect(new Set(known.map(({ dataQuality }) => dataQuality))).toEqual(
      new Set(['GOOD', 'DEGRADED', 'ESTIMATED']),
    );
    // Some of it is packed, followed by a reset, and some is not.
    const { packedToMs } = await storeState(plant.id);
    expect([packedToMs > fromMs + 5 * HOUR, packedToMs < nextMs - 20 * MINUTE]).toEqual([true, true]);
    expect(await readingsOf(plant.id, fromMs, nextMs)).toEqual(known);
    await boundSite(plant.id, { readingsPerCall: 3 });
    await untilPacked(plant.id);
    expect(await readingsOf(plant.id, fromMs, nextMs)).toEqual(known);
    expect(await readingsOf(plant.id, fromMs - DAY, nextMs + 30 * DAY)).toEqual(known);
    for (const [metric, deviceId, name] of [
      [IMPORT, 'METER-1', 'importRegisterKwh'],
      [CHARGE, 'BESS-1', 'chargeRegisterKwh'],
    ] as const) {
      const values = known.flatMap(({ meters }) =>
        meters.filter((one) => one.deviceId === deviceId).map((one) => one[name] ?? 0),
      );
      expect(values, metric).toEqual(values.toSorted((left, right) => left - right));
    }
  });

  it('a meter reading uses registers younger than 15 min, including one of the same moment if none follows [C-4.5]', async () => {
    const { scene, plant } = await setScene({ plant: true, telemetry: 'modelled' });
    await sendAt(scene, [
      [0, { [IMPORT]: 1_000 }],
      [15, { [IMPORT]: 2_000 }],
      [45, { [IMPORT]: 3_000 }],
      [46, { [IMPORT]: 4_000 }],
      [60, { [IMPORT]: 5_000 }],
      [89, { [IMPORT]: 6_000 }],
      [90, { [IMPORT]: 7_000 }],
      [90.01, { [IMPORT]: 8_000 }],
    ]);
    setClock(START_MS + 2 * HOUR);
    const expected = [
      gridAt(0, 1, 'GOOD'),
      gridAt(15, 2, 'GOOD'),
      // At 30 min the register of 15 min is too old; at 45 min no register is known within the five minutes
      // before 46 min.
      gridAt(60, 5, 'GOOD'),
      gridAt(90, 6, 'GOOD'),
      gridAt(105, 8, 'DEGRADED'),
    ];
    for (const state of ['not packed', 'packed']) {
      if (state === 'packed') await untilPacked(plant.id);
      expect(await readingsOf(plant.id, START_MS, START_MS + 2 * HOUR), state).toEqual(expected);
    }
  });

  it.each([
    [1, 'GOOD'],
    [4.99, 'GOOD'],
    [5, 'DEGRADED'],
    [14.99, 'DEGRADED'],
    [15, null],
  ])('the meter reading of a register that is %d min old is %s [C-4.6]', async (ageMinutes, expected) => {
    const scene = await setScene({ plant: true, telemetry: 'modelled' });
    await sendAt(scene, [[30 - ageMinutes, { [IMPORT]: 1_000 }]]);
    setClock(START_MS + HOUR);
    const [reading] = await readingsOf(scene.plant.id, START_MS + 30 * MINUTE, START_MS + 30 * MINUTE + 1);
    expect(reading ?? null).toEqual(expected && gridAt(30, 1, expected));
  });

  it('a register that arrives late is included in the meter reading of its own time, and does not affect a later quarter [C-4.5]', async () => {
    const { scene, plant } = await setScene({ plant: true, telemetry: 'modelled' });
    await sendAt(scene, [
      [14, { [IMPORT]: 1_000 }],
      [18, { [IMPORT]: 3_000 }],
      [14.5, { [IMPORT]: 2_000 }],
      [29, { [IMPORT]: 4_000 }],
    ]);
    setClock(START_MS + 31 * MINUTE);
    const expected = [gridAt(15, 2, 'GOOD'), gridAt(30, 4, 'GOOD')];
    expect(await readingsOf(plant.id, START_MS, Date.now())).toEqual(expected);
    await untilPacked(plant.id);
    expect(await readingsOf(plant.id, START_MS, START_MS + 31 * MINUTE)).toEqual(expected);
  });

  it('are listed for each past quarter of an hour in [from, to) [C-4.1]', async () => {
    const { scene, plant } = await setScene({ plant: true, telemetry: 'modelled' });
    await sendAt(scene, [
      [0, { [IMPORT]: 1_000 }],
      [14, { [IMPORT]: 2_000 }],
      [29, { [IMPORT]: 3_000 }],
    ]);
    const at = async (fromMs: number, toMs: number) =>
      (await readingsOf(plant.id, START_MS + fromMs, START_MS + toMs)).map(
        ({ readingAt }) => Date.parse(readingAt) - START_MS,
      );
    setClock(START_MS + 30 * MINUTE - 1);
    expect(await at(-DAY, DAY)).toEqual([0, QUARTER]);
    setClock(START_MS + 30 * MINUTE);
    expect(await at(-DAY, DAY)).toEqual([0, QUARTER, 2 * QUARTER]);
    expect(await at(0, QUARTER)).toEqual([0]);
    expect(await at(1, QUARTER + 1)).toEqual([QUARTER]);
    expect(await at(1, QUARTER)).toEqual([]);
    expect(await at(DAY, 2 * DAY)).toEqual([]);
  });

  it('read at most four rows a day over months without data [rule 9]', async () => {
    const { scene, plant } = await setScene({ plant: true, telemetry: 'modelled' });
    await sendAt(
      scene,
      Array.from({ length: 20 }, (_none, index) => [index * 6, { [IMPORT]: index }] as const),
    );
    const rowsRead = await countRowsRead(plant.id);
    await rowsRead();
    expect(await readingsOf(plant.id, START_MS - 92 * DAY, START_MS - DAY)).toEqual([]);
    expect(await rowsRead()).toBeLessThanOrEqual(4 * 92);
  });
});

describe('the meter state', () => {
  it('adds the values after a reset of the register to what it counted before, also after packing and wakes [C-4.6]', async () => {
    const { scene, plant } = await setScene({ plant: true, telemetry: 'modelled' });
    const stateOf = async () => await siteOf(plant.id).readMeterState(plant.id);
    expect(await stateOf()).toBeNull();
    await sendAt(scene, [[0, { [IMPORT]: 100_000 }]]);
    await untilPacked(plant.id);
    expect(await stateOf()).toBeNull();
    const minutes = (Date.now() - START_MS) / MINUTE;
    await sendAt(scene, [[minutes, { [IMPORT]: 2_000 }]]);
    // One value is no reset yet.
    expect(await stateOf()).toEqual(gridAt(minutes, 100, 'ESTIMATED'));
    await evictSite(plant.id);
    await untilPacked(plant.id);
    await evictSite(plant.id);
    const later = (Date.now() - START_MS) / MINUTE;
    await sendAt(scene, [[later, { [IMPORT]: 2_500 }]]);
    expect(await stateOf()).toEqual(gridAt(later, 102.5, 'ESTIMATED'));
  });

  it('adds no energy when the meter sends 0 once at its restart, and is GOOD again with the next reading [C-4.5]', async () => {
    const { scene, plant } = await setScene({ plant: true, telemetry: 'modelled' });
    const stateOf = async () => await siteOf(plant.id).readMeterState(plant.id);
    await sendAt(scene, [[0, { [IMPORT]: 100_000 }]]);
    await sendAt(scene, [[0.25, { [IMPORT]: 0 }]]);
    expect(await stateOf()).toMatchObject(gridAt(0.25, 100, 'ESTIMATED'));
    await evictSite(plant.id);
    await sendAt(scene, [[0.5, { [IMPORT]: 100_010 }]]);
    expect(await stateOf()).toEqual(gridAt(0.5, 100.01, 'GOOD'));
    await untilPacked(plant.id);
    await evictSite(plant.id);
    await sendAt(scene, [[(Date.now() - START_MS) / MINUTE, { [IMPORT]: 100_020 }]]);
    expect(await stateOf()).toMatchObject({ dataQuality: 'GOOD', meters: [{ importRegisterKwh: 100.02 }] });
  });

  it('adds no energy when the meter sends 0 and the blip is packed before its next reading [C-4.5]', async () => {
    const { scene, plant } = await setScene({ plant: true, telemetry: 'modelled' });
    await sendAt(scene, [
      [0, { [IMPORT]: 100_000 }],
      [0.25, { [IMPORT]: 0 }],
    ]);
    await untilPacked(plant.id);
    await evictSite(plant.id);
    const later = (Date.now() - START_MS) / MINUTE;
    await sendAt(scene, [[later, { [IMPORT]: 100_500 }]]);
    expect(await siteOf(plant.id).readMeterState(plant.id)).toEqual(gridAt(later, 100.5, 'GOOD'));
  });
});
