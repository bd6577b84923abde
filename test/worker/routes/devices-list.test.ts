/** The list of devices, and their deletion [C-3.1], [C-3.2]. */
import { connect } from '#workerd/devices.ts';
import { dialMqtt } from '#workerd/door.ts';
import { sendTelemetry } from '#workerd/site-devices.ts';
import { gridPowerKw } from '#workerd/site-reads.ts';
import { rowsOf } from '#workerd/site-rows.ts';
import type { Team } from '#workerd/team.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import type { DeviceRecord } from '../../../protocol/device-record.ts';
import { DEVICE_STATUSES } from '../../../protocol/enums.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import type { Page } from '../../../protocol/page.ts';

async function list(by: Team, query = ''): Promise<Page<DeviceRecord>> {
  return await by.viewer.read(`/devices${query}`);
}

const it = test.extend('remove', ({ team }) => (id: string) => {
  return team.admin.delete(`/devices/${id}`);
});

describe('GET /devices', () => {
  it('devices are listed by name, then id, in pages (spec: List endpoints)', async ({ ownTeam }) => {
    const made: DeviceRecord[] = [];
    for (const name of ['c', 'a', 'b', 'a', 'B']) made.push(await ownTeam.newDevice({ name }));
    const keyOf = ({ name, id }: DeviceRecord) => `${name}|${id}`;
    made.sort((left, right) => (keyOf(left) < keyOf(right) ? -1 : 1));
    const whole = await list(ownTeam, '');
    expect(whole).toEqual({ data: made, meta: { page: 1, limit: 20, total: 5, totalPages: 1, next: null } });
    const pages = [
      await list(ownTeam, '?limit=2'),
      await list(ownTeam, '?limit=2&page=2'),
      await list(ownTeam, '?limit=2&page=3'),
    ];
    expect(pages.flatMap(({ data }) => data)).toEqual(made);
    expect(pages.map(({ meta }) => meta)).toEqual(
      [1, 2, 3].map((page) => ({
        ...{ page, limit: 2, total: 5, totalPages: 3 },
        next: page < 3 ? expect.any(String) : null,
      })),
    );
    expect(await list(ownTeam, '?page=9')).toMatchObject({ data: [], meta: { page: 9, total: 5 } });
  });

  it('the list can be filtered by plant, and is empty for a foreign plant [C-3.1]', async ({
    team,
    other,
    plantId,
  }) => {
    const { id: foreign } = await other.newPlant();
    await other.newDevice({ plantId: foreign });
    await team.newDevice();
    const [b, a] = [
      await team.newDevice({ name: 'b', plantId }),
      await team.newDevice({ name: 'a', plantId }),
    ];
    const meta = { page: 1, limit: 20, total: 2, totalPages: 1, next: null };
    expect(await list(team, `?plantId=${plantId.toUpperCase()}`)).toEqual({ data: [a, b], meta });
    expect(await list(team, `?plantId=${plantId}&limit=1&page=2`)).toMatchObject({
      data: [b],
      meta: { total: 2 },
    });
    for (const id of [foreign, crypto.randomUUID()]) {
      expect(await list(team, `?plantId=${id}`)).toMatchObject({
        data: [],
        meta: { total: 0, totalPages: 0 },
      });
    }
  });

  it('an invalid page or filter gets 400 [C-10]', async ({ team }) => {
    for (const query of ['limit=0', 'limit=101', 'page=0', 'page=x', 'plantId=', 'plantId=x']) {
      await expectError(await team.viewer.call(`/devices?${query}`), 400, 'VALIDATION_ERROR');
    }
  });

  it('the list shows only devices of the organization [C-1.3]', async ({ team, other }) => {
    const { id } = await other.newDevice();
    expect((await list(team, '?limit=100')).data.filter((device) => device.id === id)).toEqual([]);
    expect((await list(other, '?limit=100')).data.filter((device) => device.id === id)).toHaveLength(1);
  });
});

describe('DELETE /devices/{id}', () => {
  it.for(DEVICE_STATUSES)(
    'a %s device can be deleted: it leaves the list, and its routes get 404 [C-3.2]',
    async (status, { team, remove }) => {
      const id = await team.newDeviceIn(status);
      const before = await team.totalOf('/devices');
      expect(await team.admin.remove(`/devices/${id}`)).toEqual({ id, deleted: true });
      expect(await team.totalOf('/devices')).toBe(before - 1);
      for (const path of ['', '/commands', '/diagnostics']) {
        await expectError(await team.admin.call(`/devices/${id}${path}`), 404, 'NOT_FOUND');
      }
      const operations = ['provision', 'suspend', 'reactivate', 'revoke', 'mqtt-token', 'rotate-secret'];
      for (const operation of operations) {
        await expectError(await team.admin.operate(id, operation), 404, 'NOT_FOUND');
      }
      await expectError(await remove(id), 404, 'NOT_FOUND');
      expect(await team.totalOf('/devices')).toBe(before - 1);
    },
  );

  it('succeeds for one of two concurrent deletions, and the other gets 404 [C-3.2]', async ({
    team,
    remove,
  }) => {
    const { id } = await team.newDevice();
    const before = await team.totalOf('/devices');
    const answers = await Promise.all([remove(id), remove(id)]);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 404]);
    expect(await team.totalOf('/devices')).toBe(before - 1);
    expect((await team.eventsAbout(id)).filter(({ event }) => event === 'device.deleted')).toHaveLength(1);
  });

  it('a deletion ends the secret and the session of the device, and those of no other [C-3.2]', async ({
    team,
    plantId,
    device,
    link,
    remove,
  }) => {
    const sensor = await team.newTokenDevice({ plantId, type: 'SENSOR' });
    const goes = await connect(sensor);
    expect((await remove(sensor.id)).status).toBe(200);
    expect(await goes.untilClosed()).toMatchObject({ code: CLOSE_CODES.revoked });
    await expectError(await dialMqtt(sensor.id, sensor.token), 401, 'UNAUTHORIZED');
    const secrets = 'SELECT DISTINCT device_id FROM device_secret';
    expect(await rowsOf(plantId, secrets)).toEqual([{ device_id: device.id }]);
    expect(await sendTelemetry(link, device, { gridPowerKw: 7 })).toBe(true);
    expect(await gridPowerKw({ id: plantId, gateway: device })).toBe(7);
    expect(link.closed).toBeUndefined();
  });

  it('a deletion unlinks the device’s sub-device; a plant without devices can be deleted [C-3.2]', async ({
    team,
    plantId,
    remove,
  }) => {
    const { id: linkedDeviceId } = await team.newDevice({ plantId });
    const { id: unlinked } = await team.newDevice({ plantId });
    const path = `/plants/${plantId}`;
    const first = await team.newSubDevice(plantId, { linkedDeviceId });
    const second = await team.newSubDevice(plantId, { externalId: 'B', linkedDeviceId: unlinked });
    await expectError(await team.operator.delete(path), 409, 'PLANT_INVALID_STATE');
    expect((await remove(linkedDeviceId)).status).toBe(200);
    const subDevices = `${path}/sub-devices`;
    expect(await team.viewer.read(`${subDevices}/${first.id}`)).toEqual({ ...first, linkedDeviceId: null });
    expect(await team.viewer.read(`${subDevices}/${second.id}`)).toEqual(second);
    expect((await remove(unlinked)).status).toBe(200);
    await team.operator.remove(path);
  });

  it('a deletion lets another device have the serial number [C-3.1]', async ({ team, remove }) => {
    const { id, serialNumber } = await team.newDevice();
    expect((await remove(id)).status).toBe(200);
    expect(await team.newDevice({ serialNumber })).toMatchObject({ serialNumber });
  });
});

describe('the audit trail of a device', () => {
  it('every change of a device is audited with its actor [C-8.4]', async ({ team, remove }) => {
    const fields = { name: 'Old', serialNumber: crypto.randomUUID(), type: 'SENSOR', authMethod: 'TOKEN' };
    const { id } = await team.newDevice(fields);
    await team.operator.change(`/devices/${id}`, { name: 'New' });
    for (const [operation, body] of [
      ['provision', {}],
      ['mqtt-token', { expiresIn: 60 }],
      ['rotate-secret', undefined],
      ['suspend', { reason: 'lost' }],
      ['reactivate', {}],
      ['revoke', { reason: 'broken' }],
    ] as const) {
      expect([operation, (await team.admin.operate(id, operation, body)).status]).toEqual([operation, 200]);
    }
    expect((await remove(id)).status).toBe(200);
    const rows = (await team.eventsAbout(id)).reverse();
    const { operator, admin } = team;
    const row = (event: string, { id: actorId, email: name }: typeof admin, details: object) =>
      expect.objectContaining({
        event,
        actor: { type: 'USER', id: actorId, name },
        target: { type: 'DEVICE', id },
        outcome: 'SUCCESS',
        details,
        count: 1,
      });
    expect(rows).toEqual([
      row('device.registered', operator, { ...fields, plantId: null }),
      row('device.updated', operator, { name: 'New' }),
      row('device.provisioned', admin, { authMethod: 'TOKEN' }),
      row('device.token_issued', admin, { expiresIn: 60, endOthers: false }),
      row('device.secret_rotated', admin, {}),
      row('device.suspended', admin, { reason: 'lost' }),
      row('device.reactivated', admin, {}),
      row('device.revoked', admin, { reason: 'broken' }),
      row('device.deleted', admin, { name: 'New', serialNumber: fields.serialNumber }),
    ]);
  });

  it('refused changes are not audited [C-8.4]', async ({ team }) => {
    const { id, serialNumber } = await team.newDevice();
    await team.operator.post('/devices', { name: 'x', serialNumber, type: 'SENSOR' });
    const operations = ['suspend', 'reactivate', 'revoke', 'rotate-secret', 'mqtt-token', 'certificate'];
    for (const operation of operations) {
      expect((await team.admin.operate(id, operation)).status).toBe(409);
    }
    await team.operator.delete(`/devices/${id}`);
    expect((await team.eventsAbout(id)).map(({ event }) => event)).toEqual(['device.registered']);
    expect((await team.readDevice(id)).status).toBe('PENDING');
  });
});
