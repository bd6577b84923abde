/**
 * State alarms: one open per type and target, raised once and cleared once, to every key that may connect and
 * see the plant [C-8.3]. METER_STALE is one of them: a meter that sent its registers and stopped [C-4.6].
 */
import { vi } from 'vitest';
import { changeAndNotifySite, removeSubDevice } from '#workerd/registry-changes.ts';
import { RUNNING, setScene } from '#workerd/scene.ts';
import { HOUR, MINUTE, passTime, passUntilSent, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { connectListening, sendTelemetry, stayConnected } from '#workerd/site-devices.ts';
import { type Listener, listen } from '#workerd/site-listener.ts';
import { crashSite, evictSite } from '#workerd/site-rows.ts';
import { charge, powerSetpoint, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createKey, createOrganization } from '#workerd/world.ts';
import { formatInstant } from '../../../../protocol/ids.ts';

/** The alarms that a listener received, each as type, status and device, if it has one. */
function alarmsOf(listener: Listener): string[] {
  const alarms = listener.events('alarm').map(({ payload }) => payload);
  return alarms.map(({ type, status, deviceId }) => `${type} ${status}${deviceId ? ` ${deviceId}` : ''}`);
}

describe('a plant that goes silent', () => {
  it('SITE_OFFLINE is raised once after 90 s, across evictions, and cleared when the plant returns [C-2.5]', async () => {
    const { organization, key, plant, link } = await setScene(RUNNING);
    await sendTelemetry(link, plant.gateway, { gridPowerKw: 1 });
    await crashSite(plant.id);
    await passTime(plant.id, 89 * SECOND);
    const listener = await listen(organization, key);
    await listener.quiet();
    expect(alarmsOf(listener)).toEqual([]);
    await passTime(plant.id, 3 * SECOND);
    const raised = await listener.event('alarm', 'RAISED');
    expect(raised.payload).toMatchObject({ type: 'SITE_OFFLINE', severity: 'CRITICAL', status: 'RAISED' });
    expect(raised.correlationId).toBeUndefined();
    await evictSite(plant.id);
    await passTime(plant.id, 5 * MINUTE);
    const again = await listen(organization, key);
    const back = await connectListening(plant);
    await sendTelemetry(back, plant.gateway, { gridPowerKw: 1 });
    await passUntilSent(plant.id);
    const cleared = await again.event('alarm', 'CLEARED');
    expect(cleared.payload).toMatchObject({
      alarmId: raised.payload.alarmId,
      type: 'SITE_OFFLINE',
      raisedAt: raised.payload.raisedAt,
      clearedAt: expect.any(String),
    });
    expect(cleared.messageId).not.toBe(raised.messageId);
    expect([...alarmsOf(listener), ...alarmsOf(again)]).toEqual([
      'SITE_OFFLINE RAISED',
      'SITE_OFFLINE CLEARED',
    ]);
  });

  it('a PENDING plant that never connected raises no SITE_OFFLINE [C-2.5]', async () => {
    const { plant, partner, listener } = await setScene({ plant: true, partner: 'listening' });
    await partner.submit(charge());
    await passTime(plant.id, HOUR);
    expect(alarmsOf(listener).filter((alarm) => !alarm.startsWith('COMMAND_EXPIRED'))).toEqual([]);
  });
});

describe('a sub-device', () => {
  it('DEVICE_OFFLINE names a sub-device silent for 15 minutes, and is cleared when it sends again [C-2.5]', async () => {
    const { organization, key, plant, link } = await setScene(RUNNING);
    await sendTelemetry(link, plant.gateway, { 'BESS-1/powerKw': 1 });
    await stayConnected(plant, link, 15 * MINUTE);
    await passTime(plant.id, 2 * SECOND);
    const later = await listen(organization, key);
    await later.event('alarm', 'RAISED');
    await sendTelemetry(link, plant.gateway, { 'BESS-1/powerKw': 2 });
    await passTime(plant.id, 2 * SECOND);
    await later.event('alarm', 'CLEARED');
    expect(alarmsOf(later)).toEqual(['DEVICE_OFFLINE RAISED BESS-1', 'DEVICE_OFFLINE CLEARED BESS-1']);
  });

  it('DEVICE_FAULT is raised once while the fault signal is not 0, and then cleared [C-7.4]', async () => {
    const { plant, listener, link } = await setScene(RUNNING);
    for (const fault of [1, 2, 0]) {
      await sendTelemetry(link, plant.gateway, { 'BESS-1/fault': fault });
      await passTime(plant.id, 2 * SECOND);
    }
    await listener.event('alarm', 'CLEARED');
    expect(alarmsOf(listener)).toEqual(['DEVICE_FAULT RAISED BESS-1', 'DEVICE_FAULT CLEARED BESS-1']);
    const [raised] = listener.events('alarm');
    expect(Date.parse(String(raised?.payload.raisedAt)) - START_MS).toBeLessThanOrEqual(2 * SECOND);
  });

  it('DEVICE_FAULT comes within a second of a reading that is the last one for a long time [C-7.4]', async () => {
    const { plant, listener, link } = await setScene(RUNNING);
    await sendTelemetry(link, plant.gateway, { 'BESS-1/powerKw': 1 });
    await passTime(plant.id, 8 * SECOND);
    for (const [fault, status] of [
      [1, 'RAISED'],
      [0, 'CLEARED'],
    ] as const) {
      // A check that changes nothing, less than a second before the fault.
      await sendTelemetry(link, plant.gateway, { 'BESS-1/powerKw': 2 });
      await passTime(plant.id, SECOND / 2);
      await sendTelemetry(link, plant.gateway, { 'BESS-1/fault': fault });
      const sentAt = Date.now();
      await passTime(plant.id, SECOND);
      const { payload } = await listener.event('alarm', status);
      const atMs = Date.parse(String(payload[fault === 1 ? 'raisedAt' : 'clearedAt']));
      expect(atMs - sentAt).toBeLessThanOrEqual(SECOND);
      await passTime(plant.id, 8 * SECOND);
    }
  });
});

describe('two plants with the same fault at the same moment', () => {
  it('have different alarm ids and messageIds [C-8.3]', async () => {
    const ids = new Set<unknown>();
    for (let count = 0; count < 2; count++) {
      const { plant, listener, link } = await setScene(RUNNING);
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

describe('a sub-device that is removed from the registry', () => {
  it('the DEVICE_FAULT of a removed sub-device is cleared, even if its plant is offline [C-8.3]', async () => {
    const { organization, key, plant, listener, link } = await setScene(RUNNING);
    await passTime(plant.id, 2 * SECOND);
    await sendTelemetry(link, plant.gateway, { 'BESS-1/fault': 1 });
    await listener.event('alarm', 'RAISED');
    await crashSite(plant.id);
    await passTime(plant.id, 5 * MINUTE);
    await changeAndNotifySite(organization, plant.id, removeSubDevice(plant, 'BESS-1'));
    await passTime(plant.id, 2 * SECOND);
    await passUntilSent(plant.id);
    const later = await listen(organization, key);
    await later.event('alarm', 'CLEARED');
    const cleared = alarmsOf(later).filter((alarm) => alarm.includes('CLEARED'));
    expect(cleared).toEqual(['DEVICE_FAULT CLEARED BESS-1']);
  });
});

describe('the recipients of an alarm', () => {
  it('a state alarm goes to every key that may connect and see the plant, and to no other key [C-8.1]', async () => {
    const { organization, plant, listener } = await setScene({ plant: true, partner: 'listening' });
    const other = await createKey(organization);
    const blind = await createKey(organization, { allowedPlantIds: [crypto.randomUUID()] });
    const foreign = await createOrganization();
    const listeners = [await listen(organization, other), await listen(organization, blind)];
    listeners.push(await listen(foreign, await createKey(foreign)));
    const link = await connectListening(plant);
    await passTime(plant.id, 2 * SECOND);
    await sendTelemetry(link, plant.gateway, { 'BESS-1/fault': 1 });
    await listener.event('alarm', 'RAISED');
    await passUntilSent(plant.id);
    for (const one of listeners) await one.quiet();
    expect(listeners.map((one) => alarmsOf(one).length)).toEqual([1, 0, 0]);
  });
});

describe('a key that violates a limit repeatedly', () => {
  it('the violating key gets each alarm, and another key at most one per limit and ten seconds [C-8.3]', async () => {
    const { organization, plant, partner, listener } = await setScene({ plant: true, partner: 'listening' });
    const other = await listen(organization, await createKey(organization));
    const over = () => submission('site-setpoint', powerSetpoint(100_000, { priority: 'NORMAL' }));
    await partner.submit(...Array.from({ length: 20 }, over));
    await partner.submit(...Array.from({ length: 5 }, () => charge(100_000)));
    await passTime(plant.id, 9 * SECOND);
    await partner.submit(over());
    await passUntilSent(plant.id);
    await passTime(plant.id, 2 * SECOND);
    await partner.submit(over());
    await passUntilSent(plant.id);
    await listener.quiet();
    await other.quiet();
    const constraints = other.events('alarm').map(({ payload }) => payload.constraint);
    expect(constraints).toEqual(['maxImportKw', 'maxChargeKw', 'maxImportKw']);
    expect(partner.alarms()).toHaveLength(27);
  });
});

const REGISTER = { 'METER-1/importRegisterKwh': 12.5 };

async function newMeteredSite(data: Record<string, number>) {
  const scene = await setScene(RUNNING);
  await passTime(scene.plant.id, 2 * SECOND);
  await sendTelemetry(scene.link, scene.gateway, data);
  const listening = async () => {
    const listener = await listen(scene.organization, scene.key);
    const stale = () => listener.events('alarm').filter(({ payload }) => payload.type === 'METER_STALE');
    return { listener, stale };
  };
  return { ...scene, listening };
}

describe('a meter', () => {
  it('METER_STALE is raised when the registers are 15 min old, despite other readings, and cleared by the next register', async () => {
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
    await passUntilSent(plant.id);
    const all = () => [...stale(), ...again.stale()].map(({ payload }) => [payload.status, payload.alarmId]);
    await vi.waitFor(() => expect(all()).toHaveLength(2));
    expect(all()[1]).toEqual(['CLEARED', alarmId]);
  });

  it.each<[string, Record<string, number>]>([
    ['never sent a register', { 'METER-1/powerKw': 1 }],
    ['is not in this plant', { 'METER-9/importRegisterKwh': 1 }],
  ])('METER_STALE is never raised for a meter that %s', async (_what, data) => {
    const { plant, link, listening } = await newMeteredSite(data);
    await stayConnected(plant, link, 14 * MINUTE);
    const { listener, stale } = await listening();
    await stayConnected(plant, link, 2 * MINUTE);
    await listener.quiet();
    expect(stale()).toEqual([]);
  });
});
