/** Plants over REST: made, read, changed and deleted by members, and by keys with a plants: scope [C-2.1]. */
import { beforeAll, describe, expect, it } from 'vitest';
import {
  callWithKey,
  createTeamKey,
  listPlants,
  organizationOf,
  postPlant,
  postSubDevice,
} from '../../support/workerd/fleet.ts';
import { createTeam, type Team } from '../../support/workerd/people.ts';
import { expectError, read } from '../../support/workerd/rest.ts';
import { createDevice, createKey } from '../../support/workerd/world.ts';

const UUID = expect.stringMatching(/^[0-9a-f-]{36}$/);
const INSTANT = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);

let team: Team;
let other: Team;

beforeAll(async () => {
  [team, other] = await Promise.all([createTeam(), createTeam()]);
});

let lastEan = 859_182_400_000_000_000n;

function newEan(): string {
  lastEan += 1n;
  return String(lastEan);
}

function post(body: unknown, by = team.operator): Promise<Response> {
  return by.call('/plants', { method: 'POST', body });
}

function patch(id: string, body: unknown): Promise<Response> {
  return team.operator.call(`/plants/${id}`, { method: 'PATCH', body });
}

describe('POST /plants', () => {
  it('makes a plant of the organization, and answers 201 with its record [C-2.1]', async () => {
    const fields = { name: 'Dairy', externalPlantId: 'dairy:1._-A', eanCons: newEan(), eanProd: newEan() };
    const plant = await postPlant(team.operator, { ...fields, timezone: 'Europe/Prague' });
    expect(plant).toEqual({
      id: UUID,
      organizationId: team.id,
      ...fields,
      timezone: 'Europe/Prague',
      status: 'PENDING',
      createdAt: INSTANT,
    });
    expect(await team.viewer.read(`/plants/${plant.id}`)).toEqual(plant);
  });

  it('asks for a name alone: the rest is null, UTC and PENDING [C-2.1]', async () => {
    const nothing = { externalPlantId: null, eanCons: null, eanProd: null };
    expect(await postPlant(team.operator)).toMatchObject({ ...nothing, timezone: 'UTC', status: 'PENDING' });
    expect(await postPlant(team.operator, nothing)).toMatchObject(nothing);
  });

  it.each(['eanCons', 'eanProd'])('refuses an %s that is not 18 digits: 400 [C-2.1]', async (field) => {
    const ean = newEan();
    const bad = [
      ean.slice(1),
      `${ean}0`,
      '',
      ' ',
      `+${ean.slice(1)}`,
      '１'.repeat(18),
      `${ean}\n`,
      Number(ean),
    ];
    for (const value of bad) {
      const { details } = await expectError(
        await post({ name: 'x', [field]: value }),
        400,
        'VALIDATION_ERROR',
      );
      expect([value, details]).toEqual([value, [expect.stringContaining(`${field}: `)]]);
    }
  });

  it('refuses an externalPlantId of another form, that of a UUID included, by its own code [C-2.1]', async () => {
    const uuid = crypto.randomUUID();
    for (const externalPlantId of [
      '',
      ' ',
      'a b',
      'a/b',
      'č',
      'a\n',
      'a'.repeat(65),
      uuid,
      uuid.toUpperCase(),
    ]) {
      const response = await post({ name: 'x', externalPlantId });
      await expectError(response, 400, 'EXTERNAL_PLANT_ID_INVALID_FORMAT');
    }
    await postPlant(team.operator, { externalPlantId: 'a'.repeat(64) });
  });

  it('refuses a body that is none, lacks a name or says what it may not: nothing is made (bad input: REST)', async () => {
    const { total } = (await listPlants(team.viewer)).meta;
    const bad = [
      undefined,
      null,
      [],
      'x',
      {},
      { name: '' },
      { name: ' \t' },
      { name: 'x'.repeat(101) },
      { name: 1 },
      { name: 'x', timezone: 'Mars/Olympus' },
      { name: 'x', timezone: '' },
      { name: 'x', timezone: null },
      { name: 'x', constructor: {} },
      JSON.parse('{ "name": "x", "__proto__": { "status": "ONLINE" } }'),
      ...['id', 'organizationId', 'status', 'createdAt', 'vhost'].map((field) => ({
        name: 'x',
        [field]: team.id,
      })),
    ];
    for (const body of bad) await expectError(await post(body), 400, 'VALIDATION_ERROR');
    expect((await listPlants(team.viewer)).meta.total).toBe(total);
  });

  it('refuses an EAN or externalPlantId that another plant of the organization has: 409 [C-2.1]', async () => {
    const [eanCons, eanProd] = [newEan(), newEan()];
    await postPlant(team.operator, { eanCons, eanProd, externalPlantId: 'taken' });
    for (const fields of [
      { eanCons },
      { eanProd },
      { eanCons: eanProd },
      { eanProd: eanCons },
      { externalPlantId: 'taken' },
    ]) {
      await expectError(await post({ name: 'x', ...fields }), 409, 'PLANT_ALREADY_EXISTS');
    }
    await postPlant(other.operator, { eanCons, eanProd, externalPlantId: 'taken' });
    const both = newEan();
    await postPlant(team.operator, { eanCons: both, eanProd: both });
  });

  it('takes names of time zones alone, no offsets [C-2.1]', async () => {
    await postPlant(team.operator, { timezone: 'America/Argentina/Buenos_Aires' });
    for (const timezone of ['+01:00', '-0530', '+1']) {
      await expectError(await post({ name: 'x', timezone }), 400, 'VALIDATION_ERROR');
    }
  });

  it('lets one of two win that want the same EAN at once [C-2.1]', async () => {
    const eanCons = newEan();
    const answers = await Promise.all([post({ name: 'a', eanCons }), post({ name: 'b', eanProd: eanCons })]);
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409]);
  });

  it('refuses a key that is limited to plants: it could not see what it made [C-4.2]', async () => {
    const { id } = await postPlant(team.operator);
    const limited = await createTeamKey(team, ['plants:write'], { allowedPlantIds: [id] });
    const options = { method: 'POST', body: { name: 'x' } } as const;
    await expectError(await callWithKey(limited, '/plants', options), 403, 'FORBIDDEN');
    const wide = await createTeamKey(team, ['plants:write']);
    expect((await callWithKey(wide, '/plants', options)).status).toBe(201);
  });
});

describe('GET /plants/{id}', () => {
  it('takes the id in either case, and refuses what is no UUID: 400 INVALID_UUID [C-10]', async () => {
    const plant = await postPlant(team.operator);
    expect(await team.viewer.read(`/plants/${plant.id.toUpperCase()}`)).toEqual(plant);
    for (const id of ['x', '1', plant.id.slice(1), `${plant.id}0`, '%00', '__proto__', "'%20OR%201=1"]) {
      await expectError(await team.viewer.call(`/plants/${id}`), 400, 'INVALID_UUID');
    }
  });
});

describe('PATCH /plants/{id}', () => {
  it('changes what it names, takes away what is null, and leaves the rest [C-2.1]', async () => {
    const plant = await postPlant(team.operator, { externalPlantId: 'before', eanCons: newEan() });
    const path = `/plants/${plant.id}`;
    const change = (body: object) => team.operator.read(path, { method: 'PATCH', body });
    const renamed = { ...plant, name: 'Hall 2' };
    expect(await change({ name: 'Hall 2' })).toEqual(renamed);
    const changed = { ...renamed, externalPlantId: null, eanProd: plant.eanCons, timezone: 'Asia/Tokyo' };
    const { externalPlantId, eanProd, timezone } = changed;
    expect(await change({ externalPlantId, eanProd, timezone })).toEqual(changed);
    expect(await change({})).toEqual(changed);
    expect(await change({ eanCons: null, eanProd: null })).toEqual({
      ...changed,
      eanCons: null,
      eanProd: null,
    });
    expect(await team.viewer.read(path)).toEqual({ ...changed, eanCons: null, eanProd: null });
  });

  it('refuses what a POST refuses, and what is another plant’s, and changes nothing by it [C-2.1]', async () => {
    const [eanCons, taken] = [newEan(), newEan()];
    await postPlant(team.operator, { eanProd: taken, externalPlantId: 'somebody' });
    const plant = await postPlant(team.operator, { eanCons });
    for (const field of ['id', 'organizationId', 'status', 'createdAt', 'deleted']) {
      await expectError(await patch(plant.id, { name: 'x', [field]: other.id }), 400, 'VALIDATION_ERROR');
    }
    await expectError(await patch(plant.id, { name: null }), 400, 'VALIDATION_ERROR');
    await expectError(await patch(plant.id, { name: 'x', eanProd: '1' }), 400, 'VALIDATION_ERROR');
    const uuid = { name: 'x', externalPlantId: crypto.randomUUID() };
    await expectError(await patch(plant.id, uuid), 400, 'EXTERNAL_PLANT_ID_INVALID_FORMAT');
    for (const fields of [{ eanCons: taken }, { eanProd: taken }, { externalPlantId: 'somebody' }]) {
      await expectError(await patch(plant.id, { name: 'x', ...fields }), 409, 'PLANT_ALREADY_EXISTS');
    }
    expect(await team.viewer.read(`/plants/${plant.id}`)).toEqual(plant);
  });
});

describe('DELETE /plants/{id}', () => {
  it('takes the plant away with its sub-devices, from partners too, and answers the id [C-3.2]', async () => {
    const { id } = await postPlant(team.operator);
    const { id: subDeviceId } = await postSubDevice(team.operator, id);
    const { key } = await createKey(organizationOf(team), { scopes: ['vcp:read'], allowedPlantIds: [id] });
    expect(await read<{ plants: object[] }>('/api/v1/vcp/sites', key)).toMatchObject({ plants: [{ id }] });
    expect(await team.operator.read(`/plants/${id}`, { method: 'DELETE' })).toEqual({ id, deleted: true });
    for (const path of [
      `/plants/${id}`,
      `/plants/${id}/sub-devices/${subDeviceId}`,
      `/plants/${id}/config`,
    ]) {
      await expectError(await team.viewer.call(path), 404, 'PLANT_NOT_FOUND');
    }
    expect(await read('/api/v1/vcp/sites', key)).toEqual({ plants: [] });
    await expectError(
      await team.operator.call(`/plants/${id}`, { method: 'DELETE' }),
      404,
      'PLANT_NOT_FOUND',
    );
  });

  it('leaves a plant that has devices whole: 409 PLANT_INVALID_STATE [C-3.2]', async () => {
    const plant = await postPlant(team.operator);
    const subDevice = await postSubDevice(team.operator, plant.id);
    await createDevice(organizationOf(team), plant.id, 'GATEWAY');
    const path = `/plants/${plant.id}`;
    await expectError(await team.operator.call(path, { method: 'DELETE' }), 409, 'PLANT_INVALID_STATE');
    expect(await team.viewer.read(path)).toEqual(plant);
    expect(await team.viewer.read(`${path}/sub-devices/${subDevice.id}`)).toEqual(subDevice);
  });
});
