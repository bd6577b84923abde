/** Members’ commands to a device: accepted, signed, delivered, and shown with their status [C-3.4]. */
import { connect, connectForCommands } from '#workerd/devices.ts';
import { holdClock, START_MS } from '#workerd/site-clock.ts';
import { commandsOf, nthCommand, sendAck, subscribe } from '#workerd/site-devices.ts';
import { describe, expect, expectError, test, UUID } from '#workerd/worker-test.ts';
import { hmacHex } from '../../../durable-objects/secrets/hmac.ts';
import { SITE_ACTIONS } from '../../../protocol/action.ts';
import type { RestCommand } from '../../../protocol/device-record.ts';
import { commandSigningString } from '../../../protocol/signing.ts';

const REBOOT = { action: 'REBOOT' };

holdClock();

const it = test.extend('link', ({ device }) => connectForCommands(device));

describe('POST /devices/{id}/commands', () => {
  it('a command to an offline device gets 202 and is PENDING [C-3.4]', async ({ team }) => {
    const { id } = await team.newTokenDevice();
    const made = await team.command(id, { action: 'SET_A1_B', payload: { a: [1, { b: 'č' }] } });
    const createdAt = new Date(START_MS).toISOString();
    expect(made).toEqual({ cmdId: UUID, deviceId: id, action: 'SET_A1_B', status: 'PENDING', createdAt });
    expect(await team.readCommand(made)).toEqual(made);
    expect(await team.listCommands(id)).toEqual({
      data: [made],
      meta: { page: 1, limit: 20, total: 1, totalPages: 1 },
    });
  });

  it('a command is sent signed, with its payload (spec: Device MQTT)', async ({ team, device, link }) => {
    const payload = { z: 1, 10: 2, a: { text: 'č | "x"', list: [true, null, -1.5] } };
    const made = await team.command(device.id, { ...REBOOT, payload });
    expect(made.status).toBe('SENT');
    const { cmdId, ts, action, payload: sent, sig } = await nthCommand(link, 1);
    expect([cmdId, ts, action, sent]).toEqual([made.cmdId, START_MS, 'REBOOT', payload]);
    const frame = link.received.find(({ kind }) => kind === 'command');
    const text = frame?.kind === 'command' ? frame.payload : '';
    const payloadText = text.slice(text.indexOf('"payload":') + 10, text.lastIndexOf(',"sig"'));
    expect(JSON.parse(payloadText)).toEqual(payload);
    expect(text).toMatch(/^[\x20-\x7e]*$/);
    const signed = commandSigningString(device.id, cmdId, ts, action, payloadText);
    expect(sig).toBe(hmacHex(device.hmacSecret, signed));
  });

  it('a command without a payload is sent with an empty one (spec: Device MQTT messages)', async ({
    team,
    device,
    link,
  }) => {
    await team.command(device.id);
    expect((await nthCommand(link, 1)).payload).toEqual({});
  });

  it('a command waits until its device subscribes [C-3.4]', async ({ team, device }) => {
    const made = await team.command(device.id);
    const link = await connect(device);
    expect((await team.readCommand(made)).status).toBe('PENDING');
    await subscribe(link, device);
    expect((await nthCommand(link, 1)).cmdId).toBe(made.cmdId);
    expect((await team.readCommand(made)).status).toBe('SENT');
  });

  it('a command’s status follows its acknowledgements; a late one does not restore an earlier status [C-3.9]', async ({
    team,
    device,
    link,
  }) => {
    const made = await team.command(device.id);
    for (const [said, shown] of [
      ['RECEIVED', 'RECEIVED'],
      ['IN_PROGRESS', 'IN_PROGRESS'],
      ['RECEIVED', 'IN_PROGRESS'],
      ['COMPLETED', 'COMPLETED'],
      ['FAILED', 'COMPLETED'],
    ] as const) {
      await sendAck(link, device, made.cmdId, said);
      expect([said, (await team.readCommand(made)).status]).toEqual([said, shown]);
    }
    expect(await team.readCommand(made)).toEqual({ ...made, status: 'COMPLETED' });
    const failed = await team.command(device.id);
    await sendAck(link, device, failed.cmdId, 'FAILED');
    expect(await team.readCommand(failed)).toEqual({
      ...failed,
      status: 'FAILED',
      reason: 'device answered FAILED',
    });
  });

  it('an acknowledgement of another device is ignored [C-3.9]', async ({ team, device, link }) => {
    const second = await team.newTokenDevice();
    const made = await team.command(device.id);
    await sendAck(await connect(second), second, made.cmdId, 'COMPLETED');
    expect(commandsOf(link)).toHaveLength(1);
    expect((await team.readCommand(made)).status).toBe('SENT');
  });

  it('a command with a repeated idempotencyKey is not sent again; with other content it gets 409 [C-3.4]', async ({
    team,
    device,
    link,
  }) => {
    const sibling = await team.newTokenDevice();
    const body = { ...REBOOT, payload: { a: 1, b: 2 }, idempotencyKey: 'k1' };
    const made = await team.command(device.id, body);
    expect(await team.command(device.id, body)).toEqual(made);
    expect((await team.listCommands(device.id)).meta.total).toBe(1);
    for (const other of [{ action: 'STOP' }, { payload: {} }, { validUntil: '2031-01-01T00:00:00Z' }]) {
      await expectError(await team.postCommand(device.id, { ...body, ...other }), 409, 'CONFLICT');
    }
    const elsewhere = await team.command(sibling.id, body);
    expect(elsewhere.cmdId).not.toBe(made.cmdId);
    await sendAck(link, device, made.cmdId, 'COMPLETED');
    expect((await team.command(device.id, body)).cmdId).toBe(made.cmdId);
    expect(commandsOf(link)).toHaveLength(1);
    expect((await team.command(device.id, { ...body, idempotencyKey: 'k2' })).cmdId).not.toBe(made.cmdId);
  });

  it('makes one of concurrent commands with one idempotencyKey [C-3.4]', async ({ team }) => {
    const { id } = await team.newTokenDevice();
    const body = { ...REBOOT, idempotencyKey: 'k' };
    const made = await Promise.all([1, 2, 3].map(() => team.command(id, body)));
    expect(new Set(made.map(({ cmdId }) => cmdId)).size).toBe(1);
    expect((await team.listCommands(id)).meta.total).toBe(1);
  });

  it.for([...SITE_ACTIONS])(
    'the action %s gets 400, because only partners’ commands are checked against the site’s limits [C-3.4]',
    async (action, { team }) => {
      const { id } = await team.newTokenDevice();
      await expectError(await team.postCommand(id, { action }), 400, 'COMMAND_ACTION_NOT_IN_TEMPLATE');
      expect((await team.listCommands(id)).meta.total).toBe(0);
    },
  );

  it('an invalid command gets 400, and none is made [C-3.4]', async ({ team }) => {
    const { id } = await team.newTokenDevice();
    const spellings = ['reboot', 'Reboot', '1REBOOT', '_REBOOT', 'RE BOOT', 'RE-BOOT', 'REBOOT\n'];
    const actions = ['', ...spellings, 'Č', 'A'.repeat(65)];
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
    for (const body of bad) await expectError(await team.postCommand(id, body), 400, 'VALIDATION_ERROR');
    expect((await team.listCommands(id)).meta.total).toBe(0);
    await team.command(id, { action: 'A'.repeat(64), validUntil: '2030-03-05T09:00:00.001Z' });
  });

  it.for(['PENDING', 'SUSPENDED', 'DECOMMISSIONED'] as const)(
    'a command to a %s device gets 409 [C-3.4]',
    async (status, { team }) => {
      const id = await team.newDeviceIn(status);
      await expectError(await team.postCommand(id, REBOOT), 409, 'CONFLICT');
      expect((await team.listCommands(id)).meta.total).toBe(0);
      expect((await team.readDevice(id)).status).toBe(status);
    },
  );

  it('a device with 50 open commands gets 409 for one more, until one of them ends (spec: Limits)', async ({
    team,
    device,
    link,
  }) => {
    const made: RestCommand[] = [];
    for (let count = 0; count < 50; count++) made.push(await team.command(device.id));
    await expectError(await team.postCommand(device.id, REBOOT), 409, 'CONFLICT');
    await sendAck(link, device, made[7]?.cmdId ?? '', 'COMPLETED');
    await team.command(device.id);
    await expectError(await team.postCommand(device.id, REBOOT), 409, 'CONFLICT');
    expect((await team.listCommands(device.id)).meta.total).toBe(51);
  });
});

describe('commands of a device', () => {
  it('commands are listed newest first, in pages (spec: List endpoints)', async ({ team }) => {
    const [one, other] = [await team.newTokenDevice(), await team.newTokenDevice()];
    await team.command(other.id);
    const made: RestCommand[] = [];
    for (const action of ['A', 'B', 'C']) made.unshift(await team.command(one.id, { action }));
    expect((await team.listCommands(one.id)).data).toEqual(made);
    expect(await team.listCommands(one.id, '?limit=2&page=2')).toEqual({
      data: made.slice(2),
      meta: { page: 2, limit: 2, total: 3, totalPages: 2 },
    });
    for (const query of ['limit=101', 'limit=0', 'page=0']) {
      const refused = await team.viewer.call(`/devices/${one.id}/commands?${query}`);
      await expectError(refused, 400, 'VALIDATION_ERROR');
    }
  });

  it('a command is found only under its own device [C-3.4]', async ({ team }) => {
    const [one, other] = [await team.newTokenDevice(), await team.newTokenDevice()];
    const { cmdId } = await team.command(one.id);
    for (const path of [`${other.id}/commands/${cmdId}`, `${one.id}/commands/${crypto.randomUUID()}`]) {
      await expectError(await team.viewer.call(`/devices/${path}`), 404, 'NOT_FOUND');
    }
    await expectError(await team.viewer.call(`/devices/${one.id}/commands/x`), 400, 'INVALID_UUID');
  });

  it('a command is not in the partners’ command log [C-3.4]', async ({ team, device, link }) => {
    const made = await team.command(device.id);
    await sendAck(link, device, made.cmdId, 'COMPLETED');
    const reader = await team.newKey(['vcp:read']);
    const log = await reader.read<object>(`/vcp/sites/${device.siteId}/commands`);
    expect(log).toMatchObject({ total: 0 });
    expect(JSON.stringify(log)).not.toContain(made.cmdId);
    const config = await reader.read<object>(`/vcp/sites/${device.siteId}/config`);
    expect(JSON.stringify(config)).not.toContain(made.cmdId);
  });
});
