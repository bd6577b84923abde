/** How members’ commands to a device end when it does not answer, and how they are audited [C-3.4]. */
import { connectForCommands } from '#workerd/devices.ts';
import { holdClock, MINUTE, passTime, passUntilSent, SECOND, START_MS } from '#workerd/site-clock.ts';
import { commandsOf, nthCommand, sendAck } from '#workerd/site-devices.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';

const REBOOT = { action: 'REBOOT' };

holdClock();

const it = test.extend('link', ({ device }) => connectForCommands(device));

describe('commands to a device', () => {
  it('an undelivered command ends as FAILED, EXPIRED at validUntil or, without it, after 15 minutes [C-3.4]', async ({
    team,
  }) => {
    const { id, siteId } = await team.newTokenDevice();
    const validUntil = new Date(START_MS + MINUTE).toISOString();
    const [short, long] = [await team.command(id, { ...REBOOT, validUntil }), await team.command(id)];
    await passTime(siteId, MINUTE - 1);
    expect((await team.readCommand(short)).status).toBe('PENDING');
    await passTime(siteId, 1);
    expect(await team.readCommand(short)).toEqual({ ...short, status: 'FAILED', reason: 'EXPIRED' });
    await passTime(siteId, 14 * MINUTE - 1);
    expect((await team.readCommand(long)).status).toBe('PENDING');
    await passTime(siteId, 1);
    const viewer = await team.viewer.newSession();
    const expired = { ...long, status: 'FAILED', reason: 'EXPIRED' };
    expect(await team.readCommand(long, viewer)).toEqual(expired);
  });

  it('an unacknowledged command is sent three times, and then ends as FAILED, NO_ACK [C-3.9]', async ({
    team,
    device,
    link,
  }) => {
    const made = await team.command(device.id);
    for (let round = 0; round < 3; round++) {
      await passTime(device.siteId, 30 * SECOND);
      await sendAck(link, device, 'none', 'RECEIVED');
    }
    const sent = commandsOf(link).filter(({ cmdId }) => cmdId === made.cmdId);
    expect(sent).toHaveLength(3);
    expect(new Set(sent.map(({ ts }) => ts)).size).toBe(3);
    expect(await team.readCommand(made)).toEqual({ ...made, status: 'FAILED', reason: 'NO_ACK' });
  });

  it('a command that stays IN_PROGRESS for 15 minutes ends as FAILED, NO_RESULT [C-3.4]', async ({
    team,
    device,
    link,
  }) => {
    const made = await team.command(device.id);
    await sendAck(link, device, made.cmdId, 'IN_PROGRESS');
    await passTime(device.siteId, 15 * MINUTE - 1);
    const viewer = await team.viewer.newSession();
    expect(await team.readCommand(made, viewer)).toEqual({ ...made, status: 'IN_PROGRESS' });
    await passTime(device.siteId, 1);
    expect(await team.readCommand(made, viewer)).toEqual({ ...made, status: 'FAILED', reason: 'NO_RESULT' });
  });

  it('a waiting command ends as DEVICE_GONE if its device is revoked, and stays if it is suspended [C-3.3]', async ({
    team,
  }) => {
    const [gone, away] = [await team.newTokenDevice(), await team.newTokenDevice()];
    const [ended, waiting] = [await team.command(gone.id), await team.command(away.id)];
    await team.admin.operate(gone.id, 'revoke');
    expect(await team.readCommand(ended)).toEqual({ ...ended, status: 'FAILED', reason: 'DEVICE_GONE' });
    await team.admin.operate(away.id, 'suspend');
    expect(await team.readCommand(waiting)).toEqual(waiting);
    await team.admin.operate(away.id, 'reactivate');
    const link = await connectForCommands(away);
    expect((await nthCommand(link, 1)).cmdId).toBe(waiting.cmdId);
  });

  it('a command sent before a suspension is sent again after the reactivation [C-3.3]', async ({
    team,
    device,
    link,
  }) => {
    const made = await team.command(device.id);
    expect((await nthCommand(link, 1)).cmdId).toBe(made.cmdId);
    await team.admin.operate(device.id, 'suspend');
    await passTime(device.siteId, 5 * MINUTE);
    expect(await team.readCommand(made)).not.toHaveProperty('reason');
    await team.admin.operate(device.id, 'reactivate');
    const again = await connectForCommands(device);
    expect((await nthCommand(again, 1)).cmdId).toBe(made.cmdId);
    await sendAck(again, device, made.cmdId, 'COMPLETED');
    expect(await team.readCommand(made)).toEqual({ ...made, status: 'COMPLETED' });
  });

  it('a sent command ends as FAILED, NO_ACK if its device stays suspended [C-3.4]', async ({
    team,
    device,
    link,
  }) => {
    const made = await team.command(device.id);
    await nthCommand(link, 1);
    await team.admin.operate(device.id, 'suspend');
    await passTime(device.siteId, 20 * MINUTE);
    const viewer = await team.viewer.newSession();
    const ended = { ...made, status: 'FAILED', reason: 'NO_ACK' };
    expect(await team.readCommand(made, viewer)).toEqual(ended);
  });

  it('a repeated idempotencyKey returns the first command, even for a suspended or revoked device [C-3.4]', async ({
    team,
    device,
  }) => {
    const body = { ...REBOOT, payload: { a: 1 }, idempotencyKey: 'k' };
    const made = await team.command(device.id, body);
    await team.admin.operate(device.id, 'suspend');
    expect(await team.command(device.id, body)).toEqual(made);
    const fresh = await team.postCommand(device.id, { ...body, idempotencyKey: 'k2' });
    await expectError(fresh, 409, 'CONFLICT');
    const other = await team.postCommand(device.id, { ...body, payload: {} });
    await expectError(other, 409, 'CONFLICT');
    await team.admin.operate(device.id, 'reactivate');
    await team.admin.operate(device.id, 'revoke');
    expect((await team.command(device.id, body)).cmdId).toBe(made.cmdId);
    expect(await team.totalOf(`/devices/${device.id}/commands`)).toBe(1);
  });

  it('a repeated idempotencyKey returns the first command, even after its validUntil [C-3.4]', async ({
    team,
  }) => {
    const { id, siteId } = await team.newTokenDevice();
    const validUntil = new Date(START_MS + MINUTE).toISOString();
    const body = { ...REBOOT, validUntil, idempotencyKey: 'k' };
    const made = await team.command(id, body);
    await passTime(siteId, 2 * MINUTE);
    const again = await team.command(id, body);
    expect(again).toEqual({ ...made, status: 'FAILED', reason: 'EXPIRED' });
    const fresh = await team.postCommand(id, { ...body, idempotencyKey: 'k2' });
    await expectError(fresh, 400, 'VALIDATION_ERROR');
    expect(await team.totalOf(`/devices/${id}/commands`)).toBe(1);
  });

  it('a command is audited once, even if it is repeated, with its sender and without its payload [C-8.4]', async ({
    team,
    device,
  }) => {
    const body = { ...REBOOT, payload: { code: 'not for the trail' }, idempotencyKey: 'once' };
    await team.command(device.id, body);
    await team.command(device.id, body);
    await passUntilSent(device.siteId);
    const rows = await team.auditRowsOf(device.id);
    const by = { actor_type: 'USER', actor: team.operator.id };
    expect(rows.filter(({ event }) => event === 'device.command_sent')).toEqual([
      expect.objectContaining({ ...by, outcome: 'SUCCESS', details: JSON.stringify(REBOOT) }),
    ]);
  });
});
