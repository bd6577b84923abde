/** An emergency over the plan: what it ends, what it does not stop, and the mode change that ends it. */

import { changeAndNotifySite } from '#workerd/registry-changes.ts';
import { setScene } from '#workerd/scene.ts';
import { HOUR, MINUTE, passTime } from '#workerd/site-clock.ts';
import { commandsOf, connectListening, nthCommand, sendAck } from '#workerd/site-devices.ts';
import {
  AWAY,
  endOf,
  executionStatuses,
  obey,
  PLANNED,
  type PlannedScene,
  planned,
  receivedAlarms,
  rowOf,
  sentTo,
} from '#workerd/site-plan.ts';
import { readConfig } from '#workerd/site-reads.ts';
import { evictBetween, evictSite } from '#workerd/site-rows.ts';
import { batch, batteryCommand, charge, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createLinked } from '#workerd/world.ts';

const TYPES = ['STOP', 'HOLD'] as const;

/** Submits an emergency to a plant that has received nothing yet, and lets its gateway complete it. */
async function stop(scene: PlannedScene, type: (typeof TYPES)[number] = 'STOP') {
  const publish = submission('emergency', { type });
  expect(await scene.partner.acknowledge(publish)).toMatchObject({ status: 'ACCEPTED' });
  await obey(scene, 1, 'RECEIVED', 'COMPLETED');
  return publish;
}

/** A site with a device of its own for its second battery, which is not connected. */
async function newLinkedSite() {
  const site = await setScene(PLANNED);
  const linked = await createLinked(site.organization, site.plant.id);
  await changeAndNotifySite(site.organization, site.plant.id);
  return { ...site, linked };
}

/** Submits a mode. */
async function change({ partner }: PlannedScene, mode = 'ZERO_EXPORT') {
  const publish = submission('mode', { mode });
  expect(await partner.acknowledge(publish)).toMatchObject({ status: 'ACCEPTED' });
  return publish;
}

describe.each(TYPES)('an emergency %s', (type) => {
  it('the emergency ends waiting device commands, modes and future setpoints of any level FAILED EMERGENCY [C-7.7]', async () => {
    const { plant, partner } = await setScene(AWAY);
    const waiting = [
      charge(),
      submission('mode', { mode: 'STANDARD' }),
      planned(5, 'NORMAL', { inMs: HOUR }),
      planned(6, 'EMERGENCY', { inMs: HOUR }),
    ];
    await partner.submit(...waiting, submission('emergency', { type }));
    for (const one of waiting) expect(await endOf(plant, one)).toBe('FAILED EMERGENCY');
    const link = await connectListening(plant);
    expect(await sentTo(link, plant)).toEqual([`EMERGENCY_${type}`]);
  });

  it('the emergency ends the active setpoint and the one below it FAILED SUPERSEDED by its id [C-7.7]', async () => {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    const standing = [planned(5, 'NORMAL'), planned(9, 'HIGH')];
    for (const [index, one] of standing.entries()) {
      await partner.submit(one);
      await obey(scene, index + 1);
    }
    const publish = submission('emergency', { type });
    await partner.submit(publish);
    const { id } = await rowOf(plant, publish);
    for (const one of standing) {
      expect(await endOf(plant, one)).toBe(`FAILED SUPERSEDED by ${id}`);
      expect(await executionStatuses(scene, one)).toEqual(['EXECUTING', `FAILED SUPERSEDED by ${id}`]);
    }
    expect(await sentTo(link, plant)).toEqual([5, 9, `EMERGENCY_${type}`]);
  });

  it('the emergency rejects device commands with CONSTRAINT_VIOLATION until a mode change ends it [C-7.7]', async () => {
    const { scene, plant, partner } = await setScene(PLANNED);
    await stop(scene, type);
    const refused = charge();
    const rejection = { status: 'REJECTED', rejectionCode: 'CONSTRAINT_VIOLATION' };
    expect(await partner.acknowledge(refused)).toMatchObject(rejection);
    expect(await rowOf(plant, refused)).toMatchObject({ decision: { stage: 'constraint' } });
    await evictSite(plant.id);
    expect(await partner.acknowledge(charge())).toMatchObject({ status: 'REJECTED' });
    await change(scene);
    expect(await partner.acknowledge(charge())).toMatchObject({ status: 'REJECTED' });
    await obey(scene, 2);
    expect(await partner.acknowledge(charge())).toMatchObject({ status: 'ACCEPTED' });
  });

  it('the emergency lets device commands pass that stop a battery or limit it to 0 kW [C-7.7]', async () => {
    const { scene, partner } = await setScene(PLANNED);
    await stop(scene, type);
    const stopping = submission('device', batch(batteryCommand(undefined, { command: 'BESS_STOP' })));
    expect(await partner.acknowledge(stopping)).toMatchObject({ status: 'ACCEPTED' });
    expect(await partner.acknowledge(charge(0))).toMatchObject({ status: 'ACCEPTED' });
    expect((await obey(scene, 2)).action).toBe('BESS_STOP');
    expect((await obey(scene, 3)).action).toBe('BESS_CHARGE');
  });

  it('the emergency raises an alarm for a device command that it rejects, with its limit of 0 kW [C-7.7]', async () => {
    const { scene, partner } = await setScene(PLANNED);
    await stop(scene, type);
    expect(await partner.acknowledge(charge(7))).toMatchObject({
      rejectionCode: 'CONSTRAINT_VIOLATION',
      message: `BESS-1: an emergency ${type} is active, only commands that stop an asset pass; send a mode command to end it`,
    });
    expect(await receivedAlarms(scene)).toMatchObject([
      {
        type: 'CONSTRAINT_VIOLATION',
        constraint: 'emergency',
        limit: 0,
        value: 7,
        unit: 'kW',
        deviceId: 'BESS-1',
      },
    ]);
  });

  it('the emergency queues NORMAL and HIGH setpoints, and the highest is sent when a mode change ends it [C-7.7]', async () => {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    await stop(scene, type);
    const [normal, high] = [planned(5, 'NORMAL'), planned(9, 'HIGH')];
    for (const one of [normal, high]) {
      expect(await partner.acknowledge(one)).toMatchObject({ status: 'QUEUED' });
      expect(await rowOf(plant, one)).toMatchObject({
        decision: { stage: 'plan', facts: { isOnTop: false, onTop: { by: 'emergency' } } },
      });
    }
    await passTime(plant.id, HOUR);
    expect(await sentTo(link, plant)).toEqual([`EMERGENCY_${type}`]);
    await change(scene);
    expect(await sentTo(link, plant)).toEqual([`EMERGENCY_${type}`, 'ZERO_EXPORT']);
    await obey(scene, 2);
    expect(await sentTo(link, plant)).toEqual([`EMERGENCY_${type}`, 'ZERO_EXPORT', 9]);
    await obey(scene, 3);
    expect(await endOf(plant, high)).toBe('EXECUTING');
    expect(await endOf(plant, normal)).toBe('PENDING');
  });

  it('the emergency does not stop EMERGENCY setpoints, and is sent again after they have ended [C-7.7]', async () => {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    await stop(scene, type);
    const above = planned(9, 'EMERGENCY', { forMs: 10 * MINUTE });
    expect(await partner.acknowledge(above)).toMatchObject({ status: 'ACCEPTED' });
    await obey(scene, 2);
    expect(await endOf(plant, above)).toBe('EXECUTING');
    await passTime(plant.id, 10 * MINUTE);
    expect(await sentTo(link, plant)).toEqual([`EMERGENCY_${type}`, 9, `EMERGENCY_${type}`]);
    expect(await endOf(plant, above)).toBe('COMPLETED unmeasured');
    await obey(scene, 3, 'RECEIVED', 'COMPLETED');
    await passTime(plant.id, HOUR);
    expect(await sentTo(link, plant)).toHaveLength(3);
  });
});

describe('a mode change during an emergency', () => {
  it("a mode change ends an emergency with its device's first ack, not when it is accepted or sent [C-7.7]", async () => {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    await stop(scene);
    await partner.submit(planned(5, 'NORMAL'));
    await change(scene);
    await passTime(plant.id, 20_000);
    expect(await sentTo(link, plant)).toEqual(['EMERGENCY_STOP', 'ZERO_EXPORT']);
    await obey(scene, 2, 'IN_PROGRESS');
    expect(await sentTo(link, plant)).toEqual(['EMERGENCY_STOP', 'ZERO_EXPORT', 5]);
  });

  it('a mode change ends an unacknowledged emergency, which is not sent again [C-7.7]', async () => {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    await partner.submit(submission('emergency', { type: 'STOP' }));
    await change(scene);
    await obey(scene, 2, 'COMPLETED');
    await passTime(plant.id, 10 * MINUTE);
    expect(await sentTo(link, plant)).toEqual(['EMERGENCY_STOP', 'ZERO_EXPORT']);
  });

  it('a mode change that its device rejects does not end an emergency [C-7.7]', async () => {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    await stop(scene);
    await partner.submit(planned(5, 'NORMAL'));
    await change(scene);
    await obey(scene, 2, 'FAILED');
    expect(await sentTo(link, plant)).toEqual(['EMERGENCY_STOP', 'ZERO_EXPORT']);
    expect(await partner.acknowledge(charge())).toMatchObject({ status: 'REJECTED' });
  });

  it('a mode change sent before an emergency and acknowledged after it does not end it [C-7.7]', async () => {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    await change(scene);
    await partner.submit(submission('emergency', { type: 'STOP' }));
    await obey(scene, 2, 'COMPLETED');
    await obey(scene, 1, 'RECEIVED', 'COMPLETED');
    expect(await partner.acknowledge(charge())).toMatchObject({ status: 'REJECTED' });
    expect(await partner.acknowledge(planned(5, 'NORMAL'))).toMatchObject({ status: 'QUEUED' });
    await evictSite(plant.id);
    await passTime(plant.id, MINUTE);
    expect(await sentTo(link, plant)).toEqual(['ZERO_EXPORT', 'EMERGENCY_STOP']);
  });

  it('a mode change under an EMERGENCY setpoint ends the emergency, and is sent when the setpoint ends [C-7.7]', async () => {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    await stop(scene);
    await partner.submit(planned(9, 'EMERGENCY', { forMs: 10 * MINUTE }));
    await obey(scene, 2);
    await change(scene);
    await obey(scene, 3, 'COMPLETED');
    await obey(scene, 4);
    await passTime(plant.id, 10 * MINUTE);
    expect(await sentTo(link, plant)).toEqual(['EMERGENCY_STOP', 9, 'ZERO_EXPORT', 9, 'ZERO_EXPORT']);
    expect((await readConfig(plant.id)).operatingMode).toBe('ZERO_EXPORT');
  });
});

describe('the mode change that ends an emergency', () => {
  it('goes to each linked device, too, and is COMPLETED when all of them have completed it [C-7.7]', async () => {
    const { scene, plant, linked } = await newLinkedSite();
    const linkedLink = await connectListening(plant, linked);
    await stop(scene);
    await sendAck(linkedLink, linked, (await nthCommand(linkedLink, 1)).cmdId, 'COMPLETED');
    const mode = await change(scene);
    const released = await nthCommand(linkedLink, 2);
    expect(released).toMatchObject({ action: 'MODE_CHANGE', payload: { mode: 'ZERO_EXPORT' } });
    await obey(scene, 2, 'COMPLETED');
    expect(await endOf(plant, mode)).toBe('EXECUTING');
    await sendAck(linkedLink, linked, released.cmdId, 'COMPLETED');
    expect(await endOf(plant, mode)).toBe('COMPLETED');
    const second = await change(scene, 'MAX_EXPORT');
    await obey(scene, 3, 'COMPLETED');
    expect(await endOf(plant, second)).toBe('COMPLETED');
    expect(commandsOf(linkedLink)).toHaveLength(2);
  });

  it('ends it with the ack of the gateway, not with that of a linked device [C-7.7]', async () => {
    const { scene, plant, partner, linked } = await newLinkedSite();
    const linkedLink = await connectListening(plant, linked);
    await stop(scene);
    const mode = await change(scene);
    await sendAck(linkedLink, linked, (await nthCommand(linkedLink, 2)).cmdId, 'COMPLETED');
    expect(await endOf(plant, mode)).toBe('EXECUTING');
    expect(await partner.acknowledge(charge())).toMatchObject({ status: 'REJECTED' });
    expect((await readConfig(plant.id)).operatingMode).toBe('STANDARD');
    await obey(scene, 2, 'COMPLETED');
    expect(await endOf(plant, mode)).toBe('COMPLETED');
    expect(await partner.acknowledge(charge())).toMatchObject({ status: 'ACCEPTED' });
    expect((await readConfig(plant.id)).operatingMode).toBe('ZERO_EXPORT');
  });

  it('waits for a linked device that is not connected, also in a newer mode and after an eviction [C-7.7]', async () => {
    const { scene, plant, linked } = await newLinkedSite();
    const emergency = submission('emergency', { type: 'STOP' });
    const older = submission('mode', { mode: 'ZERO_EXPORT' });
    for (const [index, publish] of [emergency, older].entries()) {
      expect(await scene.partner.acknowledge(publish)).toMatchObject({ status: 'QUEUED' });
      await obey(scene, index + 1, 'COMPLETED');
    }
    expect(await endOf(plant, older)).toBe('EXECUTING');
    const newer = submission('mode', { mode: 'MAX_EXPORT' });
    await scene.partner.submit(newer);
    await obey(scene, 3, 'COMPLETED');
    expect(await endOf(plant, older)).toBe(`FAILED SUPERSEDED by ${(await rowOf(plant, newer)).id}`);
    await evictSite(plant.id);
    const linkedLink = await connectListening(plant, linked);
    const released = await nthCommand(linkedLink, 1);
    expect(released).toMatchObject({ action: 'MODE_CHANGE', payload: { mode: 'MAX_EXPORT' } });
    await sendAck(linkedLink, linked, released.cmdId, 'COMPLETED');
    expect(await endOf(plant, newer)).toBe('COMPLETED');
    expect(commandsOf(linkedLink)).toHaveLength(1);
  });
});

describe('a second emergency', () => {
  it('replaces the first, and the late ack of a mode change from before does not end it [C-7.7]', async () => {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    await stop(scene, 'HOLD');
    await change(scene);
    const second = submission('emergency', { type: 'STOP' });
    expect(await partner.acknowledge(second)).toMatchObject({ status: 'ACCEPTED' });
    await obey(scene, 3, 'COMPLETED');
    await obey(scene, 2, 'COMPLETED');
    expect(await partner.acknowledge(planned(5, 'HIGH'))).toMatchObject({ status: 'QUEUED' });
    await partner.submit(planned(9, 'EMERGENCY', { forMs: MINUTE }));
    await obey(scene, 4);
    await passTime(plant.id, MINUTE);
    expect(await sentTo(link, plant)).toEqual([
      'EMERGENCY_HOLD',
      'ZERO_EXPORT',
      'EMERGENCY_STOP',
      9,
      'EMERGENCY_STOP',
    ]);
  });
});

describe('an emergency across evictions', () => {
  it('an emergency behaves the same when the site is evicted between all steps [C-7.7]', async () => {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    await evictBetween(plant.id, () => stop(scene));
    const normal = planned(5, 'NORMAL');
    expect(await partner.acknowledge(normal)).toMatchObject({ status: 'QUEUED' });
    await evictSite(plant.id);
    await evictBetween(
      plant.id,
      () => partner.submit(planned(9, 'EMERGENCY', { forMs: MINUTE })),
      () => obey(scene, 2),
      () => passTime(plant.id, MINUTE),
      () => obey(scene, 3, 'COMPLETED'),
      () => change(scene),
      () => obey(scene, 4, 'RECEIVED'),
    );
    await obey(scene, 5);
    expect(await sentTo(link, plant)).toEqual(['EMERGENCY_STOP', 9, 'EMERGENCY_STOP', 'ZERO_EXPORT', 5]);
    expect(await endOf(plant, normal)).toBe('EXECUTING');
  });

  it('the late ack of a setpoint that the emergency ended has no effect [C-7.8]', async () => {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    const normal = planned(5, 'NORMAL');
    await partner.submit(normal);
    const { cmdId } = await obey(scene, 1);
    const publish = submission('emergency', { type: 'STOP' });
    await partner.submit(publish);
    await evictSite(plant.id);
    await sendAck(link, plant.gateway, cmdId, 'COMPLETED');
    await obey(scene, 2, 'COMPLETED');
    await passTime(plant.id, 10 * MINUTE);
    expect(await endOf(plant, normal)).toBe(`FAILED SUPERSEDED by ${(await rowOf(plant, publish)).id}`);
    expect(await sentTo(link, plant)).toEqual([5, 'EMERGENCY_STOP']);
  });
});
