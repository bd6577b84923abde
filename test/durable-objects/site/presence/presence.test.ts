/**
 * Presence of plant, sub-devices and devices, from sessions and samples, as the registry receives it [C-2.5].
 */
import { setScene } from '#workerd/scene.ts';
import { alarmAt, DAY, HOUR, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import {
  connectListening,
  connectTo,
  sendStatus,
  sendTelemetry,
  stayConnected,
} from '#workerd/site-devices.ts';
import { crashSite, factOf, numberOf, openSessions, untilRegistered } from '#workerd/site-rows.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createDevice, createLinked, type Plant } from '#workerd/world.ts';

async function presenceOf(plant: Plant): Promise<{ plant: string; subDevices: Record<string, string> }> {
  return (await factOf(plant.id, 'presence')) ?? { plant: 'PENDING', subDevices: {} };
}

async function untilPlantIs(plant: Plant, status: string): Promise<void> {
  expect((await presenceOf(plant)).plant).toBe(status);
  await untilRegistered('plants', plant.id, { status });
}

async function subDeviceId(plant: Plant, externalId: string): Promise<string> {
  type Copy = { subDevices: { id: string; externalId: string }[] };
  const copy = await factOf<Copy>(plant.id, 'registry');
  return copy?.subDevices.find((subDevice) => subDevice.externalId === externalId)?.id ?? '';
}

async function untilSubDeviceIs(plant: Plant, externalId: string, status: string): Promise<void> {
  expect((await presenceOf(plant)).subDevices[externalId]).toBe(status);
  await untilRegistered('sub_devices', await subDeviceId(plant, externalId), { status });
}

/** Disconnects and waits until the site has ended the session. */
async function disconnect(plant: Plant, link: Awaited<ReturnType<typeof connectTo>>): Promise<void> {
  link.socket.close(1000, 'bye');
  for (let looks = 0; looks < 50; looks++) {
    if ((await openSessions(plant.id)) === 0) return;
  }
  throw new Error('the session does not end');
}

describe('a plant', () => {
  it('is PENDING until a device has connected, then ONLINE [C-2.5]', async () => {
    const { plant } = await setScene({ plant: true });
    await untilPlantIs(plant, 'PENDING');
    await connectTo(plant.id, plant.gateway.id);
    await untilPlantIs(plant, 'ONLINE');
  });

  it('is OFFLINE after 90 s without a session, not before, and ONLINE with the next session [C-2.5]', async () => {
    const { plant, link } = await setScene({ gateway: 'connected' });
    setClock(START_MS + 10 * SECOND);
    await disconnect(plant, link);
    await passTime(plant.id, 90 * SECOND - 1);
    await untilPlantIs(plant, 'ONLINE');
    await passTime(plant.id, 1);
    await untilPlantIs(plant, 'OFFLINE');
    await connectTo(plant.id, plant.gateway.id);
    await untilPlantIs(plant, 'ONLINE');
  });

  it('stays ONLINE during a short break, and while any of its devices is connected [C-2.5]', async () => {
    const { organization, plant } = await setScene({ plant: true });
    const sensor = await createDevice(organization, plant.id, 'SENSOR');
    await disconnect(plant, await connectTo(plant.id, plant.gateway.id));
    await passTime(plant.id, 80 * SECOND);
    const link = await connectTo(plant.id, sensor.id);
    await passTime(plant.id, 60 * SECOND);
    await sendTelemetry(link, sensor, { powerKw: 1 });
    await passTime(plant.id, 60 * SECOND);
    await untilPlantIs(plant, 'ONLINE');
    const writes = await numberOf(plant.id, `SELECT count(*) FROM outbox WHERE kind = 'plant'`);
    expect(writes).toBe(0);
  });

  it('whose only device stops without closing its link is OFFLINE 90 s after the last frame of the device [C-3.10]', async () => {
    const { plant } = await setScene({ gateway: 'connected' });
    await passTime(plant.id, 91 * SECOND);
    expect((await presenceOf(plant)).plant).toBe('OFFLINE');
  });

  it('goes OFFLINE after a crash without a close event [rule 8]', async () => {
    const { plant } = await setScene({ gateway: 'connected' });
    await untilPlantIs(plant, 'ONLINE');
    await crashSite(plant.id);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM device WHERE connection_id IS NOT NULL')).toBe(0);
    await passTime(plant.id, 3 * MINUTE);
    await untilPlantIs(plant, 'OFFLINE');
  });

  it('is DEGRADED while its gateway is connected and a sub-device is stale [C-2.5]', async () => {
    const { plant, link } = await setScene({ gateway: 'listening' });
    await passTime(plant.id, 2 * SECOND);
    await sendTelemetry(link, plant.gateway, { 'BESS-1/powerKw': 1 });
    await untilPlantIs(plant, 'ONLINE');
    await stayConnected(plant, link, 5 * MINUTE);
    await untilPlantIs(plant, 'DEGRADED');
    await sendTelemetry(link, plant.gateway, { 'BESS-1/powerKw': 1 });
    await stayConnected(plant, link, 30 * SECOND);
    await untilPlantIs(plant, 'ONLINE');
  });
});

describe('a sub-device', () => {
  it('is ONLINE from its first sample on, also when the presence was checked in the same second [C-2.5]', async () => {
    const { plant, link } = await setScene({ gateway: 'listening' });
    await passTime(plant.id, 2 * SECOND);
    await sendTelemetry(link, plant.gateway, { 'METER-1/powerKw': 1 });
    expect((await presenceOf(plant)).subDevices).toMatchObject({ 'METER-1': 'ONLINE', 'BESS-1': 'UNKNOWN' });
    await sendTelemetry(link, plant.gateway, { 'BESS-1/powerKw': 1 });
    expect((await presenceOf(plant)).subDevices['BESS-1']).toBe('ONLINE');
  });

  it('is UNKNOWN, then ONLINE, DEGRADED after 5 min, OFFLINE after 15 min, and ONLINE with a sample [C-2.5]', async () => {
    const { plant, link } = await setScene({ gateway: 'listening' });
    expect((await presenceOf(plant)).subDevices['BESS-1']).toBe('UNKNOWN');
    await passTime(plant.id, 2 * SECOND);
    await sendTelemetry(link, plant.gateway, { 'BESS-1/powerKw': 1 });
    await untilSubDeviceIs(plant, 'BESS-1', 'ONLINE');
    await stayConnected(plant, link, 5 * MINUTE - 1);
    await untilSubDeviceIs(plant, 'BESS-1', 'ONLINE');
    await passTime(plant.id, 1);
    await untilSubDeviceIs(plant, 'BESS-1', 'DEGRADED');
    await stayConnected(plant, link, 10 * MINUTE - 1);
    await untilSubDeviceIs(plant, 'BESS-1', 'DEGRADED');
    await passTime(plant.id, 1);
    await untilSubDeviceIs(plant, 'BESS-1', 'OFFLINE');
    expect((await presenceOf(plant)).subDevices['METER-1']).toBe('UNKNOWN');
    await passTime(plant.id, 2 * SECOND);
    await sendTelemetry(link, plant.gateway, { 'BESS-1/powerKw': 1 });
    await untilSubDeviceIs(plant, 'BESS-1', 'ONLINE');
  });

  it('ages by its samples, whether or not its device is connected [C-2.5]', async () => {
    const { plant, link } = await setScene({ gateway: 'listening' });
    await passTime(plant.id, 2 * SECOND);
    await sendTelemetry(link, plant.gateway, { 'BESS-1/powerKw': 1 });
    await disconnect(plant, link);
    await passTime(plant.id, 15 * MINUTE);
    await untilSubDeviceIs(plant, 'BESS-1', 'OFFLINE');
    await untilPlantIs(plant, 'OFFLINE');
    await passTime(plant.id, 3 * HOUR);
    // Its telemetry is packed: only the expiry of stored data is due.
    expect((await alarmAt(plant.id)) ?? Number.POSITIVE_INFINITY).toBeGreaterThan(Date.now() + 6 * DAY);
  });

  it('is DEGRADED while its signal fault is not 0 [C-2.5]', async () => {
    const { plant, link } = await setScene({ gateway: 'listening' });
    await passTime(plant.id, 2 * SECOND);
    await sendTelemetry(link, plant.gateway, { 'BESS-1/fault': 7 });
    await untilSubDeviceIs(plant, 'BESS-1', 'DEGRADED');
  });

  it('is DEGRADED while its linked device reports ERROR [C-2.5]', async () => {
    const { organization, plant } = await setScene({ plant: true });
    const device = await createLinked(organization, plant.id);
    const link = await connectListening(plant, device);
    await passTime(plant.id, 2 * SECOND);
    await sendTelemetry(link, device, { powerKw: 1 });
    await untilSubDeviceIs(plant, 'BESS-2', 'ONLINE');
    await sendStatus(link, device, 'ERROR');
    expect((await presenceOf(plant)).subDevices['BESS-2']).toBe('DEGRADED');
  });

  it('is ONLINE soon after its first sample, even one within a second of the connect [C-2.5]', async () => {
    const { plant, link } = await setScene({ gateway: 'listening' });
    setClock(START_MS + 900);
    await sendTelemetry(link, plant.gateway, { 'BESS-1/powerKw': 1 });
    await passTime(plant.id, 30 * SECOND);
    await untilSubDeviceIs(plant, 'BESS-1', 'ONLINE');
  });
});

describe('samples within a second of the last evaluation', () => {
  it('a sample within a second of the last evaluation takes effect with the next alarm [C-2.5]', async () => {
    const { plant, link } = await setScene({ gateway: 'listening' });
    await passTime(plant.id, 2 * SECOND);
    const powers = { 'BESS-1/powerKw': 1, 'FVE-1/powerKw': 1, 'METER-1/powerKw': 1 };
    await sendTelemetry(link, plant.gateway, powers);
    await untilSubDeviceIs(plant, 'BESS-1', 'ONLINE');
    await passTime(plant.id, SECOND / 2);
    await sendTelemetry(link, plant.gateway, { 'BESS-1/fault': 7 });
    await passTime(plant.id, 20 * SECOND);
    await untilSubDeviceIs(plant, 'BESS-1', 'DEGRADED');
  });

  it('two samples a second set no additional alarms: fewer than a dozen ring in a minute', async () => {
    const { plant, link } = await setScene({ gateway: 'listening' });
    let alarms = 0;
    for (let sent = 0; sent < 120; sent++) {
      alarms += await passTime(plant.id, SECOND / 2);
      await sendTelemetry(link, plant.gateway, { 'BESS-1/powerKw': sent });
    }
    expect(alarms).toBeLessThan(12);
  });
});

describe('a device', () => {
  it('is UNKNOWN until it has connected, then as it reports, and OFFLINE after its session [C-3.10]', async () => {
    const { organization, plant } = await setScene({ plant: true });
    const other = await createDevice(organization, plant.id, 'SENSOR');
    const link = await connectTo(plant.id, plant.gateway.id);
    const untilItIs = (connection_status: string) =>
      untilRegistered('devices', plant.gateway.id, { connection_status, last_seen_at_ms: Date.now() });
    await untilItIs('ONLINE');
    setClock(START_MS + SECOND);
    await sendStatus(link, plant.gateway, 'MAINTENANCE');
    await untilItIs('MAINTENANCE');
    setClock(START_MS + 2 * SECOND);
    await disconnect(plant, link);
    await untilItIs('OFFLINE');
    setClock(START_MS + 3 * SECOND);
    await connectTo(plant.id, plant.gateway.id);
    await untilItIs('MAINTENANCE');
    await untilRegistered('devices', other.id, { connection_status: 'UNKNOWN', last_seen_at_ms: null });
  });

  it('was last seen, if it went silent, at its last connect or frame, not at the end of its session [C-3.10]', async () => {
    const { plant } = await setScene({ gateway: 'connected' });
    await passTime(plant.id, 91 * SECOND);
    const seen = { connection_status: 'OFFLINE', last_seen_at_ms: START_MS };
    await untilRegistered('devices', plant.gateway.id, seen);
  });

  it('is OFFLINE immediately after an invalid link message, because the Site closes the link [C-3.10]', async () => {
    const { plant, link } = await setScene({ gateway: 'connected' });
    setClock(START_MS + 10 * SECOND);
    link.socket.send('{');
    await link.untilClosed();
    expect(await openSessions(plant.id)).toBe(0);
    const seen = { connection_status: 'OFFLINE', last_seen_at_ms: START_MS + 10 * SECOND };
    await untilRegistered('devices', plant.gateway.id, seen);
  });
});
