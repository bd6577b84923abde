/**
 * The telemetry events of a plant: their content, their times and the keys that receive them [C-8.1] [C-8.2].
 */
import { changeAndNotifySite } from '#workerd/registry-changes.ts';
import { type LinkedScene, RUNNING, setScene } from '#workerd/scene.ts';
import { passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { answerPings, connectListening, sendAck, sendTelemetry } from '#workerd/site-devices.ts';
import { type Listener, listen } from '#workerd/site-listener.ts';
import { evictSite, rowsOf } from '#workerd/site-rows.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createKey, createOrganization, createPlant, type Key } from '#workerd/world.ts';
import { NO_PUBLISH_MS } from '../../../../protocol/link/live.ts';

/** The grid powers of the telemetry events, once the given number has arrived. */
async function gridPowersOf(listener: Listener, count: number): Promise<unknown[]> {
  await listener.link.next(() => listener.events('telemetry').length >= count);
  return listener.events('telemetry').map((event) => event.payload.gridPowerKw);
}

/** Lets time pass with all clients alive and no telemetry of the plant. */
async function passQuietly(
  { plant, link }: LinkedScene,
  listeners: Listener[],
  durationMs: number,
): Promise<void> {
  for (let passedMs = 0; passedMs < durationMs; passedMs += NO_PUBLISH_MS) {
    await passTime(plant.id, Math.min(NO_PUBLISH_MS, durationMs - passedMs));
    // The bridge sends this frame when nothing is published.
    link.send({ kind: 'no-publish' });
    await sendAck(link, plant.gateway, 'none', 'RECEIVED');
  }
  for (const { link: own } of listeners) own.send({ kind: 'credit', drainedBytes: 0 });
}

describe('the telemetry events of a plant', () => {
  it('the first telemetry is sent immediately, then the latest values at most once an interval [C-8.2]', async () => {
    const { plant, link, listener } = await setScene(RUNNING);
    await sendTelemetry(link, plant.gateway, { gridPowerKw: 1 });
    expect(await gridPowersOf(listener, 1)).toEqual([1]);
    for (const second of [2, 9, 10, 19, 20]) {
      setClock(START_MS + second * SECOND);
      await sendTelemetry(link, plant.gateway, { gridPowerKw: second });
    }
    expect(await gridPowersOf(listener, 3)).toEqual([1, 10, 20]);
  });

  it('the interval of telemetry is a setting of the organization [C-8.2]', async () => {
    const { plant, link, listener } = await setScene({
      ...RUNNING,
      settings: { telemetryIntervalSeconds: 30 },
    });
    for (const second of [0, 10, 20, 29, 30]) {
      setClock(START_MS + second * SECOND);
      await sendTelemetry(link, plant.gateway, { gridPowerKw: second });
    }
    expect(await gridPowersOf(listener, 2)).toEqual([0, 30]);
  });

  it('the last telemetry is repeated each minute while the plant is online [C-8.2]', async () => {
    const all = await setScene(RUNNING);
    await sendTelemetry(all.link, all.plant.gateway, { gridPowerKw: 7 });
    for (let minute = 0; minute < 3; minute++) await passQuietly(all, [all.listener], 60 * SECOND);
    expect(await gridPowersOf(all.listener, 4)).toEqual([7, 7, 7, 7]);
    const { timestamp } = all.listener.events('telemetry').at(-1) as unknown as { timestamp: string };
    expect(timestamp).toBe(new Date(START_MS + 180 * SECOND).toISOString());
  });

  it.each([10, 30])(
    'a value that arrives within the interval of %d s is sent after a minute, if no message follows [C-8.2]',
    async (telemetryIntervalSeconds) => {
      const all = await setScene({ ...RUNNING, settings: { telemetryIntervalSeconds } });
      await sendTelemetry(all.link, all.plant.gateway, { gridPowerKw: 1 });
      await sendTelemetry(all.link, all.plant.gateway, { gridPowerKw: 2 });
      await passQuietly(all, [all.listener], 59 * SECOND);
      expect(all.listener.events('telemetry')).toHaveLength(1);
      await passQuietly(all, [all.listener], SECOND);
      expect(await gridPowersOf(all.listener, 2)).toEqual([1, 2]);
    },
  );

  it.each([10, 30])(
    'a value that arrives within the interval of %d s is sent with the first message after the interval [C-8.2]',
    async (telemetryIntervalSeconds) => {
      const { plant, link, listener } = await setScene({
        ...RUNNING,
        settings: { telemetryIntervalSeconds },
      });
      const valuesAt = async (second: number, values: object) => {
        setClock(START_MS + second * SECOND);
        await sendTelemetry(link, plant.gateway, values);
      };
      await valuesAt(0, { gridPowerKw: 1 });
      await valuesAt(5, { socPercent: 40 });
      await valuesAt(telemetryIntervalSeconds - 1, { fvePowerKw: 2 });
      await listener.quiet();
      expect(listener.events('telemetry')).toHaveLength(1);
      await valuesAt(telemetryIntervalSeconds, { gridPowerKw: 3 });
      expect(await gridPowersOf(listener, 2)).toEqual([1, 3]);
      expect(listener.events('telemetry')[1]?.payload).toMatchObject({ socPercent: 40, fvePowerKw: 2 });
    },
  );

  it('a value that arrives within the interval is sent after a minute, even if the site was evicted meanwhile [C-8.2]', async () => {
    const all = await setScene(RUNNING);
    await sendTelemetry(all.link, all.plant.gateway, { gridPowerKw: 1 });
    setClock(START_MS + 5 * SECOND);
    await sendTelemetry(all.link, all.plant.gateway, { gridPowerKw: 2 });
    await evictSite(all.plant.id);
    await passQuietly(all, [all.listener], 55 * SECOND);
    expect(await gridPowersOf(all.listener, 2)).toEqual([1, 2]);
  });

  it('the last telemetry is repeated only once a minute, even if the site is evicted every 15 s [C-8.2]', async () => {
    const all = await setScene(RUNNING);
    await answerPings(all.plant.id);
    await sendTelemetry(all.link, all.plant.gateway, { gridPowerKw: 7 });
    for (let tick = 1; tick <= 12; tick++) {
      await evictSite(all.plant.id);
      await passQuietly(all, [all.listener], 15 * SECOND);
    }
    const events = await gridPowersOf(all.listener, 4);
    expect(events).toEqual([7, 7, 7, 7]);
  });

  it('several telemetry events in one millisecond have different messageIds [C-8.1]', async () => {
    const { plant, link, listener } = await setScene(RUNNING);
    await sendTelemetry(link, plant.gateway, { gridPowerKw: 1 });
    // Resets the time of the last event, as a restored site would, so that more events follow within the
    // millisecond.
    for (const gridPowerKw of [2, 3]) {
      await rowsOf(plant.id, 'UPDATE journal_block SET event_at_ms = 0');
      await evictSite(plant.id);
      await sendTelemetry(link, plant.gateway, { gridPowerKw });
    }
    expect(await gridPowersOf(listener, 3)).toEqual([1, 2, 3]);
    const ids = listener.events('telemetry').map((event) => event.messageId);
    expect(new Set(ids).size).toBe(3);
  });
});

describe('the keys that get telemetry', () => {
  it("telemetry goes to the keys of the plant's organization that may connect and see the plant [C-8.1]", async () => {
    const { organization, plant } = await setScene({ plant: true });
    const other = await createPlant(organization);
    const key = (allowedPlantIds: string[] | null) => createKey(organization, { allowedPlantIds });
    const keys: Key[] = [await key(null), await key([plant.id]), await key([other.id])];
    const stranger = await createOrganization();
    const listeners = [
      ...(await Promise.all(keys.map((one) => listen(organization, one)))),
      await listen(stranger, await createKey(stranger)),
    ];
    const link = await connectListening(plant);
    await sendTelemetry(link, plant.gateway, { gridPowerKw: 1 });
    const [all, allowed, barred, foreign] = listeners as [Listener, Listener, Listener, Listener];
    expect(await gridPowersOf(all, 1)).toEqual([1]);
    expect(await gridPowersOf(allowed, 1)).toEqual([1]);

    // Only the plant that the key may see sends to these two listeners.
    const otherLink = await connectListening(other);
    await sendTelemetry(otherLink, other.gateway, { gridPowerKw: 2 });
    expect(await gridPowersOf(barred, 1)).toEqual([2]);
    expect(foreign.events('telemetry')).toEqual([]);
  });

  it('a new key gets telemetry within a minute after the site was notified [C-8.1]', async () => {
    const all = await setScene(RUNNING);
    await sendTelemetry(all.link, all.plant.gateway, { gridPowerKw: 7 });
    const late = await listen(all.organization, await createKey(all.organization));
    await changeAndNotifySite(all.organization, all.plant.id);
    await passQuietly(all, [all.listener, late], 60 * SECOND);
    expect(await gridPowersOf(late, 1)).toEqual([7]);
  });

  it('a new key without a notification gets telemetry after at most 16 minutes [C-8.1]', async () => {
    const all = await setScene(RUNNING);
    await sendTelemetry(all.link, all.plant.gateway, { gridPowerKw: 7 });
    const late = await listen(all.organization, await createKey(all.organization));
    for (let minute = 0; minute < 16; minute++) await passQuietly(all, [all.listener, late], 60 * SECOND);
    expect(await gridPowersOf(late, 1)).toContain(7);
  });
});
