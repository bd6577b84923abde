/** Plants over REST: made, read, changed and deleted by members, and by keys with a plants: scope [C-2.1]. */
import { describe, expect, expectError, expectInvalid, INSTANT, test, UUID } from '#workerd/worker-test.ts';
import { createDevice, randomEan } from '#workerd/world.ts';

const it = test
  .extend('post', ({ team }) => (body: unknown) => {
    return team.operator.post('/plants', body);
  })
  .extend('patch', ({ team }) => (id: string, body: unknown) => {
    return team.operator.patch(`/plants/${id}`, body);
  });

describe('POST /plants', () => {
  it('a POST makes a plant and answers 201 with its record [C-2.1]', async ({ team }) => {
    const fields = {
      name: 'Dairy',
      externalPlantId: 'dairy:1._-A',
      eanCons: randomEan(),
      eanProd: randomEan(),
    };
    const plant = await team.newPlant({ ...fields, timezone: 'Europe/Prague' });
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

  it('only the name is required, the rest has defaults [C-2.1]', async ({ team }) => {
    const nothing = { externalPlantId: null, eanCons: null, eanProd: null };
    expect(await team.newPlant()).toMatchObject({ ...nothing, timezone: 'UTC', status: 'PENDING' });
    expect(await team.newPlant(nothing)).toMatchObject(nothing);
  });

  it.for(['eanCons', 'eanProd'])('an %s that is not 18 digits gets 400 [C-2.1]', async (field, { post }) => {
    const ean = randomEan();
    const lengths = [ean.slice(1), `${ean}0`, '', ' '];
    for (const value of [...lengths, `+${ean.slice(1)}`, '１'.repeat(18), `${ean}\n`, Number(ean)]) {
      await expectInvalid(await post({ name: 'x', [field]: value }), field, value);
    }
  });

  it('a malformed externalPlantId, or a UUID, gets 400 with its own code [C-2.1]', async ({ team, post }) => {
    const uuid = crypto.randomUUID();
    const spellings = ['', ' ', 'a b', 'a/b', 'č', 'a\n', 'a'.repeat(65)];
    for (const externalPlantId of [...spellings, uuid, uuid.toUpperCase()]) {
      const response = await post({ name: 'x', externalPlantId });
      await expectError(response, 400, 'EXTERNAL_PLANT_ID_INVALID_FORMAT');
    }
    await team.newPlant({ externalPlantId: 'a'.repeat(64) });
  });

  it('an invalid body gets 400 and makes nothing (bad input: REST)', async ({ team, post }) => {
    const before = await team.totalOf('/plants');
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
    expect(await team.totalOf('/plants')).toBe(before);
  });

  it('a taken EAN or externalPlantId gets 409 [C-2.1]', async ({ team, other, post }) => {
    const [eanCons, eanProd] = [randomEan(), randomEan()];
    await team.newPlant({ eanCons, eanProd, externalPlantId: 'taken' });
    const swapped = [{ eanCons: eanProd }, { eanProd: eanCons }];
    for (const fields of [{ eanCons }, { eanProd }, ...swapped, { externalPlantId: 'taken' }]) {
      await expectError(await post({ name: 'x', ...fields }), 409, 'PLANT_ALREADY_EXISTS');
    }
    await other.newPlant({ eanCons, eanProd, externalPlantId: 'taken' });
    const both = randomEan();
    await team.newPlant({ eanCons: both, eanProd: both });
  });

  it('a time zone may be a name; an offset gets 400 [C-2.1]', async ({ team, post }) => {
    await team.newPlant({ timezone: 'America/Argentina/Buenos_Aires' });
    for (const timezone of ['+01:00', '-0530', '+1']) {
      await expectError(await post({ name: 'x', timezone }), 400, 'VALIDATION_ERROR');
    }
  });

  it('makes one of two concurrent plants with one EAN, the other gets 409 [C-2.1]', async ({ post }) => {
    const eanCons = randomEan();
    const answers = await Promise.all([post({ name: 'a', eanCons }), post({ name: 'b', eanProd: eanCons })]);
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409]);
  });

  it('a key with allowedPlantIds gets 403, one without them makes the plant [C-4.2]', async ({
    team,
    plantId,
  }) => {
    const limited = await team.newKey(['plants:write'], { allowedPlantIds: [plantId] });
    await expectError(await limited.post('/plants', { name: 'x' }), 403, 'FORBIDDEN');
    const wide = await team.newKey(['plants:write']);
    expect((await wide.post('/plants', { name: 'x' })).status).toBe(201);
  });
});

describe('GET /plants/{id}', () => {
  it('the id may be in upper case; one that is no UUID gets 400 INVALID_UUID [C-10]', async ({ team }) => {
    const plant = await team.newPlant();
    expect(await team.viewer.read(`/plants/${plant.id.toUpperCase()}`)).toEqual(plant);
    for (const id of ['x', '1', plant.id.slice(1), `${plant.id}0`, '%00', '__proto__', "'%20OR%201=1"]) {
      await expectError(await team.viewer.call(`/plants/${id}`), 400, 'INVALID_UUID');
    }
  });
});

describe('PATCH /plants/{id}', () => {
  it('a PATCH changes the named fields, and null deletes a field [C-2.1]', async ({ team }) => {
    const plant = await team.newPlant({ externalPlantId: 'before', eanCons: randomEan() });
    const path = `/plants/${plant.id}`;
    const change = (body: object) => team.operator.change(path, body);
    const withoutEans = { eanCons: null, eanProd: null };
    const renamed = { ...plant, name: 'Hall 2' };
    expect(await change({ name: 'Hall 2' })).toEqual(renamed);
    const changed = { ...renamed, externalPlantId: null, eanProd: plant.eanCons, timezone: 'Asia/Tokyo' };
    const { externalPlantId, eanProd, timezone } = changed;
    expect(await change({ externalPlantId, eanProd, timezone })).toEqual(changed);
    expect(await change({})).toEqual(changed);
    expect(await change(withoutEans)).toEqual({ ...changed, ...withoutEans });
    expect(await team.viewer.read(path)).toEqual({ ...changed, ...withoutEans });
  });

  it('a PATCH that is invalid gets 400, one with a taken EAN or id 409, and neither changes anything [C-2.1]', async ({
    team,
    other,
    patch,
  }) => {
    const [eanCons, taken] = [randomEan(), randomEan()];
    await team.newPlant({ eanProd: taken, externalPlantId: 'taken-id' });
    const plant = await team.newPlant({ eanCons });
    for (const field of ['id', 'organizationId', 'status', 'createdAt', 'deleted']) {
      await expectError(await patch(plant.id, { name: 'x', [field]: other.id }), 400, 'VALIDATION_ERROR');
    }
    await expectError(await patch(plant.id, { name: null }), 400, 'VALIDATION_ERROR');
    await expectError(await patch(plant.id, { name: 'x', eanProd: '1' }), 400, 'VALIDATION_ERROR');
    const uuid = { name: 'x', externalPlantId: crypto.randomUUID() };
    await expectError(await patch(plant.id, uuid), 400, 'EXTERNAL_PLANT_ID_INVALID_FORMAT');
    for (const fields of [{ eanCons: taken }, { eanProd: taken }, { externalPlantId: 'taken-id' }]) {
      await expectError(await patch(plant.id, { name: 'x', ...fields }), 409, 'PLANT_ALREADY_EXISTS');
    }
    expect(await team.viewer.read(`/plants/${plant.id}`)).toEqual(plant);
  });
});

describe('DELETE /plants/{id}', () => {
  it('a deleted plant and its sub-devices get 404, and partners no longer see the plant [C-3.2]', async ({
    team,
  }) => {
    const { id } = await team.newPlant();
    const { id: subDeviceId } = await team.newSubDevice(id);
    const key = await team.newKey(['vcp:read'], { allowedPlantIds: [id] });
    expect(await key.read('/vcp/sites')).toMatchObject({ plants: [{ id }] });
    expect(await team.operator.remove(`/plants/${id}`)).toEqual({ id, deleted: true });
    for (const path of ['', `/sub-devices/${subDeviceId}`, '/config']) {
      await expectError(await team.viewer.call(`/plants/${id}${path}`), 404, 'PLANT_NOT_FOUND');
    }
    expect(await key.read('/vcp/sites')).toEqual({ plants: [] });
    await expectError(await team.operator.delete(`/plants/${id}`), 404, 'PLANT_NOT_FOUND');
  });

  it('a plant with devices cannot be deleted: 409 PLANT_INVALID_STATE [C-3.2]', async ({ team }) => {
    const plant = await team.newPlant();
    const subDevice = await team.newSubDevice(plant.id);
    await createDevice(team.organization, plant.id, 'GATEWAY');
    const path = `/plants/${plant.id}`;
    await expectError(await team.operator.delete(path), 409, 'PLANT_INVALID_STATE');
    expect(await team.viewer.read(path)).toEqual(plant);
    expect(await team.viewer.read(`${path}/sub-devices/${subDevice.id}`)).toEqual(subDevice);
  });
});
