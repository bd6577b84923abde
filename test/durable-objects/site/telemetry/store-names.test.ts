/** A bare name, one without a sub-device, keeps in the history the owner that it had on arrival [C-3.13]. */
import { connectDevice } from '#workerd/links.ts';
import { changeAndNotifySite, linkSubDevice } from '#workerd/registry-changes.ts';
import { setScene, type TelemetrySite } from '#workerd/scene.ts';
import { DAY, HOUR, MINUTE, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { connectTo, type DeviceCredential } from '#workerd/site-devices.ts';
import { moveDevice } from '#workerd/site-move.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { readOfDevice, readPoints, sendAll, untilPacked } from '#workerd/telemetry-site.ts';
import { createDevice, createPlant, siteOf } from '#workerd/world.ts';

const ALWAYS = [0, START_MS + DAY] as const;

/** A site with a second device, and a sub-device that can be linked to it. */
async function newSiteWithSensor() {
  const scene = await setScene({
    plant: { subDevices: [{ externalId: 'METER-2', assetType: 'METER' }] },
    telemetry: 'modelled',
  });
  const sensor = await createDevice(scene.organization, scene.plant.id, 'SENSOR');
  const link = async (deviceId: string | null) => {
    const change = linkSubDevice(scene.plant, 'METER-2', deviceId);
    await changeAndNotifySite(scene.organization, scene.plant.id, change);
  };
  return { ...scene, sensor, link };
}

/** Sends one value a second later, in thousandths. */
async function say(
  { plant }: Pick<TelemetrySite, 'plant'>,
  device: DeviceCredential,
  name: string,
  value: number,
) {
  setClock(Date.now() + SECOND);
  const link = await connectTo(plant.id, device.id);
  await sendAll(link, device, [{ ts: Date.now(), data: { [name]: value * 1_000 } }]);
}

async function valuesOf(siteId: string, metric: string): Promise<number[]> {
  return (await readPoints(siteId, metric, 'raw', ALWAYS)).map(({ value }) => value);
}

async function rowsOfDevice(siteId: string, deviceId: string, metric?: string): Promise<string[]> {
  const query = { fromMs: ALWAYS[0], toMs: ALWAYS[1], bucket: 'raw', metric } as const;
  const { rows } = await readOfDevice(siteId, deviceId, query);
  return rows.map((row) => `${row.metric} ${row.value}`);
}

/** Runs a check before packing, after a wake, and after packing. */
async function each(siteId: string, check: () => Promise<void>): Promise<void> {
  await check();
  await evictSite(siteId);
  await check();
  await untilPacked(siteId);
  await check();
  await evictSite(siteId);
  await check();
}

describe('bare names, which name no sub-device,', () => {
  it('belong to a sub-device only while the device is linked to it [C-3.13]', async () => {
    const scene = await newSiteWithSensor();
    const { plant, sensor, link } = scene;
    await say(scene, sensor, 'powerKw', 1);
    await link(sensor.id);
    await say(scene, sensor, 'powerKw', 2);
    await say(scene, sensor, 'METER-2/powerKw', 3);
    await say(scene, sensor, 'METER-9/powerKw', 4);
    await link(null);
    await say(scene, sensor, 'powerKw', 5);
    await each(plant.id, async () => {
      expect(await valuesOf(plant.id, 'METER-2/powerKw')).toEqual([2, 3]);
      expect(await valuesOf(plant.id, `@${sensor.id}/powerKw`)).toEqual([1, 5]);
      expect(await valuesOf(plant.id, `@${sensor.id}/METER-9/powerKw`)).toEqual([4]);
      expect(await valuesOf(plant.id, 'METER-9/powerKw')).toEqual([]);
      expect(await valuesOf(plant.id, 'powerKw')).toEqual([]);
    });
  });

  it('still belong to the sub-device and the site that they belonged to when their device is deleted [C-3.13]', async () => {
    const scene = await newSiteWithSensor();
    const { plant, gateway, sensor, link } = scene;
    await link(sensor.id);
    await say(scene, sensor, 'powerKw', 1);
    await say(scene, gateway, 'gridPowerKw', 2);
    for (const device of [sensor, gateway]) await siteOf(plant.id).forgetDevice(device.id);
    await link(null);
    await each(plant.id, async () => {
      expect(await valuesOf(plant.id, 'METER-2/powerKw')).toEqual([1]);
      expect(await valuesOf(plant.id, 'gridPowerKw')).toEqual([2]);
    });
  });

  it('stay with the old plant when their gateway moves, and new ones belong to the new plant [C-3.1]', async () => {
    const { organization, plant, gateway } = await newSiteWithSensor();
    const { id: toId } = await createPlant(organization);
    const fromId = plant.id;
    await say({ plant }, gateway, 'gridPowerKw', 1);
    await moveDevice(fromId, toId, gateway.id, 'move-1');
    await say({ plant: { ...plant, id: toId } }, gateway, 'gridPowerKw', 2);
    await each(fromId, async () => expect(await valuesOf(fromId, 'gridPowerKw')).toEqual([1]));
    await each(toId, async () => expect(await valuesOf(toId, 'gridPowerKw')).toEqual([2]));
    expect(await rowsOfDevice(fromId, gateway.id)).toEqual([]);
    expect(await rowsOfDevice(toId, gateway.id)).toEqual(['gridPowerKw 2']);
  });
});

describe('the history of a device', () => {
  it("the history uses the device's own names; a gateway's includes sub-devices that no other device is linked to [C-3.5]", async () => {
    const scene = await newSiteWithSensor();
    const { plant, gateway, sensor, link } = scene;
    await say(scene, sensor, 'powerKw', 1);
    await link(sensor.id);
    await say(scene, sensor, 'temperatureCelsius', 2);
    await say(scene, gateway, 'gridPowerKw', 3);
    await say(scene, gateway, 'BESS-1/powerKw', 4);
    await each(plant.id, async () => {
      expect(await rowsOfDevice(plant.id, sensor.id)).toEqual(['powerKw 1', 'temperatureCelsius 2']);
      expect(await rowsOfDevice(plant.id, gateway.id)).toEqual(['gridPowerKw 3', 'BESS-1/powerKw 4']);
      for (const name of ['temperatureCelsius', 'METER-2/temperatureCelsius'])
        expect(await rowsOfDevice(plant.id, sensor.id, name)).toEqual(['temperatureCelsius 2']);
      for (const name of ['gridPowerKw', 'BESS-1/powerKw'])
        expect(await rowsOfDevice(plant.id, sensor.id, name)).toEqual([]);
      for (const name of ['METER-2/temperatureCelsius', 'temperatureCelsius'])
        expect(await rowsOfDevice(plant.id, gateway.id, name)).toEqual([]);
    });
  });

  it('the history of an unknown device is empty [C-3.5]', async () => {
    const scene = await newSiteWithSensor();
    await say(scene, scene.gateway, 'gridPowerKw', 1);
    expect(await rowsOfDevice(scene.plant.id, crypto.randomUUID())).toEqual([]);
    await siteOf(scene.plant.id).forgetDevice(scene.sensor.id);
    expect(await rowsOfDevice(scene.plant.id, scene.sensor.id)).toEqual([]);
  });

  it('the history is paged by time and then by name, and the pages together are complete [C-3.5]', async () => {
    const { plant, gateway } = await newSiteWithSensor();
    const link = await connectDevice(plant);
    for (const hour of [0, 3, 6]) {
      setClock(START_MS + hour * HOUR);
      const messages = [2, 1, 0].map((minutes) => ({
        ts: Date.now() - minutes * MINUTE,
        data: { b: 1_000, a: 2_000, '😀': 3_000, ﬀ: 4_000 },
      }));
      await sendAll(hour === 0 ? link : await connectDevice(plant), gateway, messages);
      if (hour === 3) await untilPacked(plant.id);
    }
    const range = { fromMs: ALWAYS[0], toMs: ALWAYS[1] };
    for (const bucket of ['raw', '1m', '5m', '1h', '1d'] as const) {
      const all = await readOfDevice(plant.id, gateway.id, { ...range, bucket });
      expect(all.rows).toHaveLength(all.total);
      const order = all.rows.map(({ timestamp, metric }) => `${timestamp} ${metric}`);
      expect(order).toEqual(order.toSorted((left, right) => (left < right ? -1 : 1)));
      for (const limit of [1, 5, 36, 1_000]) {
        const pages = [];
        for (let page = 1; page <= Math.ceil(all.total / limit) + 1; page++) {
          const { rows, total } = await readOfDevice(plant.id, gateway.id, { ...range, bucket, page, limit });
          expect(total).toBe(all.total);
          expect(rows.length).toBeLessThanOrEqual(limit);
          pages.push(...rows);
        }
        expect(pages).toEqual(all.rows);
      }
    }
  });
});
