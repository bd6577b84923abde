/** Failed logins suspend a device, durably counted, and only an admin lets it in again [C-3.11]. */
import { beforeAll, describe, expect, it } from 'vitest';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import { LINK_PATHS } from '../../../protocol/link/proof.ts';
import { deviceToken } from '../../support/workerd/device-tokens.ts';
import {
  connect,
  createTeamAtStart,
  diagnosticsOf,
  newDeviceIn,
  newTokenDevice,
  operate,
  readDevice,
  type TokenDevice,
} from '../../support/workerd/devices.ts';
import { auditRows, dialMqtt } from '../../support/workerd/door.ts';
import { organizationOf, postPlant } from '../../support/workerd/fleet.ts';
import type { Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';
import { holdClock, MINUTE, passUntilTold, START_MS, setClock } from '../../support/workerd/site-clock.ts';
import { sendTelemetry } from '../../support/workerd/site-devices.ts';
import { listen } from '../../support/workerd/site-listener.ts';
import { evictSite, numberOf } from '../../support/workerd/site-rows.ts';
import { createKey } from '../../support/workerd/world.ts';

/** Of ten only one more is missing. */
const ALMOST = 9;

let team: Team;
let attested: Team;

beforeAll(async () => {
  [team, attested] = [await createTeamAtStart(), await createTeamAtStart()];
});

holdClock();

/** Wrong logins, so many, each a millisecond behind the one before. */
async function fail(
  { id }: Pick<TokenDevice, 'id'>,
  times: number,
  { token = 'x', addresses = ['192.0.2.7'], path = LINK_PATHS.mqtt as string } = {},
): Promise<void> {
  for (let time = 0; time < times; time++) {
    setClock(Date.now() + 1);
    const address = addresses[time % addresses.length] ?? '';
    await expectError(await dialMqtt(id, token, { path, proof: { address } }), 401, 'UNAUTHORIZED');
  }
}

/** What the object that serves it says. */
async function statusOf({ id, siteId }: Pick<TokenDevice, 'id' | 'siteId'>): Promise<string> {
  const isSuspended = `SELECT count(*) FROM device WHERE id = '${id}' AND status = 'SUSPENDED'`;
  return (await numberOf(siteId, isSuspended)) === 1 ? 'SUSPENDED' : 'ACTIVE';
}

async function newPlantDevice(owner = team): Promise<TokenDevice> {
  const { id: plantId } = await postPlant(owner.operator);
  return await newTokenDevice(owner, { plantId });
}

async function useAttested(): Promise<void> {
  const body = { settings: { authFailurePolicy: 'attested' } };
  await attested.orgAdmin.read(`/organizations/${attested.id}`, { method: 'PATCH', body });
}

describe('ten failed logins within five minutes', () => {
  it('suspend the device, and say why and from where; nine do not (spec: Device lifecycle)', async () => {
    const device = await newPlantDevice();
    await fail(device, ALMOST, { addresses: ['192.0.2.7', '2001:db8::1'] });
    expect(await statusOf(device)).toBe('ACTIVE');
    expect((await dialMqtt(device.id, device.token)).status).toBe(101);
    await fail(device, 1, { addresses: ['198.51.100.9'] });
    const suspendedAt = new Date(Date.now()).toISOString();
    expect(await statusOf(device)).toBe('SUSPENDED');
    await expectError(await dialMqtt(device.id, device.token), 401, 'UNAUTHORIZED');
    await passUntilTold(device.siteId);
    const record = await readDevice(team, device.id);
    expect(record).toMatchObject({ status: 'SUSPENDED', suspendedAt });
    expect(record.suspendReason).toContain('10 failed logins within 5 minutes');
    for (const address of ['192.0.2.7', '2001:db8::1', '198.51.100.9']) {
      expect(record.suspendReason?.split(address)).toHaveLength(2);
    }
  });

  it('leave an audit row of the SYSTEM [C-8.4]', async () => {
    const device = await newTokenDevice(team);
    await fail(device, ALMOST + 1);
    await passUntilTold(device.siteId);
    const { suspendReason } = await readDevice(team, device.id);
    const rows = (await auditRows(team.id)).filter(({ target }) => target === device.id);
    expect(rows.filter(({ event }) => event === 'device.suspended')).toEqual([
      expect.objectContaining({
        actor_type: 'SYSTEM',
        target_type: 'DEVICE',
        address: '192.0.2.7',
        outcome: 'SUCCESS',
        details: JSON.stringify({ reason: suspendReason }),
      }),
    ]);
  });

  it('raise DEVICE_SUSPENDED to partners, and its reactivation clears it [C-8.3]', async () => {
    const key = await createKey(organizationOf(team));
    const device = await newPlantDevice();
    const listener = await listen(organizationOf(team), key);
    await fail(device, ALMOST + 1);
    await passUntilTold(device.siteId);
    const raised = await listener.event('alarm', 'RAISED');
    expect(raised).toMatchObject({
      siteId: device.siteId,
      payload: { type: 'DEVICE_SUSPENDED', deviceId: device.id },
    });
    await operate(team.admin, device.id, 'reactivate');
    await passUntilTold(device.siteId);
    const cleared = await listener.event('alarm', 'CLEARED');
    expect(cleared.payload).toMatchObject({ alarmId: raised.payload.alarmId, type: 'DEVICE_SUSPENDED' });
  });

  it('cut the session that is open (spec: Device lifecycle)', async () => {
    const device = await newPlantDevice();
    const link = await connect(device);
    await fail(device, ALMOST);
    expect(await sendTelemetry(link, device, { gridPowerKw: 1 })).toBe(true);
    await fail(device, 1);
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.revoked });
  });

  it('are told apart from ten in more: each counts for five minutes (spec: Limits)', async () => {
    const device = await newTokenDevice(team);
    await fail(device, 1);
    setClock(START_MS + 4 * MINUTE);
    await fail(device, 8);
    setClock(START_MS + 5 * MINUTE);
    await fail(device, 1);
    expect(await statusOf(device)).toBe('ACTIVE');
    await fail(device, 1);
    expect(await statusOf(device)).toBe('SUSPENDED');
  });

  it('count across evictions, and at once [C-3.11]', async () => {
    const device = await newTokenDevice(team);
    await fail(device, 5);
    await evictSite(device.siteId);
    await Promise.all([1, 2, 3, 4].map(() => dialMqtt(device.id, 'x')));
    expect(await statusOf(device)).toBe('ACTIVE');
    await evictSite(device.siteId);
    await Promise.all([1, 2, 3, 4].map(() => dialMqtt(device.id, 'x')));
    await passUntilTold(device.siteId);
    expect((await readDevice(team, device.id)).suspendReason).toContain('10 failed logins');
    const rows = (await auditRows(team.id)).filter(({ target }) => target === device.id);
    expect(rows.filter(({ event }) => event === 'device.suspended')).toHaveLength(1);
  });

  it('are each device’s own [C-3.11]', async () => {
    const { id: plantId } = await postPlant(team.operator);
    const one = await newTokenDevice(team, { plantId });
    const other = await newTokenDevice(team, { plantId });
    await fail(one, ALMOST);
    await fail(other, ALMOST);
    expect([await statusOf(one), await statusOf(other)]).toEqual(['ACTIVE', 'ACTIVE']);
    await fail(one, 1);
    expect([await statusOf(one), await statusOf(other)]).toEqual(['SUSPENDED', 'ACTIVE']);
  });

  it('by a certificate that is not its own suspend a device, too [C-3.11]', async () => {
    const id = await newDeviceIn(team, 'ACTIVE', { authMethod: 'MTLS' });
    for (let time = 0; time <= ALMOST; time++) {
      setClock(Date.now() + 1);
      expect(await statusOf({ id, siteId: id })).toBe('ACTIVE');
      await dialMqtt(id, '', { proof: { fingerprint: 'ab'.repeat(32) } });
    }
    expect(await statusOf({ id, siteId: id })).toBe('SUSPENDED');
  });
});

describe('what does not count', () => {
  it('is what a bridge throttles: it is refused, and no more [C-3.11]', async () => {
    const device = await newTokenDevice(team);
    await fail(device, 12, { path: LINK_PATHS.mqttUncounted });
    expect(await statusOf(device)).toBe('ACTIVE');
    await fail(device, ALMOST);
    expect(await statusOf(device)).toBe('ACTIVE');
    const response = await dialMqtt(device.id, device.token, { path: LINK_PATHS.mqttUncounted });
    expect(response.status).toBe(101);
  });

  it('is anything while it is SUSPENDED, and what was before [C-3.11]', async () => {
    const device = await newTokenDevice(team);
    await fail(device, ALMOST);
    await operate(team.admin, device.id, 'suspend', { reason: 'lost' });
    await fail(device, 12);
    expect(await readDevice(team, device.id)).toMatchObject({ status: 'SUSPENDED', suspendReason: 'lost' });
    await operate(team.admin, device.id, 'reactivate');
    await fail(device, ALMOST);
    expect(await statusOf(device)).toBe('ACTIVE');
    await fail(device, 1);
    expect(await statusOf(device)).toBe('SUSPENDED');
  });

  it.each(['PENDING', 'DECOMMISSIONED'] as const)('is a login of a %s device [C-3.11]', async (status) => {
    const id = await newDeviceIn(team, status);
    const before = await readDevice(team, id);
    await fail({ id }, 12);
    expect(await readDevice(team, id)).toEqual(before);
  });

  it('is a text that we never signed, where only attested ones count [C-3.11]', async () => {
    await useAttested();
    const device = await newTokenDevice(attested);
    const [header, claims] = device.token.split('.');
    for (const token of ['x', '', `${header}.${claims}.AAAA`]) await fail(device, 12, { token });
    expect(await statusOf(device)).toBe('ACTIVE');
    expect((await diagnosticsOf(attested, device.id)).connects.length).toBeGreaterThan(0);
  });

  it('is not a token that we signed once: one that expired, or another device’s [C-3.11]', async () => {
    await useAttested();
    const sibling = await newTokenDevice(attested);
    const nowSeconds = START_MS / 1_000;
    const late = (id: string) => deviceToken(id, { iat: nowSeconds - 7_200, exp: nowSeconds - 3_600 });
    for (const tokenOf of [late, () => Promise.resolve(sibling.token)]) {
      const device = await newTokenDevice(attested);
      const token = await tokenOf(device.id);
      await fail(device, ALMOST, { token });
      expect(await statusOf(device)).toBe('ACTIVE');
      await fail(device, 1, { token });
      expect(await statusOf(device)).toBe('SUSPENDED');
    }
    expect(await statusOf(sibling)).toBe('ACTIVE');
  });
});

describe('a device that was suspended so', () => {
  it('is let in with the same token once an admin reactivates it (spec: Device lifecycle)', async () => {
    const device = await newPlantDevice();
    await fail(device, ALMOST + 1);
    await passUntilTold(device.siteId);
    await operate(team.admin, device.id, 'reactivate');
    expect(await readDevice(team, device.id)).toMatchObject({ status: 'ACTIVE', suspendReason: null });
    const link = await connect(device);
    expect(await sendTelemetry(link, device, { gridPowerKw: 1 })).toBe(true);
  });

  it('shows who tried, newest first [C-3.8]', async () => {
    const device = await newTokenDevice(team);
    await connect(device, { proof: { address: '203.0.113.1' } });
    await fail(device, 2, { addresses: ['203.0.113.2'] });
    await fail(device, 1, { token: await deviceToken(crypto.randomUUID()), addresses: ['203.0.113.3'] });
    const at = (passedMs: number) => new Date(START_MS + passedMs).toISOString();
    const refused = { outcome: 'REFUSED', reason: expect.stringMatching(/\S/) };
    const { connects } = await diagnosticsOf(team, device.id);
    expect(connects).toEqual([
      { at: at(3), address: '203.0.113.3', ...refused },
      { at: at(2), address: '203.0.113.2', ...refused },
      { at: at(1), address: '203.0.113.2', ...refused },
      { at: at(0), address: '203.0.113.1', outcome: 'ACCEPTED' },
    ]);
    expect(connects[0]?.reason).not.toBe(connects[1]?.reason);
    expect(JSON.stringify(connects)).not.toContain(device.token);
  });
});
