/** What the record of a device tells of its connection, and what its type means for its plant [C-3.1], [C-3.10]. */
import { beforeAll, describe, expect, it } from 'vitest';
import { DEVICE_REPORTED_STATUSES } from '../../../protocol/enums.ts';
import {
  connect,
  createTeamAtStart,
  newTokenDevice,
  operate,
  readDevice,
  type TokenDevice,
} from '../../support/workerd/devices.ts';
import { postPlant } from '../../support/workerd/fleet.ts';
import type { Team } from '../../support/workerd/people.ts';
import {
  holdClock,
  MINUTE,
  passTime,
  passUntilTold,
  SECOND,
  START_MS,
} from '../../support/workerd/site-clock.ts';
import { sendStatus, sendTelemetry } from '../../support/workerd/site-devices.ts';
import { gridPowerKw } from '../../support/workerd/site-reads.ts';

let team: Team;

beforeAll(async () => {
  team = await createTeamAtStart();
});

holdClock();

async function newPlantDevice(fields: object = {}): Promise<TokenDevice> {
  const { id: plantId } = await postPlant(team.operator);
  return await newTokenDevice(team, { plantId, ...fields });
}

/** The record, once its object has told all that it has to tell. */
async function told({ id, siteId }: TokenDevice): Promise<unknown[]> {
  await passUntilTold(siteId);
  const { connectionStatus, lastSeenAt } = await readDevice(team, id);
  return [connectionStatus, lastSeenAt !== null];
}

describe('the connection of a device', () => {
  it('is UNKNOWN until it was there once, then ONLINE while it is [C-3.1]', async () => {
    const device = await newPlantDevice();
    expect(await told(device)).toEqual(['UNKNOWN', false]);
    await connect(device);
    expect(await told(device)).toEqual(['ONLINE', true]);
    const { lastSeenAt } = await readDevice(team, device.id);
    expect(Date.parse(lastSeenAt ?? '')).toBeGreaterThanOrEqual(START_MS);
  });

  it('is known of a device without a plant, too [C-2.4]', async () => {
    const device = await newTokenDevice(team);
    await connect(device);
    expect(await told(device)).toEqual(['ONLINE', true]);
    await operate(team.admin, device.id, 'suspend');
    expect(await told(device)).toEqual(['OFFLINE', true]);
  });

  it('is what the device says of itself, and a connect clears a reported OFFLINE [C-3.10]', async () => {
    const device = await newPlantDevice();
    const link = await connect(device);
    for (const status of DEVICE_REPORTED_STATUSES) {
      await sendStatus(link, device, status);
      expect([status, await told(device)]).toEqual([status, [status, true]]);
    }
    await sendStatus(link, device, 'OFFLINE');
    expect(await told(device)).toEqual(['OFFLINE', true]);
    await connect(device);
    expect(await told(device)).toEqual(['ONLINE', true]);
  });

  it('is OFFLINE 90 s after the last sign of life [C-3.10]', async () => {
    const device = await newPlantDevice();
    const link = await connect(device);
    await sendTelemetry(link, device, { gridPowerKw: 1 });
    expect(await told(device)).toEqual(['ONLINE', true]);
    await passTime(device.siteId, 2 * MINUTE);
    expect(await told(device)).toEqual(['OFFLINE', true]);
    expect(Date.now() - START_MS).toBeLessThan(3 * MINUTE + 30 * SECOND);
  });

  it('goes with it to another plant: it is OFFLINE there until it dials [C-3.1]', async () => {
    const device = await newPlantDevice();
    await connect(device);
    expect(await told(device)).toEqual(['ONLINE', true]);
    const { id: plantId } = await postPlant(team.operator);
    await team.operator.read(`/devices/${device.id}`, { method: 'PATCH', body: { plantId } });
    const moved = { ...device, siteId: plantId };
    await passUntilTold(device.siteId);
    expect(await told(moved)).toEqual(['OFFLINE', true]);
    await connect(moved);
    expect(await told(moved)).toEqual(['ONLINE', true]);
  });
});

describe('the type of a device', () => {
  it.each([
    ['SENSOR', null],
    ['ACTUATOR', null],
    ['GATEWAY', 5],
    ['CONTROLLER', 5],
  ] as const)('%s: its bare signals are the site’s own, or not [C-3.13]', async (type, kw) => {
    const device = await newPlantDevice({ type });
    await sendTelemetry(await connect(device), device, { gridPowerKw: 5 });
    expect(await gridPowerKw({ id: device.siteId, gateway: device })).toBe(kw);
  });

  it('counts as it was changed, from then on, in the session that is open [C-3.1]', async () => {
    const device = await newPlantDevice({ type: 'SENSOR' });
    const link = await connect(device);
    const change = (type: string) =>
      team.operator.read(`/devices/${device.id}`, { method: 'PATCH', body: { type } });
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
