/** GET /telemetry/{deviceId}: the signals of one device under the names that it uses [C-3.5]. */
import { connect, type TokenDevice } from '#workerd/devices.ts';
import { DAY, holdClock, MINUTE, START_MS, setClock } from '#workerd/site-clock.ts';
import { connectTo } from '#workerd/site-devices.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { sendAll, untilPacked } from '#workerd/telemetry-site.ts';
import { describe, expect, expectError, expectSameError, test } from '#workerd/worker-test.ts';
import type { Page } from '../../../protocol/page.ts';

holdClock();

interface Point {
  timestamp: string;
  metric: string;
  value: number;
  count?: number;
}

const DAY_RANGE = 'from=2030-03-05T00:00:00Z&to=2030-03-06T00:00:00Z';

/** `reader` still works when every session has expired. */
const it = test
  .extend('reader', { scope: 'file' }, ({ team }) => team.newKey(['telemetry:read']))
  .extend('pageOf', ({ reader }) => async ({ id }: { id: string }, query = '') => {
    return await reader.read<Page<Point>>(`/telemetry/${id}?${query}`);
  })
  .extend('namesOf', ({ pageOf }) => async (device: { id: string }, query = DAY_RANGE) => {
    return (await pageOf(device, query)).data.map(({ metric, value }) => [metric, value] as const);
  });

/** Sends values in thousandths, with the present time. */
async function sendValues(device: TokenDevice, data: Record<string, number>): Promise<void> {
  await sendAll(await connect(device), device, [{ ts: Date.now(), data }]);
}

describe('GET /telemetry/{deviceId}', () => {
  it('the default is 20 raw readings of the last 24 h [C-3.5]', async ({ device, link, pageOf }) => {
    const sent = Array.from({ length: 12 }, (_none, index) => {
      return { ts: START_MS + index, data: { gridPowerKw: index * 1_000, fvePowerKw: 500 } };
    });
    await sendAll(link, device, sent);
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

  it('limit, page and metric select readings; later pages are empty [C-3.5]', async ({ device, pageOf }) => {
    await sendValues(device, { a: 1_000, b: 2_000, c: 3_000 });
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

  it.for([
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
  ] as const)(
    'buckets of %s show the %s of their readings, before and after packing [C-3.5]',
    async ([bucket, agg, buckets], { device, pageOf }) => {
      for (const [minutes, value] of [
        [40, 1_000],
        [40.5, 2_000],
        [44, 6_000],
        [70, 12_000],
      ] as const) {
        setClock(START_MS + minutes * MINUTE);
        // Without the Worker, because the token is valid for an hour.
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
    },
  );

  it('the default aggregate is the mean, or a register’s last value [C-3.5]', async ({ device, namesOf }) => {
    for (const value of [1_000, 2_000]) {
      setClock(START_MS + value);
      await sendValues(device, { powerKw: value, 'M-1/importRegisterKwh': value });
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
  it('readings have the names that the device sent, without the prefix of its sub-device [C-3.5]', async ({
    team,
    plantId,
    device,
    namesOf,
  }) => {
    const linked = await team.newTokenDevice({ plantId, type: 'ACTUATOR' });
    const loose = await team.newTokenDevice({ plantId, type: 'SENSOR' });
    const meter = { externalId: 'M-1', assetType: 'METER', linkedDeviceId: linked.id };
    await team.newSubDevice(plantId, meter);
    await sendValues(device, { gridPowerKw: 1_000, 'BESS-1/powerKw': 2_000 });
    await sendValues(linked, { powerKw: 3_000, 'BESS-1/powerKw': 4_000 });
    await sendValues(loose, { powerKw: 5_000, 'M-1/powerKw': 6_000 });
    await evictSite(plantId);
    expect(await namesOf(device)).toEqual([
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
    expect(await namesOf(device, `${DAY_RANGE}&metric=powerKw`)).toEqual([]);
    expect(await namesOf(device, `${DAY_RANGE}&metric=M-1/powerKw`)).toEqual([]);
  });

  it('names of a device without a plant have no prefix [C-2.4]', async ({ team, namesOf }) => {
    for (const type of ['GATEWAY', 'SENSOR']) {
      const loose = await team.newTokenDevice({ type });
      expect(await namesOf(loose)).toEqual([]);
      await sendValues(loose, { powerKw: 1_000 });
      await evictSite(loose.id);
      expect(await namesOf(loose)).toEqual([['powerKw', 1]]);
      expect(await namesOf(loose, `${DAY_RANGE}&metric=powerKw&bucket=1d`)).toEqual([['powerKw', 1]]);
    }
  });

  it('the history of a moved device stays with its old plant [C-3.1]', async ({ team, device, namesOf }) => {
    const { id: to } = await team.newPlant();
    await sendValues(device, { gridPowerKw: 1_000 });
    await team.operator.change(`/devices/${device.id}`, { plantId: to });
    expect(await namesOf(device)).toEqual([]);
    setClock(START_MS + MINUTE);
    await sendValues(device, { gridPowerKw: 2_000 });
    expect(await namesOf(device)).toEqual([['gridPowerKw', 2]]);
    const partner = await team.newKey(['vcp:read']);
    const path = `/vcp/sites/${device.siteId}/telemetry?metric=gridPowerKw&${DAY_RANGE}`;
    const { readings } = await partner.read<{ readings: Point[] }>(path);
    expect(readings.map(({ value }) => value)).toEqual([1]);
  });
});

describe('access', () => {
  it('a device that is foreign, absent or outside allowedPlantIds gets the same 404 [C-4.2]', async ({
    team,
    other,
    device,
  }) => {
    const hidden = await team.newTokenDevice({ plantId: (await team.newPlant()).id });
    const [loose, foreign] = [await team.newTokenDevice(), await other.newTokenDevice()];
    const narrow = await team.newKey(['telemetry:read'], { allowedPlantIds: [device.siteId] });
    const ids = [crypto.randomUUID(), hidden.id, foreign.id, loose.id];
    await expectSameError(
      ids.map((id) => narrow.call(`/telemetry/${id}`)),
      404,
      'NOT_FOUND',
    );
    expect((await narrow.call(`/telemetry/${device.id}`)).status).toBe(200);
    await expectError(await team.viewer.call(`/telemetry/${foreign.id}`), 404, 'NOT_FOUND');
  });
});
