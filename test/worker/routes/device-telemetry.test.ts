/** GET /telemetry/{deviceId}: what one device sent, under the names that it uses [C-3.5]. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { Page } from '../../../protocol/page.ts';
import {
  connect,
  createTeamAtStart,
  newTokenDevice,
  type TokenDevice,
} from '../../support/workerd/devices.ts';
import { callWithKey, createTeamKey, postPlant, postSubDevice } from '../../support/workerd/fleet.ts';
import { bodyOf, createTeam, type Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';
import { DAY, holdClock, MINUTE, START_MS, setClock } from '../../support/workerd/site-clock.ts';
import { connectTo } from '../../support/workerd/site-devices.ts';
import { evictSite } from '../../support/workerd/site-rows.ts';
import { sendAll, type Told, untilPacked } from '../../support/workerd/telemetry-site.ts';
import type { Key } from '../../support/workerd/world.ts';

let team: Team;
/** It reads when sessions have long expired. */
let key: Key;

beforeAll(async () => {
  team = await createTeamAtStart();
  key = await createTeamKey(team, ['telemetry:read']);
});

holdClock();

interface Point {
  timestamp: string;
  metric: string;
  value: number;
  count?: number;
}

const DAY_RANGE = 'from=2030-03-05T00:00:00Z&to=2030-03-06T00:00:00Z';

async function newPlantDevice(fields: object = {}): Promise<TokenDevice & { plantId: string }> {
  const { id: plantId } = await postPlant(team.operator);
  return { ...(await newTokenDevice(team, { plantId, ...fields })), plantId };
}

async function pageOf({ id }: { id: string }, query = ''): Promise<Page<Point>> {
  return await bodyOf<Page<Point>>(await callWithKey(key, `/telemetry/${id}?${query}`), 200);
}

async function namesOf(device: { id: string }, query = DAY_RANGE): Promise<[string, number][]> {
  return (await pageOf(device, query)).data.map(({ metric, value }) => [metric, value]);
}

/** Values in thousandths, dated now. */
async function tell(device: TokenDevice, data: Record<string, number>): Promise<void> {
  await sendAll(await connect(device), device, [{ ts: Date.now(), data }]);
}

describe('GET /telemetry/{deviceId}', () => {
  it('answers the readings of the last 24 hours in the first page of 20, raw [C-3.5]', async () => {
    const device = await newPlantDevice();
    const told = Array.from({ length: 12 }, (_none, index): Told => {
      return { ts: START_MS + index, data: { gridPowerKw: index * 1_000, fvePowerKw: 500 } };
    });
    await sendAll(await connect(device), device, told);
    setClock(START_MS + DAY);
    const { data, meta } = await pageOf(device);
    expect(meta).toEqual({ page: 1, limit: 20, total: 24, totalPages: 2 });
    expect(data).toHaveLength(20);
    expect(data.slice(0, 3)).toEqual([
      { timestamp: '2030-03-05T09:00:00.000Z', metric: 'fvePowerKw', value: 0.5 },
      { timestamp: '2030-03-05T09:00:00.000Z', metric: 'gridPowerKw', value: 0 },
      { timestamp: '2030-03-05T09:00:00.001Z', metric: 'fvePowerKw', value: 0.5 },
    ]);
    setClock(START_MS + DAY + 1);
    expect((await pageOf(device)).meta.total).toBe(22);
  });

  it('answers any page within the bounds, and past the last one nothing [C-3.5]', async () => {
    const device = await newPlantDevice();
    await tell(device, { a: 1_000, b: 2_000, c: 3_000 });
    const values = async (query: string) => {
      const { data, meta } = await pageOf(device, `${DAY_RANGE}&${query}`);
      return [data.map(({ value }) => value), meta.total, meta.totalPages];
    };
    expect(await values('limit=2')).toEqual([[1, 2], 3, 2]);
    expect(await values('limit=2&page=2')).toEqual([[3], 3, 2]);
    expect(await values('limit=2&page=3')).toEqual([[], 3, 2]);
    expect(await values('limit=1000')).toEqual([[1, 2, 3], 3, 1]);
    expect(await values('limit=1&page=1000000')).toEqual([[], 3, 3]);
    expect(await values('metric=b')).toEqual([[2], 1, 1]);
    expect(await values('metric=d')).toEqual([[], 0, 0]);
  });

  it.each([
    [
      '1m',
      'avg',
      [
        ['09:40', 1.5, 2],
        ['09:44', 6, 1],
        ['10:10', 12, 1],
      ],
    ],
    [
      '5m',
      'min',
      [
        ['09:40', 1, 3],
        ['10:10', 12, 1],
      ],
    ],
    [
      '15m',
      'max',
      [
        ['09:30', 6, 3],
        ['10:00', 12, 1],
      ],
    ],
    [
      '1h',
      'sum',
      [
        ['09:00', 9, 3],
        ['10:00', 12, 1],
      ],
    ],
    ['1d', 'count', [['00:00', 4, 4]]],
    ['1d', 'last', [['00:00', 12, 4]]],
  ] as const)('answers buckets of %s as their %s, packed or not [C-3.5]', async (bucket, agg, buckets) => {
    const device = await newPlantDevice();
    for (const [minutes, value] of [
      [40, 1_000],
      [40.5, 2_000],
      [44, 6_000],
      [70, 12_000],
    ] as const) {
      setClock(START_MS + minutes * MINUTE);
      // Past the door: its token is for an hour.
      const link = await connectTo(device.siteId, device.id);
      await sendAll(link, device, [{ ts: Date.now(), data: { powerKw: value } }]);
    }
    const expected = buckets.map(([time, value, count]) => {
      return { timestamp: `2030-03-05T${time}:00.000Z`, metric: 'powerKw', value, count };
    });
    const query = `${DAY_RANGE}&bucket=${bucket}&agg=${agg}`;
    expect((await pageOf(device, query)).data).toEqual(expected);
    await untilPacked(device.siteId);
    await evictSite(device.siteId);
    expect((await pageOf(device, query)).data).toEqual(expected);
  });

  it('without an aggregate takes the mean, of registers what they last said [C-3.5]', async () => {
    const device = await newPlantDevice();
    for (const value of [1_000, 2_000]) {
      setClock(START_MS + value);
      await tell(device, { powerKw: value, 'M-1/importRegisterKwh': value });
    }
    expect(await namesOf(device, `${DAY_RANGE}&bucket=1h`)).toEqual([
      ['M-1/importRegisterKwh', 2],
      ['powerKw', 1.5],
    ]);
    expect(await namesOf(device, `${DAY_RANGE}&bucket=1h&agg=avg`)).toEqual([
      ['M-1/importRegisterKwh', 1.5],
      ['powerKw', 1.5],
    ]);
  });
});

describe('the names of a device’s telemetry', () => {
  it('are its own: a gateway’s, a linked device’s, and those of one that is neither [C-3.5]', async () => {
    const gateway = await newPlantDevice();
    const { plantId } = gateway;
    const linked = await newTokenDevice(team, { plantId, type: 'ACTUATOR' });
    const loose = await newTokenDevice(team, { plantId, type: 'SENSOR' });
    await postSubDevice(team.operator, plantId, {
      externalId: 'M-1',
      assetType: 'METER',
      linkedDeviceId: linked.id,
    });
    await tell(gateway, { gridPowerKw: 1_000, 'BESS-1/powerKw': 2_000 });
    await tell(linked, { powerKw: 3_000, 'BESS-1/powerKw': 4_000 });
    await tell(loose, { powerKw: 5_000, 'M-1/powerKw': 6_000 });
    await evictSite(plantId);
    expect(await namesOf(gateway)).toEqual([
      ['BESS-1/powerKw', 2],
      ['gridPowerKw', 1],
    ]);
    expect((await namesOf(linked)).sort()).toEqual([
      ['BESS-1/powerKw', 4],
      ['powerKw', 3],
    ]);
    expect(await namesOf(loose)).toEqual([
      ['M-1/powerKw', 6],
      ['powerKw', 5],
    ]);
    expect(await namesOf(linked, `${DAY_RANGE}&metric=powerKw`)).toEqual([['powerKw', 3]]);
    expect(await namesOf(loose, `${DAY_RANGE}&metric=powerKw`)).toEqual([['powerKw', 5]]);
    expect(await namesOf(gateway, `${DAY_RANGE}&metric=powerKw`)).toEqual([]);
    expect(await namesOf(gateway, `${DAY_RANGE}&metric=M-1/powerKw`)).toEqual([]);
  });

  it('of a device without a plant are bare, whatever it is [C-2.4]', async () => {
    for (const type of ['GATEWAY', 'SENSOR']) {
      const device = await newTokenDevice(team, { type });
      expect(await namesOf(device)).toEqual([]);
      await tell(device, { powerKw: 1_000 });
      await evictSite(device.id);
      expect(await namesOf(device)).toEqual([['powerKw', 1]]);
      expect(await namesOf(device, `${DAY_RANGE}&metric=powerKw&bucket=1d`)).toEqual([['powerKw', 1]]);
    }
  });

  it('of a device that has moved are those of its new plant: its history stays with the old one [C-3.1]', async () => {
    const device = await newPlantDevice();
    const { id: plantId } = await postPlant(team.operator);
    await tell(device, { gridPowerKw: 1_000 });
    await team.operator.read(`/devices/${device.id}`, { method: 'PATCH', body: { plantId } });
    expect(await namesOf(device)).toEqual([]);
    setClock(START_MS + MINUTE);
    await tell(device, { gridPowerKw: 2_000 });
    expect(await namesOf(device)).toEqual([['gridPowerKw', 2]]);
    const partner = await createTeamKey(team, ['vcp:read']);
    const old = await callWithKey(
      partner,
      `/vcp/sites/${device.plantId}/telemetry?metric=gridPowerKw&${DAY_RANGE}`,
    );
    expect((await bodyOf<{ readings: Point[] }>(old, 200)).readings.map(({ value }) => value)).toEqual([1]);
  });
});

describe('who may read it', () => {
  it('a VIEWER, and a key with telemetry:read; no other key [C-3.5]', async () => {
    const device = await newPlantDevice();
    const path = `/telemetry/${device.id}`;
    for (const person of [team.viewer, team.operator, team.admin])
      expect((await person.call(path)).status).toBe(200);
    expect((await callWithKey(key, path)).status).toBe(200);
    for (const scopes of [['vcp:read'], ['plants:read'], ['vcp:connect']] as const) {
      const wrong = await createTeamKey(team, [...scopes]);
      await expectError(await callWithKey(wrong, path), 403, 'FORBIDDEN');
    }
  });

  it('a foreign device, one outside allowedPlantIds and an absent one are one same 404 [C-4.2]', async () => {
    const [own, hidden] = [await newPlantDevice(), await newPlantDevice()];
    const loose = await newTokenDevice(team);
    const narrow = await createTeamKey(team, ['telemetry:read'], { allowedPlantIds: [own.plantId] });
    const other = await createTeam();
    const foreign = await newTokenDevice(other);
    const absent = await callWithKey(narrow, `/telemetry/${crypto.randomUUID()}`);
    const text = await absent.clone().text();
    await expectError(absent, 404, 'NOT_FOUND');
    for (const { id } of [hidden, foreign, loose]) {
      const response = await callWithKey(narrow, `/telemetry/${id}`);
      expect([response.status, await response.text()]).toEqual([404, text]);
    }
    expect((await callWithKey(narrow, `/telemetry/${own.id}`)).status).toBe(200);
    await expectError(await team.viewer.call(`/telemetry/${foreign.id}`), 404, 'NOT_FOUND');
  });
});
