/** GET /vcp/meter-state and /vcp/sites/{siteId}/meter-readings (spec: Meter state; [C-4.1], [C-4.6]). */
import { anonymous, type KeyClient } from '#workerd/client.ts';
import { connectDevice } from '#workerd/links.ts';
import { boundSite, restoreBounds } from '#workerd/site-bounds.ts';
import { DAY, holdClock, MINUTE, START_MS, setClock } from '#workerd/site-clock.ts';
import { sendTelemetry } from '#workerd/site-devices.ts';
import { untilPacked } from '#workerd/telemetry-site.ts';
import { describe, expect, expectError, expectInvalid, expectSameError, test } from '#workerd/worker-test.ts';
import { createOrganization, createPlant, type Plant, randomEan } from '#workerd/world.ts';
import type { MeterReading } from '../../../protocol/meter.ts';

holdClock();
restoreBounds();

const QUARTER = 15 * MINUTE;

interface MeterState {
  siteId: string;
  eanCons: string | null;
  eanProd: string | null;
  reading: MeterReading | null;
}

/** A plant whose consumption has the EAN `ean`. */
const it = test
  .extend('ean', () => randomEan())
  .extend('plant', ({ organization, ean }) => createPlant(organization, { eanCons: ean }));

async function stateOf(key: KeyClient, ean: string): Promise<MeterState> {
  return await key.read(`/vcp/meter-state?ean=${ean}`);
}

async function send(plant: Plant, data: Record<string, number>): Promise<void> {
  expect(await sendTelemetry(await connectDevice(plant), plant.gateway, data)).toBe(true);
}

describe('GET /vcp/meter-state', () => {
  it('either EAN finds the site with its registers [spec: Meter state]', async ({ organization, key }) => {
    const eans = { eanCons: randomEan(), eanProd: randomEan() };
    const plant = await createPlant(organization, eans);
    await send(plant, {
      'METER-1/importRegisterKwh': 1_234.5,
      'METER-1/exportRegisterKwh': 6,
      'BESS-1/chargeRegisterKwh': 0,
      'FVE-1/productionRegisterKwh': 7.25,
      'FVE-1/powerKw': 3,
      importRegisterKwh: 9,
    });
    setClock(START_MS + MINUTE);
    const expected = {
      siteId: plant.id,
      ...eans,
      reading: {
        readingAt: '2030-03-05T09:01:00.000Z',
        meters: [
          { deviceId: 'BESS-1', role: 'BESS', chargeRegisterKwh: 0 },
          { deviceId: 'FVE-1', role: 'FVE', productionRegisterKwh: 7.25 },
          { deviceId: 'METER-1', role: 'GRID', exportRegisterKwh: 6, importRegisterKwh: 1_234.5 },
        ],
        dataQuality: 'GOOD',
      },
    };
    for (const ean of [eans.eanCons, eans.eanProd]) expect(await stateOf(key, ean)).toEqual(expected);
  });

  it('a missing EAN or reading is null [spec: Meter state]', async ({ organization, key }) => {
    const eanProd = randomEan();
    const plant = await createPlant(organization, { eanProd });
    expect(await stateOf(key, eanProd)).toEqual({ siteId: plant.id, eanCons: null, eanProd, reading: null });
  });

  it.for<[number, string | null]>([
    [5 * MINUTE - 1, 'GOOD'],
    [5 * MINUTE, 'DEGRADED'],
    [15 * MINUTE - 1, 'DEGRADED'],
    [15 * MINUTE, null],
  ])(
    'registers that are %i ms old have the dataQuality %s (null: no reading), also after packing [C-4.6]',
    async ([ageMs, expected], { plant, key, ean }) => {
      await send(plant, { 'METER-1/importRegisterKwh': 1 });
      setClock(START_MS + ageMs);
      expect((await stateOf(key, ean)).reading?.dataQuality ?? null).toBe(expected);
      await untilPacked(plant.id);
      await send(plant, { 'METER-1/importRegisterKwh': 2 });
      setClock(Date.now() + ageMs);
      expect((await stateOf(key, ean)).reading?.dataQuality ?? null).toBe(expected);
    },
  );

  it('after the reset of a register its values are added to the last one before it, as ESTIMATED [C-4.6]', async ({
    plant,
    key,
    ean,
  }) => {
    for (const [minute, kwh] of [100, 100.5, 0.25, 1].entries()) {
      setClock(START_MS + minute * MINUTE);
      await send(plant, { 'METER-1/importRegisterKwh': kwh });
      const { reading } = await stateOf(key, ean);
      expect(reading?.meters[0]?.importRegisterKwh).toBe([100, 100.5, 100.5, 101.5][minute]);
      expect(reading?.dataQuality).toBe(minute < 2 ? 'GOOD' : 'ESTIMATED');
    }
  });

  it.for<[string, string]>([
    ['missing', ''],
    ['empty', '?ean='],
    ['blank', '?ean=%20'],
    ['of blanks', `?ean=${'%20'.repeat(18)}`],
    ['of 17 digits', `?ean=${'1'.repeat(17)}`],
    ['of 19 digits', `?ean=${'1'.repeat(19)}`],
    ['with a plus', `?ean=%2B${'1'.repeat(17)}`],
    ['with a plus that is a blank', `?ean=+${'1'.repeat(17)}`],
    ['of full-width digits', `?ean=${encodeURIComponent('１'.repeat(18))}`],
    ['of other digits', `?ean=${encodeURIComponent('١'.repeat(18))}`],
    ['with a line break at its end', `?ean=${'1'.repeat(18)}%0A`],
    ['with a letter', `?ean=${'1'.repeat(17)}x`],
    ['there twice', `?ean=${'1'.repeat(18)}&ean=${'1'.repeat(18)}`],
  ])('an ean that is %s gets 400 (spec: Meter state)', async ([_what, query], { key }) => {
    await expectInvalid(await key.call(`/vcp/meter-state${query}`), 'ean');
  });

  it('an ean that is foreign or outside allowedPlantIds gets the 404 of an unknown one [C-4.2]', async ({
    organization,
    plant,
    newKey,
    ean,
  }) => {
    const [hidden, foreign] = [randomEan(), randomEan()];
    await createPlant(organization, { eanProd: hidden });
    await createPlant(await createOrganization(), { eanCons: foreign });
    const limited = await newKey({ allowedPlantIds: [plant.id] });
    const ask = (one: string) => limited.call(`/vcp/meter-state?ean=${one}`);
    await expectSameError([randomEan(), hidden, foreign].map(ask), 404, 'SITE_NOT_FOUND');
    expect((await ask(ean)).status).toBe(200);
  });

  it('a key with only a connect scope gets 403, a request without a key 401 (spec: Authentication)', async ({
    plant,
    newKey,
    key,
    ean,
  }) => {
    expect(await stateOf(key, ean)).toMatchObject({ siteId: plant.id });
    const weak = await newKey({ scopes: ['vcp:connect'] });
    for (const one of [ean, randomEan(), 'x']) {
      await expectError(await weak.call(`/vcp/meter-state?ean=${one}`), 403, 'FORBIDDEN');
      await expectError(await anonymous.call(`/vcp/meter-state?ean=${one}`), 401, 'UNAUTHORIZED');
    }
  });
});

describe('GET /vcp/sites/{siteId}/meter-readings', () => {
  async function readingsOf(plant: Plant, key: KeyClient, query = ''): Promise<MeterReading[]> {
    const path = `/vcp/sites/${plant.id}/meter-readings${query}`;
    const body = await key.read<{ readings: MeterReading[] }>(path);
    expect(Object.keys(body)).toEqual(['readings']);
    return body.readings;
  }

  /** Sends a register a minute before the end of each quarter of an hour: the quarter’s number. */
  async function meter(plant: Plant, quarters: number): Promise<void> {
    for (let quarter = 0; quarter < quarters; quarter++) {
      setClock(START_MS + (quarter + 1) * QUARTER - MINUTE);
      await send(plant, { 'METER-1/importRegisterKwh': quarter });
    }
    setClock(START_MS + quarters * QUARTER);
  }

  function valuesOf(readings: readonly MeterReading[]): unknown[] {
    return readings.map(({ meters }) => meters[0]?.importRegisterKwh);
  }

  it('lists without a range the readings of the last 24 hours, oldest first [C-4.1]', async ({
    plant,
    key,
  }) => {
    await meter(plant, 110);
    const last = valuesOf(await readingsOf(plant, key));
    // The range is [now - 24 h, now).
    expect(last).toEqual(Array.from({ length: 96 }, (_none, index) => 13 + index));
    await boundSite(plant.id, { readingsPerCall: 1 });
    expect(valuesOf(await readingsOf(plant, key))).toEqual(last);
    await untilPacked(plant.id);
    const range = `?from=2030-03-05T09:00:00Z&to=2030-03-06T12:31:00Z`;
    const all = await readingsOf(plant, key, range);
    expect(valuesOf(all)).toEqual(Array.from({ length: 110 }, (_none, index) => index));
    expect(all[0]).toEqual({
      readingAt: '2030-03-05T09:15:00.000Z',
      meters: [{ deviceId: 'METER-1', role: 'GRID', importRegisterKwh: 0 }],
      dataQuality: 'GOOD',
    });
  });

  it('the range may have only from or only to [C-4.1]', async ({ plant, key }) => {
    await meter(plant, 4);
    expect(valuesOf(await readingsOf(plant, key, '?to=2030-03-05T09:45:00Z'))).toEqual([0, 1]);
    expect(valuesOf(await readingsOf(plant, key, '?from=2030-03-05T09:30:00Z'))).toEqual([1, 2]);
    expect(valuesOf(await readingsOf(plant, key, '?to=2030-03-05T10:00:00.001Z'))).toEqual([0, 1, 2, 3]);
  });

  it.for<[string, string]>([
    ['from', '?from=2024-02-30T00:00:00Z'],
    ['from', '?from=2030-03-05T09:00:00'],
    ['from', '?from='],
    ['from', '?from=2030-03-05T09:00:00Z&to=2030-03-05T09:00:00Z'],
    ['from', '?from=2030-03-05T10:00:00Z&to=2030-03-05T09:00:00Z'],
    ['from', '?from=2030-03-05T09:00:00.001Z'],
    ['from', '?from=2030-03-04T00:00:00Z&from=2030-03-04T00:00:00Z'],
    ['to', '?to=now'],
    ['to', '?to=2030-03-05T09:00:00Z&to=2030-03-05T09:00:00Z'],
    ['to', '?from=2029-12-03T08:59:59.999Z&to=2030-03-05T09:00:00Z'],
    ['to', '?from=2020-01-01T00:00:00Z'],
  ])('the parameter %s is refused in %s [C-4.5]', async ([name, query], { plant, key }) => {
    await expectInvalid(await key.call(`/vcp/sites/${plant.id}/meter-readings${query}`), name);
  });

  it('a site without meters has no readings in 92 days [C-4.5]', async ({ organization, key }) => {
    const plant = await createPlant(organization, { subDevices: [] });
    await send(plant, { 'METER-1/importRegisterKwh': 1 });
    setClock(START_MS + DAY);
    const most = `?from=${new Date(START_MS + DAY - 92 * DAY).toISOString()}`;
    expect(await readingsOf(plant, key, most)).toEqual([]);
  });
});
