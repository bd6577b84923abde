/** Devices by API key: what each scope opens, and what a key with allowedPlantIds sees [C-2.6], [C-4.2]. */
import { bodyOf, type Call } from '#workerd/client.ts';
import { registration } from '#workerd/devices.ts';
import { publish, rawTelemetry } from '#workerd/site-devices.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import type { DeviceDiagnostics, DeviceRecord, RestCommand } from '../../../protocol/device-record.ts';
import type { Page } from '../../../protocol/page.ts';
import type { ApiKeyScope } from '../../../protocol/scopes.ts';

const ALL: ApiKeyScope[] = ['plants:read', 'plants:write', 'commands:read', 'commands:execute'];
const REBOOT = { action: 'REBOOT' };

const it = test
  /** A key for each scope. */
  .extend('keys', { scope: 'file' }, async ({ team }) => {
    const keys = await Promise.all(ALL.map(async (scope) => [scope, await team.newKey([scope])] as const));
    return new Map(keys);
  })
  .extend('keyOf', ({ keys }) => (scope: ApiKeyScope) => {
    const key = keys.get(scope);
    if (!key) throw new Error(`no key with ${scope}`);
    return key;
  })
  /** A key for two plants, those plants, and a third one. */
  .extend('limited', async ({ team }) => {
    const [plantId, also, hidden] = await Promise.all([1, 2, 3].map(async () => (await team.newPlant()).id));
    const key = await team.newKey(ALL, { allowedPlantIds: [plantId ?? '', also ?? ''] });
    return { plantId, also, hidden, key };
  });

describe('a key', () => {
  it('lists and reads devices with plants:read like a member [C-3.1]', async ({ team, plantId, keyOf }) => {
    const [placed, free] = [await team.newDevice({ plantId }), await team.newDevice()];
    const key = keyOf('plants:read');
    const whole = await key.read<Page<DeviceRecord>>('/devices?limit=100');
    expect(whole).toEqual(await team.viewer.read('/devices?limit=100'));
    expect(whole.data).toEqual(expect.arrayContaining([placed, free]));
    const ofPlant = await key.read(`/devices?plantId=${plantId}`);
    expect(ofPlant).toMatchObject({ data: [placed], meta: { total: 1 } });
    for (const device of [placed, free]) expect(await key.read(`/devices/${device.id}`)).toEqual(device);
  });

  it('does not see in diagnostics which text had to be signed, whatever its scopes [C-3.8]', async ({
    team,
    device,
    link,
    keyOf,
  }) => {
    await publish(link, rawTelemetry(device, { data: '{"gridPowerKw":7}', sig: '0'.repeat(64) }));
    expect((await team.diagnosticsOf(device.id)).recent[0]?.expected).toContain('gridPowerKw');
    const everything = await team.newKey(ALL);
    for (const key of [keyOf('plants:read'), everything]) {
      const shown = await key.read<DeviceDiagnostics>(`/devices/${device.id}/diagnostics`);
      expect(shown).toMatchObject({ drops: { SIGNATURE: 1 }, recent: [{ reason: 'SIGNATURE' }] });
      expect(shown.connects).toHaveLength(1);
      expect(JSON.stringify(shown)).not.toMatch(/"expected"|gridPowerKw/);
    }
  });

  it('registers, changes, moves and deletes devices with plants:write, audited with the key as actor [C-8.4]', async ({
    team,
    plantId,
    keyOf,
  }) => {
    const { id: to } = await team.newPlant();
    const key = keyOf('plants:write');
    const body = registration({ plantId });
    const { id, ...made } = await key.create<DeviceRecord>('/devices', body);
    expect(made).toMatchObject({ ...body, organizationId: team.id, status: 'PENDING' });
    const change = (fields: object) => key.change<DeviceRecord>(`/devices/${id}`, fields);
    expect(await change({ name: 'Renamed' })).toMatchObject({ id, name: 'Renamed', plantId });
    expect(await change({ plantId: to })).toMatchObject({ plantId: to });
    expect(await change({ plantId: null })).toMatchObject({ plantId: null });
    expect(await key.remove(`/devices/${id}`)).toEqual({ id, deleted: true });
    await expectError(await team.viewer.call(`/devices/${id}`), 404, 'NOT_FOUND');
    const rows = await team.auditRowsOf(id);
    expect(new Set(rows.map(({ actor_type: type, actor }) => `${type} ${actor}`))).toEqual(
      new Set([`API_KEY ${key.id}`]),
    );
    expect(new Set(rows.map(({ event }) => event))).toEqual(
      new Set(['device.registered', 'device.updated', 'device.moved', 'device.deleted']),
    );
  });

  it('sends a command with commands:execute, and one with commands:read reads that command [C-3.4]', async ({
    team,
    keyOf,
  }) => {
    const { id } = await team.newTokenDevice();
    const path = `/devices/${id}/commands`;
    const sent = await keyOf('commands:execute').post(path, REBOOT);
    const made = await bodyOf<RestCommand>(sent, 202);
    expect(made).toMatchObject({ deviceId: id, action: 'REBOOT', status: 'PENDING' });
    expect(await keyOf('commands:read').read(path)).toMatchObject({ data: [made], meta: { total: 1 } });
    expect(await keyOf('commands:read').read(`${path}/${made.cmdId}`)).toEqual(made);
  });

  it('gets 403 from a device route that needs another scope [C-4.2]', async ({ team, keyOf }) => {
    const { id } = await team.newTokenDevice();
    const made = await team.command(id);
    const before = await team.readDevice(id);
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
        await expectError(await keyOf(scope).call(path, options), 403, 'FORBIDDEN');
      }
    }
    expect(await team.readDevice(id)).toEqual(before);
    expect(await team.totalOf(`/devices/${id}/commands`)).toBe(1);
  });

  it.for([
    ['PENDING', 'provision'],
    ['ACTIVE', 'mqtt-token'],
    ['ACTIVE', 'rotate-secret'],
    ['ACTIVE', 'suspend'],
    ['ACTIVE', 'revoke'],
    ['SUSPENDED', 'reactivate'],
    ['ACTIVE', 'certificate'],
  ] as const)(
    'gets 401, whatever its scopes, for a member’s operation on a %s device: %s [C-2.6]',
    async ([status, operation], { team }) => {
      const authMethod = operation === 'certificate' ? 'MTLS' : 'TOKEN';
      const id = await team.newDeviceIn(status, { authMethod });
      const before = await team.readDevice(id);
      const key = await team.newKey(ALL);
      await expectError(await key.operate(id, operation, {}), 401, 'UNAUTHORIZED');
      expect(await team.readDevice(id)).toEqual(before);
    },
  );

  it('gets 404 for each device of another organization, and an empty list [C-1.3]', async ({
    team,
    other,
  }) => {
    const foreign = await other.newKey(ALL);
    const { id } = await team.newTokenDevice();
    const calls = [
      foreign.call(`/devices/${id}`),
      foreign.call(`/devices/${id}/diagnostics`),
      foreign.delete(`/devices/${id}`),
      foreign.operate(id, 'commands', REBOOT),
    ];
    for (const refused of await Promise.all(calls)) await expectError(refused, 404, 'NOT_FOUND');
    expect(await foreign.read('/devices')).toMatchObject({ data: [], meta: { total: 0 } });
  });
});

describe('a key with allowedPlantIds', () => {
  it('sees and commands the devices of its plants; others get 404 [C-4.2]', async ({ team, limited }) => {
    const { plantId, also, hidden, key } = limited;
    const seen = [
      await team.newTokenDevice({ name: 'a', plantId }),
      await team.newTokenDevice({ name: 'b', plantId: also }),
    ];
    const unseen = [await team.newTokenDevice({ plantId: hidden }), await team.newTokenDevice()];
    const { data, meta } = await key.read<Page<DeviceRecord>>('/devices?limit=1&page=2');
    expect([data.map(({ id }) => id), meta]).toEqual([
      [seen[1]?.id],
      { page: 2, limit: 1, total: 2, totalPages: 2, next: expect.any(String) },
    ]);
    expect(await key.read(`/devices?plantId=${also}`)).toMatchObject({ meta: { total: 1 } });
    expect(await key.read(`/devices?plantId=${hidden}`)).toMatchObject({ data: [], meta: { total: 0 } });
    for (const { id } of seen) {
      expect(await key.read(`/devices/${id}`)).toMatchObject({ id });
      await key.read(`/devices/${id}/diagnostics`);
      await bodyOf(await key.operate(id, 'commands', REBOOT), 202);
    }
    for (const { id } of unseen) {
      const { cmdId } = await team.command(id);
      const before = await team.readDevice(id);
      const path = `/devices/${id}`;
      const calls = [
        ...[path, `${path}/diagnostics`, `${path}/commands`, `${path}/commands/${cmdId}`].map((at) =>
          key.call(at),
        ),
        ...[{ name: 'x' }, { plantId }].map((body) => key.patch(path, body)),
        key.delete(path),
        key.operate(id, 'commands', REBOOT),
      ];
      for (const refused of await Promise.all(calls)) await expectError(refused, 404, 'NOT_FOUND');
      expect(await team.readDevice(id)).toEqual(before);
    }
  });

  it('registers devices for its own plants only [C-4.2]', async ({ team, other, limited }) => {
    const { plantId, hidden, key } = limited;
    const post = (fields: object) => key.post('/devices', registration(fields));
    await bodyOf(await post({ plantId }), 201);
    const { id: foreign } = await other.newPlant();
    for (const one of [hidden, foreign, crypto.randomUUID()]) {
      await expectError(await post({ plantId: one }), 404, 'PLANT_NOT_FOUND');
    }
    for (const fields of [{}, { plantId: null }]) await expectError(await post(fields), 403, 'FORBIDDEN');
    expect(await key.read('/devices')).toMatchObject({ meta: { total: 1 } });
    expect(await team.viewer.read(`/devices?plantId=${hidden}`)).toMatchObject({ meta: { total: 0 } });
  });

  it('moves devices among its own plants only [C-4.2]', async ({ team, limited }) => {
    const { plantId, also, hidden, key } = limited;
    const { id } = await team.newTokenDevice({ plantId });
    const patch = (body: object) => key.patch(`/devices/${id}`, body);
    const before = await team.readDevice(id);
    await expectError(await patch({ plantId: null, name: 'x' }), 403, 'FORBIDDEN');
    await expectError(await patch({ plantId: hidden, name: 'x' }), 404, 'PLANT_NOT_FOUND');
    expect(await team.readDevice(id)).toEqual(before);
    expect(await bodyOf(await patch({ plantId: also, name: 'y' }), 200)).toMatchObject({
      plantId: also,
      name: 'y',
    });
    expect(await key.remove(`/devices/${id}`)).toEqual({ id, deleted: true });
  });

  it('sees no device if the list is empty [C-4.2]', async ({ team }) => {
    const key = await team.newKey(ALL, { allowedPlantIds: [] });
    await team.newTokenDevice();
    expect(await key.read('/devices')).toMatchObject({ data: [], meta: { total: 0 } });
  });
});
