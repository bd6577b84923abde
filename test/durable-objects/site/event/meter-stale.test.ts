/** METER_STALE: a meter that told its registers and tells them no more [C-8.3], [C-4.6]. */
import { describe, expect, it, vi } from 'vitest';
import { holdClock, MINUTE, passTime, passUntilTold, SECOND } from '#workerd/site-clock.ts';
import { connectListening, sendTelemetry, stayConnected } from '#workerd/site-devices.ts';
import { listen } from '#workerd/site-listener.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { newHeardSite } from '#workerd/site-scenes.ts';

holdClock();

const REGISTER = { 'METER-1/importRegisterKwh': 12.5 };

async function newMeteredSite(data: Record<string, number>) {
  const scene = await newHeardSite();
  const link = await connectListening(scene.plant);
  await passTime(scene.plant.id, 2 * SECOND);
  await sendTelemetry(link, scene.plant.gateway, data);
  const listening = async () => {
    const listener = await listen(scene.organization, scene.key);
    const stale = () => listener.events('alarm').filter(({ payload }) => payload.type === 'METER_STALE');
    return { listener, stale };
  };
  return { ...scene, link, listening };
}

describe('a meter', () => {
  it('is told of once its registers are 15 min old, whatever else it says, and when it tells them again', async () => {
    const { plant, link, listening } = await newMeteredSite(REGISTER);
    await stayConnected(plant, link, 14 * MINUTE);
    await sendTelemetry(link, plant.gateway, { 'METER-1/powerKw': 1 });
    await passTime(plant.id, MINUTE - SECOND);
    await evictSite(plant.id);
    const { listener, stale } = await listening();
    await listener.quiet();
    expect(stale()).toEqual([]);
    await passTime(plant.id, 2 * SECOND);
    await vi.waitFor(() => expect(stale()).toHaveLength(1));
    expect(stale()[0]?.payload).toMatchObject({
      status: 'RAISED',
      type: 'METER_STALE',
      deviceId: 'METER-1',
      severity: 'WARNING',
    });
    const { alarmId } = stale()[0]?.payload ?? {};
    const back = await connectListening(plant);
    await passTime(plant.id, 2 * SECOND);
    const again = await listening();
    await sendTelemetry(back, plant.gateway, REGISTER);
    await passTime(plant.id, 2 * SECOND);
    await passUntilTold(plant.id);
    const all = () => [...stale(), ...again.stale()].map(({ payload }) => [payload.status, payload.alarmId]);
    await vi.waitFor(() => expect(all()).toHaveLength(2));
    expect(all()[1]).toEqual(['CLEARED', alarmId]);
  });

  it.each<[string, Record<string, number>]>([
    ['never told a register', { 'METER-1/powerKw': 1 }],
    ['is none of this plant', { 'METER-9/importRegisterKwh': 1 }],
  ])('that %s is never told of', async (_what, data) => {
    const { plant, link, listening } = await newMeteredSite(data);
    await stayConnected(plant, link, 14 * MINUTE);
    const { listener, stale } = await listening();
    await stayConnected(plant, link, 2 * MINUTE);
    await listener.quiet();
    expect(stale()).toEqual([]);
  });
});
