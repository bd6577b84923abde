/** A site that is evicted, or sleeps past a change by time, follows its plan like one that stays awake. */
import { setScene } from '#workerd/scene.ts';
import { HOUR, MINUTE, passTime, SECOND, setClock } from '#workerd/site-clock.ts';
import { connectListening } from '#workerd/site-devices.ts';
import {
  AWAY,
  endOf,
  executionStatuses,
  obey,
  PLANNED,
  planned,
  receivedAlarms,
  rowOf,
  sentTo,
} from '#workerd/site-plan.ts';
import { evictBetween, evictSite } from '#workerd/site-rows.ts';
import { submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';

describe('a site that is evicted', () => {
  it('a site evicted between all steps sends and ends the same as one that stays awake [C-7.7]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    const normal = planned(5, 'NORMAL', { forMs: HOUR });
    const high = planned(9, 'HIGH', { inMs: MINUTE, forMs: MINUTE });
    await evictBetween(
      plant.id,
      () => partner.submit(normal),
      () => obey(scene, 1),
      () => partner.submit(high),
      () => passTime(plant.id, MINUTE),
      () => obey(scene, 2),
      () => passTime(plant.id, MINUTE),
      () => obey(scene, 3),
      () => passTime(plant.id, 58 * MINUTE),
    );
    expect(await sentTo(link, plant)).toEqual([5, 9, 5, 'STANDARD']);
    expect(await endOf(plant, normal)).toBe('COMPLETED unmeasured');
    expect(await endOf(plant, high)).toBe('COMPLETED unmeasured');
    for (const one of [normal, high]) {
      expect(await executionStatuses(scene, one)).toEqual(['EXECUTING', 'COMPLETED unmeasured']);
    }
  });

  it('a site that sleeps past a start and an end sends only the current target [C-7.7]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    const [first, second, passed, last] = [
      planned(5, 'NORMAL'),
      planned(6, 'NORMAL', { inMs: 10 * MINUTE, forMs: 10 * MINUTE }),
      planned(9, 'HIGH', { inMs: 5 * MINUTE, forMs: 10 * MINUTE }),
      planned(7, 'NORMAL', { inMs: 25 * MINUTE }),
    ];
    await partner.submit(first, second, passed, last);
    await obey(scene, 1);
    await evictSite(plant.id);
    // No alarm ran in between.
    setClock(Date.now() + 30 * MINUTE);
    await passTime(plant.id, 0);
    expect(await sentTo(link, plant)).toEqual([5, 7]);
    expect(await endOf(plant, passed)).toBe('FAILED EXPIRED');
    expect(await endOf(plant, second)).toBe('FAILED EXPIRED');
    await obey(scene, 2);
    expect(await endOf(plant, last)).toBe('EXECUTING');
  });
});

describe('a site that slept, and whose gateway returns before its alarm', () => {
  it('a waiting setpoint ends SUPERSEDED by the newer one that replaced it before its window ended [C-7.7]', async () => {
    const { scene, plant, partner } = await setScene(AWAY);
    const older = planned(5, 'HIGH', { forMs: 30 * MINUTE });
    const newer = planned(9, 'HIGH', { inMs: 20 * MINUTE });
    await partner.submit(older, newer);
    setClock(Date.now() + 40 * MINUTE);
    const link = await connectListening(plant);
    expect(await sentTo(link, plant)).toEqual([9]);
    expect(await endOf(plant, older)).toBe(`FAILED SUPERSEDED by ${(await rowOf(plant, newer)).id}`);
    expect(await receivedAlarms(scene)).toEqual([]);
  });

  it('a replaced setpoint is not sent again after an unacknowledged mode [C-7.7]', async () => {
    const { plant, partner } = await setScene(PLANNED);
    const older = planned(5, 'HIGH');
    const newer = planned(9, 'HIGH', { inMs: 10 * SECOND, forMs: 5 * SECOND });
    await partner.submit(submission('mode', { mode: 'PEAK_SHAVING' }), older, newer);
    setClock(Date.now() + 40 * MINUTE);
    const link = await connectListening(plant);
    expect(await sentTo(link, plant)).toEqual(['PEAK_SHAVING']);
    expect(await endOf(plant, older)).toBe(`FAILED SUPERSEDED by ${(await rowOf(plant, newer)).id}`);
    expect(await endOf(plant, newer)).toBe('FAILED EXPIRED');
  });

  it('a NORMAL setpoint without an ack is not sent again below a HIGH one that has begun meanwhile [C-7.7]', async () => {
    const { plant, partner } = await setScene(PLANNED);
    const [normal, high] = [planned(5, 'NORMAL'), planned(9, 'HIGH', { inMs: 10 * SECOND })];
    await partner.submit(submission('mode', { mode: 'PEAK_SHAVING' }), normal, high);
    setClock(Date.now() + 20 * SECOND);
    const link = await connectListening(plant);
    expect(await sentTo(link, plant)).toEqual(['PEAK_SHAVING', 9]);
    await obey({ link, plant }, 1, 'COMPLETED');
    await obey({ link, plant }, 2);
    await passTime(plant.id, 2 * MINUTE);
    expect(await sentTo(link, plant)).toEqual(['PEAK_SHAVING', 9]);
    expect(await endOf(plant, normal)).toBe('PENDING');
  });
});

describe('a site that slept past a verdict', () => {
  it('a setpoint replaced after its verdict time is judged, even if a command arrives before the alarm [C-7.8]', async () => {
    const { scene, plant, partner } = await setScene(PLANNED);
    const older = planned(5, 'NORMAL');
    await partner.submit(older, planned(6, 'NORMAL', { inMs: 7 * MINUTE }));
    await obey(scene, 1);
    setClock(Date.now() + 10 * MINUTE);
    await partner.submit(planned(9, 'HIGH'));
    expect(await endOf(plant, older)).toBe('COMPLETED unmeasured');
  });

  it('a setpoint replaced before its verdict time is not judged [C-7.7]', async () => {
    const { scene, plant, partner } = await setScene(PLANNED);
    const [older, newer] = [planned(5, 'NORMAL'), planned(6, 'NORMAL', { inMs: 3 * MINUTE })];
    await partner.submit(older, newer);
    await obey(scene, 1);
    setClock(Date.now() + 10 * MINUTE);
    await passTime(plant.id, 0);
    expect(await endOf(plant, older)).toBe(`FAILED SUPERSEDED by ${(await rowOf(plant, newer)).id}`);
  });
});
