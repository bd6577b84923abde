/** Alarms of states: one open per type and target, raised once and cleared once, to every key that may see the plant [C-8.3]. */
import { describe, expect, it } from 'vitest';
import { changeAndTellSite, removeSubDevice } from '#workerd/registry-changes.ts';
import {
  HOUR,
  holdClock,
  MINUTE,
  passTime,
  passUntilTold,
  SECOND,
  START_MS,
  setClock,
} from '#workerd/site-clock.ts';
import { connectListening, sendTelemetry, stayConnected } from '#workerd/site-devices.ts';
import { type Listener, listen } from '#workerd/site-listener.ts';
import { crashSite, evictSite } from '#workerd/site-rows.ts';
import { newHeardSite } from '#workerd/site-scenes.ts';
import { charge, submission } from '#workerd/site-submissions.ts';
import { createKey, createOrganization } from '#workerd/world.ts';
import { formatInstant } from '../../../../protocol/ids.ts';

holdClock();

/** What a listener was told, each as type, status and device. */
function told(listener: Listener): unknown[][] {
  return listener.events('alarm').map(({ payload }) => [payload.type, payload.status, payload.deviceId]);
}

describe('a plant that goes silent', () => {
  it('is SITE_OFFLINE after 90 s, once, through evictions, until it comes back [C-2.5]', async () => {
    const { organization, key, plant } = await newHeardSite();
    const link = await connectListening(plant);
    await sendTelemetry(link, plant.gateway, { gridPowerKw: 1 });
    await crashSite(plant.id);
    await passTime(plant.id, 89 * SECOND);
    const listener = await listen(organization, key);
    await listener.quiet();
    expect(told(listener)).toEqual([]);
    await passTime(plant.id, 3 * SECOND);
    const raised = await listener.event('alarm', 'RAISED');
    expect(raised.payload).toMatchObject({ type: 'SITE_OFFLINE', severity: 'CRITICAL', status: 'RAISED' });
    expect(raised.correlationId).toBeUndefined();
    await evictSite(plant.id);
    await passTime(plant.id, 5 * MINUTE);
    const again = await listen(organization, key);
    const back = await connectListening(plant);
    await sendTelemetry(back, plant.gateway, { gridPowerKw: 1 });
    await passUntilTold(plant.id);
    const cleared = await again.event('alarm', 'CLEARED');
    expect(cleared.payload).toMatchObject({
      alarmId: raised.payload.alarmId,
      type: 'SITE_OFFLINE',
      raisedAt: raised.payload.raisedAt,
      clearedAt: expect.any(String),
    });
    expect(cleared.messageId).not.toBe(raised.messageId);
    expect([...told(listener), ...told(again)]).toEqual([
      ['SITE_OFFLINE', 'RAISED', undefined],
      ['SITE_OFFLINE', 'CLEARED', undefined],
    ]);
  });

  it('that was never there is not told of: PENDING is no alarm [C-2.5]', async () => {
    const { plant, partner, listener } = await newHeardSite();
    await partner.submit(charge());
    await passTime(plant.id, HOUR);
    expect(told(listener).filter(([type]) => type !== 'COMMAND_EXPIRED')).toEqual([]);
  });
});

describe('a sub-device', () => {
  it('that sends nothing for 15 minutes is DEVICE_OFFLINE, named, until it sends again [C-2.5]', async () => {
    const { organization, key, plant } = await newHeardSite();
    const link = await connectListening(plant);
    await sendTelemetry(link, plant.gateway, { 'BESS-1/powerKw': 1 });
    await stayConnected(plant, link, 15 * MINUTE);
    await passTime(plant.id, 2 * SECOND);
    const later = await listen(organization, key);
    await later.event('alarm', 'RAISED');
    await sendTelemetry(link, plant.gateway, { 'BESS-1/powerKw': 2 });
    await passTime(plant.id, 2 * SECOND);
    await later.event('alarm', 'CLEARED');
    expect(told(later)).toEqual([
      ['DEVICE_OFFLINE', 'RAISED', 'BESS-1'],
      ['DEVICE_OFFLINE', 'CLEARED', 'BESS-1'],
    ]);
  });

  it('in fault is DEVICE_FAULT while its signal says so, one for each [C-7.4]', async () => {
    const { plant, listener } = await newHeardSite();
    const link = await connectListening(plant);
    for (const fault of [1, 2, 0]) {
      await sendTelemetry(link, plant.gateway, { 'BESS-1/fault': fault });
      await passTime(plant.id, 2 * SECOND);
    }
    await listener.event('alarm', 'CLEARED');
    expect(told(listener)).toEqual([
      ['DEVICE_FAULT', 'RAISED', 'BESS-1'],
      ['DEVICE_FAULT', 'CLEARED', 'BESS-1'],
    ]);
    const [raised] = listener.events('alarm');
    expect(Date.parse(String(raised?.payload.raisedAt)) - START_MS).toBeLessThanOrEqual(2 * SECOND);
  });
});

describe('two plants in one fault at one moment', () => {
  it('are two alarms: neither id is the other one [C-8.3]', async () => {
    const ids = new Set<unknown>();
    for (let count = 0; count < 2; count++) {
      const { plant, listener } = await newHeardSite();
      const link = await connectListening(plant);
      await passTime(plant.id, 2 * SECOND);
      await sendTelemetry(link, plant.gateway, { 'BESS-1/fault': 1 });
      const { messageId, payload } = await listener.event('alarm', 'RAISED');
      expect(payload.raisedAt).toBe(formatInstant(START_MS + 2 * SECOND));
      ids.add(messageId).add(payload.alarmId);
      setClock(START_MS);
    }
    expect(ids.size).toBe(4);
  });
});

describe('a sub-device that is taken from the registry', () => {
  it('while it is in fault has its alarm cleared, though its plant is away [C-8.3]', async () => {
    const { organization, key, plant, listener } = await newHeardSite();
    const link = await connectListening(plant);
    await passTime(plant.id, 2 * SECOND);
    await sendTelemetry(link, plant.gateway, { 'BESS-1/fault': 1 });
    await listener.event('alarm', 'RAISED');
    await crashSite(plant.id);
    await passTime(plant.id, 5 * MINUTE);
    await changeAndTellSite(organization, plant.id, removeSubDevice(plant, 'BESS-1'));
    await passTime(plant.id, 2 * SECOND);
    await passUntilTold(plant.id);
    const later = await listen(organization, key);
    await later.event('alarm', 'CLEARED');
    expect(told(later).filter(([, status]) => status === 'CLEARED')).toEqual([
      ['DEVICE_FAULT', 'CLEARED', 'BESS-1'],
    ]);
  });
});

describe('who is told', () => {
  it('is every key that may connect and see the plant, and no other [C-8.1]', async () => {
    const { organization, plant, listener } = await newHeardSite();
    const other = await createKey(organization);
    const blind = await createKey(organization, { allowedPlantIds: [crypto.randomUUID()] });
    const foreign = await createOrganization();
    const foreignKey = await createKey(foreign);
    const listeners = [
      await listen(organization, other),
      await listen(organization, blind),
      await listen(foreign, foreignKey),
    ];
    const link = await connectListening(plant);
    await passTime(plant.id, 2 * SECOND);
    await sendTelemetry(link, plant.gateway, { 'BESS-1/fault': 1 });
    await listener.event('alarm', 'RAISED');
    await passUntilTold(plant.id);
    for (const one of listeners) await one.quiet();
    expect(listeners.map((one) => told(one).length)).toEqual([1, 0, 0]);
  });
});

describe('a key that breaks a limit again and again', () => {
  it('is told each time; another key at most once per limit and ten seconds [C-8.3]', async () => {
    const { organization, plant, partner, listener } = await newHeardSite();
    const other = await listen(organization, await createKey(organization));
    const over = () =>
      submission('site-setpoint', {
        type: 'POWER',
        targetValueKw: 100_000,
        direction: 'IMPORT',
        includeConsumption: true,
        priority: 'NORMAL',
        validFrom: formatInstant(Date.now()),
      });
    await partner.submit(...Array.from({ length: 20 }, over));
    await partner.submit(...Array.from({ length: 5 }, () => charge(100_000)));
    await passTime(plant.id, 9 * SECOND);
    await partner.submit(over());
    await passUntilTold(plant.id);
    await passTime(plant.id, 2 * SECOND);
    await partner.submit(over());
    await passUntilTold(plant.id);
    await listener.quiet();
    await other.quiet();
    const constraints = other.events('alarm').map(({ payload }) => payload.constraint);
    expect(constraints).toEqual(['maxImportKw', 'maxChargeKw', 'maxImportKw']);
    expect(partner.alarms()).toHaveLength(27);
  });
});
