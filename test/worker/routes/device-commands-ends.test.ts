/** How commands to a device by members end where it does not answer, and who is told that they were sent [C-3.4]. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { OwnCommand } from '../../../protocol/device-record.ts';
import type { Page } from '../../../protocol/page.ts';
import {
  connect,
  createTeamAtStart,
  newTokenDevice,
  operate,
  type TokenDevice,
} from '../../support/workerd/devices.ts';
import { auditRows } from '../../support/workerd/door.ts';
import { postPlant } from '../../support/workerd/fleet.ts';
import type { DeviceTestLink } from '../../support/workerd/links.ts';
import { Person, type Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';
import {
  holdClock,
  MINUTE,
  passTime,
  passUntilTold,
  SECOND,
  START_MS,
} from '../../support/workerd/site-clock.ts';
import { commandsOf, nthCommand, sendAck, subscribe } from '../../support/workerd/site-devices.ts';

const REBOOT = { action: 'REBOOT' };

let team: Team;

beforeAll(async () => {
  team = await createTeamAtStart();
});

holdClock();

async function command(id: string, body: object = REBOOT): Promise<OwnCommand> {
  return await team.operator.read(`/devices/${id}/commands`, { method: 'POST', body }, 202);
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

describe('commands of a device', () => {
  it('that nobody took in their time, or in 15 minutes, end FAILED: EXPIRED [C-3.4]', async () => {
    const { id, siteId } = await newTokenDevice(team);
    const validUntil = new Date(START_MS + MINUTE).toISOString();
    const [short, long] = [await command(id, { ...REBOOT, validUntil }), await command(id)];
    await passTime(siteId, MINUTE - 1);
    expect((await show(short)).status).toBe('PENDING');
    await passTime(siteId, 1);
    expect(await show(short)).toEqual({ ...short, status: 'FAILED', reason: 'EXPIRED' });
    await passTime(siteId, 14 * MINUTE - 1);
    expect((await show(long)).status).toBe('PENDING');
    await passTime(siteId, 1);
    const viewer = await Person.logIn(team.viewer.email);
    const expired = { ...long, status: 'FAILED', reason: 'EXPIRED' };
    expect(await viewer.read(`/devices/${id}/commands/${long.cmdId}`)).toEqual(expired);
  });

  it('that are not answered are told three times, then FAILED: NO_ACK [C-3.9]', async () => {
    const { device, link } = await newListening();
    const made = await command(device.id);
    for (let round = 0; round < 3; round++) {
      await passTime(device.siteId, 30 * SECOND);
      await sendAck(link, device, 'none', 'RECEIVED');
    }
    const told = commandsOf(link).filter(({ cmdId }) => cmdId === made.cmdId);
    expect(told).toHaveLength(3);
    expect(new Set(told.map(({ ts }) => ts)).size).toBe(3);
    expect(await show(made)).toEqual({ ...made, status: 'FAILED', reason: 'NO_ACK' });
  });

  it('that it holds and never ends are FAILED: NO_RESULT, 15 minutes behind its last word [C-3.4]', async () => {
    const { device, link } = await newListening();
    const made = await command(device.id);
    await sendAck(link, device, made.cmdId, 'IN_PROGRESS');
    await passTime(device.siteId, 15 * MINUTE - 1);
    const viewer = await Person.logIn(team.viewer.email);
    const path = `/devices/${device.id}/commands/${made.cmdId}`;
    expect(await viewer.read(path)).toEqual({ ...made, status: 'IN_PROGRESS' });
    await passTime(device.siteId, 1);
    expect(await viewer.read(path)).toEqual({ ...made, status: 'FAILED', reason: 'NO_RESULT' });
  });

  it('end FAILED: DEVICE_GONE with a device that is revoked, and wait for one that is suspended [C-3.3]', async () => {
    const [gone, away] = [await newTokenDevice(team), await newTokenDevice(team)];
    const [ended, waiting] = [await command(gone.id), await command(away.id)];
    await operate(team.admin, gone.id, 'revoke');
    expect(await show(ended)).toEqual({ ...ended, status: 'FAILED', reason: 'DEVICE_GONE' });
    await operate(team.admin, away.id, 'suspend');
    expect(await show(waiting)).toEqual(waiting);
    await operate(team.admin, away.id, 'reactivate');
    const link = await connect(away);
    await subscribe(link, away);
    expect((await nthCommand(link, 1)).cmdId).toBe(waiting.cmdId);
  });

  it('that a device was told before it was suspended wait for it, and go out again [C-3.3]', async () => {
    const { device, link } = await newListening();
    const made = await command(device.id);
    expect((await nthCommand(link, 1)).cmdId).toBe(made.cmdId);
    await operate(team.admin, device.id, 'suspend');
    await passTime(device.siteId, 5 * MINUTE);
    expect(await show(made)).not.toHaveProperty('reason');
    await operate(team.admin, device.id, 'reactivate');
    const again = await connect(device);
    await subscribe(again, device);
    expect((await nthCommand(again, 1)).cmdId).toBe(made.cmdId);
    await sendAck(again, device, made.cmdId, 'COMPLETED');
    expect(await show(made)).toEqual({ ...made, status: 'COMPLETED' });
  });

  it('that a device was told before it was suspended end when their time is over [C-3.4]', async () => {
    const { device, link } = await newListening();
    const made = await command(device.id);
    await nthCommand(link, 1);
    await operate(team.admin, device.id, 'suspend');
    await passTime(device.siteId, 20 * MINUTE);
    const viewer = await Person.logIn(team.viewer.email);
    const path = `/devices/${device.id}/commands/${made.cmdId}`;
    const ended = { ...made, status: 'FAILED', reason: expect.toBeOneOf(['EXPIRED', 'NO_ACK']) };
    expect(await viewer.read(path)).toEqual(ended);
  });

  it('that come again under their key are the first, whatever became of the device meanwhile [C-3.4]', async () => {
    const device = await newTokenDevice(team);
    const body = { ...REBOOT, payload: { a: 1 }, idempotencyKey: 'k' };
    const made = await command(device.id, body);
    await operate(team.admin, device.id, 'suspend');
    expect(await command(device.id, body)).toEqual(made);
    const fresh = await operate(team.operator, device.id, 'commands', { ...body, idempotencyKey: 'k2' });
    await expectError(fresh, 409, 'CONFLICT');
    const other = await operate(team.operator, device.id, 'commands', { ...body, payload: {} });
    await expectError(other, 409, 'CONFLICT');
    await operate(team.admin, device.id, 'reactivate');
    await operate(team.admin, device.id, 'revoke');
    expect((await command(device.id, body)).cmdId).toBe(made.cmdId);
    const { meta } = await team.viewer.read<Page<OwnCommand>>(`/devices/${device.id}/commands`);
    expect(meta.total).toBe(1);
  });

  it('that come again under their key are the first, though validUntil has passed [C-3.4]', async () => {
    const { id, siteId } = await newTokenDevice(team);
    const validUntil = new Date(START_MS + MINUTE).toISOString();
    const body = { ...REBOOT, validUntil, idempotencyKey: 'k' };
    const made = await command(id, body);
    await passTime(siteId, 2 * MINUTE);
    const again = await command(id, body);
    expect(again).toEqual({ ...made, status: 'FAILED', reason: 'EXPIRED' });
    const fresh = await operate(team.operator, id, 'commands', { ...body, idempotencyKey: 'k2' });
    await expectError(fresh, 400, 'VALIDATION_ERROR');
    const { meta } = await team.viewer.read<Page<OwnCommand>>(`/devices/${id}/commands`);
    expect(meta.total).toBe(1);
  });

  it('are in the audit trail, each once, by who sent it [C-8.4]', async () => {
    const device = await newTokenDevice(team);
    const body = { ...REBOOT, payload: { code: 'not for the trail' }, idempotencyKey: 'once' };
    await command(device.id, body);
    await command(device.id, body);
    await passUntilTold(device.siteId);
    const rows = (await auditRows(team.id)).filter(({ target }) => target === device.id);
    expect(rows.filter(({ event }) => event === 'device.command_sent')).toEqual([
      expect.objectContaining({
        actor_type: 'USER',
        actor: team.operator.id,
        outcome: 'SUCCESS',
        details: JSON.stringify(REBOOT),
      }),
    ]);
  });
});
