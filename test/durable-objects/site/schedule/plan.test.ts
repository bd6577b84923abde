/**
 * Schedules among the other targets of a plant: setpoints, emergencies, modes, limits, and other schedules
 * [C-7.7], [C-7.9].
 */
import { setScene, whole } from '#workerd/scene.ts';
import { MINUTE, passTime, SECOND, setClock } from '#workerd/site-clock.ts';
import { connectListening } from '#workerd/site-devices.ts';
import {
  endOf,
  obey,
  PLANNED,
  type PlannedScene,
  planned,
  receivedAlarms,
  rowOf,
  sentCommands,
  sentTo,
} from '#workerd/site-plan.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { cancel, type ScheduleOptions, type SlotValue, schedule, statuses } from '#workerd/site-schedules.ts';
import { charge, submission, violation } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { LIMITED } from '#workerd/world.ts';

/** All commands of the gateway so far, each of which is acknowledged here. */
async function obeyAll(scene: PlannedScene): Promise<unknown[]> {
  for (let answered = 0; ; ) {
    const { length } = await sentCommands(scene.link, scene.plant);
    if (answered === length) return await sentTo(scene.link, scene.plant);
    while (answered < length) {
      answered += 1;
      await obey(scene, answered, 'COMPLETED');
    }
  }
}

/** Lets minutes pass, and acknowledges all commands after each. */
async function obeyFor(scene: PlannedScene, minutes: number): Promise<void> {
  for (let minute = 0; minute < minutes; minute++) {
    await passTime(scene.plant.id, MINUTE);
    await obeyAll(scene);
  }
}

/** A plant that follows a schedule of these slots. */
async function following(slots: readonly SlotValue[], options: ScheduleOptions = {}) {
  const scene = await setScene(PLANNED);
  const set = schedule(slots, options);
  await scene.partner.submit(set);
  await obeyAll(scene);
  return whole({ ...scene, set });
}

const set = (payload: object) => submission('config', payload);

describe('a slot', () => {
  it('is above a NORMAL setpoint, which resumes when the schedule has no slot [C-7.7]', async () => {
    const { scene, plant, partner } = await setScene(PLANNED);
    const normal = planned(2, 'NORMAL');
    await partner.submit(normal, schedule([5], { inMs: MINUTE }));
    await obeyAll(scene);
    const late = planned(3, 'NORMAL');
    await passTime(plant.id, MINUTE);
    expect(await partner.acknowledge(late)).toMatchObject({ status: 'QUEUED' });
    const { decision } = await rowOf(plant, late);
    expect(decision).toMatchObject({
      stage: 'plan',
      facts: { isOnTop: false, onTop: { by: 'slot', slotIndex: 0 } },
    });
    await obeyAll(scene);
    await passTime(plant.id, MINUTE);
    expect(await obeyAll(scene)).toEqual([2, 'SCHEDULE_SET', 5, 3]);
  });

  it('is below a HIGH setpoint; the slot that is due when the setpoint ends is sent then [C-7.7]', async () => {
    const { scene, plant, partner } = await following([1, 2, 3, 4]);
    const high = planned(9, 'HIGH', { forMs: 130 * SECOND });
    expect(await partner.acknowledge(high)).toMatchObject({ status: 'ACCEPTED' });
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 9]);
    await passTime(plant.id, 130 * SECOND - 1);
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 9]);
    await passTime(plant.id, 1);
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 9, 3]);
    expect(await endOf(plant, high)).toBe('COMPLETED unmeasured');
  });

  it('is not sent during an emergency; the slot that is due when a mode change ends it is sent then [C-7.7]', async () => {
    const { scene, plant, partner } = await following([1, 2, 3, 4]);
    await partner.submit(submission('emergency', { type: 'STOP' }));
    await obeyAll(scene);
    await passTime(plant.id, 2 * MINUTE);
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 'EMERGENCY_STOP']);
    expect(await statuses(plant.id)).toEqual(['ACTIVE']);
    await partner.submit(submission('mode', { mode: 'STANDARD' }));
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 'EMERGENCY_STOP', 'STANDARD', 3]);
  });

  it('is sent again after a change of the mode in force, and stays active [C-7.7]', async () => {
    const { scene, partner } = await following([1, 2]);
    await partner.submit(submission('mode', { mode: 'ZERO_EXPORT' }));
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 'ZERO_EXPORT', 1]);
    await obeyFor(scene, 2);
    expect((await obeyAll(scene)).slice(4)).toEqual([2, 'ZERO_EXPORT']);
  });

  it('does not affect device commands, and they do not affect it [C-7.7]', async () => {
    const scene = await following([1, 2]);
    await scene.partner.submit(charge(5));
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 'BESS_CHARGE']);
  });
});

describe('an emergency and schedules', () => {
  it('a schedule submitted during an emergency is QUEUED, and sent after a mode change ends it [C-7.7]', async () => {
    const { scene, plant, partner } = await setScene(PLANNED);
    const scheduleId = crypto.randomUUID();
    await partner.submit(submission('emergency', { type: 'HOLD' }));
    await obeyAll(scene);
    expect(await partner.acknowledge(schedule([1, 2], { scheduleId }))).toMatchObject({ status: 'QUEUED' });
    expect(await partner.acknowledge(schedule([3], { inMs: MINUTE }))).toMatchObject({ status: 'QUEUED' });
    expect(await partner.acknowledge(cancel(scheduleId))).toMatchObject({ status: 'QUEUED' });
    await evictSite(plant.id);
    await passTime(plant.id, 30 * SECOND);
    expect(await obeyAll(scene)).toEqual(['EMERGENCY_HOLD']);
    await partner.submit(submission('mode', { mode: 'STANDARD' }));
    expect((await obeyAll(scene)).slice(1)).toEqual(['STANDARD', 'SCHEDULE_SET', 'SCHEDULE_CANCEL']);
    await passTime(plant.id, 30 * SECOND);
    expect((await obeyAll(scene)).slice(4)).toEqual([3]);
  });

  it('an emergency keeps a schedule that waits for its gateway, and it is sent after the emergency [C-7.7]', async () => {
    const { scene, plant, partner } = await setScene(PLANNED);
    scene.link.socket.close(1000, 'bye');
    const one = schedule([1, 2, 3], { slotMinutes: 5 });
    expect(await partner.acknowledge(one)).toMatchObject({ status: 'QUEUED' });
    await partner.submit(submission('emergency', { type: 'STOP' }));
    const link = await connectListening(plant);
    const back = { ...scene, link };
    expect(await obeyAll(back)).toEqual(['EMERGENCY_STOP']);
    expect(await endOf(plant, one)).toBe('PENDING');
    await partner.submit(submission('mode', { mode: 'STANDARD' }));
    expect((await obeyAll(back)).slice(1)).toEqual(['STANDARD', 'SCHEDULE_SET', 1]);
  });
});

describe('a schedule that was sent and not acknowledged', () => {
  it('is not sent again during an emergency, fails for no missing ack meanwhile, and is sent again after it [C-7.7]', async () => {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    const one = schedule([1, 2, 3], { slotMinutes: 30 });
    await partner.submit(one);
    expect(await sentTo(link, plant)).toEqual(['SCHEDULE_SET']);
    await partner.submit(submission('emergency', { type: 'STOP' }));
    expect(await sentTo(link, plant)).toEqual(['SCHEDULE_SET', 'EMERGENCY_STOP']);
    await obey(scene, 2, 'COMPLETED');
    for (const isEvicted of [false, true]) {
      if (isEvicted) await evictSite(plant.id);
      await passTime(plant.id, 5 * MINUTE);
      expect(await sentTo(link, plant)).toEqual(['SCHEDULE_SET', 'EMERGENCY_STOP']);
      expect(await endOf(plant, one)).toBe('PENDING');
    }
    await partner.submit(submission('mode', { mode: 'STANDARD' }));
    await obey(scene, 3, 'COMPLETED');
    expect((await sentTo(link, plant)).slice(2)).toEqual(['STANDARD', 'SCHEDULE_SET']);
  });

  it('is not sent to its gateway that returns during an emergency, but after it [C-7.7]', async () => {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    const one = schedule([1, 2, 3], { slotMinutes: 30 });
    await partner.submit(one);
    expect(await sentTo(link, plant)).toEqual(['SCHEDULE_SET']);
    await partner.submit(submission('emergency', { type: 'HOLD' }));
    link.socket.close(1000, 'bye');
    const back = { ...scene, link: await connectListening(plant) };
    expect(await obeyAll(back)).toEqual(['EMERGENCY_HOLD']);
    expect(await endOf(plant, one)).toBe('PENDING');
    await partner.submit(submission('mode', { mode: 'STANDARD' }));
    expect((await obeyAll(back)).slice(1)).toEqual(['STANDARD', 'SCHEDULE_SET', 1]);
  });
});

describe('a schedule of which the plant took no slot', () => {
  it('ends FAILED NO_SLOT_TAKEN, and not EXPIRED, because it was sent in time [C-7.9]', async () => {
    const { scene, plant, partner } = await setScene(PLANNED);
    await partner.submit(planned(50, 'HIGH'));
    const one = schedule([1, 2]);
    await partner.submit(one);
    await obeyAll(scene);
    await obeyFor(scene, 3);
    expect(await statuses(plant.id)).toEqual(['FAILED']);
    expect(await endOf(plant, one)).toBe('FAILED NO_SLOT_TAKEN');
    const alarms = await receivedAlarms(scene);
    expect(alarms.filter(({ type }) => type === 'COMMAND_EXPIRED')).toEqual([]);
  });

  it('names the skipped slots if there are some, as before [C-7.9]', async () => {
    const { scene, plant, partner } = await setScene({ ...PLANNED, plant: { config: LIMITED } });
    const one = schedule([90], { inMs: MINUTE });
    await partner.submit(one);
    await obeyAll(scene);
    await partner.submit(set({ constraints: { maxImportKw: 50 } }));
    await obeyFor(scene, 3);
    expect(await endOf(plant, one)).toBe('FAILED slot 0 skipped: CONSTRAINT_VIOLATION');
  });
});

describe('a newer schedule', () => {
  it('over all remaining slots makes the older CANCELLED when the plant acknowledges the newer [C-7.9]', async () => {
    const { scene, plant, partner } = await following([1, 2, 3]);
    const newer = schedule([11, 12, 13, 14]);
    await partner.submit(newer);
    expect(await statuses(plant.id)).toEqual(['ACTIVE', 'PENDING']);
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 'SCHEDULE_SET', 11]);
    expect(await statuses(plant.id)).toEqual(['CANCELLED', 'ACTIVE']);
    expect(await endOf(plant, scene.set)).toBe('FAILED CANCELLED');
  });

  it('replaces only the slots of an older one that it overlaps; the older continues before and after them [C-7.9]', async () => {
    const { scene, plant, partner } = await following([1, 2, 3, 4]);
    const newer = schedule([12, 13], { inMs: MINUTE });
    await partner.submit(newer);
    await obeyAll(scene);
    await obeyFor(scene, 4);
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 'SCHEDULE_SET', 12, 13, 4, 'STANDARD']);
    expect(await statuses(plant.id)).toEqual(['COMPLETED', 'COMPLETED']);
  });

  it('over all slots after the current one makes the older COMPLETED when that slot ends [C-7.9]', async () => {
    const { scene, plant, partner } = await following([1, 2, 3]);
    await partner.submit(schedule([12, 13], { inMs: 30 * SECOND }));
    await obeyAll(scene);
    expect(await statuses(plant.id)).toEqual(['ACTIVE', 'ACCEPTED']);
    await passTime(plant.id, 30 * SECOND);
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 'SCHEDULE_SET', 12]);
    expect(await statuses(plant.id)).toEqual(['COMPLETED', 'ACTIVE']);
  });

  it('replaces no slot if its plant rejects it, and the older continues [C-7.9]', async () => {
    const { scene, plant, partner } = await following([1, 2, 3]);
    await partner.submit(schedule([11, 12, 13]));
    await obey(scene, 3, 'FAILED');
    await passTime(plant.id, MINUTE);
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 'SCHEDULE_SET', 2]);
    expect(await statuses(plant.id)).toEqual(['ACTIVE', 'FAILED']);
  });

  it('does not return its slots to the older when it is cancelled: the plant follows the mode in force there [C-7.7]', async () => {
    const { scene, partner } = await following([1, 2, 3, 4]);
    const scheduleId = crypto.randomUUID();
    await partner.submit(schedule([12, 13], { inMs: MINUTE, scheduleId }));
    await obeyAll(scene);
    await partner.submit(cancel(scheduleId));
    await obeyAll(scene);
    await obeyFor(scene, 3);
    expect((await obeyAll(scene)).slice(2)).toEqual(['SCHEDULE_SET', 'SCHEDULE_CANCEL', 'STANDARD', 4]);
  });

  it('is the one that the site recorded later, in whatever order the plant acknowledges them [C-7.9]', async () => {
    const { scene, plant, partner } = await setScene(PLANNED);
    await partner.submit(schedule([1, 2, 3]), schedule([11]));
    await obey(scene, 2, 'COMPLETED');
    expect(await sentTo(scene.link, plant)).toEqual(['SCHEDULE_SET', 'SCHEDULE_SET', 11]);
    await obeyAll(scene);
    await passTime(plant.id, MINUTE);
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 'SCHEDULE_SET', 11, 2]);
  });

  it('over all slots makes the older CANCELLED even if the plant acknowledges the older last [C-7.9]', async () => {
    const { scene, plant, partner } = await setScene(PLANNED);
    await partner.submit(schedule([1, 2]), schedule([11, 12]));
    await obey(scene, 2, 'COMPLETED');
    await obey(scene, 1, 'COMPLETED');
    expect(await sentTo(scene.link, plant)).toEqual(['SCHEDULE_SET', 'SCHEDULE_SET', 11]);
    expect(await statuses(plant.id)).toEqual(['CANCELLED', 'ACTIVE']);
  });
});

describe('a limit that tightens', () => {
  it('a tightened limit ends the current slot with an alarm, and skips later ones at their boundaries [C-7.9]', async () => {
    const { scene, plant, partner } = await following([60, 20, 70, 30]);
    await partner.submit(set({ constraints: { maxImportKw: 50 } }));
    // The order of commands sent in one turn is not guaranteed.
    expect((await obeyAll(scene)).slice(2)).toEqual(expect.arrayContaining(['CONFIG_SET', 'STANDARD']));
    await obeyFor(scene, 3);
    expect((await obeyAll(scene)).slice(4)).toEqual([20, 'STANDARD', 30]);
    await passTime(plant.id, MINUTE);
    expect(await endOf(plant, scene.set)).toBe('COMPLETED slots 0, 2 skipped: CONSTRAINT_VIOLATION');
    const alarms = await receivedAlarms(scene);
    expect(alarms).toMatchObject([violation('maxImportKw', 50, 60), violation('maxImportKw', 50, 70)]);
    expect(alarms[0]?.message).toBe('SCHEDULE skipped: slot 0: 60 kW exceeds maxImportKw 50 kW');
    expect(new Set(alarms.map(({ alarmId }) => alarmId)).size).toBe(2);
  });

  it('a schedule of which no slot fits a tightened limit is FAILED with that reason [C-7.9]', async () => {
    const { scene, plant, partner } = await setScene(PLANNED);
    const one = schedule([60, 70], { inMs: MINUTE });
    await partner.submit(one, set({ constraints: { maxImportKw: 50 } }));
    await obeyAll(scene);
    await passTime(plant.id, 3 * MINUTE);
    expect((await obeyAll(scene)).sort()).toEqual(['CONFIG_SET', 'SCHEDULE_SET']);
    expect(await endOf(plant, one)).toBe('FAILED slots 0-1 skipped: CONSTRAINT_VIOLATION');
  });
});

describe('schedules over time', () => {
  it('a site that slept through three slots sends only the current one [C-7.9]', async () => {
    const scene = await following([1, 2, 3, 4, 5]);
    await evictSite(scene.plant.id);
    // No alarm ran in between.
    setClock(Date.now() + 3 * MINUTE + 10 * SECOND);
    await passTime(scene.plant.id, 0);
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 4]);
  });

  it('a site that slept past the end of all schedules ends them, and sends the current target [C-7.9]', async () => {
    const { scene, plant, partner } = await following([1, 2, 3]);
    const untold = schedule([7, 8], { inMs: 5 * MINUTE });
    await partner.submit(untold);
    await obeyAll(scene);
    await evictSite(plant.id);
    setClock(Date.now() + 30 * MINUTE);
    await passTime(plant.id, 0);
    expect(await statuses(plant.id)).toEqual(['COMPLETED', 'FAILED']);
    expect(await endOf(plant, untold)).toBe('FAILED NO_SLOT_TAKEN');
    const link = await connectListening(plant);
    expect(await sentTo(link, plant)).toEqual(['STANDARD']);
  });

  it('a slot is sent once when the site is evicted at its boundary [C-7.9]', async () => {
    const { scene, plant } = await following([1, 2, 3]);
    setClock(Date.now() + MINUTE);
    await evictSite(plant.id);
    await passTime(plant.id, 0);
    await evictSite(plant.id);
    await passTime(plant.id, 0);
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 2]);
  });

  it('a schedule whose cancel arrives after its end, but before its alarm, is COMPLETED [C-7.9]', async () => {
    const scheduleId = crypto.randomUUID();
    const scene = await following([1], { scheduleId });
    setClock(Date.now() + 2 * MINUTE);
    expect(await scene.partner.acknowledge(cancel(scheduleId))).toMatchObject({ status: 'ACCEPTED' });
    expect(await statuses(scene.plant.id)).toEqual(['COMPLETED']);
  });

  // The changes of March and October in Europe, and of March in North America.
  it.each(['2030-03-31T00:30:00+00:00', '2030-10-27T02:30:00+02:00', '2030-03-10T01:30:00-05:00'])(
    'slots keep their length when daylight saving time begins or ends, from %s [C-4.5]',
    async (from) => {
      setClock(Date.parse(from));
      const { scene, plant, partner } = await setScene(PLANNED);
      const startTime = from;
      const slots = [1, 2, 3, 4, 5, 6].map((value, slotIndex) => ({
        slotIndex,
        mode: 'STANDARD',
        setpoint: { value },
      }));
      await partner.submit(submission('schedule', { startTime, slots }));
      await obeyAll(scene);
      const boundaries: number[] = [];
      for (let slot = 1; slot < 6; slot++) {
        await passTime(plant.id, 15 * MINUTE - 1);
        const before = (await obeyAll(scene)).length;
        await passTime(plant.id, 1);
        boundaries.push((await obeyAll(scene)).length - before);
      }
      expect(boundaries).toEqual([1, 1, 1, 1, 1]);
      expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 2, 3, 4, 5, 6]);
    },
  );
});

describe('a gateway that is offline', () => {
  it('a returning gateway receives the current slot, and none of those it missed [C-7.9]', async () => {
    const { scene, plant } = await following([1, 2, 3, 4, 5]);
    scene.link.socket.close(1000, 'bye');
    await passTime(plant.id, 3 * MINUTE + SECOND);
    const link = await connectListening(plant);
    const back = { ...scene, link };
    expect(await obeyAll(back)).toEqual([4]);
    await passTime(plant.id, MINUTE);
    expect(await obeyAll(back)).toEqual([4, 5]);
    await passTime(plant.id, MINUTE);
    expect(await endOf(plant, scene.set)).toBe('COMPLETED');
  });

  it('a gateway that returns within a slot receives that slot again, since it may have forgotten it [C-3.9]', async () => {
    const { scene, plant } = await following([1, 2], { slotMinutes: 15 });
    scene.link.socket.close(1000, 'bye');
    await passTime(plant.id, SECOND);
    const link = await connectListening(plant);
    expect(await obeyAll({ ...scene, link })).toEqual([1]);
  });
});
