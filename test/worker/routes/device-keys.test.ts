/** Devices by API key: what each scope opens, and how far a key that is limited to plants sees [C-2.6], [C-4.2]. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { DeviceDiagnostics, DeviceRecord, OwnCommand } from '../../../protocol/device-record.ts';
import type { Page } from '../../../protocol/page.ts';
import type { ApiKeyScope } from '../../../protocol/scopes.ts';
import {
  connect,
  diagnosticsOf,
  newDeviceIn,
  newTokenDevice,
  operate,
  postDevice,
  readDevice,
  registration,
} from '../../support/workerd/devices.ts';
import { auditRows } from '../../support/workerd/door.ts';
import { callWithKey, createTeamKey, postPlant } from '../../support/workerd/fleet.ts';
import { bodyOf, type Call, createTeam, type Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';
import { publish, rawTelemetry } from '../../support/workerd/site-devices.ts';
import type { Key } from '../../support/workerd/world.ts';

const ALL: ApiKeyScope[] = ['plants:read', 'plants:write', 'commands:read', 'commands:execute'];
const REBOOT = { action: 'REBOOT' };

let team: Team;
let keys: Record<string, Key>;

beforeAll(async () => {
  team = await createTeam();
  keys = Object.fromEntries(
    await Promise.all(ALL.map(async (scope) => [scope, await createTeamKey(team, [scope])] as const)),
  );
});

function keyOf(scope: ApiKeyScope): Key {
  const key = keys[scope];
  if (!key) throw new Error(`no key with ${scope}`);
  return key;
}

async function readBy<Body>(key: Key, path: string, options: Call = {}, status = 200): Promise<Body> {
  return await bodyOf<Body>(await callWithKey(key, path, options), status);
}

async function newPlantId(owner = team): Promise<string> {
  return (await postPlant(owner.operator)).id;
}

describe('a key with', () => {
  it('plants:read lists devices and reads each, as a member does [C-3.1]', async () => {
    const plantId = await newPlantId();
    const [placed, free] = [await postDevice(team.operator, { plantId }), await postDevice(team.operator)];
    const key = keyOf('plants:read');
    const whole = await readBy<Page<DeviceRecord>>(key, '/devices?limit=100');
    expect(whole).toEqual(await team.viewer.read('/devices?limit=100'));
    expect(whole.data).toEqual(expect.arrayContaining([placed, free]));
    expect(await readBy(key, `/devices?plantId=${plantId}`)).toMatchObject({
      data: [placed],
      meta: { total: 1 },
    });
    for (const device of [placed, free]) expect(await readBy(key, `/devices/${device.id}`)).toEqual(device);
  });

  it('plants:read reads diagnostics, and never what should have been signed [C-3.8]', async () => {
    const device = await newTokenDevice(team, { plantId: await newPlantId() });
    const link = await connect(device);
    await publish(link, rawTelemetry(device, { data: '{"gridPowerKw":7}', sig: '0'.repeat(64) }));
    expect((await diagnosticsOf(team, device.id)).recent[0]?.expected).toContain('gridPowerKw');
    const everything = await createTeamKey(team, ALL);
    for (const key of [keyOf('plants:read'), everything]) {
      const told = await readBy<DeviceDiagnostics>(key, `/devices/${device.id}/diagnostics`);
      expect(told).toMatchObject({ drops: { SIGNATURE: 1 }, recent: [{ reason: 'SIGNATURE' }] });
      expect(told.connects).toHaveLength(1);
      expect(JSON.stringify(told)).not.toMatch(/"expected"|gridPowerKw/);
    }
  });

  it('plants:write registers, changes, moves and deletes, and the trail names the key [C-8.4]', async () => {
    const [from, to] = [await newPlantId(), await newPlantId()];
    const key = keyOf('plants:write');
    const body = registration({ plantId: from });
    const { id, ...made } = await readBy<DeviceRecord>(key, '/devices', { method: 'POST', body }, 201);
    expect(made).toMatchObject({ ...body, organizationId: team.id, status: 'PENDING' });
    const change = async (fields: object) =>
      await readBy<DeviceRecord>(key, `/devices/${id}`, { method: 'PATCH', body: fields });
    expect(await change({ name: 'Renamed' })).toMatchObject({ id, name: 'Renamed', plantId: from });
    expect(await change({ plantId: to })).toMatchObject({ plantId: to });
    expect(await change({ plantId: null })).toMatchObject({ plantId: null });
    expect(await readBy(key, `/devices/${id}`, { method: 'DELETE' })).toEqual({ id, deleted: true });
    await expectError(await team.viewer.call(`/devices/${id}`), 404, 'NOT_FOUND');
    const rows = (await auditRows(team.id)).filter(({ target }) => target === id);
    expect(new Set(rows.map(({ actor_type: type, actor }) => `${type} ${actor}`))).toEqual(
      new Set([`API_KEY ${key.id}`]),
    );
    expect(new Set(rows.map(({ event }) => event))).toEqual(
      new Set(['device.registered', 'device.updated', 'device.moved', 'device.deleted']),
    );
  });

  it('commands:execute sends a command, and commands:read shows it [C-3.4]', async () => {
    const { id } = await newTokenDevice(team);
    const path = `/devices/${id}/commands`;
    const post = { method: 'POST', body: REBOOT } as const;
    const made = await readBy<OwnCommand>(keyOf('commands:execute'), path, post, 202);
    expect(made).toMatchObject({ deviceId: id, action: 'REBOOT', status: 'PENDING' });
    expect(await readBy(keyOf('commands:read'), path)).toMatchObject({ data: [made], meta: { total: 1 } });
    expect(await readBy(keyOf('commands:read'), `${path}/${made.cmdId}`)).toEqual(made);
  });

  it('one scope opens nothing that needs another: 403, and nothing is done [C-4.2]', async () => {
    const { id } = await newTokenDevice(team);
    const made = await bodyOf<OwnCommand>(await operate(team.operator, id, 'commands', REBOOT), 202);
    const before = await readDevice(team, id);
    const routes: [ApiKeyScope, string, Call][] = [
      ['plants:read', '/devices', {}],
      ['plants:read', `/devices/${id}`, {}],
      ['plants:read', `/devices/${id}/diagnostics`, {}],
      ['plants:write', '/devices', { method: 'POST', body: registration() }],
      ['plants:write', `/devices/${id}`, { method: 'PATCH', body: { name: 'x' } }],
      ['plants:write', `/devices/${id}`, { method: 'DELETE' }],
      ['commands:read', `/devices/${id}/commands`, {}],
      ['commands:read', `/devices/${id}/commands/${made.cmdId}`, {}],
      ['commands:execute', `/devices/${id}/commands`, { method: 'POST', body: REBOOT }],
    ];
    for (const [needed, path, options] of routes) {
      for (const scope of ALL.filter((one) => one !== needed)) {
        await expectError(await callWithKey(keyOf(scope), path, options), 403, 'FORBIDDEN');
      }
    }
    expect(await readDevice(team, id)).toEqual(before);
    expect(await team.viewer.read(`/devices/${id}/commands`)).toMatchObject({ meta: { total: 1 } });
  });

  it.each([
    ['PENDING', 'provision'],
    ['ACTIVE', 'mqtt-token'],
    ['ACTIVE', 'rotate-secret'],
    ['ACTIVE', 'suspend'],
    ['ACTIVE', 'revoke'],
    ['SUSPENDED', 'reactivate'],
    ['ACTIVE', 'certificate'],
  ] as const)('every scope lets no %s device be %s: 401 [C-2.6]', async (status, operation) => {
    const authMethod = operation === 'certificate' ? 'MTLS' : 'TOKEN';
    const id = await newDeviceIn(team, status, { authMethod });
    const before = await readDevice(team, id);
    const key = await createTeamKey(team, ALL);
    const response = await callWithKey(key, `/devices/${id}/${operation}`, { method: 'POST', body: {} });
    await expectError(response, 401, 'UNAUTHORIZED');
    expect(await readDevice(team, id)).toEqual(before);
  });

  it('another organization finds none of these devices: 404 [C-1.3]', async () => {
    const foreign = await createTeamKey(await createTeam(), ALL);
    const { id } = await newTokenDevice(team);
    for (const [path, options] of [
      [`/devices/${id}`, {}],
      [`/devices/${id}/diagnostics`, {}],
      [`/devices/${id}`, { method: 'DELETE' }],
      [`/devices/${id}/commands`, { method: 'POST', body: REBOOT }],
    ] as [string, Call][]) {
      await expectError(await callWithKey(foreign, path, options), 404, 'NOT_FOUND');
    }
    expect(await readBy(foreign, '/devices')).toMatchObject({ data: [], meta: { total: 0 } });
  });
});

describe('a key that is limited to plants', () => {
  async function newLimited() {
    const [plantId, also, hidden] = [await newPlantId(), await newPlantId(), await newPlantId()];
    const key = await createTeamKey(team, ALL, { allowedPlantIds: [plantId, also] });
    return { plantId, also, hidden, key };
  }

  it('lists and counts devices of those plants alone, and finds no other: 404 [C-4.2]', async () => {
    const { plantId, also, hidden, key } = await newLimited();
    const seen = [
      await newTokenDevice(team, { name: 'a', plantId }),
      await newTokenDevice(team, { name: 'b', plantId: also }),
    ];
    const unseen = [await newTokenDevice(team, { plantId: hidden }), await newTokenDevice(team)];
    const { data, meta } = await readBy<Page<DeviceRecord>>(key, '/devices?limit=1&page=2');
    expect([data.map(({ id }) => id), meta]).toEqual([
      [seen[1]?.id],
      { page: 2, limit: 1, total: 2, totalPages: 2 },
    ]);
    expect(await readBy(key, `/devices?plantId=${also}`)).toMatchObject({ meta: { total: 1 } });
    expect(await readBy(key, `/devices?plantId=${hidden}`)).toMatchObject({ data: [], meta: { total: 0 } });
    const sent = { method: 'POST', body: REBOOT } as const;
    for (const { id } of seen) {
      expect(await readBy(key, `/devices/${id}`)).toMatchObject({ id });
      await readBy(key, `/devices/${id}/diagnostics`);
      await readBy(key, `/devices/${id}/commands`, sent, 202);
    }
    for (const { id } of unseen) {
      const made = await bodyOf<OwnCommand>(await operate(team.operator, id, 'commands', REBOOT), 202);
      const before = await readDevice(team, id);
      for (const [path, options] of [
        [`/devices/${id}`, {}],
        [`/devices/${id}`, { method: 'PATCH', body: { name: 'x' } }],
        [`/devices/${id}`, { method: 'PATCH', body: { plantId } }],
        [`/devices/${id}`, { method: 'DELETE' }],
        [`/devices/${id}/diagnostics`, {}],
        [`/devices/${id}/commands`, {}],
        [`/devices/${id}/commands`, sent],
        [`/devices/${id}/commands/${made.cmdId}`, {}],
      ] as [string, Call][]) {
        await expectError(await callWithKey(key, path, options), 404, 'NOT_FOUND');
      }
      expect(await readDevice(team, id)).toEqual(before);
    }
  });

  it('registers there alone: elsewhere is 404, and no plant 403 [C-4.2]', async () => {
    const { plantId, hidden, key } = await newLimited();
    const post = (fields: object) =>
      callWithKey(key, '/devices', { method: 'POST', body: registration(fields) });
    await bodyOf(await post({ plantId }), 201);
    const foreign = await newPlantId(await createTeam());
    for (const one of [hidden, foreign, crypto.randomUUID()]) {
      await expectError(await post({ plantId: one }), 404, 'PLANT_NOT_FOUND');
    }
    for (const fields of [{}, { plantId: null }]) await expectError(await post(fields), 403, 'FORBIDDEN');
    expect(await readBy(key, '/devices')).toMatchObject({ meta: { total: 1 } });
    expect(await team.viewer.read(`/devices?plantId=${hidden}`)).toMatchObject({ meta: { total: 0 } });
  });

  it('moves among those plants, and out of them to none and to no other [C-4.2]', async () => {
    const { plantId, also, hidden, key } = await newLimited();
    const { id } = await newTokenDevice(team, { plantId });
    const patch = (body: object) => callWithKey(key, `/devices/${id}`, { method: 'PATCH', body });
    const before = await readDevice(team, id);
    await expectError(await patch({ plantId: null, name: 'x' }), 403, 'FORBIDDEN');
    await expectError(await patch({ plantId: hidden, name: 'x' }), 404, 'PLANT_NOT_FOUND');
    expect(await readDevice(team, id)).toEqual(before);
    expect(await bodyOf(await patch({ plantId: also, name: 'y' }), 200)).toMatchObject({
      plantId: also,
      name: 'y',
    });
    expect(await readBy(key, `/devices/${id}`, { method: 'DELETE' })).toEqual({ id, deleted: true });
  });

  it('of which none is left sees no device at all [C-4.2]', async () => {
    const key = await createTeamKey(team, ALL, { allowedPlantIds: [] });
    await newTokenDevice(team);
    expect(await readBy(key, '/devices')).toMatchObject({ data: [], meta: { total: 0 } });
  });
});
