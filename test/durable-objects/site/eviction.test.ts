/** An eviction may happen between any two events: all state is in SQLite, on the sockets, or due again. */
import type { DeviceTestLink } from '#workerd/links.ts';
import { type ListenedScene, RUNNING, setScene } from '#workerd/scene.ts';
import { alarmAt, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import {
  commandsOf,
  connectListening,
  connectTo,
  nthCommand,
  sendAck,
  subscribe,
} from '#workerd/site-devices.ts';
import { newestCommand, readCommands } from '#workerd/site-reads.ts';
import { crashSite, evictSite } from '#workerd/site-rows.ts';
import { charge, powerSetpoint, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { formatInstant } from '../../../protocol/ids.ts';

/** The main loop in named steps, so that an eviction can happen between any two. */
function loop(site: ListenedScene, deviceFirst: boolean) {
  const { plant, partner } = site;
  let link: DeviceTestLink | undefined;
  const device = () => {
    if (!link) throw new Error('the device has not connected');
    return link;
  };
  const command = async () => (await nthCommand(device(), 1)).cmdId;
  const steps: Record<string, () => Promise<unknown>> = {
    accept: async () => {
      link = await connectTo(plant.id, plant.gateway.id);
    },
    subscribe: () => subscribe(device(), plant.gateway),
    submit: () => partner.submit(charge()),
    dispatch: command,
    received: async () => sendAck(device(), plant.gateway, await command(), 'RECEIVED'),
    completed: async () => sendAck(device(), plant.gateway, await command(), 'COMPLETED'),
  };
  const order = ['accept', 'subscribe', 'submit', 'dispatch', 'received', 'completed'];
  const names = deviceFirst ? order : ['submit', ...order.filter((name) => name !== 'submit')];
  return { steps: names.map((name) => steps[name]), link: device };
}

async function expectCompleted(site: ListenedScene, link: DeviceTestLink): Promise<void> {
  await site.listener.event('execution', 'COMPLETED');
  expect(site.listener.statuses('execution')).toEqual(['EXECUTING', 'COMPLETED']);
  expect(site.partner.events.filter((event) => event.kind === 'ack')).toHaveLength(1);
  expect(await newestCommand(site.plant.id)).toMatchObject({ status: 'COMPLETED' });
  expect((await readCommands(site.plant.id)).total).toBe(1);
  expect(commandsOf(link)).toHaveLength(1);
  expect(link.closed).toBeUndefined();
}

describe('a command from its submission to COMPLETED', () => {
  it.for<[string, boolean]>([
    ['the device connects before the submission', true],
    ['the command is submitted before the device connects', false],
  ])(
    'is sent once and completes, although the site is evicted after every step: %s [rule 8]',
    async ([_what, deviceFirst], { listenedSite: site }) => {
      const { steps, link } = loop(site, deviceFirst);
      for (const step of steps) {
        await step?.();
        await evictSite(site.plant.id);
      }
      await expectCompleted(site, link());
    },
  );

  it.for([1, 2, 3, 4, 5])(
    'is sent once and completes, although the site is evicted after step %i [rule 8]',
    async (cut, { listenedSite: site }) => {
      const { steps, link } = loop(site, true);
      for (const [index, step] of steps.entries()) {
        await step?.();
        if (index + 1 === cut) await evictSite(site.plant.id);
      }
      await expectCompleted(site, link());
    },
  );

  it('is sent again with its cmdId on the next link after each crash that closed the sockets, until it completes [rule 8]', async () => {
    const { plant, listener, partner } = await setScene({ plant: true, partner: 'listening' });
    const lost = await connectListening(plant);
    await partner.submit(charge());
    const { cmdId } = await nthCommand(lost, 1);
    await crashSite(plant.id);
    setClock(START_MS + SECOND);
    const link = await connectListening(plant);
    expect((await nthCommand(link, 1)).cmdId).toBe(cmdId);
    await sendAck(link, plant.gateway, cmdId, 'RECEIVED');
    await crashSite(plant.id);
    const last = await connectListening(plant);
    // The command is RECEIVED but not ended: the device may have forgotten it with its session, and gets it
    // again under the same id.
    expect((await nthCommand(last, 1)).cmdId).toBe(cmdId);
    await sendAck(last, plant.gateway, cmdId, 'COMPLETED');
    await listener.event('execution', 'COMPLETED');
    expect(commandsOf(last)).toHaveLength(1);
    expect(listener.statuses('execution')).toEqual(['EXECUTING', 'COMPLETED']);
  });
});

describe('due work after an eviction', () => {
  it.for<[string, number, () => ReturnType<typeof submission>, string]>([
    ['a device command that waits for its device', 15 * MINUTE, charge, 'FAILED'],
    [
      'a setpoint with an end',
      5 * MINUTE,
      () =>
        submission('site-setpoint', powerSetpoint(1, { validUntil: formatInstant(START_MS + 5 * MINUTE) })),
      'FAILED',
    ],
  ])(
    '%s expires at its time, although the site was evicted before [rule 10]',
    async ([_what, afterMs, make, status], { listenedSite: { plant, partner } }) => {
      await partner.submit(make());
      await evictSite(plant.id);
      await passTime(plant.id, afterMs - 1);
      expect((await newestCommand(plant.id)).status).toBe('PENDING');
      await evictSite(plant.id);
      await passTime(plant.id, 1);
      expect((await newestCommand(plant.id)).status).toBe(status);
    },
  );

  it('a command without an ack is sent three times and ends FAILED, although the site is evicted between the tries [C-7.8]', async () => {
    const { plant, partner, link } = await setScene(RUNNING);
    await partner.submit(charge());
    for (let tries = 1; tries < 3; tries++) {
      await evictSite(plant.id);
      await passTime(plant.id, 30 * SECOND);
    }
    await sendAck(link, plant.gateway, 'none', 'RECEIVED');
    expect((await newestCommand(plant.id)).status).toBe('PENDING');
    await passTime(plant.id, 30 * SECOND);
    expect(commandsOf(link)).toHaveLength(3);
    expect((await newestCommand(plant.id)).status).toBe('FAILED');
  });

  it('a site that wakes with overdue work sets its alarm for now, and the alarm does the work [rule 10]', async () => {
    const { plant, partner } = await setScene({ plant: true, partner: 'listening' });
    await partner.submit(charge());
    await passTime(plant.id, 14 * MINUTE);
    const missedMs = await alarmAt(plant.id);
    expect(missedMs).toBeGreaterThan(START_MS + 14 * MINUTE);
    expect(missedMs).toBeLessThanOrEqual(START_MS + 15 * MINUTE);
    await evictSite(plant.id);
    setClock(START_MS + 20 * MINUTE);
    // Any call wakes the site.
    expect((await newestCommand(plant.id)).status).toBe('PENDING');
    expect(await alarmAt(plant.id)).toBe(START_MS + 20 * MINUTE);
    await passTime(plant.id, 0);
    expect((await newestCommand(plant.id)).status).toBe('FAILED');
  });
});
