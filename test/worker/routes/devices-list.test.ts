/** The list of devices, their number and their end [C-3.1], [C-3.2]. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { AuditEvent } from '../../../protocol/audit.ts';
import type { DeviceRecord } from '../../../protocol/device-record.ts';
import { DEVICE_STATUSES } from '../../../protocol/enums.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import type { Page } from '../../../protocol/page.ts';
import {
  connect,
  newDeviceIn,
  newTokenDevice,
  operate,
  postDevice,
  readDevice,
} from '../../support/workerd/devices.ts';
import { dialMqtt } from '../../support/workerd/door.ts';
import { postPlant, postSubDevice } from '../../support/workerd/fleet.ts';
import { createTeam, type Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';
import { sendTelemetry } from '../../support/workerd/site-devices.ts';
import { gridPowerKw } from '../../support/workerd/site-reads.ts';
import { rowsOf } from '../../support/workerd/site-rows.ts';

let team: Team;
let other: Team;

beforeAll(async () => {
  [team, other] = await Promise.all([createTeam(), createTeam()]);
});

async function list(query = '', by = team): Promise<Page<DeviceRecord>> {
  return await by.viewer.read(`/devices${query}`);
}

async function total(by = team): Promise<number> {
  return (await list('', by)).meta.total;
}

function remove(id: string): Promise<Response> {
  return team.admin.call(`/devices/${id}`, { method: 'DELETE' });
}

/** The audit rows about one thing, newest first. */
async function about(id: string): Promise<AuditEvent[]> {
  const { data } = await team.admin.read<Page<AuditEvent>>('/audit-events?limit=100');
  return data.filter(({ target }) => target?.id === id);
}

describe('GET /devices', () => {
  it('answers pages by name, then by id, each device once (spec: List endpoints)', async () => {
    const own = await createTeam();
    const made: DeviceRecord[] = [];
    for (const name of ['c', 'a', 'b', 'a', 'B']) made.push(await postDevice(own.operator, { name }));
    const keyOf = ({ name, id }: DeviceRecord) => `${name}|${id}`;
    made.sort((left, right) => (keyOf(left) < keyOf(right) ? -1 : 1));
    const whole = await list('', own);
    expect(whole).toEqual({ data: made, meta: { page: 1, limit: 20, total: 5, totalPages: 1 } });
    const pages = [
      await list('?limit=2', own),
      await list('?limit=2&page=2', own),
      await list('?limit=2&page=3', own),
    ];
    expect(pages.flatMap(({ data }) => data)).toEqual(made);
    expect(pages.map(({ meta }) => meta)).toEqual(
      [1, 2, 3].map((page) => ({ page, limit: 2, total: 5, totalPages: 3 })),
    );
    expect(await list('?page=9', own)).toMatchObject({ data: [], meta: { page: 9, total: 5 } });
  });

  it('answers those of one plant alone where it is named, and nothing of a foreign one [C-3.1]', async () => {
    const { id: plantId } = await postPlant(team.operator);
    const { id: foreign } = await postPlant(other.operator);
    await postDevice(other.operator, { plantId: foreign });
    await postDevice(team.operator);
    const [b, a] = [
      await postDevice(team.operator, { name: 'b', plantId }),
      await postDevice(team.operator, { name: 'a', plantId }),
    ];
    expect(await list(`?plantId=${plantId.toUpperCase()}`)).toEqual({
      data: [a, b],
      meta: { page: 1, limit: 20, total: 2, totalPages: 1 },
    });
    expect(await list(`?plantId=${plantId}&limit=1&page=2`)).toMatchObject({ data: [b], meta: { total: 2 } });
    for (const id of [foreign, crypto.randomUUID()]) {
      expect(await list(`?plantId=${id}`)).toMatchObject({ data: [], meta: { total: 0, totalPages: 0 } });
    }
  });

  it('refuses a page or a filter that is none [C-10]', async () => {
    for (const query of ['limit=0', 'limit=101', 'page=0', 'page=x', 'plantId=', 'plantId=x']) {
      await expectError(await team.viewer.call(`/devices?${query}`), 400, 'VALIDATION_ERROR');
    }
  });

  it('tells of the organization alone [C-1.3]', async () => {
    const { id } = await postDevice(other.operator);
    expect((await list('?limit=100')).data.filter((device) => device.id === id)).toEqual([]);
    expect((await list('?limit=100', other)).data.filter((device) => device.id === id)).toHaveLength(1);
  });
});

describe('DELETE /devices/{id}', () => {
  it.each(DEVICE_STATUSES)(
    'takes away one that is %s, for good, and counts it no more [C-3.2]',
    async (status) => {
      const id = await newDeviceIn(team, status);
      const before = await total();
      expect(await team.admin.read(`/devices/${id}`, { method: 'DELETE' })).toEqual({ id, deleted: true });
      expect(await total()).toBe(before - 1);
      for (const path of ['', '/commands', '/diagnostics']) {
        await expectError(await team.admin.call(`/devices/${id}${path}`), 404, 'NOT_FOUND');
      }
      for (const operation of [
        'provision',
        'suspend',
        'reactivate',
        'revoke',
        'mqtt-token',
        'rotate-secret',
      ]) {
        await expectError(await operate(team.admin, id, operation), 404, 'NOT_FOUND');
      }
      await expectError(await remove(id), 404, 'NOT_FOUND');
      expect(await total()).toBe(before - 1);
    },
  );

  it('counts one that two delete at once, once [C-3.2]', async () => {
    const { id } = await postDevice(team.operator);
    const before = await total();
    const answers = await Promise.all([remove(id), remove(id)]);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 404]);
    expect(await total()).toBe(before - 1);
    expect((await about(id)).filter(({ event }) => event === 'device.deleted')).toHaveLength(1);
  });

  it('destroys its credentials, cuts its session, and leaves those of others [C-3.2]', async () => {
    const plant = await postPlant(team.operator);
    const { id: plantId } = plant;
    const gateway = await newTokenDevice(team, { plantId });
    const sensor = await newTokenDevice(team, { plantId, type: 'SENSOR' });
    const [stays, goes] = [await connect(gateway), await connect(sensor)];
    expect((await remove(sensor.id)).status).toBe(200);
    expect(await goes.untilClosed()).toMatchObject({ code: CLOSE_CODES.revoked });
    await expectError(await dialMqtt(sensor.id, sensor.token), 401, 'UNAUTHORIZED');
    const secrets = 'SELECT DISTINCT device_id FROM device_secret';
    expect(await rowsOf(plantId, secrets)).toEqual([{ device_id: gateway.id }]);
    expect(await sendTelemetry(stays, gateway, { gridPowerKw: 7 })).toBe(true);
    expect(await gridPowerKw({ id: plantId, gateway })).toBe(7);
    expect(stays.closed).toBeUndefined();
  });

  it('unlinks the sub-device that it served, and lets its plant go, too [C-3.2]', async () => {
    const { id: plantId } = await postPlant(team.operator);
    const { id: linkedDeviceId } = await postDevice(team.operator, { plantId });
    const { id: unlinked } = await postDevice(team.operator, { plantId });
    const path = `/plants/${plantId}`;
    const first = await postSubDevice(team.operator, plantId, { linkedDeviceId });
    const second = await postSubDevice(team.operator, plantId, { externalId: 'B', linkedDeviceId: unlinked });
    await expectError(await team.operator.call(path, { method: 'DELETE' }), 409, 'PLANT_INVALID_STATE');
    expect((await remove(linkedDeviceId)).status).toBe(200);
    const subDevices = `${path}/sub-devices`;
    expect(await team.viewer.read(`${subDevices}/${first.id}`)).toEqual({ ...first, linkedDeviceId: null });
    expect(await team.viewer.read(`${subDevices}/${second.id}`)).toEqual(second);
    expect((await remove(unlinked)).status).toBe(200);
    await team.operator.read(path, { method: 'DELETE' });
  });

  it('sets its serialNumber free [C-3.1]', async () => {
    const { id, serialNumber } = await postDevice(team.operator);
    expect((await remove(id)).status).toBe(200);
    expect(await postDevice(team.operator, { serialNumber })).toMatchObject({ serialNumber });
  });
});

describe('the audit trail of a device', () => {
  it('tells who registered, changed, provisioned, suspended and deleted it [C-8.4]', async () => {
    const fields = { name: 'Old', serialNumber: crypto.randomUUID(), type: 'SENSOR', authMethod: 'TOKEN' };
    const { id } = await postDevice(team.operator, fields);
    await team.operator.read(`/devices/${id}`, { method: 'PATCH', body: { name: 'New' } });
    for (const [operation, body] of [
      ['provision', {}],
      ['mqtt-token', { expiresIn: 60 }],
      ['rotate-secret', undefined],
      ['suspend', { reason: 'lost' }],
      ['reactivate', {}],
      ['revoke', { reason: 'broken' }],
    ] as const) {
      expect([operation, (await operate(team.admin, id, operation, body)).status]).toEqual([operation, 200]);
    }
    expect((await remove(id)).status).toBe(200);
    const rows = (await about(id)).reverse();
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
      row('device.token_issued', admin, { expiresIn: 60 }),
      row('device.secret_rotated', admin, {}),
      row('device.suspended', admin, { reason: 'lost' }),
      row('device.reactivated', admin, {}),
      row('device.revoked', admin, { reason: 'broken' }),
      row('device.deleted', admin, { name: 'New', serialNumber: fields.serialNumber }),
    ]);
  });

  it('has no row of what was refused [C-8.4]', async () => {
    const { id, serialNumber } = await postDevice(team.operator);
    await team.operator.call('/devices', {
      method: 'POST',
      body: { name: 'x', serialNumber, type: 'SENSOR' },
    });
    for (const operation of [
      'suspend',
      'reactivate',
      'revoke',
      'rotate-secret',
      'mqtt-token',
      'certificate',
    ]) {
      expect((await operate(team.admin, id, operation)).status).toBe(409);
    }
    await team.operator.call(`/devices/${id}`, { method: 'DELETE' });
    expect((await about(id)).map(({ event }) => event)).toEqual(['device.registered']);
    expect((await readDevice(team, id)).status).toBe('PENDING');
  });
});
