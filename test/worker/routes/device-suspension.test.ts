/** Failed logins suspend a device; the count is durable, and only an admin reactivates the device [C-3.11]. */
import { deviceToken } from '#workerd/device-tokens.ts';
import { connect, type TokenDevice } from '#workerd/devices.ts';
import { dialMqtt } from '#workerd/door.ts';
import { holdClock, MINUTE, passUntilSent, START_MS, setClock } from '#workerd/site-clock.ts';
import { sendTelemetry } from '#workerd/site-devices.ts';
import { listen } from '#workerd/site-listener.ts';
import { evictSite, statusOf } from '#workerd/site-rows.ts';
import { Team } from '#workerd/team.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import { LINK_PATHS } from '../../../protocol/link/proof.ts';

/** One failure less than suspends a device. */
const ALMOST = 9;

holdClock();

/** A team whose devices are suspended only for failures with tokens that the platform signed. */
const it = test.extend('attested', { scope: 'file' }, async () => {
  const attested = await Team.create();
  const settings = { authFailurePolicy: 'attested' };
  await attested.orgAdmin.change(`/organizations/${attested.id}`, { settings });
  return attested;
});

/** Fails that many logins, each a millisecond after the previous one. */
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

describe('ten failed logins within five minutes', () => {
  it('ten failures suspend a device, nine do not (spec: Device lifecycle)', async ({ team, device }) => {
    await fail(device, ALMOST, { addresses: ['192.0.2.7', '2001:db8::1'] });
    expect(await statusOf(device)).toBe('ACTIVE');
    expect((await dialMqtt(device.id, device.token)).status).toBe(101);
    await fail(device, 1, { addresses: ['198.51.100.9'] });
    const suspendedAt = new Date(Date.now()).toISOString();
    expect(await statusOf(device)).toBe('SUSPENDED');
    await expectError(await dialMqtt(device.id, device.token), 401, 'UNAUTHORIZED');
    await passUntilSent(device.siteId);
    const record = await team.readDevice(device.id);
    expect(record).toMatchObject({ status: 'SUSPENDED', suspendedAt });
    expect(record.suspendReason).toContain('10 failed logins within 5 minutes');
    for (const address of ['192.0.2.7', '2001:db8::1', '198.51.100.9']) {
      expect(record.suspendReason?.split(address)).toHaveLength(2);
    }
  });

  it('a suspension has an audit row of the SYSTEM [C-8.4]', async ({ team, device }) => {
    await fail(device, ALMOST + 1);
    await passUntilSent(device.siteId);
    const { suspendReason } = await team.readDevice(device.id);
    const rows = await team.auditRowsOf(device.id);
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

  it('a suspension raises the alarm DEVICE_SUSPENDED, a reactivation clears it [C-8.3]', async ({ team }) => {
    const key = await team.newKey();
    const { id } = await team.newPlant();
    const suspended = await team.newTokenDevice({ plantId: id });
    const listener = await listen(team.organization, key);
    await fail(suspended, ALMOST + 1);
    await passUntilSent(id);
    const raised = await listener.event('alarm', 'RAISED');
    const payload = { type: 'DEVICE_SUSPENDED', deviceId: suspended.id };
    expect(raised).toMatchObject({ siteId: id, payload });
    await team.admin.operate(suspended.id, 'reactivate');
    await passUntilSent(id);
    const cleared = await listener.event('alarm', 'CLEARED');
    expect(cleared.payload).toMatchObject({ alarmId: raised.payload.alarmId, type: 'DEVICE_SUSPENDED' });
  });

  it('the tenth failure closes the open session (spec: Device lifecycle)', async ({ device, link }) => {
    await fail(device, ALMOST);
    expect(await sendTelemetry(link, device, { gridPowerKw: 1 })).toBe(true);
    await fail(device, 1);
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.revoked });
  });

  it('a failure no longer counts five minutes later (spec: Limits)', async ({ device }) => {
    await fail(device, 1);
    setClock(START_MS + 4 * MINUTE);
    await fail(device, 8);
    setClock(START_MS + 5 * MINUTE);
    await fail(device, 1);
    expect(await statusOf(device)).toBe('ACTIVE');
    await fail(device, 1);
    expect(await statusOf(device)).toBe('SUSPENDED');
  });

  it('the count is exact after evictions and with concurrent failures [C-3.11]', async ({ team, device }) => {
    await fail(device, 5);
    await evictSite(device.siteId);
    await Promise.all([1, 2, 3, 4].map(() => dialMqtt(device.id, 'x')));
    expect(await statusOf(device)).toBe('ACTIVE');
    await evictSite(device.siteId);
    await Promise.all([1, 2, 3, 4].map(() => dialMqtt(device.id, 'x')));
    await passUntilSent(device.siteId);
    expect((await team.readDevice(device.id)).suspendReason).toContain('10 failed logins');
    const rows = await team.auditRowsOf(device.id);
    expect(rows.filter(({ event }) => event === 'device.suspended')).toHaveLength(1);
  });

  it('each device has its own count [C-3.11]', async ({ team, plantId, device }) => {
    const second = await team.newTokenDevice({ plantId });
    await fail(device, ALMOST);
    await fail(second, ALMOST);
    expect([await statusOf(device), await statusOf(second)]).toEqual(['ACTIVE', 'ACTIVE']);
    await fail(device, 1);
    expect([await statusOf(device), await statusOf(second)]).toEqual(['SUSPENDED', 'ACTIVE']);
  });

  it('failures with another certificate suspend a device, too [C-3.11]', async ({ team }) => {
    const id = await team.newDeviceIn('ACTIVE', { authMethod: 'MTLS' });
    for (let time = 0; time <= ALMOST; time++) {
      setClock(Date.now() + 1);
      expect(await statusOf({ id, siteId: id })).toBe('ACTIVE');
      await dialMqtt(id, '', { proof: { fingerprint: 'ab'.repeat(32) } });
    }
    expect(await statusOf({ id, siteId: id })).toBe('SUSPENDED');
  });
});

describe('which failures count', () => {
  it('failed logins from an address that the bridge throttles do not count [C-3.11]', async ({ device }) => {
    await fail(device, 12, { path: LINK_PATHS.mqttUncounted });
    expect(await statusOf(device)).toBe('ACTIVE');
    await fail(device, ALMOST);
    expect(await statusOf(device)).toBe('ACTIVE');
    const response = await dialMqtt(device.id, device.token, { path: LINK_PATHS.mqttUncounted });
    expect(response.status).toBe(101);
  });

  it('failures before and during a suspension do not count after it [C-3.11]', async ({ team, device }) => {
    await fail(device, ALMOST);
    await team.admin.operate(device.id, 'suspend', { reason: 'lost' });
    await fail(device, 12);
    expect(await team.readDevice(device.id)).toMatchObject({ status: 'SUSPENDED', suspendReason: 'lost' });
    await team.admin.operate(device.id, 'reactivate');
    await fail(device, ALMOST);
    expect(await statusOf(device)).toBe('ACTIVE');
    await fail(device, 1);
    expect(await statusOf(device)).toBe('SUSPENDED');
  });

  it.for(['PENDING', 'DECOMMISSIONED'] as const)(
    'failed logins of a %s device do not count [C-3.11]',
    async (status, { team }) => {
      const id = await team.newDeviceIn(status);
      const before = await team.readDevice(id);
      await fail({ id }, 12);
      expect(await team.readDevice(id)).toEqual(before);
    },
  );

  it('do not include, with authFailurePolicy "attested", a token that the platform did not sign [C-3.11]', async ({
    attested,
  }) => {
    const device = await attested.newTokenDevice();
    const [header, claims] = device.token.split('.');
    for (const token of ['x', '', `${header}.${claims}.AAAA`]) await fail(device, 12, { token });
    expect(await statusOf(device)).toBe('ACTIVE');
    expect((await attested.diagnosticsOf(device.id)).connects.length).toBeGreaterThan(0);
  });

  it('include, with authFailurePolicy "attested", the device’s expired token [C-3.11]', async ({
    attested,
  }) => {
    const nowSeconds = START_MS / 1_000;
    const device = await attested.newTokenDevice();
    const token = await deviceToken(device.id, { iat: nowSeconds - 7_200, exp: nowSeconds - 3_600 });
    await fail(device, ALMOST, { token });
    expect(await statusOf(device)).toBe('ACTIVE');
    await fail(device, 1, { token });
    expect(await statusOf(device)).toBe('SUSPENDED');
  });
});

describe('after failed logins', () => {
  it('a device that was suspended for them keeps its token when it is reactivated (spec: Device lifecycle)', async ({
    team,
    device,
  }) => {
    await fail(device, ALMOST + 1);
    await passUntilSent(device.siteId);
    await team.admin.operate(device.id, 'reactivate');
    expect(await team.readDevice(device.id)).toMatchObject({ status: 'ACTIVE', suspendReason: null });
    const link = await connect(device);
    expect(await sendTelemetry(link, device, { gridPowerKw: 1 })).toBe(true);
  });

  it('the diagnostics list accepted and refused logins, newest first [C-3.8]', async ({ team, device }) => {
    await connect(device, { proof: { address: '203.0.113.1' } });
    await fail(device, 2, { addresses: ['203.0.113.2'] });
    await fail(device, 1, { token: await deviceToken(crypto.randomUUID()), addresses: ['203.0.113.3'] });
    const at = (passedMs: number) => new Date(START_MS + passedMs).toISOString();
    const refused = { outcome: 'REFUSED', reason: expect.stringMatching(/\S/) };
    const { connects } = await team.diagnosticsOf(device.id);
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
