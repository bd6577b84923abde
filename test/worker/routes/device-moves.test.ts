/** A device moves to another plant, or to none: its credentials go with it, its session and its own commands end [C-3.1]. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { AuditEvent } from '../../../protocol/audit.ts';
import type { DeviceRecord, OwnCommand } from '../../../protocol/device-record.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import type { Page } from '../../../protocol/page.ts';
import {
  connect,
  diagnosticsOf,
  newDeviceIn,
  newTokenDevice,
  operate,
  postDevice,
  provision,
  readDevice,
  type TokenDevice,
} from '../../support/workerd/devices.ts';
import { dialMqtt } from '../../support/workerd/door.ts';
import { postPlant, postSubDevice } from '../../support/workerd/fleet.ts';
import { createTeam, type Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';
import {
  publish,
  rawTelemetry,
  sendAck,
  sendTelemetry,
  subscribe,
} from '../../support/workerd/site-devices.ts';
import { gridPowerKw } from '../../support/workerd/site-reads.ts';
import { evictSite, numberOf } from '../../support/workerd/site-rows.ts';

const OWN_TABLES = [
  'device',
  'device_secret',
  'dropped_message',
  'recent_drop',
  'recent_connect',
  'own_command',
];

let team: Team;
let other: Team;

beforeAll(async () => {
  [team, other] = await Promise.all([createTeam(), createTeam()]);
});

async function newPlantId(): Promise<string> {
  return (await postPlant(team.operator)).id;
}

function patch(id: string, body: object): Promise<Response> {
  return team.operator.call(`/devices/${id}`, { method: 'PATCH', body });
}

async function move(id: string, plantId: string | null, also: object = {}): Promise<DeviceRecord> {
  return await team.operator.read(`/devices/${id}`, { method: 'PATCH', body: { plantId, ...also } });
}

/** What a plant shows of the grid, once its device said so. */
async function gridAfter(device: TokenDevice, plantId: string, kw: number): Promise<number | null> {
  const link = await connect(device);
  await sendTelemetry(link, device, { gridPowerKw: kw });
  return await gridPowerKw({ id: plantId, gateway: device });
}

/** How many rows of a device are left in an object. */
async function rowsIn(siteId: string): Promise<number[]> {
  return await Promise.all(OWN_TABLES.map((table) => numberOf(siteId, `SELECT count(*) FROM ${table}`)));
}

describe('a move to another plant', () => {
  it('leaves the token and the secret good, and what is sent then is of the new plant [C-3.1]', async () => {
    const [from, to] = [await newPlantId(), await newPlantId()];
    const device = await newTokenDevice(team, { plantId: from });
    expect(await gridAfter(device, from, 1)).toBe(1);
    const before = await readDevice(team, device.id);
    const moved = await move(device.id, to);
    expect(moved).toMatchObject({
      id: device.id,
      plantId: to,
      status: 'ACTIVE',
      serialNumber: before.serialNumber,
    });
    expect(moved.provisionedAt).toBe(before.provisionedAt);
    expect(await gridAfter(device, to, 2)).toBe(2);
    expect(await gridPowerKw({ id: from, gateway: device })).toBe(1);
    expect((await diagnosticsOf(team, device.id)).drops).toEqual({});
  });

  it('goes to no plant and back, with all that it is [C-2.4]', async () => {
    const plantId = await newPlantId();
    const device = await newTokenDevice(team);
    expect((await move(device.id, plantId)).plantId).toBe(plantId);
    expect(await gridAfter(device, plantId, 1)).toBe(1);
    expect((await move(device.id, null)).plantId).toBeNull();
    const link = await connect(device);
    await sendTelemetry(link, device, { gridPowerKw: 2 });
    expect((await diagnosticsOf(team, device.id)).drops).toEqual({});
    expect((await move(device.id, plantId)).plantId).toBe(plantId);
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.takenOver });
    expect(await gridAfter(device, plantId, 3)).toBe(3);
  });

  it('leaves nothing of it in the old plant’s object [C-3.1]', async () => {
    const [from, to] = [await newPlantId(), await newPlantId()];
    const device = await newTokenDevice(team, { plantId: from });
    const link = await connect(device);
    await publish(link, rawTelemetry(device, { data: '{"gridPowerKw":1}', sig: '0'.repeat(64) }));
    await operate(team.operator, device.id, 'commands', { action: 'REBOOT' });
    expect(await rowsIn(from)).toEqual([1, 1, 1, 1, 1, 1]);
    await move(device.id, to);
    expect(await rowsIn(from)).toEqual([0, 0, 0, 0, 0, 0]);
    expect(await rowsIn(to)).toEqual([1, 1, 1, 1, 1, 1]);
    const { drops, connects } = await diagnosticsOf(team, device.id);
    expect([drops, connects.map(({ outcome }) => outcome)]).toEqual([{ SIGNATURE: 1 }, ['ACCEPTED']]);
  });

  it('cuts its session, and those of no others [C-3.1]', async () => {
    const [from, to] = [await newPlantId(), await newPlantId()];
    const device = await newTokenDevice(team, { plantId: from });
    const neighbour = await newTokenDevice(team, { plantId: from, type: 'SENSOR' });
    const resident = await newTokenDevice(team, { plantId: to });
    const link = await connect(device);
    const [near, there] = [await connect(neighbour), await connect(resident)];
    await move(device.id, to);
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.takenOver });
    expect(await sendTelemetry(near, neighbour, { powerKw: 1 })).toBe(true);
    expect(await sendTelemetry(there, resident, { gridPowerKw: 1 })).toBe(true);
    expect([near, there].map(({ closed }) => closed)).toEqual([undefined, undefined]);
  });

  it('carries its nonces: one that was used before is used still, after an eviction too [C-3.8]', async () => {
    const [from, to] = [await newPlantId(), await newPlantId()];
    const device = await newTokenDevice(team, { plantId: from });
    const nonce = crypto.randomUUID();
    const link = await connect(device);
    await publish(link, rawTelemetry(device, { nonce, data: '{"gridPowerKw":1}' }));
    for (const [place, kw] of [
      [to, 2],
      [from, 3],
      [null, 4],
      [to, 5],
    ] as const) {
      await move(device.id, place);
      const there = await connect(device);
      await publish(there, rawTelemetry(device, { nonce, data: `{"gridPowerKw":${kw}}` }));
      await evictSite(place ?? device.id);
    }
    expect((await diagnosticsOf(team, device.id)).drops).toEqual({ NONCE: 4 });
    expect(await gridPowerKw({ id: to, gateway: device })).toBeNull();
  });

  it('ends its own open commands FAILED, MOVED, and shows them still [C-3.1]', async () => {
    const [from, to] = [await newPlantId(), await newPlantId()];
    const device = await newTokenDevice(team, { plantId: from });
    const send = async (action: string) =>
      (await (await operate(team.operator, device.id, 'commands', { action })).json()) as OwnCommand;
    const waiting = await send('WAITING');
    const link = await connect(device);
    await subscribe(link, device);
    const [held, done] = [await send('HELD'), await send('DONE')];
    await sendAck(link, device, held.cmdId, 'IN_PROGRESS');
    await sendAck(link, device, done.cmdId, 'COMPLETED');
    await move(device.id, to);
    const { data } = await team.viewer.read<Page<OwnCommand>>(`/devices/${device.id}/commands`);
    expect(data).toEqual([
      { ...done, status: 'COMPLETED' },
      { ...held, status: 'FAILED', reason: 'MOVED' },
      { ...waiting, status: 'FAILED', reason: 'MOVED' },
    ]);
    const again = await connect(device);
    await subscribe(again, device);
    expect(again.received.filter(({ kind }) => kind === 'command')).toEqual([]);
    const fresh = await send('FRESH');
    expect(fresh.status).toBe('SENT');
  });

  it('of a suspended device leaves it suspended, with its reason, and reactivation lets it in [C-3.1]', async () => {
    const [from, to] = [await newPlantId(), await newPlantId()];
    const device = await newTokenDevice(team, { plantId: from });
    await operate(team.admin, device.id, 'suspend', { reason: 'lost' });
    expect(await move(device.id, to)).toMatchObject({ status: 'SUSPENDED', suspendReason: 'lost' });
    await expectError(await dialMqtt(device.id, device.token), 401, 'UNAUTHORIZED');
    await operate(team.admin, device.id, 'reactivate');
    expect(await gridAfter(device, to, 6)).toBe(6);
  });

  it('carries the secret of before while that is good [C-3.3]', async () => {
    const [from, to] = [await newPlantId(), await newPlantId()];
    const device = await newTokenDevice(team, { plantId: from });
    const rotated = (await (await operate(team.admin, device.id, 'rotate-secret')).json()) as TokenDevice;
    const moved = await move(device.id, to);
    expect(moved.hmacRotation).toEqual({ graceUntil: expect.stringMatching(/Z$/) });
    expect(await gridAfter(device, to, 1)).toBe(1);
    expect(await gridAfter({ ...device, hmacSecret: rotated.hmacSecret }, to, 2)).toBe(2);
    await operate(team.admin, device.id, 'rotate-secret');
    expect(await gridAfter(device, to, 3)).toBe(2);
  });

  it('of one that has no credentials yet is a word in the registry, and it is provisioned there [C-3.1]', async () => {
    const [from, to] = [await newPlantId(), await newPlantId()];
    const { id } = await postDevice(team.operator, { plantId: from });
    expect(await move(id, to)).toMatchObject({ status: 'PENDING', plantId: to });
    const { hmacSecret, mqttToken = '' } = (await provision(team, id)).security;
    expect(await gridAfter({ id, hmacSecret, token: mqttToken, siteId: to }, to, 8)).toBe(8);
    expect(await numberOf(from, 'SELECT count(*) FROM device')).toBe(0);
  });

  it('of a decommissioned one lets nobody in [C-3.3]', async () => {
    const to = await newPlantId();
    const device = await newTokenDevice(team);
    await operate(team.admin, device.id, 'revoke');
    expect(await move(device.id, to)).toMatchObject({ status: 'DECOMMISSIONED', plantId: to });
    await expectError(await dialMqtt(device.id, device.token), 401, 'UNAUTHORIZED');
    expect(await numberOf(to, 'SELECT count(*) FROM device_secret')).toBe(0);
  });

  it('goes with the other changes of the same request, and is told to the audit trail [C-8.4]', async () => {
    const [from, to] = [await newPlantId(), await newPlantId()];
    const { id } = await newTokenDevice(team, { plantId: from });
    expect(await move(id, to, { name: 'Moved' })).toMatchObject({ name: 'Moved', plantId: to });
    const { data } = await team.admin.read<Page<AuditEvent>>('/audit-events?event=device.moved&limit=100');
    const rows = data.filter(({ target }) => target?.id === id);
    expect(rows).toMatchObject([{ actor: { id: team.operator.id }, details: { from, to } }]);
  });
});

describe('a move that may not be', () => {
  it('to a plant of another organization is 404, and nothing changes [C-1.3]', async () => {
    const plantId = await newPlantId();
    const device = await newTokenDevice(team, { plantId });
    const link = await connect(device);
    const before = await readDevice(team, device.id);
    const { id: foreign } = await postPlant(other.operator);
    for (const to of [foreign, crypto.randomUUID()]) {
      await expectError(await patch(device.id, { plantId: to, name: 'x' }), 404, 'PLANT_NOT_FOUND');
    }
    const { connectionStatus: _told, lastSeenAt: _seen, ...after } = await readDevice(team, device.id);
    expect(before).toMatchObject(after);
    await sendTelemetry(link, device, { gridPowerKw: 1 });
    expect(await gridPowerKw({ id: plantId, gateway: device })).toBe(1);
    expect(link.closed).toBeUndefined();
  });

  it('while a sub-device links to it is 409, to any plant or none, and its session goes on [C-3.1]', async () => {
    const [plantId, to] = [await newPlantId(), await newPlantId()];
    const device = await newTokenDevice(team, { plantId });
    const subDevice = await postSubDevice(team.operator, plantId, { linkedDeviceId: device.id });
    const link = await connect(device);
    for (const place of [to, null]) {
      await expectError(await patch(device.id, { plantId: place }), 409, 'CONFLICT');
    }
    expect((await readDevice(team, device.id)).plantId).toBe(plantId);
    expect(await sendTelemetry(link, device, { powerKw: 1 })).toBe(true);
    expect(link.closed).toBeUndefined();
    expect((await patch(device.id, { plantId, name: 'Same plant' })).status).toBe(200);
    const path = `/plants/${plantId}/sub-devices/${subDevice.id}`;
    await team.operator.read(path, { method: 'PATCH', body: { linkedDeviceId: null } });
    expect((await move(device.id, to)).plantId).toBe(to);
  });

  it('to where it is changes nothing, and cuts no session [C-3.1]', async () => {
    const plantId = await newPlantId();
    const device = await newTokenDevice(team, { plantId });
    const link = await connect(device);
    expect((await move(device.id, plantId)).plantId).toBe(plantId);
    await sendTelemetry(link, device, { gridPowerKw: 5 });
    expect(await gridPowerKw({ id: plantId, gateway: device })).toBe(5);
    expect(link.closed).toBeUndefined();
  });

  it('of two at once ends in one place, and the device is let in there [C-3.1]', async () => {
    const [a, b] = [await newPlantId(), await newPlantId()];
    const device = await newTokenDevice(team);
    const answers = await Promise.all([patch(device.id, { plantId: a }), patch(device.id, { plantId: b })]);
    for (const { status } of answers) expect([200, 409]).toContain(status);
    const { plantId } = await readDevice(team, device.id);
    expect([a, b]).toContain(plantId);
    expect(await gridAfter(device, plantId ?? '', 9)).toBe(9);
    const elsewhere = [a, b].find((id) => id !== plantId) ?? '';
    expect(await numberOf(elsewhere, 'SELECT count(*) FROM device')).toBe(0);
  });

  it('leaves its old plant free to go, and its new one not [C-3.2]', async () => {
    const [from, to] = [await newPlantId(), await newPlantId()];
    const id = await newDeviceIn(team, 'ACTIVE', { plantId: from });
    await move(id, to);
    expect((await team.operator.call(`/plants/${from}`, { method: 'DELETE' })).status).toBe(200);
    const refused = await team.operator.call(`/plants/${to}`, { method: 'DELETE' });
    await expectError(refused, 409, 'PLANT_INVALID_STATE');
  });
});
