/** New tokens and new secrets for ACTIVE devices [C-3.3]. */
import { importJWK, jwtVerify } from 'jose';
import { deviceToken } from '#workerd/device-tokens.ts';
import { connect, type TokenDevice } from '#workerd/devices.ts';
import { dialMqtt } from '#workerd/door.ts';
import type { DeviceTestLink } from '#workerd/links.ts';
import { holdClock, MINUTE, passTime, START_MS, setClock } from '#workerd/site-clock.ts';
import { droppedOf, nthCommand, sendTelemetry, subscribe } from '#workerd/site-devices.ts';
import { gridPowerKw } from '#workerd/site-reads.ts';
import { numberOf } from '#workerd/site-rows.ts';
import { isSignedWith } from '#workerd/site-secrets.ts';
import { TOKEN_PUBLIC_KEY } from '#workerd/tokens.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';
import type { TokenAnswer } from '../../../protocol/device-record.ts';

holdClock();

let lastKw = 0;

/** Whether the Site accepts a message that is signed with this secret. */
async function counts(
  link: DeviceTestLink,
  { id, siteId }: TokenDevice,
  hmacSecret: string,
): Promise<boolean> {
  lastKw += 1;
  setClock(Date.now() + 1);
  const gateway = { id, hmacSecret };
  await sendTelemetry(link, gateway, { gridPowerKw: lastKw });
  return (await gridPowerKw({ id: siteId, gateway })) === lastKw;
}

describe('POST /devices/{id}/mqtt-token', () => {
  it.for([
    [undefined, 3_600],
    [{}, 3_600],
    [{ expiresIn: 60 }, 60],
    [{ expiresIn: 86_400 }, 86_400],
  ] as const)(
    'the body %j gets a token that is valid for %i s (spec: Limits)',
    async ([body, seconds], { team }) => {
      const { id } = await team.newTokenDevice();
      const answer = (await (await team.admin.operate(id, 'mqtt-token', body)).json()) as TokenAnswer;
      const expiresAt = new Date(START_MS + seconds * 1_000).toISOString();
      expect(answer).toEqual({ token: expect.any(String), expiresAt });
      const key = await importJWK(TOKEN_PUBLIC_KEY, 'EdDSA');
      const { payload } = await jwtVerify(answer.token, key, { audience: 'mqtt', subject: id });
      expect([payload.iat, payload.exp]).toEqual([START_MS / 1_000, START_MS / 1_000 + seconds]);
      expect(payload).toMatchObject({ subscribe: [`cpi/${id}/commands`] });
      expect((await team.readDevice(id)).tokenExpiresAt).toBe(expiresAt);
      setClock(START_MS + seconds * 1_000 - 1);
      expect((await dialMqtt(id, answer.token)).status).toBe(101);
      setClock(START_MS + seconds * 1_000);
      expect((await dialMqtt(id, answer.token)).status).toBe(401);
    },
  );

  it('an invalid lifetime or field gets 400, and no token is issued (spec: Limits)', async ({ team }) => {
    const { id } = await team.newTokenDevice();
    const before = await team.readDevice(id);
    const bad = [59, 0, -60, 86_401, 60.5, '3600', null, [60], 1e9].map((expiresIn) => ({ expiresIn }));
    for (const body of [[], 'x', ...bad, { expires_in: 60 }, { expiresIn: 60, sub: id }]) {
      await expectError(await team.admin.operate(id, 'mqtt-token', body), 400, 'VALIDATION_ERROR');
    }
    expect(await team.readDevice(id)).toEqual(before);
  });

  it('a request for a device with a certificate gets 409 [C-3.3]', async ({ team }) => {
    const id = await team.newDeviceIn('ACTIVE', { authMethod: 'MTLS' });
    await expectError(await team.admin.operate(id, 'mqtt-token'), 409, 'CONFLICT');
    expect((await team.readDevice(id)).tokenExpiresAt).toBeNull();
  });

  it('a new token without endOthers ends neither sessions nor earlier tokens [C-3.3]', async ({
    team,
    device,
    link,
  }) => {
    await team.admin.operate(device.id, 'mqtt-token', { expiresIn: 60 });
    expect(await counts(link, device, device.hmacSecret)).toBe(true);
    expect((await dialMqtt(device.id, device.token)).status).toBe(101);
  });
});

describe('POST /devices/{id}/rotate-secret', () => {
  it('a rotation returns a new secret and when the old one expires [C-3.3]', async ({ team, device }) => {
    const rotation = await team.rotateSecret(device.id);
    const graceUntil = new Date(START_MS + 60 * MINUTE).toISOString();
    expect(rotation).toEqual({
      deviceId: device.id,
      hmacSecret: expect.stringMatching(/^[0-9a-f]{64}$/),
      graceUntil,
      rotatedAt: new Date(START_MS).toISOString(),
    });
    expect(rotation.hmacSecret).not.toBe(device.hmacSecret);
    expect((await team.readDevice(device.id)).hmacRotation).toEqual({ graceUntil });
  });

  it('messages signed with the old secret are stored until the grace period ends, and then dropped [C-3.3]', async ({
    team,
    device,
    link,
  }) => {
    const { hmacSecret: next } = await team.rotateSecret(device.id);
    expect(await counts(link, device, device.hmacSecret)).toBe(true);
    expect(await counts(link, device, next)).toBe(true);
    await passTime(device.siteId, START_MS + 60 * MINUTE - 10 - Date.now());
    const later = { ...device, token: await deviceToken(device.id) };
    const last = await connect(later);
    expect(await counts(last, device, device.hmacSecret)).toBe(true);
    await passTime(device.siteId, 10);
    expect(await counts(last, device, device.hmacSecret)).toBe(false);
    expect(await droppedOf(device.siteId, device.id)).toEqual({ SIGNATURE: 1 });
    expect(await counts(last, device, next)).toBe(true);
    expect(await numberOf(device.siteId, 'SELECT count(*) FROM device_secret')).toBe(1);
    const admin = await team.admin.newSession();
    expect(await admin.read(`/devices/${device.id}`)).toMatchObject({ status: 'ACTIVE', hmacRotation: null });
  });

  it('a second rotation ends an unused first secret immediately; the second one gets the grace period [C-3.3]', async ({
    team,
    device,
    link,
  }) => {
    const { hmacSecret: second } = await team.rotateSecret(device.id);
    setClock(START_MS + MINUTE);
    const { hmacSecret: third, graceUntil } = await team.rotateSecret(device.id);
    expect(graceUntil).toBe(new Date(START_MS + 61 * MINUTE).toISOString());
    expect((await team.readDevice(device.id)).hmacRotation).toEqual({ graceUntil });
    const secrets = [device.hmacSecret, second, third];
    expect(new Set(secrets).size).toBe(3);
    const good: boolean[] = [];
    for (const secret of secrets) good.push(await counts(link, device, secret));
    expect(good).toEqual([false, true, true]);
  });

  it('a command is signed with the secret that was used last [C-3.7]', async ({ team, device, link }) => {
    await subscribe(link, device);
    await counts(link, device, device.hmacSecret);
    const { hmacSecret: next } = await team.rotateSecret(device.id);
    const send = () => team.operator.operate(device.id, 'commands', { action: 'REBOOT', payload: { a: 1 } });
    await send();
    expect(await counts(link, device, next)).toBe(true);
    await send();
    expect(await counts(link, device, next)).toBe(true);
    const [before, after] = [await nthCommand(link, 1), await nthCommand(link, 2)];
    expect(isSignedWith(device.id, before, device.hmacSecret)).toBe(true);
    expect(isSignedWith(device.id, after, next)).toBe(true);
    expect(isSignedWith(device.id, after, device.hmacSecret)).toBe(false);
  });

  it('after three concurrent rotations two of the new secrets are valid, and an unused secret from before them is not [C-3.3]', async ({
    team,
    device,
    link,
  }) => {
    const rotations = await Promise.all([
      team.rotateSecret(device.id),
      team.rotateSecret(device.id),
      team.rotateSecret(device.id),
    ]);
    const good: boolean[] = [];
    for (const { hmacSecret } of rotations) good.push(await counts(link, device, hmacSecret));
    expect(good.filter(Boolean)).toHaveLength(2);
    expect(await counts(link, device, device.hmacSecret)).toBe(false);
  });

  it('a client cannot choose the secret (bad input: REST)', async ({ team, device, link }) => {
    const hmacSecret = '0'.repeat(64);
    const answer = await team.admin.call(`/devices/${device.id}/rotate-secret`, {
      method: 'POST',
      body: { hmacSecret },
    });
    await expectError(answer, 400, 'VALIDATION_ERROR');
    expect(await counts(link, device, hmacSecret)).toBe(false);
  });
});
