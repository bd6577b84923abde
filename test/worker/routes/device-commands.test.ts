/** Commands to a device by members: taken, signed, delivered, and shown as they go [C-3.4]. */
import { beforeAll, describe, expect, it } from 'vitest';
import { hmacHex } from '../../../durable-objects/secrets/hmac.ts';
import { SITE_ACTIONS } from '../../../protocol/action.ts';
import type { OwnCommand } from '../../../protocol/device-record.ts';
import type { Page } from '../../../protocol/page.ts';
import { commandSigningString } from '../../../protocol/signing.ts';
import {
  connect,
  createTeamAtStart,
  newDeviceIn,
  newTokenDevice,
  operate,
  readDevice,
  type TokenDevice,
} from '../../support/workerd/devices.ts';
import { organizationOf, postPlant } from '../../support/workerd/fleet.ts';
import type { DeviceTestLink } from '../../support/workerd/links.ts';
import type { Team } from '../../support/workerd/people.ts';
import { expectError, read } from '../../support/workerd/rest.ts';
import { holdClock, START_MS } from '../../support/workerd/site-clock.ts';
import { commandsOf, nthCommand, sendAck, subscribe } from '../../support/workerd/site-devices.ts';
import { createKey } from '../../support/workerd/world.ts';

const UUID = expect.stringMatching(/^[0-9a-f-]{36}$/);
const REBOOT = { action: 'REBOOT' };

let team: Team;

beforeAll(async () => {
  team = await createTeamAtStart();
});

holdClock();

function post(id: string, body: unknown): Promise<Response> {
  return operate(team.operator, id, 'commands', body);
}

async function command(id: string, body: object = REBOOT): Promise<OwnCommand> {
  return await team.operator.read(`/devices/${id}/commands`, { method: 'POST', body }, 202);
}

async function list(id: string, query = ''): Promise<Page<OwnCommand>> {
  return await team.viewer.read(`/devices/${id}/commands${query}`);
}

async function show({ deviceId, cmdId }: OwnCommand): Promise<OwnCommand> {
  return await team.viewer.read(`/devices/${deviceId}/commands/${cmdId}`);
}

/** A device of a plant that listens for commands. */
async function newListening(): Promise<{ device: TokenDevice; link: DeviceTestLink }> {
  const { id: plantId } = await postPlant(team.operator);
  const device = await newTokenDevice(team, { plantId });
  const link = await connect(device);
  await subscribe(link, device);
  return { device, link };
}

describe('POST /devices/{id}/commands', () => {
  it('answers 202 with the command: PENDING while the device is away [C-3.4]', async () => {
    const { id } = await newTokenDevice(team);
    const made = await command(id, { action: 'SET_A1_B', payload: { a: [1, { b: 'č' }] } });
    const createdAt = new Date(START_MS).toISOString();
    expect(made).toEqual({ cmdId: UUID, deviceId: id, action: 'SET_A1_B', status: 'PENDING', createdAt });
    expect(await show(made)).toEqual(made);
    expect(await list(id)).toEqual({ data: [made], meta: { page: 1, limit: 20, total: 1, totalPages: 1 } });
  });

  it('goes out at once to a device that listens: signed, its payload whole, SENT (spec: Device MQTT)', async () => {
    const { device, link } = await newListening();
    const payload = { z: 1, 10: 2, a: { text: 'č | "x"', list: [true, null, -1.5] } };
    const made = await command(device.id, { ...REBOOT, payload });
    expect(made.status).toBe('SENT');
    const { cmdId, ts, action, payload: told, sig } = await nthCommand(link, 1);
    expect([cmdId, ts, action, told]).toEqual([made.cmdId, START_MS, 'REBOOT', payload]);
    const frame = link.received.find(({ kind }) => kind === 'command');
    const text = frame?.kind === 'command' ? frame.payload : '';
    const payloadText = text.slice(text.indexOf('"payload":') + 10, text.lastIndexOf(',"sig"'));
    expect(JSON.parse(payloadText)).toEqual(payload);
    expect(text).toMatch(/^[\x20-\x7e]*$/);
    expect(sig).toBe(
      hmacHex(device.hmacSecret, commandSigningString(device.id, cmdId, ts, action, payloadText)),
    );
  });

  it('without a payload sends an empty one (spec: Device MQTT messages)', async () => {
    const { device, link } = await newListening();
    await command(device.id);
    expect((await nthCommand(link, 1)).payload).toEqual({});
  });

  it('waits for a device that is away, and goes out once it listens [C-3.4]', async () => {
    const { id: plantId } = await postPlant(team.operator);
    const device = await newTokenDevice(team, { plantId });
    const made = await command(device.id);
    const link = await connect(device);
    expect((await show(made)).status).toBe('PENDING');
    await subscribe(link, device);
    expect((await nthCommand(link, 1)).cmdId).toBe(made.cmdId);
    expect((await show(made)).status).toBe('SENT');
  });

  it('shows what the device says of it: RECEIVED, IN_PROGRESS, COMPLETED, and nothing behind that [C-3.9]', async () => {
    const { device, link } = await newListening();
    const made = await command(device.id);
    for (const [said, shown] of [
      ['RECEIVED', 'RECEIVED'],
      ['IN_PROGRESS', 'IN_PROGRESS'],
      ['RECEIVED', 'IN_PROGRESS'],
      ['COMPLETED', 'COMPLETED'],
      ['FAILED', 'COMPLETED'],
    ] as const) {
      await sendAck(link, device, made.cmdId, said);
      expect([said, (await show(made)).status]).toEqual([said, shown]);
    }
    expect(await show(made)).toEqual({ ...made, status: 'COMPLETED' });
    const failed = await command(device.id);
    await sendAck(link, device, failed.cmdId, 'FAILED');
    expect(await show(failed)).toEqual({ ...failed, status: 'FAILED', reason: 'device answered FAILED' });
  });

  it('takes no ack of another device [C-3.9]', async () => {
    const { device } = await newListening();
    const other = await newListening();
    const made = await command(device.id);
    await sendAck(other.link, other.device, made.cmdId, 'COMPLETED');
    expect((await show(made)).status).toBe('SENT');
  });

  it('answers the same idempotencyKey with the first answer, and sends it once [C-3.4]', async () => {
    const { device, link } = await newListening();
    const sibling = await newTokenDevice(team);
    const body = { ...REBOOT, payload: { a: 1, b: 2 }, idempotencyKey: 'k1' };
    const made = await command(device.id, body);
    expect(await command(device.id, body)).toEqual(made);
    expect((await list(device.id)).meta.total).toBe(1);
    for (const other of [{ action: 'STOP' }, { payload: {} }, { validUntil: '2031-01-01T00:00:00Z' }]) {
      await expectError(await post(device.id, { ...body, ...other }), 409, 'CONFLICT');
    }
    const elsewhere = await command(sibling.id, body);
    expect(elsewhere.cmdId).not.toBe(made.cmdId);
    await sendAck(link, device, made.cmdId, 'COMPLETED');
    expect((await command(device.id, body)).cmdId).toBe(made.cmdId);
    expect(commandsOf(link)).toHaveLength(1);
    expect((await command(device.id, { ...body, idempotencyKey: 'k2' })).cmdId).not.toBe(made.cmdId);
  });

  it('makes one of several with the same idempotencyKey at once [C-3.4]', async () => {
    const { id } = await newTokenDevice(team);
    const body = { ...REBOOT, idempotencyKey: 'k' };
    const made = await Promise.all([1, 2, 3].map(() => command(id, body)));
    expect(new Set(made.map(({ cmdId }) => cmdId)).size).toBe(1);
    expect((await list(id)).meta.total).toBe(1);
  });

  it.each([...SITE_ACTIONS])(
    'refuses %s: only the site’s pipeline checks its limits [C-3.4]',
    async (action) => {
      const { id } = await newTokenDevice(team);
      await expectError(await post(id, { action }), 400, 'COMMAND_ACTION_NOT_IN_TEMPLATE');
      expect((await list(id)).meta.total).toBe(0);
    },
  );

  it('refuses what is no command: 400, and none is made [C-3.4]', async () => {
    const { id } = await newTokenDevice(team);
    const actions = [
      '',
      'reboot',
      'Reboot',
      '1REBOOT',
      '_REBOOT',
      'RE BOOT',
      'RE-BOOT',
      'REBOOT\n',
      'Č',
      'A'.repeat(65),
    ];
    const past = ['2030-03-05T09:00:00.000Z', '2030-03-05T08:59:59Z', '1970-01-01T00:00:00Z'];
    const bad = [
      undefined,
      [],
      {},
      { payload: {} },
      ...[...actions, null, 1].map((action) => ({ action })),
      ...[[], 'x', null, 1, { a: 'x'.repeat(17_000) }].map((payload) => ({ ...REBOOT, payload })),
      ...[...past, '', 'soon', '2031-02-30T00:00:00Z', '2031-01-01T00:00:00', 1, null].map((validUntil) => ({
        ...REBOOT,
        validUntil,
      })),
      ...['', 'x'.repeat(101), 1, null].map((idempotencyKey) => ({ ...REBOOT, idempotencyKey })),
      ...['cmdId', 'deviceId', 'status', 'ts', 'sig'].map((field) => ({ ...REBOOT, [field]: id })),
    ];
    for (const body of bad) await expectError(await post(id, body), 400, 'VALIDATION_ERROR');
    expect((await list(id)).meta.total).toBe(0);
    await command(id, { action: 'A'.repeat(64), validUntil: '2030-03-05T09:00:00.001Z' });
  });

  it.each(['PENDING', 'SUSPENDED', 'DECOMMISSIONED'] as const)(
    'to a %s device is 409 [C-3.4]',
    async (status) => {
      const id = await newDeviceIn(team, status);
      await expectError(await post(id, REBOOT), 409, 'CONFLICT');
      expect((await list(id)).meta.total).toBe(0);
      expect((await readDevice(team, id)).status).toBe(status);
    },
  );

  it('refuses the 51st that is open: 409, until one ends (spec: Limits)', async () => {
    const { device, link } = await newListening();
    const made: OwnCommand[] = [];
    for (let count = 0; count < 50; count++) made.push(await command(device.id));
    await expectError(await post(device.id, REBOOT), 409, 'CONFLICT');
    await sendAck(link, device, made[7]?.cmdId ?? '', 'COMPLETED');
    await command(device.id);
    await expectError(await post(device.id, REBOOT), 409, 'CONFLICT');
    expect((await list(device.id)).meta.total).toBe(51);
  });
});

describe('commands of a device', () => {
  it('are listed newest first, in pages, with those of this device alone (spec: List endpoints)', async () => {
    const [one, other] = [await newTokenDevice(team), await newTokenDevice(team)];
    await command(other.id);
    const made: OwnCommand[] = [];
    for (const action of ['A', 'B', 'C']) made.unshift(await command(one.id, { action }));
    expect((await list(one.id)).data).toEqual(made);
    expect(await list(one.id, '?limit=2&page=2')).toEqual({
      data: made.slice(2),
      meta: { page: 2, limit: 2, total: 3, totalPages: 2 },
    });
    for (const query of ['limit=101', 'limit=0', 'page=0']) {
      await expectError(
        await team.viewer.call(`/devices/${one.id}/commands?${query}`),
        400,
        'VALIDATION_ERROR',
      );
    }
  });

  it('are found under their own device alone: 404 [C-3.4]', async () => {
    const [one, other] = [await newTokenDevice(team), await newTokenDevice(team)];
    const { cmdId } = await command(one.id);
    for (const path of [`${other.id}/commands/${cmdId}`, `${one.id}/commands/${crypto.randomUUID()}`]) {
      await expectError(await team.viewer.call(`/devices/${path}`), 404, 'NOT_FOUND');
    }
    await expectError(await team.viewer.call(`/devices/${one.id}/commands/x`), 400, 'INVALID_UUID');
  });

  it('are in no partner’s command log [C-3.4]', async () => {
    const { device, link } = await newListening();
    const made = await command(device.id);
    await sendAck(link, device, made.cmdId, 'COMPLETED');
    const { key } = await createKey(organizationOf(team), { scopes: ['vcp:read'] });
    const log = await read<object>(`/api/v1/vcp/sites/${device.siteId}/commands`, key);
    expect(log).toMatchObject({ total: 0 });
    expect(JSON.stringify(log)).not.toContain(made.cmdId);
    const config = await read<object>(`/api/v1/vcp/sites/${device.siteId}/config`, key);
    expect(JSON.stringify(config)).not.toContain(made.cmdId);
  });
});
