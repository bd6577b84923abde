/** `POST …/meter-exchange`: an admin says that a meter was exchanged, and its registers count on [C-4.5]. */
import { evictDurableObject } from 'cloudflare:test';
import { vi } from 'vitest';
import { bodyOf } from '#workerd/client.ts';
import { connectDevice, telemetryMessage } from '#workerd/links.ts';
import { publish } from '#workerd/site-devices.ts';
import type { Team } from '#workerd/team.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import { createPlant, siteOf } from '#workerd/world.ts';

const IMPORT = 'METER-1/importRegisterKwh';

interface Scene {
  team: Team;
  plantId: string;
  meterId: string;
  /** The gateway reports a value of the import register. */
  report(kwh: number): Promise<void>;
  exchange(registers: unknown, by?: keyof Pick<Team, 'admin' | 'operator'>): Promise<Response>;
}

async function newScene(team: Team): Promise<Scene> {
  const plant = await createPlant(team.organization, { subDevices: [] });
  const { id: plantId } = plant;
  const path = `/plants/${plantId}/sub-devices`;
  const meter = { externalId: 'METER-1', assetType: 'METER', name: 'Meter' };
  const { id: meterId } = await bodyOf<{ id: string }>(await team.operator.post(path, meter), 201);
  const report = async (kwh: number) => {
    const link = await connectDevice(plant);
    await publish(link, telemetryMessage(plant.gateway, JSON.stringify({ [IMPORT]: kwh })));
  };
  const exchange: Scene['exchange'] = (registers, by = 'admin') =>
    team[by].post(`${path}/${meterId}/meter-exchange`, { registers });
  return { team, plantId, meterId, exchange, report };
}

const it = test.extend('scene', ({ ownTeam }) => newScene(ownTeam));

describe('POST /plants/{id}/sub-devices/{subDeviceId}/meter-exchange', () => {
  it('answers what was recorded, and an audit event has it [C-4.5] [C-8.4]', async ({ scene }) => {
    const registers = { importRegisterKwh: { value: 0.2, totalKwh: 48_210.7 } };
    const answer = await bodyOf(await scene.exchange(registers), 200);
    const exchangedAt = expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/);
    expect(answer).toEqual({ registers, deviceId: 'METER-1', exchangedAt });
    // The site writes it, with the exchange, and sends it to D1 afterwards.
    await vi.waitFor(async () =>
      expect((await scene.team.trailOf(scene.meterId)).map(([event]) => event)).toContain(
        'sub_device.meter_exchanged',
      ),
    );
  });

  it('has one audit event for each plant, also for meters of one name at the same moment [C-8.4]', async ({
    ownTeam,
    scene,
  }) => {
    const both = [scene, await newScene(ownTeam)];
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
    const registers = { importRegisterKwh: { value: 0, totalKwh: 1 } };
    for (const one of both) expect((await one.exchange(registers)).status).toBe(200);
    vi.useRealTimers();
    for (const { meterId } of both)
      await vi.waitFor(async () =>
        expect((await ownTeam.trailOf(meterId)).map(([event]) => event)).toContain(
          'sub_device.meter_exchanged',
        ),
      );
  });

  it('counts on from the given total with the next value of the meter [C-4.5]', async ({ scene }) => {
    const { plantId } = scene;
    const registers = { importRegisterKwh: { value: 0.2, totalKwh: 48_210.7 } };
    expect((await scene.exchange(registers)).status).toBe(200);
    await scene.report(1.2);
    const reading = await siteOf(plantId).readMeterState(plantId);
    expect(reading).toMatchObject({ meters: [{ importRegisterKwh: 48_211.7 }], dataQuality: 'ESTIMATED' });
  });

  it('keeps what was counted between two exchanges, before and after the next value [C-4.5]', async ({
    scene,
  }) => {
    const total = async () => {
      const reading = await siteOf(scene.plantId).readMeterState(scene.plantId);
      return reading?.meters[0]?.importRegisterKwh;
    };
    await scene.report(500);
    const first = { importRegisterKwh: { value: 0, totalKwh: 1_000 } };
    expect((await scene.exchange(first)).status).toBe(200);
    await scene.report(1);
    expect(await total()).toBe(1_001);
    const second = { importRegisterKwh: { value: 3, totalKwh: 1_100 } };
    expect((await scene.exchange(second)).status).toBe(200);
    await evictDurableObject(siteOf(scene.plantId));
    expect(await total()).toBe(1_001);
    await scene.report(4);
    expect(await total()).toBe(1_101);
  });

  it('answers 409 with the present total if it would fall, and changes nothing [C-4.5]', async ({
    scene,
  }) => {
    const first = { importRegisterKwh: { value: 5, totalKwh: 100 } };
    expect((await scene.exchange(first)).status).toBe(200);
    await scene.report(6);
    const refused = await scene.exchange({ importRegisterKwh: { value: 6, totalKwh: 100.5 } });
    expect((await expectError(refused, 409, 'CONFLICT')).message).toContain('101 kWh');
    expect(await siteOf(scene.plantId).readMeterState(scene.plantId)).toMatchObject({
      meters: [{ importRegisterKwh: 101 }],
    });
  });

  it.for([
    {},
    null,
    { importRegisterKwh: 5 },
    { importRegisterKwh: { value: 1 } },
    { importRegisterKwh: { value: -1, totalKwh: 5 } },
    { importRegisterKwh: { value: '1', totalKwh: 5 } },
    { importRegisterKwh: { value: 1, totalKwh: 1e13 } },
    { powerKw: { value: 1, totalKwh: 5 } },
  ])('refuses %j with 400 [C-4.5]', async (registers, { scene }) => {
    await expectError(await scene.exchange(registers), 400, 'VALIDATION_ERROR');
  });

  it('refuses an OPERATOR, and does not find a sub-device of another plant [C-1.3]', async ({ scene }) => {
    const registers = { importRegisterKwh: { value: 1, totalKwh: 5 } };
    const refused = await scene.exchange(registers, 'operator');
    await expectError(refused, 403, 'INSUFFICIENT_ORG_PERMISSIONS');
    const { id } = await scene.team.newPlant();
    const path = `/plants/${id}/sub-devices/${scene.meterId}/meter-exchange`;
    await expectError(await scene.team.admin.post(path, { registers }), 404, 'SUB_DEVICE_NOT_FOUND');
  });
});
