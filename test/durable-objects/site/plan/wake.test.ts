/** A site that leaves memory, or sleeps past what time alone changes, follows its plan as one that was awake. */
import { describe, expect, it } from 'vitest';
import { HOUR, holdClock, MINUTE, passTime, SECOND, setClock } from '#workerd/site-clock.ts';
import { connectListening } from '#workerd/site-devices.ts';
import {
  endOf,
  executionsOf,
  heard,
  newAwaySite,
  newPlannedSite,
  obey,
  planned,
  rowOf,
  told,
} from '#workerd/site-plan.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { submission } from '#workerd/site-submissions.ts';

holdClock();

describe('a site that leaves memory', () => {
  it('between all steps tells and ends the same [C-7.7]', async () => {
    const scene = await newPlannedSite();
    const { plant, link, partner } = scene;
    const evict = () => evictSite(plant.id);
    const normal = planned(5, 'NORMAL', { forMs: HOUR });
    const high = planned(9, 'HIGH', { inMs: MINUTE, forMs: MINUTE });
    await partner.submit(normal);
    await evict();
    await obey(scene, 1);
    await evict();
    await partner.submit(high);
    await evict();
    await passTime(plant.id, MINUTE);
    await evict();
    await obey(scene, 2);
    await evict();
    await passTime(plant.id, MINUTE);
    await evict();
    await obey(scene, 3);
    await evict();
    await passTime(plant.id, 58 * MINUTE);
    await evict();
    expect(await told(link, plant)).toEqual([5, 9, 5, 'STANDARD']);
    expect(await endOf(plant, normal)).toBe('COMPLETED unmeasured');
    expect(await endOf(plant, high)).toBe('COMPLETED unmeasured');
    for (const one of [normal, high]) {
      expect((await executionsOf(scene, one)).map(({ status }) => status)).toEqual([
        'EXECUTING',
        'COMPLETED',
      ]);
    }
  });

  it('and sleeps past a start and an end tells what stands then, and nothing of what passed [C-7.7]', async () => {
    const scene = await newPlannedSite();
    const { plant, link, partner } = scene;
    const [first, second, passed, last] = [
      planned(5, 'NORMAL'),
      planned(6, 'NORMAL', { inMs: 10 * MINUTE, forMs: 10 * MINUTE }),
      planned(9, 'HIGH', { inMs: 5 * MINUTE, forMs: 10 * MINUTE }),
      planned(7, 'NORMAL', { inMs: 25 * MINUTE }),
    ];
    await partner.submit(first, second, passed, last);
    await obey(scene, 1);
    await evictSite(plant.id);
    // No alarm went off on the way.
    setClock(Date.now() + 30 * MINUTE);
    await passTime(plant.id, 0);
    expect(await told(link, plant)).toEqual([5, 7]);
    expect(await endOf(plant, passed)).toBe('FAILED EXPIRED');
    expect(await endOf(plant, second)).toBe('FAILED EXPIRED');
    await obey(scene, 2);
    expect(await endOf(plant, last)).toBe('EXECUTING');
  });
});

describe('a site that slept, and whose gateway comes back before its alarm', () => {
  it('ends a setpoint that waited by the newer one that displaced it before its window was over [C-7.7]', async () => {
    const scene = await newAwaySite();
    const { plant, partner, listener } = scene;
    const older = planned(5, 'HIGH', { forMs: 30 * MINUTE });
    const newer = planned(9, 'HIGH', { inMs: 20 * MINUTE });
    await partner.submit(older, newer);
    setClock(Date.now() + 40 * MINUTE);
    const link = await connectListening(plant);
    expect(await told(link, plant)).toEqual([9]);
    expect(await endOf(plant, older)).toBe(`FAILED SUPERSEDED by ${(await rowOf(plant, newer)).id}`);
    await heard(scene);
    expect(listener.events('alarm')).toEqual([]);
  });

  it('does not tell it a displaced setpoint behind the mode that it has yet to acknowledge [C-7.7]', async () => {
    const { plant, partner } = await newPlannedSite();
    const older = planned(5, 'HIGH');
    const newer = planned(9, 'HIGH', { inMs: 10 * SECOND, forMs: 5 * SECOND });
    await partner.submit(submission('mode', { mode: 'PEAK_SHAVING' }), older, newer);
    setClock(Date.now() + 40 * MINUTE);
    const link = await connectListening(plant);
    expect(await told(link, plant)).toEqual(['PEAK_SHAVING']);
    expect(await endOf(plant, older)).toBe(`FAILED SUPERSEDED by ${(await rowOf(plant, newer)).id}`);
    expect(await endOf(plant, newer)).toBe('FAILED EXPIRED');
  });

  it('does not tell a setpoint once more that one above it, begun meanwhile, has displaced [C-7.7]', async () => {
    const { plant, partner } = await newPlannedSite();
    const [normal, high] = [planned(5, 'NORMAL'), planned(9, 'HIGH', { inMs: 10 * SECOND })];
    await partner.submit(submission('mode', { mode: 'PEAK_SHAVING' }), normal, high);
    setClock(Date.now() + 20 * SECOND);
    const link = await connectListening(plant);
    expect(await told(link, plant)).toEqual(['PEAK_SHAVING', 5, 9]);
    await obey({ link, plant }, 1, 'COMPLETED');
    await obey({ link, plant }, 3);
    await passTime(plant.id, 2 * MINUTE);
    expect(await told(link, plant)).toEqual(['PEAK_SHAVING', 5, 9]);
    expect(await endOf(plant, normal)).toBe('PENDING');
  });
});

describe('a site that slept past a verdict', () => {
  it('judges a setpoint that a newer one displaced after that, though it is asked before its alarm [C-7.8]', async () => {
    const scene = await newPlannedSite();
    const { plant, partner } = scene;
    const older = planned(5, 'NORMAL');
    await partner.submit(older, planned(6, 'NORMAL', { inMs: 7 * MINUTE }));
    await obey(scene, 1);
    setClock(Date.now() + 10 * MINUTE);
    await partner.submit(planned(9, 'HIGH'));
    expect(await endOf(plant, older)).toBe('COMPLETED unmeasured');
  });

  it('does not judge a setpoint that a newer one displaced before that [C-7.7]', async () => {
    const scene = await newPlannedSite();
    const { plant, partner } = scene;
    const [older, newer] = [planned(5, 'NORMAL'), planned(6, 'NORMAL', { inMs: 3 * MINUTE })];
    await partner.submit(older, newer);
    await obey(scene, 1);
    setClock(Date.now() + 10 * MINUTE);
    await passTime(plant.id, 0);
    expect(await endOf(plant, older)).toBe(`FAILED SUPERSEDED by ${(await rowOf(plant, newer)).id}`);
  });
});
