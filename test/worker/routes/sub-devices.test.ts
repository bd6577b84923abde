/** Sub-devices over REST: what a plant consists of, and so what commands may target [C-2.2]. */
import { env } from 'cloudflare:workers';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ASSETS } from '../../../protocol/asset.ts';
import { ASSET_TYPES, METER_ROLES } from '../../../protocol/enums.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { Page } from '../../../protocol/page.ts';
import type { PlantRecord, SubDeviceRecord } from '../../../protocol/plant-record.ts';
import { organizationOf, postPlant, postSubDevice } from '../../support/workerd/fleet.ts';
import { createTeam, type Team } from '../../support/workerd/people.ts';
import { expectError, read } from '../../support/workerd/rest.ts';
import { createDevice, createKey } from '../../support/workerd/world.ts';

let team: Team;
let plant: PlantRecord;
let path: string;

beforeAll(async () => {
  team = await createTeam();
});

beforeEach(async () => {
  plant = await postPlant(team.operator);
  path = `/plants/${plant.id}/sub-devices`;
});

function post(fields: unknown): Promise<Response> {
  return team.operator.call(path, { method: 'POST', body: fields });
}

function patch(id: string, body: unknown): Promise<Response> {
  return team.operator.call(`${path}/${id}`, { method: 'PATCH', body });
}

function newDevice(plantId: string | null = plant.id): Promise<{ id: string }> {
  return createDevice(organizationOf(team), plantId, 'SENSOR');
}

const METER = { externalId: 'M-1', assetType: 'METER', name: 'Meter' };

describe('POST /plants/{id}/sub-devices', () => {
  it('adds one with all that is said of it, and answers 201 with its record [C-2.2]', async () => {
    const { id: linkedDeviceId } = await newDevice();
    const fields = { externalId: 'bess_1.A-b', assetType: 'BESS', name: 'Battery', linkedDeviceId };
    const made = await postSubDevice(team.operator, plant.id, {
      ...fields,
      ratedPowerKw: 12.5,
      capacityKwh: 0,
    });
    expect(made).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      plantId: plant.id,
      ...fields,
      status: 'UNKNOWN',
      ratedPowerKw: 12.5,
      capacityKwh: 0,
      meterRole: 'BESS',
      createdAt: expect.stringMatching(/Z$/),
    });
    expect(await team.viewer.read(`${path}/${made.id}`)).toEqual(made);
  });

  it('gives each kind the role of its meter unless told another [C-2.2]', async () => {
    for (const assetType of ASSET_TYPES) {
      const { meterRole } = await postSubDevice(team.operator, plant.id, {
        externalId: assetType,
        assetType,
      });
      expect([assetType, meterRole]).toEqual([assetType, ASSETS[assetType].meterRole]);
    }
    for (const meterRole of METER_ROLES) {
      const fields = { ...METER, externalId: `role-${meterRole}`, meterRole };
      expect(await postSubDevice(team.operator, plant.id, fields)).toMatchObject({ meterRole });
    }
  });

  it('is what partners see of the plant when it answers (spec: Plant summary)', async () => {
    const { key } = await createKey(organizationOf(team), {
      scopes: ['vcp:read'],
      allowedPlantIds: [plant.id],
    });
    await postSubDevice(team.operator, plant.id);
    expect(await read('/api/v1/vcp/sites', key)).toMatchObject({
      plants: [{ id: plant.id, subDevices: [{ deviceId: 'BESS-1', assetType: 'BESS', status: 'UNKNOWN' }] }],
    });
  });

  it('refuses an externalId of another form by its own code [C-2.2]', async () => {
    for (const externalId of ['', ' ', 'a/b', 'a b', 'a:b', 'č', 'a\n', '../x', 'a'.repeat(65)]) {
      await expectError(await post({ ...METER, externalId }), 400, 'SUB_DEVICE_EXTERNAL_ID_INVALID');
    }
    await postSubDevice(team.operator, plant.id, { externalId: 'a'.repeat(64) });
  });

  it('refuses an externalId that the plant has, and takes it for another plant [C-2.2]', async () => {
    await postSubDevice(team.operator, plant.id);
    const again = { ...METER, externalId: 'BESS-1' };
    await expectError(await post(again), 409, 'SUB_DEVICE_EXTERNAL_ID_TAKEN');
    const { id } = await postPlant(team.operator);
    await postSubDevice(team.operator, id);
  });

  it('refuses what it does not know, and values out of bounds: nothing is added (bad input: REST)', async () => {
    const bad = [
      undefined,
      [],
      {},
      ...['externalId', 'assetType', 'name'].map((field) => ({ ...METER, [field]: undefined })),
      ...['id', 'plantId', 'status', 'createdAt', 'organizationId'].map((field) => ({
        ...METER,
        [field]: plant.id,
      })),
      ...['', 'meter', 'SOLAR', null].map((assetType) => ({ ...METER, assetType })),
      ...[-1, 1e9 + 1, '5', Number.MAX_VALUE].map((ratedPowerKw) => ({ ...METER, ratedPowerKw })),
      { ...METER, capacityKwh: -0.1 },
      { ...METER, meterRole: 'grid' },
      { ...METER, linkedDeviceId: 'x' },
      { ...METER, name: ' ' },
    ];
    for (const body of bad) await expectError(await post(body), 400, 'VALIDATION_ERROR');
    expect((await team.viewer.read<Page<SubDeviceRecord>>(path)).data).toEqual([]);
  });

  it('links a device of the plant, and only one sub-device to it; any other device is as absent [C-2.2]', async () => {
    const foreign = await createDevice(organizationOf(await createTeam()), null, 'SENSOR');
    const elsewhere = await newDevice((await postPlant(team.operator)).id);
    const texts = new Set<string>();
    for (const { id } of [foreign, elsewhere, await newDevice(null), { id: crypto.randomUUID() }]) {
      const response = await post({ ...METER, linkedDeviceId: id });
      texts.add(await response.clone().text());
      await expectError(response, 400, 'VALIDATION_ERROR');
    }
    expect(texts.size).toBe(1);
    const { id: linkedDeviceId } = await newDevice();
    await postSubDevice(team.operator, plant.id, { linkedDeviceId: linkedDeviceId.toUpperCase() });
    await expectError(await post({ ...METER, linkedDeviceId }), 409, 'CONFLICT');
  });

  it('adds as many as a plant may have, and no more: 409 CONFLICT (limits: subDevicesPerPlant)', async () => {
    await env.DB.prepare(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
       INSERT INTO sub_devices (id, plant_id, external_id, asset_type, name, created_at_ms)
       SELECT lower(hex(randomblob(16))), ?, 'N-' || i, 'GENERIC', 'One', 1 FROM n`,
    )
      .bind(LIMIT.subDevicesPerPlant - 1, plant.id)
      .run();
    const { id } = await postSubDevice(team.operator, plant.id);
    await expectError(await post(METER), 409, 'CONFLICT');
    await team.operator.read(`${path}/${id}`, { method: 'DELETE' });
    await postSubDevice(team.operator, plant.id, METER);
  });
});

describe('GET /plants/{id}/sub-devices', () => {
  it('answers pages by external id, of this plant alone (spec: List endpoints)', async () => {
    const { id: otherId } = await postPlant(team.operator);
    await postSubDevice(team.operator, otherId);
    for (const externalId of ['c', 'a', 'b']) await postSubDevice(team.operator, plant.id, { externalId });
    const { data, meta } = await team.viewer.read<Page<SubDeviceRecord>>(`${path}?limit=2&page=2`);
    expect([data.map(({ externalId }) => externalId), meta]).toEqual([
      ['c'],
      { page: 2, limit: 2, total: 3, totalPages: 2 },
    ]);
    expect(
      (await team.viewer.read<Page<SubDeviceRecord>>(path)).data.map(({ externalId }) => externalId),
    ).toEqual(['a', 'b', 'c']);
    await expectError(await team.viewer.call(`${path}?limit=101`), 400, 'VALIDATION_ERROR');
  });
});

describe('a sub-device', () => {
  it('is found below its own plant alone, by a UUID in either case [C-2.2]', async () => {
    const made = await postSubDevice(team.operator, plant.id);
    const { id: otherId } = await postPlant(team.operator);
    const shouted = `/plants/${plant.id.toUpperCase()}/sub-devices/${made.id.toUpperCase()}`;
    expect(await team.viewer.read(shouted)).toEqual(made);
    for (const method of ['GET', 'PATCH', 'DELETE'] as const) {
      const options = method === 'PATCH' ? { method, body: { name: 'x' } } : { method };
      const elsewhere = `/plants/${otherId}/sub-devices/${made.id}`;
      await expectError(await team.operator.call(elsewhere, options), 404, 'SUB_DEVICE_NOT_FOUND');
      await expectError(await team.operator.call(`${path}/BESS-1`, options), 400, 'INVALID_UUID');
    }
    expect(await team.viewer.read(`${path}/${made.id}`)).toEqual(made);
  });

  it('changes by PATCH in what is named, null takes away, and the rest stays [C-2.2]', async () => {
    const { id: linkedDeviceId } = await newDevice();
    const made = await postSubDevice(team.operator, plant.id, { linkedDeviceId, capacityKwh: 100 });
    const change = (body: object) =>
      team.operator.read<SubDeviceRecord>(`${path}/${made.id}`, { method: 'PATCH', body });
    expect(await change({ name: 'Two', ratedPowerKw: 60 })).toEqual({
      ...made,
      name: 'Two',
      ratedPowerKw: 60,
    });
    const bare = { ...made, name: 'Two', ratedPowerKw: null, linkedDeviceId: null };
    expect(await change({ ratedPowerKw: null, linkedDeviceId: null })).toEqual(bare);
    expect(await change({})).toEqual(bare);
    expect(await change({ linkedDeviceId })).toEqual({ ...bare, linkedDeviceId });
  });

  it('keeps its external id and asset type, and refuses what a POST refuses [C-2.2]', async () => {
    const { id: linkedDeviceId } = await newDevice();
    await postSubDevice(team.operator, plant.id, { externalId: 'taken', linkedDeviceId });
    const made = await postSubDevice(team.operator, plant.id);
    for (const body of [
      { externalId: 'other' },
      { assetType: 'FVE' },
      { plantId: plant.id },
      { id: made.id },
      { status: 'ONLINE' },
      { name: null },
      { ratedPowerKw: -1 },
      { linkedDeviceId: crypto.randomUUID() },
    ]) {
      await expectError(await patch(made.id, { capacityKwh: 1, ...body }), 400, 'VALIDATION_ERROR');
    }
    await expectError(await patch(made.id, { capacityKwh: 1, linkedDeviceId }), 409, 'CONFLICT');
    expect(await team.viewer.read(`${path}/${made.id}`)).toEqual(made);
  });

  it('goes by DELETE, which answers its id, once; its device and external id are free again [C-3.2]', async () => {
    const { id: linkedDeviceId } = await newDevice();
    const { id } = await postSubDevice(team.operator, plant.id, { linkedDeviceId });
    expect(await team.operator.read(`${path}/${id}`, { method: 'DELETE' })).toEqual({ id, deleted: true });
    const again = await team.operator.call(`${path}/${id}`, { method: 'DELETE' });
    await expectError(again, 404, 'SUB_DEVICE_NOT_FOUND');
    await expectError(await team.viewer.call(`${path}/${id}`), 404, 'SUB_DEVICE_NOT_FOUND');
    await postSubDevice(team.operator, plant.id, { linkedDeviceId });
  });
});
