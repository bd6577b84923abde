/** Every sent command ends, by its device, by silence or by its validUntil, and has a reason [C-7.8]. */
import { ackMessage, type DeviceTestLink } from '#workerd/links.ts';
import { type ListenedScene, RUNNING, setScene } from '#workerd/scene.ts';
import { alarmAt, HOUR, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
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
import { newestCommand, newestEnd } from '#workerd/site-reads.ts';
import { crashSite, evictSite, numberOf } from '#workerd/site-rows.ts';
import { charge, powerSetpoint, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createDevice, type Plant } from '#workerd/world.ts';
import { formatInstant } from '../../../../protocol/ids.ts';
import type { CommandFamily } from '../../../../protocol/routing-keys.ts';

/** Lets time pass while a device other than the gateway sends messages. */
async function stayAlive(plant: Plant, link: DeviceTestLink, device: DeviceCredential, durationMs: number) {
  for (let passedMs = 0; passedMs < durationMs; passedMs += 30 * SECOND) {
    await passTime(plant.id, 30 * SECOND);
    await sendAck(link, device, 'none', 'RECEIVED');
  }
}

/** All command alarms that a key received, with the command's type, after the outbox of the site is empty. */
async function alarmsOf({ organization, plant, key, listener }: ListenedScene): Promise<string[]> {
  await passTime(plant.id, 2 * MINUTE);
  expect(await numberOf(plant.id, 'SELECT count(*) FROM outbox')).toBe(0);
  // Receives the alarms that the first listener did not get, because it had been silent for too long.
  const later = await listen(organization, key);
  await later.quiet();
  const alarms = [...listener.events('alarm'), ...later.events('alarm')];
  const ofCommands = alarms.filter(({ payload }) => payload.commandType !== undefined);
  return ofCommands.map(({ payload }) => `${payload.type} ${payload.commandType}`);
}

describe('a command that its device acknowledged but did not end', () => {
  it.each(['RECEIVED', 'IN_PROGRESS'] as const)(
    'a command acknowledged with %s ends FAILED NO_RESULT after 15 minutes without another ack, not before [C-7.8]',
    async (status) => {
      const { organization, plant, key, link, partner } = await setScene(RUNNING);
      await partner.submit(charge());
      const { cmdId } = await nthCommand(link, 1);
      await passTime(plant.id, 10 * SECOND);
      await sendAck(link, plant.gateway, cmdId, status);
      await stayConnected(plant, link, 15 * MINUTE - 1);
      expect((await newestCommand(plant.id)).status).toBe('EXECUTING');
      await passTime(plant.id, 1);
      const finishedAt = formatInstant(START_MS + 15 * MINUTE + 10 * SECOND);
      expect(await newestCommand(plant.id)).toMatchObject({ finishedAt });
      expect(await newestEnd(plant.id)).toMatch(/^FAILED NO_RESULT/);
      expect(await numberOf(plant.id, 'SELECT count(*) FROM dispatch')).toBe(0);
      const later = await listen(organization, key);
      expect((await later.event('execution', 'FAILED')).payload.reason).toMatch(/^NO_RESULT/);
    },
  );

  it('the 15 minutes of NO_RESULT count from the last acknowledgement that advanced the command [C-7.8]', async () => {
    const { plant, link, partner } = await setScene(RUNNING);
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

  it('an acknowledged command ends NO_RESULT after a crash of the site, even if its device never returns [C-7.8]', async () => {
    const { plant, link, partner } = await setScene(RUNNING);
    await partner.submit(charge());
    await sendAck(link, plant.gateway, (await nthCommand(link, 1)).cmdId, 'RECEIVED');
    await crashSite(plant.id);
    await passTime(plant.id, 15 * MINUTE);
    expect((await newestCommand(plant.id)).reason).toMatch(/^NO_RESULT/);
  });

  it.each(['RECEIVED', 'IN_PROGRESS'] as const)(
    'a command acknowledged with %s is sent again in the next session with the same cmdId, and can complete there [C-7.8]',
    async (status) => {
      const { plant, listener, link, partner } = await setScene(RUNNING);
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

  it('an acknowledged command is not sent again within the session that acknowledged it [C-7.8]', async () => {
    const { plant, link, partner } = await setScene(RUNNING);
    await partner.submit(charge());
    await sendAck(link, plant.gateway, (await nthCommand(link, 1)).cmdId, 'RECEIVED');
    link.send({ kind: 'subscribed', commands: false });
    await subscribe(link, plant.gateway);
    await evictSite(plant.id);
    await subscribe(link, plant.gateway);
    expect(commandsOf(link)).toHaveLength(1);
  });
});

describe('an acknowledgement that arrives too late', () => {
  it('an ack with an old ts is dropped, and its command is sent again until it is answered or ends NO_ACK [C-7.8]', async () => {
    const { plant, gateway, link, partner } = await setScene(RUNNING);
    await partner.submit(charge(1), charge(2));
    const commands = [await nthCommand(link, 1), await nthCommand(link, 2)];
    const late = commands.map(({ cmdId }) => ackMessage(gateway, cmdId, 'COMPLETED'));
    link.socket.close(1000, 'gone');
    await passTime(plant.id, 310 * SECOND);
    const next = await connectListening(plant);
    for (const message of late) expect(await publish(next, message, 'ack')).toBe(true);
    expect(await droppedOf(plant.id, gateway.id)).toEqual({ TIMESTAMP: 2 });
    // One command is answered again, the other is not.
    const sent = [await nthCommand(next, 1), await nthCommand(next, 2)];
    expect(sent.map(({ cmdId }) => cmdId)).toEqual(commands.map(({ cmdId }) => cmdId));
    await sendAck(next, gateway, commands[0]?.cmdId ?? '', 'COMPLETED');
    await stayConnected(plant, next, 2 * MINUTE);
    expect(await newestEnd(plant.id)).toMatch(/^FAILED NO_ACK/);
    expect(await numberOf(plant.id, `SELECT count(*) FROM command WHERE status = 'COMPLETED'`)).toBe(1);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM dispatch')).toBe(0);
  });
});

describe('a command that was sent', () => {
  it('a setpoint acknowledged only after its validUntil is EXECUTING and COMPLETED, never EXPIRED [C-7.8]', async () => {
    const { scene, plant, listener, link, partner } = await setScene(RUNNING);
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

  it('a command is not sent again after its validUntil, and ends NO_ACK without COMMAND_EXPIRED [C-7.8]', async () => {
    const { scene, plant, link, partner } = await setScene(RUNNING);
    const validUntil = formatInstant(START_MS + 40 * SECOND);
    await partner.submit(submission('site-setpoint', powerSetpoint(5, { validUntil })));
    await stayConnected(plant, link, 2 * MINUTE);
    const setpoints = commandsOf(link).filter(({ action }) => action === 'SITE_SETPOINT');
    expect(setpoints.map(({ ts }) => ts - START_MS)).toEqual([0, 30_000]);
    expect(await newestEnd(plant.id)).toMatch(/^FAILED NO_ACK/);
    expect(await alarmsOf(scene)).toEqual([]);
  });

  it('a sent command whose device never returns ends NO_ACK, not EXPIRED, because it may have been executed [C-7.8]', async () => {
    const { scene, plant, link, partner } = await setScene(RUNNING);
    await partner.submit(charge());
    await nthCommand(link, 1);
    await crashSite(plant.id);
    await passTime(plant.id, HOUR);
    expect(await newestEnd(plant.id)).toMatch(/^FAILED NO_ACK/);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM dispatch')).toBe(0);
    expect(await alarmsOf(scene)).toEqual([]);
  });

  it.each([
    ['an open-ended setpoint', () => submission('site-setpoint', powerSetpoint(5))],
    ['a mode', () => submission('mode', { mode: 'STANDARD' })],
    ['an emergency', () => submission('emergency', { type: 'STOP' })],
  ])('%s that was sent to a device that never returns ends NO_ACK [C-7.8]', async (_what, make) => {
    const { plant, link, partner } = await setScene(RUNNING);
    await partner.submit(make());
    await nthCommand(link, 1);
    await crashSite(plant.id);
    await passTime(plant.id, 3 * 24 * HOUR);
    expect(await newestEnd(plant.id)).toMatch(/^FAILED NO_ACK/);
  });

  it.for<[string, CommandFamily, () => object, string[]]>([
    ['an emergency is sent', 'emergency', () => ({ type: 'STOP' }), ['EMERGENCY_STOP']],
    ['a setpoint is not sent', 'site-setpoint', () => powerSetpoint(5), []],
  ])(
    'if the gateway that received it disconnects without an ack, %s to the gateway that serves next [C-7.6]',
    async ([_what, family, payload, expected], { listenedSite: { organization, plant, partner } }) => {
      const standby = await createDevice(organization, plant.id, 'CONTROLLER');
      const other = await connectListening(plant, standby);
      setClock(START_MS + SECOND);
      const link = await connectListening(plant);
      await partner.submit(submission(family, payload()));
      await nthCommand(link, 1);
      link.socket.close(1000, 'gone');
      await stayAlive(plant, other, standby, 2 * MINUTE);
      expect([...new Set(commandsOf(other).map(({ action }) => action))]).toEqual(expected);
    },
  );

  it('a sent command after its validUntil waits for the ack of its returning device, and is not sent again [C-7.8]', async () => {
    const { plant, link, partner } = await setScene(RUNNING);
    const validUntil = formatInstant(START_MS + 20 * SECOND);
    await partner.submit(submission('site-setpoint', powerSetpoint(5, { validUntil })));
    const { cmdId } = await nthCommand(link, 1);
    link.socket.close(1000, 'gone');
    setClock(START_MS + 25 * SECOND);
    const again = await connectListening(plant);
    // No setpoint is active any more: the gateway receives only the mode in force.
    expect(commandsOf(again).map((command) => command.action)).toEqual(['MODE_CHANGE']);
    await sendAck(again, plant.gateway, cmdId, 'IN_PROGRESS');
    await passTime(plant.id, SECOND);
    expect((await newestCommand(plant.id)).status).toBe('COMPLETED');
  });

  it('every open command has a due time, a setpoint that of its verdict, and the site has an alarm [C-7.8]', async () => {
    const { plant, link, partner } = await setScene(RUNNING);
    const validUntil = formatInstant(START_MS + HOUR);
    await partner.submit(
      charge(),
      submission('mode', { mode: 'STANDARD' }),
      submission('site-setpoint', powerSetpoint(5, { validUntil })),
    );
    const open = 'SELECT count(*) FROM dispatch WHERE command_sequence > 0';
    for (let n = 1; n <= 3; n++) {
      expect(await numberOf(plant.id, `${open} AND due_at_ms IS NULL AND action <> 'SITE_SETPOINT'`)).toBe(0);
      const { cmdId } = await nthCommand(link, n);
      await sendAck(link, plant.gateway, cmdId, n % 2 ? 'RECEIVED' : 'IN_PROGRESS');
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
  it('is raised for device commands and setpoints that expired without being sent [C-7.6]', async () => {
    const scene = await setScene({ plant: true, partner: 'listening' });
    const validUntil = formatInstant(START_MS + 2 * MINUTE);
    await scene.partner.submit(charge(), submission('site-setpoint', powerSetpoint(1, { validUntil })));
    await passTime(scene.plant.id, 16 * MINUTE);
    expect(await alarmsOf(scene)).toEqual([
      'COMMAND_EXPIRED SITE_SETPOINT',
      'COMMAND_EXPIRED DEVICE_COMMAND',
    ]);
  });
});
