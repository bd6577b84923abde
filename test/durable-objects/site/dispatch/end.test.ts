/** No command hangs: what was sent ends by its device, by its silence, or by its own end, and says why [C-7.8]. */
import { describe, expect, it } from 'vitest';
import { ackMessage, type DeviceTestLink } from '#workerd/links.ts';
import {
  alarmAt,
  HOUR,
  holdClock,
  MINUTE,
  passTime,
  SECOND,
  START_MS,
  setClock,
} from '#workerd/site-clock.ts';
import {
  commandsOf,
  connectListening,
  type DeviceCredential,
  droppedOf,
  nthCommand,
  publish,
  sendAck,
  stayConnected,
  subscribe,
} from '#workerd/site-devices.ts';
import { listen } from '#workerd/site-listener.ts';
import { newestCommand } from '#workerd/site-reads.ts';
import { crashSite, evictSite, numberOf } from '#workerd/site-rows.ts';
import { type HeardScene, newHeardSite } from '#workerd/site-scenes.ts';
import { charge, powerSetpoint, submission } from '#workerd/site-submissions.ts';
import { createDevice, type Plant } from '#workerd/world.ts';
import { formatInstant } from '../../../../protocol/ids.ts';

holdClock();

async function newRunningSite() {
  const scene = await newHeardSite();
  return { ...scene, link: await connectListening(scene.plant) };
}

/** Time in which a device that is not the gateway shows life. */
async function stayAlive(plant: Plant, link: DeviceTestLink, device: DeviceCredential, durationMs: number) {
  for (let passedMs = 0; passedMs < durationMs; passedMs += 30 * SECOND) {
    await passTime(plant.id, 30 * SECOND);
    await sendAck(link, device, 'none', 'RECEIVED');
  }
}

/** The alarms of commands that a key was ever told of, each with its command's type, once the site has no more to tell. */
async function alarmsOf({ organization, plant, key, listener }: HeardScene): Promise<unknown[]> {
  await passTime(plant.id, 2 * MINUTE);
  expect(await numberOf(plant.id, 'SELECT count(*) FROM outbox')).toBe(0);
  // What the first one was silent for too long to be sent.
  const later = await listen(organization, key);
  await later.quiet();
  const alarms = [...listener.events('alarm'), ...later.events('alarm')];
  const ofCommands = alarms.filter(({ payload }) => payload.commandType !== undefined);
  return ofCommands.map(({ payload }) => [payload.type, payload.commandType]);
}

describe('a command that its device acknowledged and then forgot', () => {
  it.each(['RECEIVED', 'IN_PROGRESS'] as const)(
    '%s ends FAILED NO_RESULT after 15 minutes of silence, not before [C-7.8]',
    async (status) => {
      const { organization, plant, key, link, partner } = await newRunningSite();
      await partner.submit(charge());
      const { cmdId } = await nthCommand(link, 1);
      await passTime(plant.id, 10 * SECOND);
      await sendAck(link, plant.gateway, cmdId, status);
      await stayConnected(plant, link, 15 * MINUTE - 1);
      expect((await newestCommand(plant.id)).status).toBe('EXECUTING');
      await passTime(plant.id, 1);
      const ended = await newestCommand(plant.id);
      expect(ended).toMatchObject({
        status: 'FAILED',
        finishedAt: formatInstant(START_MS + 15 * MINUTE + 10 * SECOND),
      });
      expect(ended.reason).toMatch(/^NO_RESULT/);
      expect(await numberOf(plant.id, 'SELECT count(*) FROM dispatch')).toBe(0);
      const later = await listen(organization, key);
      expect((await later.event('execution', 'FAILED')).payload.reason).toMatch(/^NO_RESULT/);
    },
  );

  it('counts its 15 minutes from the last acknowledgement that brought it on [C-7.8]', async () => {
    const { plant, link, partner } = await newRunningSite();
    await partner.submit(charge());
    const { cmdId } = await nthCommand(link, 1);
    await sendAck(link, plant.gateway, cmdId, 'RECEIVED');
    await stayConnected(plant, link, 14 * MINUTE);
    await sendAck(link, plant.gateway, cmdId, 'IN_PROGRESS');
    await stayConnected(plant, link, 14 * MINUTE);
    expect((await newestCommand(plant.id)).status).toBe('EXECUTING');
    await stayConnected(plant, link, MINUTE);
    expect((await newestCommand(plant.id)).status).toBe('FAILED');
  });

  it('ends though the site was evicted, and though its device never came back [C-7.8]', async () => {
    const { plant, link, partner } = await newRunningSite();
    await partner.submit(charge());
    await sendAck(link, plant.gateway, (await nthCommand(link, 1)).cmdId, 'RECEIVED');
    await crashSite(plant.id);
    await passTime(plant.id, 15 * MINUTE);
    expect((await newestCommand(plant.id)).reason).toMatch(/^NO_RESULT/);
  });

  it.each(['RECEIVED', 'IN_PROGRESS'] as const)(
    'after %s is handed over again at its next session, under its cmdId, and can complete there [C-7.8]',
    async (status) => {
      const { plant, listener, link, partner } = await newRunningSite();
      await partner.submit(charge());
      const { cmdId } = await nthCommand(link, 1);
      await sendAck(link, plant.gateway, cmdId, status);
      setClock(START_MS + 20 * SECOND);
      const next = await connectListening(plant);
      expect(await nthCommand(next, 1)).toMatchObject({ cmdId, ts: START_MS + 20 * SECOND });
      await sendAck(next, plant.gateway, cmdId, 'RECEIVED');
      await sendAck(next, plant.gateway, cmdId, 'COMPLETED');
      await listener.event('execution', 'COMPLETED');
      expect(listener.statuses('execution')).toEqual(['EXECUTING', 'COMPLETED']);
      expect(commandsOf(next)).toHaveLength(1);
    },
  );

  it('is not handed over again within the session that acknowledged it [C-7.8]', async () => {
    const { plant, link, partner } = await newRunningSite();
    await partner.submit(charge());
    await sendAck(link, plant.gateway, (await nthCommand(link, 1)).cmdId, 'RECEIVED');
    link.send({ kind: 'subscribed', commands: false });
    await subscribe(link, plant.gateway);
    await evictSite(plant.id);
    await subscribe(link, plant.gateway);
    expect(commandsOf(link)).toHaveLength(1);
  });
});

describe('an acknowledgement that arrives too old to be taken', () => {
  it('is dropped, and its command is asked for again and ends: by an answer, or NO_ACK [C-7.8]', async () => {
    const { plant, gateway, link, partner } = await newRunningSite();
    await partner.submit(charge(1), charge(2));
    const commands = [await nthCommand(link, 1), await nthCommand(link, 2)];
    const late = commands.map(({ cmdId }) => ackMessage(gateway, cmdId, 'COMPLETED'));
    link.socket.close(1000, 'gone');
    await passTime(plant.id, 310 * SECOND);
    const next = await connectListening(plant);
    for (const message of late) expect(await publish(next, message, 'ack')).toBe(true);
    expect(await droppedOf(plant.id, gateway.id)).toEqual({ TIMESTAMP: 2 });
    // One answers again; of the other nothing is heard.
    const told = [await nthCommand(next, 1), await nthCommand(next, 2)];
    expect(told.map(({ cmdId }) => cmdId)).toEqual(commands.map(({ cmdId }) => cmdId));
    await sendAck(next, gateway, commands[0]?.cmdId ?? '', 'COMPLETED');
    await stayConnected(plant, next, 2 * MINUTE);
    const newest = await newestCommand(plant.id);
    expect(newest.status).toBe('FAILED');
    expect(newest.reason).toMatch(/^NO_ACK/);
    expect(await numberOf(plant.id, `SELECT count(*) FROM command WHERE status = 'COMPLETED'`)).toBe(1);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM dispatch')).toBe(0);
  });
});

describe('a command that was sent', () => {
  it('and obeyed, but acknowledged after its validUntil, is EXECUTING and COMPLETED, never EXPIRED [C-7.8]', async () => {
    const scene = await newRunningSite();
    const { plant, listener, link, partner } = scene;
    const validUntil = formatInstant(START_MS + 20 * SECOND);
    await partner.submit(submission('site-setpoint', powerSetpoint(5, { validUntil })));
    const { cmdId } = await nthCommand(link, 1);
    await passTime(plant.id, 25 * SECOND);
    await sendAck(link, plant.gateway, cmdId, 'RECEIVED');
    expect((await listener.event('execution', 'EXECUTING')).payload.commandType).toBe('SITE_SETPOINT');
    await passTime(plant.id, SECOND);
    await listener.event('execution', 'COMPLETED');
    expect(await newestCommand(plant.id)).toMatchObject({ status: 'COMPLETED' });
    expect(await alarmsOf(scene)).toEqual([]);
    expect(listener.statuses('execution')).toEqual(['EXECUTING', 'COMPLETED']);
  });

  it('is not sent again after its validUntil, and ends NO_ACK without COMMAND_EXPIRED [C-7.8]', async () => {
    const scene = await newRunningSite();
    const { plant, link, partner } = scene;
    const validUntil = formatInstant(START_MS + 40 * SECOND);
    await partner.submit(submission('site-setpoint', powerSetpoint(5, { validUntil })));
    await stayConnected(plant, link, 2 * MINUTE);
    const setpoints = commandsOf(link).filter(({ action }) => action === 'SITE_SETPOINT');
    expect(setpoints.map(({ ts }) => ts - START_MS)).toEqual([0, 30_000]);
    const ended = await newestCommand(plant.id);
    expect(ended.status).toBe('FAILED');
    expect(ended.reason).toMatch(/^NO_ACK/);
    expect(await alarmsOf(scene)).toEqual([]);
  });

  it('to a device that then went away for good ends NO_ACK, not EXPIRED: it may have been obeyed [C-7.8]', async () => {
    const scene = await newRunningSite();
    const { plant, link, partner } = scene;
    await partner.submit(charge());
    await nthCommand(link, 1);
    await crashSite(plant.id);
    await passTime(plant.id, HOUR);
    const ended = await newestCommand(plant.id);
    expect(ended.status).toBe('FAILED');
    expect(ended.reason).toMatch(/^NO_ACK/);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM dispatch')).toBe(0);
    expect(await alarmsOf(scene)).toEqual([]);
  });

  it.each([
    ['an open-ended setpoint', () => submission('site-setpoint', powerSetpoint(5))],
    ['a mode', () => submission('mode', { mode: 'STANDARD' })],
    ['an emergency', () => submission('emergency', { type: 'STOP' })],
  ])(
    'and is %s does not hang when its device went away for good: it ends NO_ACK [C-7.8]',
    async (_what, make) => {
      const scene = await newRunningSite();
      const { plant, link, partner } = scene;
      await partner.submit(make());
      await nthCommand(link, 1);
      await crashSite(plant.id);
      await passTime(plant.id, 3 * 24 * HOUR);
      const ended = await newestCommand(plant.id);
      expect(ended.status).toBe('FAILED');
      expect(ended.reason).toMatch(/^NO_ACK/);
    },
  );

  it('to a gateway that then went away goes to the one that serves by then, which was there all the time [C-7.6]', async () => {
    const { organization, plant, partner } = await newHeardSite();
    const standby = await createDevice(organization, plant.id, 'CONTROLLER');
    const other = await connectListening(plant, standby);
    setClock(START_MS + SECOND);
    const link = await connectListening(plant);
    await partner.submit(submission('emergency', { type: 'STOP' }));
    await nthCommand(link, 1);
    link.socket.close(1000, 'gone');
    await stayAlive(plant, other, standby, MINUTE);
    expect(commandsOf(other).map((command) => command.action)).toContain('EMERGENCY_STOP');
  });

  it('is told to no other gateway meanwhile, unless it is an emergency: it may have been obeyed [C-7.6]', async () => {
    const { organization, plant, partner } = await newHeardSite();
    const standby = await createDevice(organization, plant.id, 'CONTROLLER');
    const other = await connectListening(plant, standby);
    setClock(START_MS + SECOND);
    const link = await connectListening(plant);
    await partner.submit(submission('site-setpoint', powerSetpoint(5)));
    await nthCommand(link, 1);
    link.socket.close(1000, 'gone');
    await stayAlive(plant, other, standby, 2 * MINUTE);
    expect(commandsOf(other)).toEqual([]);
  });

  it('past its validUntil waits for the acknowledgement of a device that comes back, and is not told again [C-7.8]', async () => {
    const { plant, link, partner } = await newRunningSite();
    const validUntil = formatInstant(START_MS + 20 * SECOND);
    await partner.submit(submission('site-setpoint', powerSetpoint(5, { validUntil })));
    const { cmdId } = await nthCommand(link, 1);
    link.socket.close(1000, 'gone');
    setClock(START_MS + 25 * SECOND);
    const again = await connectListening(plant);
    // Nothing stands any more: the mode in force is all that it is told.
    expect(commandsOf(again).map((command) => command.action)).toEqual(['MODE_CHANGE']);
    await sendAck(again, plant.gateway, cmdId, 'IN_PROGRESS');
    await passTime(plant.id, SECOND);
    expect((await newestCommand(plant.id)).status).toBe('COMPLETED');
  });

  it('always has a due time, in whatever state it is, and the alarm stands for it [C-7.8]', async () => {
    const { plant, link, partner } = await newRunningSite();
    const validUntil = formatInstant(START_MS + HOUR);
    await partner.submit(
      charge(),
      submission('mode', { mode: 'STANDARD' }),
      submission('site-setpoint', powerSetpoint(5, { validUntil })),
    );
    const open = 'SELECT count(*) FROM dispatch WHERE command_sequence > 0';
    for (let n = 1; n <= 3; n++) {
      expect(await numberOf(plant.id, `${open} AND due_at_ms IS NULL AND action <> 'SITE_SETPOINT'`)).toBe(0);
      await sendAck(
        link,
        plant.gateway,
        (await nthCommand(link, n)).cmdId,
        n % 2 ? 'RECEIVED' : 'IN_PROGRESS',
      );
    }
    expect(await numberOf(plant.id, open)).toBe(3);
    expect(await numberOf(plant.id, `${open} AND due_at_ms IS NOT NULL`)).toBe(2);
    const judged = `SELECT count(*) FROM plan_entry WHERE verdict_at_ms = ${START_MS + HOUR}`;
    expect(await numberOf(plant.id, judged)).toBe(1);
    expect(await alarmAt(plant.id)).not.toBeNull();
    await passTime(plant.id, 2 * HOUR);
    expect(await numberOf(plant.id, open)).toBe(0);
  });
});

describe('COMMAND_EXPIRED', () => {
  it('is told of what waited and never left, device command and setpoint alike [C-7.6]', async () => {
    const scene = await newHeardSite();
    const validUntil = formatInstant(START_MS + 2 * MINUTE);
    await scene.partner.submit(charge(), submission('site-setpoint', powerSetpoint(1, { validUntil })));
    await passTime(scene.plant.id, 16 * MINUTE);
    expect(await alarmsOf(scene)).toEqual([
      ['COMMAND_EXPIRED', 'SITE_SETPOINT'],
      ['COMMAND_EXPIRED', 'DEVICE_COMMAND'],
    ]);
  });
});
