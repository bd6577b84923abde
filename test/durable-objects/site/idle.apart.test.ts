/** An idle site: no alarm before something is due, and never a timer. */
import { vi } from 'vitest';
import type { DeviceTestLink } from '#workerd/links.ts';
import { setScene } from '#workerd/scene.ts';
import { alarmAt, DAY, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { answerPings, connectListening, nthCommand, sendAck, sendTelemetry } from '#workerd/site-devices.ts';
import { evictSite, numberOf, rowsOf } from '#workerd/site-rows.ts';
import { batch, batteryCommand, type Submitter, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import type { Plant } from '#workerd/world.ts';

describe('the alarms and timers of a site', () => {
  /** The running timers of the site itself. */
  function siteTimers(): Map<unknown, number> {
    const running = new Map<unknown, number>();
    const { setTimeout: start, clearTimeout: stop } = globalThis;
    vi.spyOn(globalThis, 'setTimeout').mockImplementation(((callback: () => void, ms: number) => {
      const id = start(callback, ms);
      if (/durable-objects\/site\.ts/.test(new Error('who asks').stack ?? '')) running.set(id, ms);
      return id;
    }) as typeof setTimeout);
    vi.spyOn(globalThis, 'clearTimeout').mockImplementation((id) => {
      running.delete(id);
      stop(id as Parameters<typeof stop>[0]);
    });
    return running;
  }

  async function runLoop(plant: Plant, partner: Submitter): Promise<DeviceTestLink> {
    const link = await connectListening(plant);
    await partner.submit(submission('device', batch(batteryCommand(5))));
    const { cmdId } = await nthCommand(link, 1);
    await sendAck(link, plant.gateway, cmdId, 'COMPLETED');
    return link;
  }

  it('a site with a silent, connected device sets its alarm to 90 s after the last frame of the device [rule 10]', async () => {
    const { plant, partner } = await setScene({ plant: true, key: true });
    const timers = siteTimers();
    const link = await runLoop(plant, partner);
    await passTime(plant.id, 20 * SECOND);
    await sendAck(link, plant.gateway, 'none', 'RECEIVED');
    const shownMs = Date.now();
    const runs = await passTime(plant.id, 90 * SECOND - 1);
    expect(runs).toBeLessThanOrEqual(2);
    expect(await alarmAt(plant.id)).toBe(shownMs + 90 * SECOND);
    expect([...timers.values()]).toEqual([]);
  });

  it('a site without connections becomes idle: it has no timer, and only one alarm, for the messageIds after seven days [rule 10]', async () => {
    const { plant, partner } = await setScene({ plant: true, key: true });
    const timers = siteTimers();
    const link = await runLoop(plant, partner);
    link.socket.close(1000, 'bye');
    for (let minute = 0; minute < 30; minute++) await passTime(plant.id, MINUTE);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM outbox')).toBe(0);
    expect([...timers.values()]).toEqual([]);
    // Only the expiry of stored data is due: messageIds after seven days.
    expect(await passTime(plant.id, 6 * DAY)).toBe(0);
    expect(await passTime(plant.id, 2 * DAY)).toBe(1);
    expect(await alarmAt(plant.id)).toBeNull();
  });

  it('a site with unsent events runs no timer, so that it can be evicted between any two messages [rule 10]', async () => {
    const { plant, partner } = await setScene({ plant: true, key: true });
    const timers = siteTimers();
    const link = await connectListening(plant);
    for (const [second, gridPowerKw] of [0, 4, 5, 10, 12].entries()) {
      setClock(START_MS + second * SECOND);
      await sendTelemetry(link, plant.gateway, { gridPowerKw });
      expect([...timers.values()]).toEqual([]);
    }
    await partner.submit(submission('device', batch(batteryCommand(5))));
    await sendAck(link, plant.gateway, (await nthCommand(link, 1)).cmdId, 'COMPLETED');
    await passTime(plant.id, 10 * SECOND);
    expect([...timers.values()]).toEqual([]);

    const slow = await setScene({ settings: { telemetryIntervalSeconds: 300 }, gateway: 'listening' });
    for (const gridPowerKw of [1, 2, 3]) await sendTelemetry(slow.link, slow.gateway, { gridPowerKw });
    expect([...timers.values()]).toEqual([]);
  });

  it('the telemetry event of each minute needs no alarm while the device sends every 5 s, but one after it stops [C-8.2]', async () => {
    const { plant, link } = await setScene({ key: true, gateway: 'listening' });
    await answerPings(plant.id);
    let alarms = 0;
    for (let second = 0; second < 600; second += 5) {
      await sendTelemetry(link, plant.gateway, { gridPowerKw: second, 'BESS-1/powerKw': 1 });
      alarms += await passTime(plant.id, 5 * SECOND);
    }
    // The checks of the session every minute and a half, and of the sub-device.
    expect(alarms).toBeLessThanOrEqual(9);
    await passTime(plant.id, 30 * SECOND);
    link.send({ kind: 'no-publish' });
    await vi.waitFor(async () =>
      expect((await alarmAt(plant.id)) ?? Number.POSITIVE_INFINITY).toBeLessThanOrEqual(
        Date.now() + 30 * SECOND,
      ),
    );
  });

  it('a site that is evicted every 20 s runs at most 25 alarms in ten minutes: for its telemetry event and checks [rule 10]', async () => {
    const { plant, link } = await setScene({ key: true, gateway: 'listening' });
    await answerPings(plant.id);
    await sendTelemetry(link, plant.gateway, { gridPowerKw: 1, 'BESS-1/powerKw': 1 });
    let alarms = 0;
    for (let second = 0; second < 600; second += 20) {
      await evictSite(plant.id);
      alarms += await passTime(plant.id, 20 * SECOND);
    }
    // The telemetry event each minute, and some checks of the sub-device and the session.
    expect(alarms).toBeLessThanOrEqual(25);
    expect(alarms).toBeGreaterThanOrEqual(9);
  });

  it('an evicted site whose device has sent nothing since it connected runs about one alarm a minute at most [rule 10]', async () => {
    const { plant } = await setScene({ key: true, gateway: 'listening' });
    await rowsOf(plant.id, 'UPDATE device SET connected_at_ms = NULL');
    await evictSite(plant.id);
    expect(await passTime(plant.id, 10 * MINUTE)).toBeLessThanOrEqual(12);
  });
});
