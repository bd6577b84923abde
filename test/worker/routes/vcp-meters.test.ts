/** GET /vcp/meter-state and /vcp/sites/{siteId}/meter-readings (spec: Meter state; [C-4.1], [C-4.6]). */
import { describe, expect, it } from 'vitest';
import type { MeterReading } from '../../../protocol/meter.ts';
import { connectDevice } from '../../support/workerd/links.ts';
import { expectError, read, send } from '../../support/workerd/rest.ts';
import { boundSite, restoreBounds } from '../../support/workerd/site-bounds.ts';
import { DAY, holdClock, MINUTE, START_MS, setClock } from '../../support/workerd/site-clock.ts';
import { sendTelemetry } from '../../support/workerd/site-devices.ts';
import { untilPacked } from '../../support/workerd/telemetry-site.ts';
import {
  createKey,
  createOrganization,
  createPlant,
  createWorld,
  type Key,
  type Plant,
  type World,
} from '../../support/workerd/world.ts';

holdClock();
restoreBounds();

const QUARTER = 15 * MINUTE;

interface MeterState {
  siteId: string;
  eanCons: string | null;
  eanProd: string | null;
  reading: MeterReading | null;
}

function randomEan(): string {
  return [...crypto.getRandomValues(new Uint8Array(18))].map((byte) => byte % 10).join('');
}

function statePath(ean: string): string {
  return `/api/v1/vcp/meter-state?ean=${encodeURIComponent(ean)}`;
}

async function stateOf({ key }: Key, ean: string): Promise<MeterState> {
  return await read<MeterState>(statePath(ean), key);
}

async function tell(plant: Plant, data: Record<string, number>): Promise<void> {
  expect(await sendTelemetry(await connectDevice(plant), plant.gateway, data)).toBe(true);
}

describe('GET /vcp/meter-state', () => {
  it('answers the site of either of its metering points with its registers [spec: Meter state]', async () => {
    const eans = { eanCons: randomEan(), eanProd: randomEan() };
    const { plant, key } = await createWorld(eans);
    await tell(plant, {
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

  it('answers the metering point that a site does not have with null, and no reading with null [spec: Meter state]', async () => {
    const eanProd = randomEan();
    const { plant, key } = await createWorld({ eanProd });
    expect(await stateOf(key, eanProd)).toEqual({ siteId: plant.id, eanCons: null, eanProd, reading: null });
  });

  it.each([
    [5 * MINUTE - 1, 'GOOD'],
    [5 * MINUTE, 'DEGRADED'],
    [15 * MINUTE - 1, 'DEGRADED'],
    [15 * MINUTE, null],
  ])('says of registers that are %i ms old %s, packed or not [C-4.6]', async (ageMs, expected) => {
    const eanCons = randomEan();
    const { plant, key } = await createWorld({ eanCons });
    await tell(plant, { 'METER-1/importRegisterKwh': 1 });
    setClock(START_MS + ageMs);
    expect((await stateOf(key, eanCons)).reading?.dataQuality ?? null).toBe(expected);
    await untilPacked(plant.id);
    await tell(plant, { 'METER-1/importRegisterKwh': 2 });
    setClock(Date.now() + ageMs);
    expect((await stateOf(key, eanCons)).reading?.dataQuality ?? null).toBe(expected);
  });

  it('never falls: a register that was reset goes on from what it had counted, ESTIMATED [C-4.6]', async () => {
    const eanCons = randomEan();
    const { plant, key } = await createWorld({ eanCons });
    for (const [minute, kwh] of [100, 100.5, 0.25, 1].entries()) {
      setClock(START_MS + minute * MINUTE);
      await tell(plant, { 'METER-1/importRegisterKwh': kwh });
      const { reading } = await stateOf(key, eanCons);
      expect(reading?.meters[0]?.importRegisterKwh).toBe([100, 100.5, 100.75, 101.5][minute]);
      expect(reading?.dataQuality).toBe(minute < 2 ? 'GOOD' : 'ESTIMATED');
    }
  });

  it.each([
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
    ['with a line behind', `?ean=${'1'.repeat(18)}%0A`],
    ['with a letter', `?ean=${'1'.repeat(17)}x`],
    ['there twice', `?ean=${'1'.repeat(18)}&ean=${'1'.repeat(18)}`],
  ])('refuses an ean that is %s with 400 (spec: Meter state)', async (_what, query) => {
    const { key } = await createKey(await createOrganization());
    const response = await send(`/api/v1/vcp/meter-state${query}`, { key });
    const { details } = await expectError(response, 400, 'VALIDATION_ERROR');
    expect(details).toEqual([expect.stringMatching(/^ean: /)]);
  });

  it('answers an unknown ean, a foreign one and one outside allowedPlantIds with one same 404 [C-4.2]', async () => {
    const [own, hidden, foreign] = [randomEan(), randomEan(), randomEan()];
    const { organization, plant } = await createWorld({ eanCons: own });
    await createPlant(organization, { eanProd: hidden });
    await createWorld({ eanCons: foreign });
    const { key } = await createKey(organization, { allowedPlantIds: [plant.id] });
    const absent = await send(statePath(randomEan()), { key });
    const text = await absent.clone().text();
    await expectError(absent, 404, 'SITE_NOT_FOUND');
    for (const ean of [hidden, foreign]) {
      const response = await send(statePath(ean), { key });
      expect([response.status, await response.text()]).toEqual([404, text]);
    }
    expect((await send(statePath(own), { key })).status).toBe(200);
  });

  it('answers a key that may connect alone 403, and none 401 (spec: Authentication)', async () => {
    const eanCons = randomEan();
    const { organization } = await createWorld({ eanCons });
    const { key } = await createKey(organization, { scopes: ['vcp:connect'] });
    for (const ean of [eanCons, randomEan(), 'x']) {
      await expectError(await send(statePath(ean), { key }), 403, 'FORBIDDEN');
      await expectError(await send(statePath(ean)), 401, 'UNAUTHORIZED');
    }
  });
});

describe('GET /vcp/sites/{siteId}/meter-readings', () => {
  async function readingsOf({ plant, key }: World, query = ''): Promise<MeterReading[]> {
    const path = `/api/v1/vcp/sites/${plant.id}/meter-readings${query}`;
    const body = await read<{ readings: MeterReading[] }>(path, key.key);
    expect(Object.keys(body)).toEqual(['readings']);
    return body.readings;
  }

  /** A register every quarter of an hour of that time, a minute before it; its value is the number of the quarter. */
  async function newMeteredWorld(quarters: number): Promise<World> {
    const world = await createWorld();
    for (let quarter = 0; quarter < quarters; quarter++) {
      setClock(START_MS + (quarter + 1) * QUARTER - MINUTE);
      await tell(world.plant, { 'METER-1/importRegisterKwh': quarter });
    }
    setClock(START_MS + quarters * QUARTER);
    return world;
  }

  function valuesOf(readings: readonly MeterReading[]): unknown[] {
    return readings.map(({ meters }) => meters[0]?.importRegisterKwh);
  }

  it('answers those of the last 24 hours, ascending, in calls of a day [C-4.1]', async () => {
    const world = await newMeteredWorld(110);
    const last = valuesOf(await readingsOf(world));
    // From now - 24 h on, and before now.
    expect(last).toEqual(Array.from({ length: 96 }, (_none, index) => 13 + index));
    await boundSite(world.plant.id, { readingsPerCall: 1 });
    expect(valuesOf(await readingsOf(world))).toEqual(last);
    await untilPacked(world.plant.id);
    const range = `?from=2030-03-05T09:00:00Z&to=2030-03-06T12:31:00Z`;
    const all = await readingsOf(world, range);
    expect(valuesOf(all)).toEqual(Array.from({ length: 110 }, (_none, index) => index));
    expect(all[0]).toEqual({
      readingAt: '2030-03-05T09:15:00.000Z',
      meters: [{ deviceId: 'METER-1', role: 'GRID', importRegisterKwh: 0 }],
      dataQuality: 'GOOD',
    });
  });

  it('takes one end alone: a day before `to`, and from `from` until now [C-4.1]', async () => {
    const world = await newMeteredWorld(4);
    expect(valuesOf(await readingsOf(world, '?to=2030-03-05T09:45:00Z'))).toEqual([0, 1]);
    expect(valuesOf(await readingsOf(world, '?from=2030-03-05T09:30:00Z'))).toEqual([1, 2]);
    expect(valuesOf(await readingsOf(world, '?to=2030-03-05T10:00:00.001Z'))).toEqual([0, 1, 2, 3]);
  });

  it.each([
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
  ])('refuses %s in %s by its name [C-4.5]', async (name, query) => {
    const { plant, key } = await createWorld();
    const response = await send(`/api/v1/vcp/sites/${plant.id}/meter-readings${query}`, { key: key.key });
    const { details } = await expectError(response, 400, 'VALIDATION_ERROR');
    expect(details).toEqual([expect.stringMatching(new RegExp(`^${name}: `))]);
  });

  it('answers 92 days at once, of a site without meters nothing [C-4.5]', async () => {
    const world = await createWorld({ subDevices: [] });
    await tell(world.plant, { 'METER-1/importRegisterKwh': 1 });
    setClock(START_MS + DAY);
    const most = `?from=${new Date(START_MS + DAY - 92 * DAY).toISOString()}`;
    expect(await readingsOf(world, most)).toEqual([]);
  });
});
