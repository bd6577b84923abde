/** The connection status of a device, and the effect of its type on its plant [C-3.1], [C-3.10]. */
import { connect, type TokenDevice } from '#workerd/devices.ts';
import { holdClock, MINUTE, passTime, passUntilSent, SECOND, START_MS } from '#workerd/site-clock.ts';
import { sendStatus, sendTelemetry } from '#workerd/site-devices.ts';
import { gridPowerKw } from '#workerd/site-reads.ts';
import type { Team } from '#workerd/team.ts';
import { describe, expect, it } from '#workerd/worker-test.ts';
import { DEVICE_REPORTED_STATUSES } from '../../../protocol/enums.ts';

holdClock();

/** Connection status, and whether the device was ever seen, when its object has reported everything. */
async function presenceOf(team: Team, { id, siteId }: TokenDevice): Promise<[string, boolean]> {
  await passUntilSent(siteId);
  const { connectionStatus, lastSeenAt } = await team.readDevice(id);
  return [connectionStatus, lastSeenAt !== null];
}

describe('the connection of a device', () => {
  it('a new device is UNKNOWN until it connects, then ONLINE [C-3.1]', async ({ team, device }) => {
    expect(await presenceOf(team, device)).toEqual(['UNKNOWN', false]);
    await connect(device);
    expect(await presenceOf(team, device)).toEqual(['ONLINE', true]);
    const { lastSeenAt } = await team.readDevice(device.id);
    expect(Date.parse(lastSeenAt ?? '')).toBeGreaterThanOrEqual(START_MS);
  });

  it('a device without a plant has a connection status, too [C-2.4]', async ({ team }) => {
    const device = await team.newTokenDevice();
    await connect(device);
    expect(await presenceOf(team, device)).toEqual(['ONLINE', true]);
    await team.admin.operate(device.id, 'suspend');
    expect(await presenceOf(team, device)).toEqual(['OFFLINE', true]);
  });

  it('a reported status is shown; OFFLINE only until the device reconnects [C-3.10]', async ({
    team,
    device,
    link,
  }) => {
    for (const status of DEVICE_REPORTED_STATUSES) {
      await sendStatus(link, device, status);
      expect([status, await presenceOf(team, device)]).toEqual([status, [status, true]]);
    }
    await sendStatus(link, device, 'OFFLINE');
    expect(await presenceOf(team, device)).toEqual(['OFFLINE', true]);
    await connect(device);
    expect(await presenceOf(team, device)).toEqual(['ONLINE', true]);
  });

  it('a device is OFFLINE after 90 s of silence [C-3.10]', async ({ team, device, link }) => {
    await sendTelemetry(link, device, { gridPowerKw: 1 });
    expect(await presenceOf(team, device)).toEqual(['ONLINE', true]);
    await passTime(device.siteId, 2 * MINUTE);
    expect(await presenceOf(team, device)).toEqual(['OFFLINE', true]);
    expect(Date.now() - START_MS).toBeLessThan(3 * MINUTE + 30 * SECOND);
  });

  it('a moved device is OFFLINE until it connects again [C-3.1]', async ({ team, device }) => {
    await connect(device);
    expect(await presenceOf(team, device)).toEqual(['ONLINE', true]);
    const { id: siteId } = await team.newPlant();
    await team.operator.change(`/devices/${device.id}`, { plantId: siteId });
    const moved = { ...device, siteId };
    await passUntilSent(device.siteId);
    expect(await presenceOf(team, moved)).toEqual(['OFFLINE', true]);
    await connect(moved);
    expect(await presenceOf(team, moved)).toEqual(['ONLINE', true]);
  });
});

describe('the type of a device', () => {
  it.for([
    ['SENSOR', null],
    ['ACTUATOR', null],
    ['GATEWAY', 5],
    ['CONTROLLER', 5],
  ] as const)(
    'a site whose %s sends gridPowerKw 5 shows the grid power %s (only a gateway or controller counts) [C-3.13]',
    async ([type, kw], { team, plantId }) => {
      const device = await team.newTokenDevice({ plantId, type });
      await sendTelemetry(await connect(device), device, { gridPowerKw: 5 });
      expect(await gridPowerKw({ id: device.siteId, gateway: device })).toBe(kw);
    },
  );

  it('a changed type applies to the open session [C-3.1]', async ({ team, plantId }) => {
    const device = await team.newTokenDevice({ plantId, type: 'SENSOR' });
    const link = await connect(device);
    const change = (type: string) => team.operator.change(`/devices/${device.id}`, { type });
    await sendTelemetry(link, device, { gridPowerKw: 1 });
    await change('GATEWAY');
    expect(await gridPowerKw({ id: device.siteId, gateway: device })).toBeNull();
    await sendTelemetry(link, device, { gridPowerKw: 2 });
    expect(await gridPowerKw({ id: device.siteId, gateway: device })).toBe(2);
    await change('SENSOR');
    await sendTelemetry(link, device, { gridPowerKw: 3 });
    expect(await gridPowerKw({ id: device.siteId, gateway: device })).toBe(2);
    expect(link.closed).toBeUndefined();
  });
});
