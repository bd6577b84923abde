/** What waits for a plant that is away: how much of it, what makes room, what replaces what, and who gets it at last. */
import { describe, expect, it } from 'vitest';
import type { DeviceTestLink } from '#workerd/links.ts';
import { DAY, HOUR, holdClock, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { commandsOf, connectListening, nthCommand } from '#workerd/site-devices.ts';
import { newestCommand, readCommands } from '#workerd/site-reads.ts';
import { evictSite, numberOf } from '#workerd/site-rows.ts';
import { newKeyedSite, newListeningSite, newSite } from '#workerd/site-scenes.ts';
import { charge, powerSetpoint, type Submitter, submission } from '#workerd/site-submissions.ts';
import { createDevice } from '#workerd/world.ts';
import type { Submission } from '../../../../durable-objects/rpc.ts';
import { formatInstant } from '../../../../protocol/ids.ts';

holdClock();

const MAX_DUE = 50;
const MAX_AHEAD = 1_000;
/** Submissions that one call of a Vhost carries. */
const PER_CALL = 100;

async function submitAll(partner: Submitter, submissions: readonly Submission[]): Promise<void> {
  for (let at = 0; at < submissions.length; at += PER_CALL) {
    await partner.submit(...submissions.slice(at, at + PER_CALL));
  }
}

function setpoint(kw: number, changes: Parameters<typeof powerSetpoint>[1] = {}): Submission {
  return submission('site-setpoint', powerSetpoint(kw, changes));
}

/** Those that ended, oldest first, each with why; the rest is PENDING. */
async function endedOf(siteId: string): Promise<[messageId: string, reason: unknown][]> {
  const pages = await Promise.all([1, 2, 3].map((page) => readCommands(siteId, page, 500)));
  const rows = pages.flatMap((page) => page.items).reverse();
  for (const row of rows) expect(row.status).toBe(row.reason === undefined ? 'PENDING' : 'FAILED');
  return rows.filter((row) => row.reason !== undefined).map((row) => [row.messageId, row.reason]);
}

/** The powers of the setpoints that a link got, in order. */
function powersOf(link: DeviceTestLink): unknown[] {
  return commandsOf(link).map(({ payload }) => payload.targetValueKw);
}

describe('the commands that wait for a plant', () => {
  it('are 50 at most: with each one more the oldest ends FAILED QUEUE_FULL, and its partner is told [C-7.6]', async () => {
    const { plant, partner } = await newKeyedSite();
    const sent = Array.from({ length: MAX_DUE + 3 }, (_none, index) => charge((index % 40) + 1));
    for (const one of sent.slice(0, MAX_DUE))
      expect(await partner.acknowledge(one)).toMatchObject({ status: 'QUEUED' });
    expect(await endedOf(plant.id)).toEqual([]);
    for (const one of sent.slice(MAX_DUE))
      expect(await partner.acknowledge(one)).toMatchObject({ status: 'QUEUED' });
    const ended = await endedOf(plant.id);
    expect(ended.map(([messageId]) => messageId)).toEqual(sent.slice(0, 3).map((one) => one.messageId));
    for (const [, reason] of ended) expect(reason).toMatch(/^QUEUE_FULL/);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM dispatch')).toBe(MAX_DUE);
    const told = partner.events.filter((event) => event.kind === 'execution');
    expect(told.map((event) => event.correlationId)).toEqual(sent.slice(0, 3).map((one) => one.messageId));
    for (const { payloadText } of told) {
      expect(JSON.parse(payloadText)).toMatchObject({
        status: 'FAILED',
        reason: expect.stringMatching(/^QUEUE_FULL/),
      });
    }
  });

  it('are 50 at most over evictions too [C-7.6]', async () => {
    const { plant, partner } = await newSite();
    await submitAll(
      partner,
      Array.from({ length: MAX_DUE }, (_none, index) => charge((index % 40) + 1)),
    );
    await evictSite(plant.id);
    await partner.submit(charge(1));
    expect(await endedOf(plant.id)).toHaveLength(1);
  });

  it('keep their emergencies: the oldest of the others makes room, and an emergency always gets in [C-7.6]', async () => {
    const { plant, partner } = await newSite();
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

  it('that a device which listens got are not counted: they do not wait [C-7.6]', async () => {
    const { plant, link, partner } = await newListeningSite();
    await submitAll(
      partner,
      Array.from({ length: MAX_DUE + 10 }, (_none, index) => charge((index % 40) + 1)),
    );
    await nthCommand(link, MAX_DUE + 10);
    expect(await endedOf(plant.id)).toEqual([]);
  });

  it('for a validFrom ahead are 1 000 at most, beside those that are due, likewise [C-7.6]', async () => {
    const { plant, partner } = await newKeyedSite();
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

  it('are 50 at most when the windows of many open while the plant is away [C-7.6]', async () => {
    const { plant, partner } = await newSite();
    const validFrom = formatInstant(START_MS + HOUR);
    const priorities = ['NORMAL', 'HIGH'] as const;
    await submitAll(
      partner,
      Array.from({ length: MAX_DUE }, (_none, index) => charge((index % 40) + 1)),
    );
    await submitAll(
      partner,
      priorities.map((priority) => setpoint(1, { validFrom, priority })),
    );
    // The charges are too old by then: others take their place.
    await passTime(plant.id, 50 * MINUTE);
    await submitAll(
      partner,
      Array.from({ length: MAX_DUE }, (_none, index) => charge((index % 40) + 1)),
    );
    await passTime(plant.id, 10 * MINUTE);
    expect(
      await numberOf(
        plant.id,
        `SELECT count(*) FROM dispatch WHERE state = 'WAITING' AND command_sequence > 0`,
      ),
    ).toBe(MAX_DUE);
  });
});

describe('the open-ended setpoints of a weekend', () => {
  it('do not all run on Monday: the newest of a priority ends the one before it, SUPERSEDED by its id [C-7.7]', async () => {
    const { plant, partner } = await newSite();
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

  it('of different priorities stand beside each other, and so do commands of other kinds [C-7.7]', async () => {
    const { plant, partner } = await newSite();
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
      // A mode ends a setpoint at its gateway, and this one stands on.
      'SITE_SETPOINT',
    ]);
    expect([powersOf(link)[0], powersOf(link)[3]]).toEqual([3, 3]);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM plan_entry')).toBe(3);
  });

  it('with a validFrom ahead replace no earlier one before it comes, and then do [C-7.7]', async () => {
    const { plant, partner } = await newSite();
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

  it('that the gateway has got are replaced by a newer one though that waits for the gateway [C-7.7]', async () => {
    const { plant, partner } = await newSite();
    const link = await connectListening(plant);
    await partner.submit(setpoint(1));
    await nthCommand(link, 1);
    link.send({ kind: 'subscribed', commands: false });
    await partner.submit(setpoint(2));
    const { id } = await newestCommand(plant.id);
    expect((await endedOf(plant.id)).map(([, reason]) => reason)).toEqual([`SUPERSEDED by ${id}`]);
  });
});

describe('a command that waits', () => {
  it('goes to the gateway that serves the plant by then: one that was replaced meanwhile does not strand it [C-7.6]', async () => {
    const { organization, plant, partner } = await newSite();
    expect(await partner.acknowledge(charge())).toMatchObject({ status: 'QUEUED' });
    await partner.submit(submission('mode', { mode: 'STANDARD' }));
    const controller = await createDevice(organization, plant.id, 'CONTROLLER');
    const link = await connectListening(plant, controller);
    await nthCommand(link, 2);
    expect(commandsOf(link).map((command) => command.action)).toEqual(['BESS_CHARGE', 'MODE_CHANGE']);
    const old = await connectListening(plant);
    expect(commandsOf(old)).toEqual([]);
  });

  it('with a validFrom ahead goes to who serves the plant at that moment [C-7.6]', async () => {
    const { organization, plant, partner } = await newSite();
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
});
