/** Which failed logins count against a device, and what ends its tokens before they expire [C-14.5]. */
import { bodyOf } from '#workerd/client.ts';
import { deviceToken, renew, renewal } from '#workerd/device-tokens.ts';
import { connect, type TokenDevice } from '#workerd/devices.ts';
import { dialMqtt } from '#workerd/door.ts';
import type { DeviceTestLink } from '#workerd/links.ts';
import { HOUR, holdClock, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import {
  answerPings,
  commandsOf,
  type DeviceCredential,
  sendTelemetry,
  subscribe,
} from '#workerd/site-devices.ts';
import { evictSite, statusOf } from '#workerd/site-rows.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';
import type { TokenAnswer } from '../../../protocol/device-record.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';

holdClock();

/** Ten refused logins as one device. */
async function failTen(id: string, token: string, proof: object = {}): Promise<void> {
  for (let time = 0; time < 10; time++) {
    setClock(Date.now() + 1);
    await expectError(await dialMqtt(id, token, { proof }), 401, 'UNAUTHORIZED');
  }
}

async function isAccepted({ id, token }: Pick<TokenDevice, 'id' | 'token'>): Promise<boolean> {
  const response = await dialMqtt(id, token);
  if (response.status === 101) return true;
  await expectError(response, 401, 'UNAUTHORIZED');
  return false;
}

/** The lifetime in seconds of the token that a device gets with a secret. */
async function renewedFor(device: DeviceCredential): Promise<number> {
  const { expiresAt } = await bodyOf<TokenAnswer>(await renew(device.id, renewal(device)), 200);
  return (Date.parse(expiresAt) - Date.now()) / 1_000;
}

function refreshesOf(link: DeviceTestLink): number {
  return commandsOf(link).filter(({ action }) => action === 'TOKEN_REFRESH').length;
}

describe('failed logins', () => {
  it('bad tokens at the token listener suspend no device with a certificate [C-14.5]', async ({ team }) => {
    const { id } = await team.newMtlsDevice();
    for (const token of ['x', await deviceToken(id)]) await failTen(id, token);
    expect(await statusOf({ id, siteId: id })).toBe('ACTIVE');
    expect((await team.diagnosticsOf(id)).connects[0]).toMatchObject({ outcome: 'REFUSED' });
  });

  it('a certificate at the other listener suspends no device with a token [C-14.5]', async ({ device }) => {
    await failTen(device.id, '', { fingerprint: 'ab'.repeat(32) });
    expect(await statusOf(device)).toBe('ACTIVE');
  });

  it.for(['valid', 'expired'])(
    'a device that uses its %s token as another device is suspended, and the other one is not [C-14.5]',
    async (kind, { team, other }) => {
      const [victim, attacker] = [await team.newTokenDevice(), await other.newTokenDevice()];
      const past = { iat: START_MS / 1_000 - 7_200, exp: START_MS / 1_000 - 3_600 };
      const token = kind === 'valid' ? attacker.token : await deviceToken(attacker.id, past);
      await failTen(victim.id, token);
      expect(await statusOf(victim)).toBe('ACTIVE');
      expect(await statusOf(attacker)).toBe('SUSPENDED');
      expect((await other.diagnosticsOf(attacker.id)).connects[0]?.reason).toContain(victim.id);
      const { connects } = await team.diagnosticsOf(victim.id);
      expect(JSON.stringify(connects)).not.toContain(attacker.id);
    },
  );

  it('a token of a device that does not exist counts against no device [C-14.5]', async ({ device }) => {
    await failTen(device.id, await deviceToken(crypto.randomUUID()));
    expect(await statusOf(device)).toBe('ACTIVE');
  });
});

describe('tokens that end before they expire', () => {
  it('a suspension by an admin ends all tokens that were issued earlier, and using them does not count [C-14.5]', async ({
    team,
    device,
  }) => {
    setClock(START_MS + SECOND);
    await team.admin.operate(device.id, 'suspend');
    await team.admin.operate(device.id, 'reactivate');
    await evictSite(device.siteId);
    await failTen(device.id, device.token);
    expect(await statusOf(device)).toBe('ACTIVE');
    const { connects } = await team.diagnosticsOf(device.id);
    expect(connects[0]).toMatchObject({ outcome: 'REFUSED', reason: expect.stringContaining('token ended') });
    expect(await isAccepted({ id: device.id, token: await team.newToken(device.id) })).toBe(true);
  });

  it('a new token with endOthers closes the session of an older one and ends all older ones [C-14.5]', async ({
    team,
    device,
    link,
  }) => {
    setClock(START_MS + SECOND);
    const second = await team.newToken(device.id);
    expect(await sendTelemetry(link, device, { gridPowerKw: 1 })).toBe(true);
    setClock(START_MS + 2 * SECOND);
    const token = await team.newToken(device.id, { endOthers: true });
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.revoked });
    for (const old of [device.token, second])
      expect(await isAccepted({ id: device.id, token: old })).toBe(false);
    expect(await isAccepted({ id: device.id, token })).toBe(true);
    const [row] = (await team.auditRowsOf(device.id)).slice(-1);
    expect(JSON.parse(row?.details ?? '')).toMatchObject({ expiresIn: 3_600, endOthers: true });
  });

  it('endOthers gets 409 for a suspended device', async ({ team, device }) => {
    await team.admin.operate(device.id, 'suspend');
    const response = await team.admin.post(`/devices/${device.id}/mqtt-token`, { endOthers: true });
    await expectError(response, 409, 'CONFLICT');
  });

  it('tokens from before a rotation, and their session, end with the grace period of the old secret [C-14.5]', async ({
    team,
    device,
  }) => {
    const old = { ...device, token: await team.newToken(device.id, { expiresIn: 86_400 }) };
    const link = await connect(old);
    setClock(START_MS + SECOND);
    await team.rotateSecret(device.id);
    setClock(START_MS + 2 * SECOND);
    const later = { id: device.id, token: await team.newToken(device.id, { expiresIn: 86_400 }) };
    await passTime(device.siteId, HOUR - 2 * SECOND);
    expect(await isAccepted(old)).toBe(true);
    await passTime(device.siteId, SECOND);
    expect((await link.untilClosed()).code).toBeGreaterThan(0);
    expect(await isAccepted(old)).toBe(false);
    expect(await isAccepted(later)).toBe(true);
  });

  it('a session that is open at a rotation ends with the grace period [C-14.5]', async ({ team, device }) => {
    const token = await team.newToken(device.id, { expiresIn: 86_400 });
    await answerPings(device.siteId);
    const link = await connect({ id: device.id, token });
    setClock(START_MS + SECOND);
    await team.rotateSecret(device.id);
    await passTime(device.siteId, HOUR - SECOND);
    expect(link.closed).toBeUndefined();
    await passTime(device.siteId, SECOND);
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.expired });
  });

  it('after two rotations, tokens and sessions end with the grace period of the secret that the device still uses [C-3.3]', async ({
    team,
    device,
    link,
  }) => {
    setClock(START_MS + SECOND);
    await team.rotateSecret(device.id);
    expect(await sendTelemetry(link, device, { gridPowerKw: 1 })).toBe(true);
    setClock(START_MS + 2 * SECOND);
    const between = { id: device.id, token: await team.newToken(device.id) };
    setClock(START_MS + 3 * SECOND);
    await team.rotateSecret(device.id);
    expect(await sendTelemetry(link, device, { gridPowerKw: 1 })).toBe(true);
    expect([await isAccepted(device), await isAccepted(between)]).toEqual([true, true]);
    setClock(START_MS + SECOND + HOUR);
    expect([await isAccepted(device), await isAccepted(between)]).toEqual([false, false]);
  });

  it('a second rotation immediately ends the tokens and sessions of the first secret once the device uses the second [C-14.5]', async ({
    team,
    device,
    link,
  }) => {
    setClock(START_MS + SECOND);
    const { hmacSecret } = await team.rotateSecret(device.id);
    expect(await sendTelemetry(link, { ...device, hmacSecret }, { gridPowerKw: 1 })).toBe(true);
    setClock(START_MS + 2 * SECOND);
    const between = { id: device.id, token: await team.newToken(device.id) };
    setClock(START_MS + 3 * SECOND);
    await team.rotateSecret(device.id);
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.revoked });
    expect([await isAccepted(device), await isAccepted(between)]).toEqual([false, true]);
  });

  it('ended tokens stay ended after the device moves to another plant [C-14.5]', async ({ team, device }) => {
    setClock(START_MS + SECOND);
    const token = await team.newToken(device.id, { endOthers: true });
    const { id: plantId } = await team.newPlant();
    await team.admin.change(`/devices/${device.id}`, { plantId });
    expect(await isAccepted(device)).toBe(false);
    expect(await isAccepted({ id: device.id, token })).toBe(true);
  });
});

describe('a token that leaked', () => {
  it('is not renewed in a session that has signed no message [C-14.5]', async ({ device }) => {
    await answerPings(device.siteId);
    const link = await connect(device);
    link.send({ kind: 'subscribed', commands: true });
    await passTime(device.siteId, HOUR - SECOND);
    expect(refreshesOf(link)).toBe(0);
    expect(await sendTelemetry(link, device, { gridPowerKw: 1 })).toBe(true);
    await passTime(device.siteId, 0);
    await expect.poll(() => refreshesOf(link)).toBe(1);
  });

  it('is renewed with the old secret to a token that ends with the grace period at the latest [C-14.5]', async ({
    team,
    device,
  }) => {
    setClock(START_MS + SECOND);
    const rotated = { ...device, ...(await team.rotateSecret(device.id)) };
    await passTime(device.siteId, 50 * MINUTE);
    expect(await renewedFor(device)).toBe(600);
    expect(await renewedFor(rotated)).toBe(3_600);
  });

  it('is not renewed in a session that signs only with the old secret, if that expires when the session ends [C-14.5]', async ({
    team,
    device,
  }) => {
    const token = await team.newToken(device.id, { expiresIn: 86_400 });
    await answerPings(device.siteId);
    const link = await connect({ id: device.id, token });
    setClock(START_MS + SECOND);
    const rotated = { ...device, ...(await team.rotateSecret(device.id)) };
    await subscribe(link, device);
    await passTime(device.siteId, HOUR - MINUTE);
    await subscribe(link, device);
    await passTime(device.siteId, SECOND);
    expect(refreshesOf(link)).toBe(0);
    await subscribe(link, rotated);
    await passTime(device.siteId, 0);
    await expect.poll(() => refreshesOf(link)).toBe(1);
  });
});
