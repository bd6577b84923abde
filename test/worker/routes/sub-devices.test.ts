/** Sub-devices over REST: the assets of a plant, and so the targets of commands [C-2.2]. */
import { runSql } from '#workerd/d1.ts';
import { describe, expect, expectError, expectSameError, test, UUID } from '#workerd/worker-test.ts';
import { createDevice } from '#workerd/world.ts';
import { ASSETS } from '../../../protocol/asset.ts';
import { ASSET_TYPES, METER_ROLES } from '../../../protocol/enums.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { Page } from '../../../protocol/page.ts';
import type { SubDeviceRecord } from '../../../protocol/plant-record.ts';

const METER = { externalId: 'M-1', assetType: 'METER', name: 'Meter' };

/** The sub-devices of `plantId`. */
const it = test.extend('scene', ({ team, plantId }) => {
  const path = `/plants/${plantId}/sub-devices`;
  const post = (fields: unknown) => team.operator.post(path, fields);
  const make = (fields: object = {}) => team.newSubDevice(plantId, fields);
  const newSensor = (at: string | null = plantId) => createDevice(team.organization, at, 'SENSOR');
  return { path, post, make, newSensor };
});

describe('POST /plants/{id}/sub-devices', () => {
  it('a POST adds a sub-device [C-2.2]', async ({ scene, team, plantId }) => {
    const { id: linkedDeviceId } = await scene.newSensor();
    const fields = { externalId: 'bess_1.A-b', assetType: 'BESS', name: 'Battery', linkedDeviceId };
    const made = await scene.make({ ...fields, ratedPowerKw: 12.5, capacityKwh: 0 });
    expect(made).toEqual({
      id: UUID,
      plantId: plantId,
      ...fields,
      status: 'UNKNOWN',
      ratedPowerKw: 12.5,
      capacityKwh: 0,
      meterRole: 'BESS',
      templateId: null,
      createdAt: expect.stringMatching(/Z$/),
    });
    expect(await team.viewer.read(`${scene.path}/${made.id}`)).toEqual(made);
  });

  it('an asset type has a default meter role [C-2.2]', async ({ scene }) => {
    for (const assetType of ASSET_TYPES) {
      const { meterRole } = await scene.make({ externalId: assetType, assetType });
      expect([assetType, meterRole]).toEqual([assetType, ASSETS[assetType].meterRole]);
    }
    for (const meterRole of METER_ROLES) {
      const fields = { ...METER, externalId: `role-${meterRole}`, meterRole };
      expect(await scene.make(fields)).toMatchObject({ meterRole });
    }
  });

  it('partners see a new sub-device immediately (spec: Plant summary)', async ({ scene, team, plantId }) => {
    const key = await team.newKey(['vcp:read'], { allowedPlantIds: [plantId] });
    await scene.make();
    const subDevices = [{ deviceId: 'BESS-1', assetType: 'BESS', status: 'UNKNOWN' }];
    expect(await key.read('/vcp/sites')).toMatchObject({ plants: [{ id: plantId, subDevices }] });
  });

  it('a malformed externalId gets 400 with a code of its own [C-2.2]', async ({ scene }) => {
    for (const externalId of ['', ' ', 'a/b', 'a b', 'a:b', 'č', 'a\n', '../x', 'a'.repeat(65)]) {
      await expectError(await scene.post({ ...METER, externalId }), 400, 'SUB_DEVICE_EXTERNAL_ID_INVALID');
    }
    await scene.make({ externalId: 'a'.repeat(64) });
  });

  it('an externalId that is taken in its plant gets 409; another plant may use it [C-2.2]', async ({
    scene,
    team,
  }) => {
    await scene.make();
    const again = { ...METER, externalId: 'BESS-1' };
    await expectError(await scene.post(again), 409, 'SUB_DEVICE_EXTERNAL_ID_TAKEN');
    const { id } = await team.newPlant();
    await team.newSubDevice(id);
  });

  it('an invalid body gets 400 and adds nothing (bad input: REST)', async ({ scene, team, plantId }) => {
    const bad = [
      undefined,
      [],
      {},
      ...['externalId', 'assetType', 'name'].map((field) => ({ ...METER, [field]: undefined })),
      ...['id', 'plantId', 'status', 'createdAt'].map((field) => ({ ...METER, [field]: plantId })),
      { ...METER, organizationId: plantId },
      ...['', 'meter', 'SOLAR', null].map((assetType) => ({ ...METER, assetType })),
      ...[-1, 1e9 + 1, '5', Number.MAX_VALUE].map((ratedPowerKw) => ({ ...METER, ratedPowerKw })),
      { ...METER, capacityKwh: -0.1 },
      { ...METER, meterRole: 'grid' },
      { ...METER, linkedDeviceId: 'x' },
      { ...METER, name: ' ' },
    ];
    for (const body of bad) await expectError(await scene.post(body), 400, 'VALIDATION_ERROR');
    expect((await team.viewer.read<Page<SubDeviceRecord>>(scene.path)).data).toEqual([]);
  });

  it('a linkedDeviceId that is not of this plant gets 400, one that is already linked gets 409 [C-2.2]', async ({
    scene,
    team,
    other,
  }) => {
    const foreign = await createDevice(other.organization, null, 'SENSOR');
    const elsewhere = await scene.newSensor((await team.newPlant()).id);
    const wrong = [foreign, elsewhere, await scene.newSensor(null), { id: crypto.randomUUID() }];
    const answers = wrong.map(({ id }) => scene.post({ ...METER, linkedDeviceId: id }));
    await expectSameError(answers, 400, 'VALIDATION_ERROR');
    const { id: linkedDeviceId } = await scene.newSensor();
    await scene.make({ linkedDeviceId: linkedDeviceId.toUpperCase() });
    await expectError(await scene.post({ ...METER, linkedDeviceId }), 409, 'CONFLICT');
  });

  it('a plant with its maximum of sub-devices gets 409 until one is deleted (limits: subDevicesPerPlant)', async ({
    scene,
    team,
    plantId,
  }) => {
    await runSql(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
       INSERT INTO sub_devices (id, plant_id, external_id, asset_type, name, created_at_ms)
       SELECT lower(hex(randomblob(16))), ?, 'N-' || i, 'GENERIC', 'One', 1 FROM n`,
      LIMIT.subDevicesPerPlant - 1,
      plantId,
    );
    const { id } = await scene.make();
    await expectError(await scene.post(METER), 409, 'CONFLICT');
    await team.operator.remove(`${scene.path}/${id}`);
    await scene.make(METER);
  });
});

describe('GET /plants/{id}/sub-devices', () => {
  it('sub-devices are listed by external id (spec: List endpoints)', async ({ scene, team }) => {
    const { id: otherId } = await team.newPlant();
    await team.newSubDevice(otherId);
    for (const externalId of ['c', 'a', 'b']) await scene.make({ externalId });
    const { data, meta } = await team.viewer.read<Page<SubDeviceRecord>>(`${scene.path}?limit=2&page=2`);
    expect([data.map(({ externalId }) => externalId), meta]).toEqual([
      ['c'],
      { page: 2, limit: 2, total: 3, totalPages: 2 },
    ]);
    const whole = await team.viewer.read<Page<SubDeviceRecord>>(scene.path);
    expect(whole.data.map(({ externalId }) => externalId)).toEqual(['a', 'b', 'c']);
    await expectError(await team.viewer.call(`${scene.path}?limit=101`), 400, 'VALIDATION_ERROR');
  });
});

describe('a sub-device', () => {
  it('is found under its own plant only: 404 under another plant [C-2.2]', async ({
    scene,
    team,
    plantId,
  }) => {
    const made = await scene.make();
    const { id: otherId } = await team.newPlant();
    const shouted = `/plants/${plantId.toUpperCase()}/sub-devices/${made.id.toUpperCase()}`;
    expect(await team.viewer.read(shouted)).toEqual(made);
    for (const method of ['GET', 'PATCH', 'DELETE'] as const) {
      const options = method === 'PATCH' ? { method, body: { name: 'x' } } : { method };
      const elsewhere = `/plants/${otherId}/sub-devices/${made.id}`;
      await expectError(await team.operator.call(elsewhere, options), 404, 'SUB_DEVICE_NOT_FOUND');
      await expectError(await team.operator.call(`${scene.path}/BESS-1`, options), 400, 'INVALID_UUID');
    }
    expect(await team.viewer.read(`${scene.path}/${made.id}`)).toEqual(made);
  });

  it('a PATCH changes the named fields only [C-2.2]', async ({ scene, team }) => {
    const { id: linkedDeviceId } = await scene.newSensor();
    const made = await scene.make({ linkedDeviceId, capacityKwh: 100 });
    const change = (body: object) => team.operator.change<SubDeviceRecord>(`${scene.path}/${made.id}`, body);
    const renamed = { name: 'Two', ratedPowerKw: 60 };
    expect(await change(renamed)).toEqual({ ...made, ...renamed });
    const bare = { ...made, name: 'Two', ratedPowerKw: null, linkedDeviceId: null };
    expect(await change({ ratedPowerKw: null, linkedDeviceId: null })).toEqual(bare);
    expect(await change({})).toEqual(bare);
    expect(await change({ linkedDeviceId })).toEqual({ ...bare, linkedDeviceId });
  });

  it('a PATCH of a fixed field gets 400, one with an already linked device 409, and neither changes it [C-2.2]', async ({
    scene,
    team,
    plantId,
  }) => {
    const { id: linkedDeviceId } = await scene.newSensor();
    await scene.make({ externalId: 'taken', linkedDeviceId });
    const made = await scene.make();
    const patch = (body: object) =>
      team.operator.patch(`${scene.path}/${made.id}`, { capacityKwh: 1, ...body });
    const fixed = [{ externalId: 'other' }, { assetType: 'FVE' }, { plantId }, { id: made.id }];
    const wrong = [{ status: 'ONLINE' }, { name: null }, { ratedPowerKw: -1 }];
    for (const body of [...fixed, ...wrong, { linkedDeviceId: crypto.randomUUID() }]) {
      await expectError(await patch(body), 400, 'VALIDATION_ERROR');
    }
    await expectError(await patch({ linkedDeviceId }), 409, 'CONFLICT');
    expect(await team.viewer.read(`${scene.path}/${made.id}`)).toEqual(made);
  });

  it('a new sub-device can use the external id and the linked device of a deleted one [C-3.2]', async ({
    scene,
    team,
  }) => {
    const { id: linkedDeviceId } = await scene.newSensor();
    const { id } = await scene.make({ linkedDeviceId });
    expect(await team.operator.remove(`${scene.path}/${id}`)).toEqual({ id, deleted: true });
    const again = await team.operator.delete(`${scene.path}/${id}`);
    await expectError(again, 404, 'SUB_DEVICE_NOT_FOUND');
    await expectError(await team.viewer.call(`${scene.path}/${id}`), 404, 'SUB_DEVICE_NOT_FOUND');
    await scene.make({ linkedDeviceId });
  });
});
