/** Schedules among all else that a plant is told: setpoints, emergencies, modes, limits, and one another [C-7.7], [C-7.9]. */
import { describe, expect, it } from 'vitest';
import { holdClock, MINUTE, passTime, SECOND, setClock } from '#workerd/site-clock.ts';
import { connectListening } from '#workerd/site-devices.ts';
import {
  endOf,
  heard,
  newPlannedSite,
  obey,
  type PlannedScene,
  planned,
  rowOf,
  told,
  toldCommands,
} from '#workerd/site-plan.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { cancel, type ScheduleWish, type SlotWish, schedule, statuses } from '#workerd/site-schedules.ts';
import { charge, submission } from '#workerd/site-submissions.ts';

holdClock();

/** What the gateway was told since `from`, each of it acknowledged as it came. */
async function obeyAll(scene: PlannedScene): Promise<unknown[]> {
  for (let answered = 0; ; ) {
    const { length } = await toldCommands(scene.link, scene.plant);
    if (answered === length) return await told(scene.link, scene.plant);
    while (answered < length) {
      answered += 1;
      await obey(scene, answered, 'COMPLETED');
    }
  }
}

/** A plant that follows a schedule of these slots; what it was told from here on is what the test reads. */
async function following(slots: readonly SlotWish[], wish: ScheduleWish = {}) {
  const scene = await newPlannedSite();
  const set = schedule(slots, wish);
  await scene.partner.submit(set);
  await obeyAll(scene);
  return { ...scene, set };
}

const set = (payload: object) => submission('config', payload);

describe('a slot', () => {
  it('stands above a NORMAL setpoint, which resumes where the schedule has none [C-7.7]', async () => {
    const scene = await newPlannedSite();
    const { plant, partner } = scene;
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

  it('gives way to HIGH, and behind it the slot is told that is due then [C-7.7]', async () => {
    const scene = await following([1, 2, 3, 4]);
    const { plant, partner } = scene;
    const high = planned(9, 'HIGH', { forMs: 130 * SECOND });
    expect(await partner.acknowledge(high)).toMatchObject({ status: 'ACCEPTED' });
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 9]);
    await passTime(plant.id, 130 * SECOND - 1);
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 9]);
    await passTime(plant.id, 1);
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 9, 3]);
    expect(await endOf(plant, high)).toBe('COMPLETED unmeasured');
  });

  it('is not told while an emergency holds, and that one which is due then once a mode ends it [C-7.7]', async () => {
    const scene = await following([1, 2, 3, 4]);
    const { plant, partner } = scene;
    await partner.submit(submission('emergency', { type: 'STOP' }));
    await obeyAll(scene);
    await passTime(plant.id, 2 * MINUTE);
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 'EMERGENCY_STOP']);
    expect(await statuses(plant.id)).toEqual(['ACTIVE']);
    await partner.submit(submission('mode', { mode: 'STANDARD' }));
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 'EMERGENCY_STOP', 'STANDARD', 3]);
  });

  it('is told again behind a change of the mode in force, and stands above it [C-7.7]', async () => {
    const scene = await following([1, 2]);
    const { plant, partner } = scene;
    await partner.submit(submission('mode', { mode: 'ZERO_EXPORT' }));
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 'ZERO_EXPORT', 1]);
    for (let minute = 0; minute < 2; minute++) {
      await passTime(plant.id, MINUTE);
      await obeyAll(scene);
    }
    expect((await obeyAll(scene)).slice(4)).toEqual([2, 'ZERO_EXPORT']);
  });

  it('stands beside device commands [C-7.7]', async () => {
    const scene = await following([1, 2]);
    await scene.partner.submit(charge(5));
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 'BESS_CHARGE']);
  });
});

describe('an emergency', () => {
  it('keeps a schedule that is sent while it holds from the plant, QUEUED, until a mode ends it [C-7.7]', async () => {
    const scene = await newPlannedSite();
    const { plant, partner } = scene;
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

  it('leaves one that waits for its gateway, which is told of it when the emergency is over [C-7.7]', async () => {
    const scene = await newPlannedSite();
    const { plant, partner } = scene;
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

describe('a newer schedule', () => {
  it('of all the slots that are left makes the older one CANCELLED, once its plant has it [C-7.9]', async () => {
    const scene = await following([1, 2, 3]);
    const { plant, partner } = scene;
    const newer = schedule([11, 12, 13, 14]);
    await partner.submit(newer);
    expect(await statuses(plant.id)).toEqual(['ACTIVE', 'PENDING']);
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 'SCHEDULE_SET', 11]);
    expect(await statuses(plant.id)).toEqual(['CANCELLED', 'ACTIVE']);
    expect(await endOf(plant, scene.set)).toBe('FAILED CANCELLED');
  });

  it('wins slot by slot: before and behind it the older one goes on [C-7.9]', async () => {
    const scene = await following([1, 2, 3, 4]);
    const { plant, partner } = scene;
    const newer = schedule([12, 13], { inMs: MINUTE });
    await partner.submit(newer);
    await obeyAll(scene);
    for (let minute = 0; minute < 4; minute++) {
      await passTime(plant.id, MINUTE);
      await obeyAll(scene);
    }
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 'SCHEDULE_SET', 12, 13, 4, 'STANDARD']);
    expect(await statuses(plant.id)).toEqual(['COMPLETED', 'COMPLETED']);
  });

  it('that takes all behind the present slot lets the older one COMPLETE with that [C-7.9]', async () => {
    const scene = await following([1, 2, 3]);
    const { plant, partner } = scene;
    await partner.submit(schedule([12, 13], { inMs: 30 * SECOND }));
    await obeyAll(scene);
    expect(await statuses(plant.id)).toEqual(['ACTIVE', 'ACCEPTED']);
    await passTime(plant.id, 30 * SECOND);
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 'SCHEDULE_SET', 12]);
    expect(await statuses(plant.id)).toEqual(['COMPLETED', 'ACTIVE']);
  });

  it('that its plant refuses takes nothing: the older one goes on [C-7.9]', async () => {
    const scene = await following([1, 2, 3]);
    const { plant, partner } = scene;
    await partner.submit(schedule([11, 12, 13]));
    await obey(scene, 3, 'FAILED');
    await passTime(plant.id, MINUTE);
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 'SCHEDULE_SET', 2]);
    expect(await statuses(plant.id)).toEqual(['ACTIVE', 'FAILED']);
  });

  it('keeps what it has won when it is cancelled: the older one has those slots no more [C-7.7]', async () => {
    const scene = await following([1, 2, 3, 4]);
    const { plant, partner } = scene;
    const scheduleId = crypto.randomUUID();
    await partner.submit(schedule([12, 13], { inMs: MINUTE, scheduleId }));
    await obeyAll(scene);
    await partner.submit(cancel(scheduleId));
    await obeyAll(scene);
    for (let minute = 0; minute < 3; minute++) {
      await passTime(plant.id, MINUTE);
      await obeyAll(scene);
    }
    expect((await obeyAll(scene)).slice(2)).toEqual(['SCHEDULE_SET', 'SCHEDULE_CANCEL', 'STANDARD', 4]);
  });

  it('is the one that was recorded later, whichever was acknowledged first [C-7.9]', async () => {
    const scene = await newPlannedSite();
    const { plant, partner } = scene;
    await partner.submit(schedule([1, 2, 3]), schedule([11]));
    await obey(scene, 2, 'COMPLETED');
    expect(await told(scene.link, plant)).toEqual(['SCHEDULE_SET', 'SCHEDULE_SET', 11]);
    await obeyAll(scene);
    await passTime(plant.id, MINUTE);
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 'SCHEDULE_SET', 11, 2]);
  });

  it('without a slot left by a newer one that was acknowledged before it is CANCELLED at its ack [C-7.9]', async () => {
    const scene = await newPlannedSite();
    const { plant, partner } = scene;
    await partner.submit(schedule([1, 2]), schedule([11, 12]));
    await obey(scene, 2, 'COMPLETED');
    await obey(scene, 1, 'COMPLETED');
    expect(await told(scene.link, plant)).toEqual(['SCHEDULE_SET', 'SCHEDULE_SET', 11]);
    expect(await statuses(plant.id)).toEqual(['CANCELLED', 'ACTIVE']);
  });
});

describe('a limit that tightens', () => {
  it('ends the slot that stands, with its alarm; later ones that no longer fit at their boundaries [C-7.9]', async () => {
    const scene = await following([60, 20, 70, 30]);
    const { plant, partner, listener } = scene;
    await partner.submit(set({ constraints: { maxImportKw: 50 } }));
    // The order of what goes out in one turn is nobody's promise.
    expect((await obeyAll(scene)).slice(2)).toEqual(expect.arrayContaining(['CONFIG_SET', 'STANDARD']));
    for (let minute = 0; minute < 3; minute++) {
      await passTime(plant.id, MINUTE);
      await obeyAll(scene);
    }
    expect((await obeyAll(scene)).slice(4)).toEqual([20, 'STANDARD', 30]);
    await passTime(plant.id, MINUTE);
    expect(await endOf(plant, scene.set)).toBe('COMPLETED slots 0, 2 skipped: CONSTRAINT_VIOLATION');
    await heard(scene);
    expect(listener.events('alarm').map(({ payload }) => payload)).toMatchObject([
      {
        type: 'CONSTRAINT_VIOLATION',
        message: 'SCHEDULE skipped: slot 0: 60 kW exceeds maxImportKw 50 kW',
        constraint: 'maxImportKw',
        limit: 50,
        value: 60,
      },
      { type: 'CONSTRAINT_VIOLATION', constraint: 'maxImportKw', limit: 50, value: 70 },
    ]);
    const ids = listener.events('alarm').map(({ payload }) => payload.alarmId);
    expect(new Set(ids).size).toBe(2);
  });

  it('below a slot that fits none of them: the schedule is FAILED for it [C-7.9]', async () => {
    const scene = await newPlannedSite();
    const { plant, partner } = scene;
    const one = schedule([60, 70], { inMs: MINUTE });
    await partner.submit(one, set({ constraints: { maxImportKw: 50 } }));
    await obeyAll(scene);
    await passTime(plant.id, 3 * MINUTE);
    expect((await obeyAll(scene)).sort()).toEqual(['CONFIG_SET', 'SCHEDULE_SET']);
    expect(await endOf(plant, one)).toBe('FAILED slots 0-1 skipped: CONSTRAINT_VIOLATION');
  });
});

describe('time', () => {
  it('a site that slept through three slots tells the present one, and none that it missed [C-7.9]', async () => {
    const scene = await following([1, 2, 3, 4, 5]);
    await evictSite(scene.plant.id);
    // No alarm went off on the way.
    setClock(Date.now() + 3 * MINUTE + 10 * SECOND);
    await passTime(scene.plant.id, 0);
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 4]);
  });

  it('a site that slept past the end of all ends them, and tells what the plan says then [C-7.9]', async () => {
    const scene = await following([1, 2, 3]);
    const { plant, partner } = scene;
    const untold = schedule([7, 8], { inMs: 5 * MINUTE });
    await partner.submit(untold);
    await obeyAll(scene);
    await evictSite(plant.id);
    setClock(Date.now() + 30 * MINUTE);
    await passTime(plant.id, 0);
    expect(await statuses(plant.id)).toEqual(['COMPLETED', 'FAILED']);
    expect(await endOf(plant, untold)).toBe('FAILED EXPIRED');
    const link = await connectListening(plant);
    expect(await told(link, plant)).toEqual(['STANDARD']);
  });

  it('leaves memory at a boundary, in the midst of what is told there, and tells it once [C-7.9]', async () => {
    const scene = await following([1, 2, 3]);
    const { plant } = scene;
    setClock(Date.now() + MINUTE);
    await evictSite(plant.id);
    await passTime(plant.id, 0);
    await evictSite(plant.id);
    await passTime(plant.id, 0);
    expect(await obeyAll(scene)).toEqual(['SCHEDULE_SET', 1, 2]);
  });

  it('a schedule whose cancel comes behind its end, before its alarm, has COMPLETED [C-7.9]', async () => {
    const scheduleId = crypto.randomUUID();
    const scene = await following([1], { scheduleId });
    setClock(Date.now() + 2 * MINUTE);
    expect(await scene.partner.acknowledge(cancel(scheduleId))).toMatchObject({ status: 'ACCEPTED' });
    expect(await statuses(scene.plant.id)).toEqual(['COMPLETED']);
  });

  // The last Sunday of March 2030, 01:00 UTC, in Europe; the second of March in North America is of the same kind.
  it.each(['2030-03-31T00:30:00+00:00', '2030-10-27T02:30:00+02:00', '2030-03-10T01:30:00-05:00'])(
    'slots are as long as ever where clocks change: from %s on [C-4.5]',
    async (from) => {
      setClock(Date.parse(from));
      const scene = await newPlannedSite();
      const { plant, partner } = scene;
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

describe('a gateway that is away', () => {
  it('is told the slot that is due when it comes back, and of those it missed nothing [C-7.9]', async () => {
    const scene = await following([1, 2, 3, 4, 5]);
    const { plant } = scene;
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

  it('within one slot is told that slot again: it may have forgotten [C-3.9]', async () => {
    const scene = await following([1, 2], { slotMinutes: 15 });
    const { plant } = scene;
    scene.link.socket.close(1000, 'bye');
    await passTime(plant.id, SECOND);
    const link = await connectListening(plant);
    expect(await obeyAll({ ...scene, link })).toEqual([1]);
  });
});
