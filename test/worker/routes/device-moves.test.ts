/** A device moves with its credentials to another plant or to none; session and commands end [C-3.1]. */
import { env } from 'cloudflare:workers';
import { runSql } from '#workerd/d1.ts';
import { connect, connectForCommands, type TokenDevice } from '#workerd/devices.ts';
import { dialMqtt } from '#workerd/door.ts';
import { publish, rawTelemetry, sendAck, sendTelemetry } from '#workerd/site-devices.ts';
import { gridPowerKw } from '#workerd/site-reads.ts';
import { evictSite, numberOf } from '#workerd/site-rows.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';

const OWN_TABLES = [
  'device',
  'device_secret',
  'dropped_message',
  'recent_drop',
  'recent_connect',
  'rest_command',
];

/** `device` is at a plant, and `to` is another one. */
const it = test
  .extend('to', async ({ team }) => (await team.newPlant()).id)
  .extend('patch', ({ team }) => (id: string, body: object) => {
    return team.operator.patch(`/devices/${id}`, body);
  });

/** The grid power that a plant shows after its device sent `kw`. */
async function gridAfter(device: TokenDevice, plantId: string, kw: number): Promise<number | null> {
  const link = await connect(device);
  await sendTelemetry(link, device, { gridPowerKw: kw });
  return await gridPowerKw({ id: plantId, gateway: device });
}

/** The number of rows of an object in each of OWN_TABLES. */
async function rowsIn(siteId: string): Promise<number[]> {
  return await Promise.all(OWN_TABLES.map((table) => numberOf(siteId, `SELECT count(*) FROM ${table}`)));
}

describe('a move to another plant', () => {
  it('a moved device keeps its token and secret [C-3.1]', async ({ team, device, to }) => {
    expect(await gridAfter(device, device.siteId, 1)).toBe(1);
    const before = await team.readDevice(device.id);
    const moved = await team.moveDevice(device.id, to);
    const { serialNumber } = before;
    expect(moved).toMatchObject({ id: device.id, plantId: to, status: 'ACTIVE', serialNumber });
    expect(moved.provisionedAt).toBe(before.provisionedAt);
    expect(await gridAfter(device, to, 2)).toBe(2);
    expect(await gridPowerKw({ id: device.siteId, gateway: device })).toBe(1);
    expect((await team.diagnosticsOf(device.id)).drops).toEqual({});
  });

  it('a device can move to no plant and back [C-2.4]', async ({ team, plantId }) => {
    const device = await team.newTokenDevice();
    expect((await team.moveDevice(device.id, plantId)).plantId).toBe(plantId);
    expect(await gridAfter(device, plantId, 1)).toBe(1);
    expect((await team.moveDevice(device.id, null)).plantId).toBeNull();
    const link = await connect(device);
    await sendTelemetry(link, device, { gridPowerKw: 2 });
    expect((await team.diagnosticsOf(device.id)).drops).toEqual({});
    expect((await team.moveDevice(device.id, plantId)).plantId).toBe(plantId);
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.takenOver });
    expect(await gridAfter(device, plantId, 3)).toBe(3);
  });

  it('a move takes secret, diagnostics and commands of the device to the new plant’s object [C-3.1]', async ({
    team,
    device,
    link,
    to,
  }) => {
    await publish(link, rawTelemetry(device, { data: '{"gridPowerKw":1}', sig: '0'.repeat(64) }));
    await team.command(device.id);
    expect(await rowsIn(device.siteId)).toEqual([1, 1, 1, 1, 1, 1]);
    await team.moveDevice(device.id, to);
    expect(await rowsIn(device.siteId)).toEqual([0, 0, 0, 0, 0, 0]);
    expect(await rowsIn(to)).toEqual([1, 1, 1, 1, 1, 1]);
    const { drops, connects } = await team.diagnosticsOf(device.id);
    expect([drops, connects.map(({ outcome }) => outcome)]).toEqual([{ SIGNATURE: 1 }, ['ACCEPTED']]);
  });

  it('a move closes only the device’s session [C-3.1]', async ({ team, device, link, to }) => {
    const neighbour = await team.newTokenDevice({ plantId: device.siteId, type: 'SENSOR' });
    const resident = await team.newTokenDevice({ plantId: to });
    const [near, there] = [await connect(neighbour), await connect(resident)];
    await team.moveDevice(device.id, to);
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.takenOver });
    expect(await sendTelemetry(near, neighbour, { powerKw: 1 })).toBe(true);
    expect(await sendTelemetry(there, resident, { gridPowerKw: 1 })).toBe(true);
    expect([near, there].map(({ closed }) => closed)).toEqual([undefined, undefined]);
  });

  it('a nonce that the device used before its moves is refused after each of them [C-3.8]', async ({
    team,
    device,
    link,
    to,
  }) => {
    const nonce = crypto.randomUUID();
    await publish(link, rawTelemetry(device, { nonce, data: '{"gridPowerKw":1}' }));
    for (const [place, kw] of [
      [to, 2],
      [device.siteId, 3],
      [null, 4],
      [to, 5],
    ] as const) {
      await team.moveDevice(device.id, place);
      const there = await connect(device);
      await publish(there, rawTelemetry(device, { nonce, data: `{"gridPowerKw":${kw}}` }));
      await evictSite(place ?? device.id);
    }
    expect((await team.diagnosticsOf(device.id)).drops).toEqual({ NONCE: 4 });
    expect(await gridPowerKw({ id: to, gateway: device })).toBeNull();
  });

  it('a move ends the open REST commands of the device as FAILED, MOVED [C-3.1]', async ({
    team,
    device,
    to,
  }) => {
    const send = (action: string) => team.command(device.id, { action });
    const waiting = await send('WAITING');
    const link = await connectForCommands(device);
    const [held, done] = [await send('HELD'), await send('DONE')];
    await sendAck(link, device, held.cmdId, 'IN_PROGRESS');
    await sendAck(link, device, done.cmdId, 'COMPLETED');
    await team.moveDevice(device.id, to);
    const { data } = await team.listCommands(device.id);
    expect(data).toEqual([
      { ...done, status: 'COMPLETED' },
      { ...held, status: 'FAILED', reason: 'MOVED' },
      { ...waiting, status: 'FAILED', reason: 'MOVED' },
    ]);
    const again = await connectForCommands(device);
    expect(again.received.filter(({ kind }) => kind === 'command')).toEqual([]);
    const fresh = await send('FRESH');
    expect(fresh.status).toBe('SENT');
  });

  it('a suspended device stays suspended when it moves [C-3.1]', async ({ team, device, to }) => {
    await team.admin.operate(device.id, 'suspend', { reason: 'lost' });
    expect(await team.moveDevice(device.id, to)).toMatchObject({
      status: 'SUSPENDED',
      suspendReason: 'lost',
    });
    await expectError(await dialMqtt(device.id, device.token), 401, 'UNAUTHORIZED');
    await team.admin.operate(device.id, 'reactivate');
    const token = await team.newToken(device.id);
    expect(await gridAfter({ ...device, token }, to, 6)).toBe(6);
  });

  it('a move keeps the previous secret in its grace period [C-3.3]', async ({ team, device, to }) => {
    const rotated = await team.rotateSecret(device.id);
    const moved = await team.moveDevice(device.id, to);
    expect(moved.hmacRotation).toEqual({ graceUntil: expect.stringMatching(/Z$/) });
    expect(await gridAfter(device, to, 1)).toBe(1);
    expect(await gridAfter({ ...device, hmacSecret: rotated.hmacSecret }, to, 2)).toBe(2);
    await team.admin.operate(device.id, 'rotate-secret');
    const token = await team.newToken(device.id);
    expect(await gridAfter({ ...device, token }, to, 3)).toBe(2);
  });

  it('a PENDING device that moved can be provisioned at its new plant [C-3.1]', async ({
    team,
    plantId,
    to,
  }) => {
    const { id } = await team.newDevice({ plantId });
    expect(await team.moveDevice(id, to)).toMatchObject({ status: 'PENDING', plantId: to });
    const { hmacSecret, mqttToken = '' } = (await team.provision(id)).security;
    expect(await gridAfter({ id, hmacSecret, token: mqttToken, siteId: to }, to, 8)).toBe(8);
    expect(await numberOf(plantId, 'SELECT count(*) FROM device')).toBe(0);
  });

  it('a decommissioned device that moves is still refused [C-3.3]', async ({ team, to }) => {
    const device = await team.newTokenDevice();
    await team.admin.operate(device.id, 'revoke');
    expect(await team.moveDevice(device.id, to)).toMatchObject({ status: 'DECOMMISSIONED', plantId: to });
    await expectError(await dialMqtt(device.id, device.token), 401, 'UNAUTHORIZED');
    expect(await numberOf(to, 'SELECT count(*) FROM device_secret')).toBe(0);
  });

  it('a move with another change is audited with both plants [C-8.4]', async ({ team, device, to }) => {
    const { id } = device;
    expect(await team.moveDevice(id, to, { name: 'Moved' })).toMatchObject({ name: 'Moved', plantId: to });
    const rows = (await team.eventsAbout(id)).filter(({ event }) => event === 'device.moved');
    expect(rows).toMatchObject([{ actor: { id: team.operator.id }, details: { from: device.siteId, to } }]);
  });
});

describe('refused, repeated and concurrent moves', () => {
  it('a move to a foreign plant gets 404 [C-1.3]', async ({ team, other, plantId, device, link, patch }) => {
    const before = await team.readDevice(device.id);
    const { id: foreign } = await other.newPlant();
    for (const place of [foreign, crypto.randomUUID()]) {
      await expectError(await patch(device.id, { plantId: place, name: 'x' }), 404, 'PLANT_NOT_FOUND');
    }
    const { connectionStatus: _status, lastSeenAt: _seen, ...after } = await team.readDevice(device.id);
    expect(before).toMatchObject(after);
    await sendTelemetry(link, device, { gridPowerKw: 1 });
    expect(await gridPowerKw({ id: plantId, gateway: device })).toBe(1);
    expect(link.closed).toBeUndefined();
  });

  it('a device that a sub-device links to cannot move (409) until it is unlinked [C-3.1]', async ({
    team,
    plantId,
    device,
    link,
    to,
    patch,
  }) => {
    const subDevice = await team.newSubDevice(plantId, { linkedDeviceId: device.id });
    for (const place of [to, null]) {
      await expectError(await patch(device.id, { plantId: place }), 409, 'CONFLICT');
    }
    expect((await team.readDevice(device.id)).plantId).toBe(plantId);
    expect(await sendTelemetry(link, device, { powerKw: 1 })).toBe(true);
    expect(link.closed).toBeUndefined();
    expect((await patch(device.id, { plantId, name: 'Same plant' })).status).toBe(200);
    const path = `/plants/${plantId}/sub-devices/${subDevice.id}`;
    await team.operator.change(path, { linkedDeviceId: null });
    expect((await team.moveDevice(device.id, to)).plantId).toBe(to);
  });

  it('a move to the same plant keeps the session [C-3.1]', async ({ team, plantId, device, link }) => {
    expect((await team.moveDevice(device.id, plantId)).plantId).toBe(plantId);
    await sendTelemetry(link, device, { gridPowerKw: 5 });
    expect(await gridPowerKw({ id: plantId, gateway: device })).toBe(5);
    expect(link.closed).toBeUndefined();
  });

  it('after two concurrent moves a device is at one of the two plants only, and works there [C-3.1]', async ({
    team,
    plantId,
    to,
    patch,
  }) => {
    const device = await team.newTokenDevice();
    const answers = await Promise.all([plantId, to].map((place) => patch(device.id, { plantId: place })));
    for (const { status } of answers) expect([200, 409]).toContain(status);
    const { plantId: home } = await team.readDevice(device.id);
    expect([plantId, to]).toContain(home);
    expect(await gridAfter(device, home ?? '', 9)).toBe(9);
    const elsewhere = [plantId, to].find((id) => id !== home) ?? '';
    expect(await numberOf(elsewhere, 'SELECT count(*) FROM device')).toBe(0);
  });

  it('a move gets 409 while another request provisions the device, and changes nothing [C-3.1]', async ({
    team,
    plantId,
    to,
    patch,
  }) => {
    const before = await team.newDevice({ plantId });
    // As a request leaves it that has begun to provision the device.
    await runSql('UPDATE devices SET provisioning_at_ms = ? WHERE id = ?', Date.now(), before.id);
    const refused = await patch(before.id, { plantId: to, name: 'Moved' });
    const { message } = await expectError(refused, 409, 'CONFLICT');
    expect(message).toContain('moving or provisioning');
    expect(await team.readDevice(before.id)).toEqual(before);
    await runSql('UPDATE devices SET provisioning_at_ms = NULL WHERE id = ?', before.id);
    expect((await patch(before.id, { plantId: to })).status).toBe(200);
  });

  it('a move gets 409 if another request has begun to move the device, and the other move is finished [C-3.1]', async ({
    team,
    device,
    to,
  }) => {
    const { id: elsewhere } = await team.newPlant();
    // The other request begins between the read of the device and the first write of this move.
    const batch = async <T>(statements: D1PreparedStatement[]) => {
      await runSql('UPDATE devices SET moving_to = ? WHERE id = ?', elsewhere, device.id);
      return await env.DB.batch<T>(statements);
    };
    const DB = { prepare: (sql: string) => env.DB.prepare(sql), batch } as D1Database;
    const options = { method: 'PATCH', body: { plantId: to } } as const;
    const refused = await team.operator.call(`/devices/${device.id}`, options, { DB });
    const { message } = await expectError(refused, 409, 'CONFLICT');
    expect(message).toContain('moving or provisioning');
    await team.diagnosticsOf(device.id);
    expect((await team.readDevice(device.id)).plantId).toBe(elsewhere);
    expect(await gridAfter(device, elsewhere, 4)).toBe(4);
  });

  it('a plant can be deleted after its device moved away [C-3.2]', async ({ team, plantId, to }) => {
    const id = await team.newDeviceIn('ACTIVE', { plantId });
    await team.moveDevice(id, to);
    expect((await team.operator.delete(`/plants/${plantId}`)).status).toBe(200);
    const refused = await team.operator.delete(`/plants/${to}`);
    await expectError(refused, 409, 'PLANT_INVALID_STATE');
  });
});
