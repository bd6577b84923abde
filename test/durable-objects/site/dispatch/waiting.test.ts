/**
 * Commands that wait for an offline plant: how many, which ones are dropped or superseded, and which device
 * gets them.
 */
import type { DeviceTestLink } from '#workerd/links.ts';
import { changeAndNotifySite, removeSubDevice } from '#workerd/registry-changes.ts';
import { setScene } from '#workerd/scene.ts';
import { DAY, HOUR, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { commandsOf, connectListening, nthCommand } from '#workerd/site-devices.ts';
import { newestCommand, readCommands } from '#workerd/site-reads.ts';
import { evictSite, numberOf } from '#workerd/site-rows.ts';
import { charge, powerSetpoint, type Submitter, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createDevice } from '#workerd/world.ts';
import type { Submission } from '../../../../durable-objects/rpc.ts';
import { formatInstant } from '../../../../protocol/ids.ts';

const MAX_DUE = 50;
const MAX_AHEAD = 1_000;
/** The number of submissions in one call of a Vhost. */
const PER_CALL = 100;

async function submitAll(partner: Submitter, submissions: readonly Submission[]): Promise<void> {
  for (let at = 0; at < submissions.length; at += PER_CALL) {
    await partner.submit(...submissions.slice(at, at + PER_CALL));
  }
}

function charges(length: number): Submission[] {
  return Array.from({ length }, (_none, index) => charge((index % 40) + 1));
}

function setpoint(kw: number, changes: Parameters<typeof powerSetpoint>[1] = {}): Submission {
  return submission('site-setpoint', powerSetpoint(kw, changes));
}

/** The commands that ended, oldest first, each with its reason. All others are PENDING. */
async function endedOf(siteId: string): Promise<[messageId: string, reason: unknown][]> {
  const pages = await Promise.all([1, 2, 3].map((page) => readCommands(siteId, page, 500)));
  const rows = pages.flatMap((page) => page.items).reverse();
  for (const row of rows) expect(row.status).toBe(row.reason === undefined ? 'PENDING' : 'FAILED');
  return rows.filter((row) => row.reason !== undefined).map((row) => [row.messageId, row.reason]);
}

/** The powers of the setpoints that a link received, in order. */
function powersOf(link: DeviceTestLink): unknown[] {
  return commandsOf(link).map(({ payload }) => payload.targetValueKw);
}

describe('the commands that wait for a plant', () => {
  it('at most 50 commands wait: each further one ends the oldest FAILED QUEUE_FULL, with an event to its partner [C-7.6]', async () => {
    const { plant, partner } = await setScene({ plant: true, key: true });
    const sent = charges(MAX_DUE + 3);
    for (const one of sent.slice(0, MAX_DUE))
      expect(await partner.acknowledge(one)).toMatchObject({ status: 'QUEUED' });
    expect(await endedOf(plant.id)).toEqual([]);
    for (const one of sent.slice(MAX_DUE))
      expect(await partner.acknowledge(one)).toMatchObject({ status: 'QUEUED' });
    const ended = await endedOf(plant.id);
    const oldest = sent.slice(0, 3).map((one) => one.messageId);
    expect(ended.map(([messageId]) => messageId)).toEqual(oldest);
    for (const [, reason] of ended) expect(reason).toMatch(/^QUEUE_FULL/);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM dispatch')).toBe(MAX_DUE);
    const executions = partner.events.filter((event) => event.kind === 'execution');
    expect(executions.map((event) => event.correlationId)).toEqual(oldest);
    const failed = { status: 'FAILED', reason: expect.stringMatching(/^QUEUE_FULL/) };
    for (const { payloadText } of executions) expect(JSON.parse(payloadText)).toMatchObject(failed);
  });

  it('the limit of 50 waiting commands survives an eviction [C-7.6]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    await submitAll(partner, charges(MAX_DUE));
    await evictSite(plant.id);
    await partner.submit(charge(1));
    expect(await endedOf(plant.id)).toHaveLength(1);
  });

  it('a waiting emergency is never dropped: the oldest other command makes room for it [C-7.6]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    const stop = submission('emergency', { type: 'STOP' });
    const modes = Array.from({ length: MAX_DUE }, () => submission('mode', { mode: 'STANDARD' }));
    await submitAll(partner, [stop, ...modes]);
    expect((await endedOf(plant.id)).map(([messageId]) => messageId)).toEqual([modes[0]?.messageId]);
    const hold = submission('emergency', { type: 'HOLD' });
    expect(await partner.acknowledge(hold)).toMatchObject({ status: 'QUEUED' });
    const link = await connectListening(plant);
    await nthCommand(link, 2);
    expect(commandsOf(link).map(({ action }) => action)).toEqual(['EMERGENCY_STOP', 'EMERGENCY_HOLD']);
  });

  it('commands that were sent to a subscribed device do not count as waiting [C-7.6]', async () => {
    const { plant, link, partner } = await setScene({ gateway: 'listening' });
    await submitAll(partner, charges(MAX_DUE + 10));
    await nthCommand(link, MAX_DUE + 10);
    expect(await endedOf(plant.id)).toEqual([]);
  });

  it('at most 1 000 commands wait for a future validFrom, in addition to the 50 that are due [C-7.6]', async () => {
    const { plant, partner } = await setScene({ plant: true, key: true });
    const ahead = Array.from({ length: MAX_AHEAD }, (_none, index) =>
      setpoint(1, { validFrom: formatInstant(START_MS + DAY + index * MINUTE) }),
    );
    await submitAll(partner, ahead);
    await partner.submit(charge());
    expect(await endedOf(plant.id)).toEqual([]);
    const more = setpoint(2, { validFrom: formatInstant(START_MS + HOUR) });
    expect(await partner.acknowledge(more)).toMatchObject({ status: 'QUEUED' });
    const [oldest, ...others] = await endedOf(plant.id);
    expect(others).toEqual([]);
    expect(oldest?.[0]).toBe(ahead[0]?.messageId);
    expect(oldest?.[1]).toMatch(/^QUEUE_FULL/);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM plan_entry')).toBe(MAX_AHEAD);
  });

  it('still only 50 commands wait after the windows of future ones open while the plant is offline [C-7.6]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    const validFrom = formatInstant(START_MS + HOUR);
    const priorities = ['NORMAL', 'HIGH'] as const;
    await submitAll(partner, charges(MAX_DUE));
    await partner.submit(...priorities.map((priority) => setpoint(1, { validFrom, priority })));
    // The charges have expired by then; others take their place.
    await passTime(plant.id, 50 * MINUTE);
    await submitAll(partner, charges(MAX_DUE));
    await passTime(plant.id, 10 * MINUTE);
    const waiting = `SELECT count(*) FROM dispatch WHERE state = 'WAITING' AND command_sequence > 0`;
    expect(await numberOf(plant.id, waiting)).toBe(MAX_DUE);
  });
});

describe('open-ended setpoints for an offline plant', () => {
  it('a newer one of the same priority supersedes the older, so that a returning gateway gets only the newest [C-7.7]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    const sent: Submission[] = [];
    for (let hour = 0; hour < 60; hour++) {
      setClock(START_MS + hour * HOUR);
      sent.push(setpoint(hour, { validFrom: formatInstant(START_MS + hour * HOUR) }));
      await partner.submit(...sent.slice(-1));
    }
    const { items } = await readCommands(plant.id, 1, 100);
    const oldestFirst = items.toReversed();
    for (const [index, row] of oldestFirst.slice(0, -1).entries()) {
      expect(row).toMatchObject({
        status: 'FAILED',
        reason: `SUPERSEDED by ${oldestFirst[index + 1]?.id}`,
        finishedAt: oldestFirst[index + 1]?.createdAt,
      });
    }
    const link = await connectListening(plant);
    await nthCommand(link, 1);
    expect(powersOf(link)).toEqual([59]);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM dispatch')).toBe(1);
  });

  it('setpoints of different priorities and commands of other kinds do not supersede each other [C-7.7]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    await partner.submit(
      setpoint(1, { priority: 'NORMAL' }),
      setpoint(2, { priority: 'HIGH' }),
      setpoint(3, { priority: 'EMERGENCY' }),
      charge(4),
      submission('mode', { mode: 'STANDARD' }),
    );
    expect(await endedOf(plant.id)).toEqual([]);
    await partner.submit(setpoint(5, { priority: 'HIGH' }));
    const link = await connectListening(plant);
    await nthCommand(link, 4);
    expect(commandsOf(link).map(({ action }) => action)).toEqual([
      'SITE_SETPOINT',
      'BESS_CHARGE',
      'MODE_CHANGE',
      // A mode ends the setpoint at its gateway, and this setpoint is still active.
      'SITE_SETPOINT',
    ]);
    expect([powersOf(link)[0], powersOf(link)[3]]).toEqual([3, 3]);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM plan_entry')).toBe(3);
  });

  it('a setpoint with a future validFrom supersedes an earlier one at that moment, not before [C-7.7]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    const later = setpoint(2, { validFrom: formatInstant(START_MS + HOUR) });
    await partner.submit(setpoint(1), later);
    await passTime(plant.id, HOUR - 1);
    expect(await endedOf(plant.id)).toEqual([]);
    await passTime(plant.id, 1);
    const { id } = await newestCommand(plant.id);
    expect((await endedOf(plant.id)).map(([, reason]) => reason)).toEqual([`SUPERSEDED by ${id}`]);
    const link = await connectListening(plant);
    await nthCommand(link, 1);
    expect(powersOf(link)).toEqual([2]);
  });

  it('a newer setpoint supersedes one that was sent to the gateway, even while the newer one waits [C-7.7]', async () => {
    const { plant, partner, link } = await setScene({ gateway: 'listening' });
    await partner.submit(setpoint(1));
    await nthCommand(link, 1);
    link.send({ kind: 'subscribed', commands: false });
    await partner.submit(setpoint(2));
    const { id } = await newestCommand(plant.id);
    expect((await endedOf(plant.id)).map(([, reason]) => reason)).toEqual([`SUPERSEDED by ${id}`]);
  });
});

describe('the recipient of a waiting command', () => {
  it('a waiting command is sent to the gateway that serves when it is sent, also after a replacement [C-7.6]', async () => {
    const { organization, plant, partner } = await setScene({ plant: true });
    expect(await partner.acknowledge(charge())).toMatchObject({ status: 'QUEUED' });
    await partner.submit(submission('mode', { mode: 'STANDARD' }));
    const controller = await createDevice(organization, plant.id, 'CONTROLLER');
    const link = await connectListening(plant, controller);
    await nthCommand(link, 2);
    expect(commandsOf(link).map((command) => command.action)).toEqual(['BESS_CHARGE', 'MODE_CHANGE']);
    const old = await connectListening(plant);
    expect(commandsOf(old)).toEqual([]);
  });

  it('a command with a future validFrom is sent to the gateway that serves at that moment [C-7.6]', async () => {
    const { organization, plant, partner } = await setScene({ plant: true });
    const controller = await createDevice(organization, plant.id, 'CONTROLLER');
    const old = await connectListening(plant);
    await partner.submit(setpoint(5, { validFrom: formatInstant(START_MS + 10 * SECOND) }));
    old.send({ kind: 'subscribed', commands: false });
    const link = await connectListening(plant, controller);
    await passTime(plant.id, 10 * SECOND);
    await nthCommand(link, 1);
    expect(powersOf(link)).toEqual([5]);
    expect(commandsOf(old)).toEqual([]);
  });

  it('a mode change and an export that wait end FAILED if the site has lost the asset they need [C-7.6]', async () => {
    const battery = { externalId: 'BESS-1', assetType: 'BESS' } as const;
    const { organization, plant, partner } = await setScene({ plant: { subDevices: [battery] } });
    await partner.submit(submission('mode', { mode: 'PEAK_SHAVING' }));
    await partner.submit(setpoint(5, { direction: 'EXPORT' }));
    expect(await endedOf(plant.id)).toEqual([]);
    await changeAndNotifySite(organization, plant.id, removeSubDevice(plant, 'BESS-1'));
    const link = await connectListening(plant);
    const end = expect.stringMatching(/^UNSUPPORTED_FOR_TOPOLOGY/);
    await nthCommand(link, 1);
    expect((await endedOf(plant.id)).map(([, reason]) => reason)).toEqual([end, end]);
    // Without a setpoint, the plan sends the mode.
    expect(commandsOf(link).map(({ payload }) => payload.mode)).toEqual(['STANDARD']);
  });
});
