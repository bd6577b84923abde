/** A device’s dial with a valid proof: its token, its status, and its site’s decision [C-3.6]. */
import { listDurableObjectIds } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { exportJWK, generateKeyPair } from 'jose';
import { vi } from 'vitest';
import { deviceToken, signToken, tokenClaims, unsignedToken } from '#workerd/device-tokens.ts';
import { base64Url, dialMqtt, dialRows, rowCounts } from '#workerd/door.ts';
import { openLink, telemetryMessage } from '#workerd/links.ts';
import { TOKEN_PUBLIC_KEY } from '#workerd/tokens.ts';
import { describe, expect, expectError, it, UUID } from '#workerd/worker-test.ts';
import { createDevice, siteOf } from '#workerd/world.ts';
import type { DeviceLinkDown, DeviceLinkUp } from '../../../protocol/link/device.ts';
import { STATE_HEADER } from '../../../protocol/link/proof.ts';
import { writeRegistry } from '../../../registry/writes.ts';

/** Changes the status in D1, and not in the Site. */
async function setStatus(deviceId: string, status: string): Promise<void> {
  await writeRegistry(env.DB, [{ kind: 'device', id: deviceId, columns: { status } }]);
}

/** Every token that must not be accepted from this device. */
async function badTokens(id: string): Promise<Record<string, string>> {
  const attacker = await generateKeyPair('EdDSA', { extractable: true });
  const jwk = await exportJWK(attacker.publicKey);
  const good = await deviceToken(id);
  const [header = '', payload = '', signature = ''] = good.split('.');
  const nowSeconds = Math.floor(Date.now() / 1_000);
  const secretOf = (text: string) => new TextEncoder().encode(text);
  const claims = tokenClaims(id);
  const hs256 = (secret: string) => signToken(claims, { header: { alg: 'HS256' }, key: secretOf(secret) });
  const forged = (more: object = {}) =>
    signToken(claims, { key: attacker.privateKey, header: { alg: 'EdDSA', ...more } });
  const evil = 'https://attacker.example';
  const unsigned = unsignedToken({}, tokenClaims(id, { exp: 9_999_999_999 })).split('.')[1];
  const critical = base64Url('{"alg":"EdDSA","crit":["x"],"x":1}');
  const tokens: Record<string, string | Promise<string>> = {
    'no token': '',
    'no JWT': 'x',
    'three dots': '...',
    'alg none': unsignedToken({ alg: 'none' }, claims),
    'alg None, with the good signature': unsignedToken({ alg: 'None' }, claims, signature),
    'no alg': unsignedToken({ typ: 'JWT' }, claims, signature),
    'HS256 under the public key as JWK text': hs256(JSON.stringify(TOKEN_PUBLIC_KEY)),
    'HS256 under the public key’s coordinate': hs256(TOKEN_PUBLIC_KEY.x),
    'another key': signToken(claims, { key: attacker.privateKey }),
    'another key, injected as jwk': forged({ jwk }),
    'another key, injected as kid': forged({ kid: '../../key' }),
    'another key, injected as jku': forged({ jku: `${evil}/jwks.json`, x5u: `${evil}/x` }),
    'an unknown critical header': `${critical}.${payload}.${signature}`,
    'no signature': `${header}.${payload}.`,
    'a signature cut short': good.slice(0, -4),
    'claims that were not signed': `${header}.${unsigned}.${signature}`,
    'a wrong issuer': deviceToken(id, { iss: 'other' }),
    'no issuer': deviceToken(id, { iss: undefined }),
    'a wrong audience': deviceToken(id, { aud: 'rest' }),
    'no audience': deviceToken(id, { aud: undefined }),
    'a time that is over': deviceToken(id, { exp: nowSeconds - 1 }),
    'no exp': deviceToken(id, { exp: undefined }),
    'exp as text': deviceToken(id, { exp: String(nowSeconds + 3_600) }),
    'exp as a list': deviceToken(id, { exp: [nowSeconds + 3_600] }),
    'a time that has not begun': deviceToken(id, { nbf: nowSeconds + 3_600 }),
    'no subject': deviceToken(id, { sub: undefined }),
    'a subject that is no UUID': deviceToken(id, { sub: 'x' }),
    'a subject that is a list': deviceToken(id, { sub: [id] }),
    'another subject': deviceToken(crypto.randomUUID()),
    'claims that are no object': signToken([claims]),
    'claims that are null': signToken(null),
  };
  const signed = await Promise.all(
    Object.entries(tokens).map(async ([title, token]) => [title, await token] as const),
  );
  return Object.fromEntries(signed);
}

describe('a device’s dial', () => {
  it('a valid token opens a link to the device’s site [C-3.6]', async ({ plant }) => {
    const response = await dialMqtt(plant.gateway.id, await deviceToken(plant.gateway.id));
    expect(response.status).toBe(101);
    const link = openLink<DeviceLinkUp, DeviceLinkDown>(response);
    const payload = telemetryMessage(plant.gateway, '{"gridPowerKw":1}');
    link.send({ kind: 'publish', seq: 1, topic: 'telemetry', payload });
    expect(await link.next((frame) => frame.kind === 'stored')).toEqual({ kind: 'stored', seqs: [1] });
    const { payload: latest } = await siteOf(plant.id).readLatestTelemetry(plant.id);
    expect(latest.gridPowerKw).toBe(1);
  });

  it('a device without a plant gets a link to an object of its own [C-2.4]', async ({ organization }) => {
    const device = await createDevice(organization, null, 'SENSOR');
    expect((await dialMqtt(device.id, await deviceToken(device.id))).status).toBe(101);
    expect(await rowCounts(siteOf(device.id))).toMatchObject({ device: 1, seen_connection: 1 });
  });

  it('invalid tokens get the same 401 and count as failures, except the token of another device [C-3.6]', async ({
    organization,
    plant,
  }) => {
    const titles = Object.keys(await badTokens(plant.gateway.id));
    const bodies = new Set<string>();
    for (const title of titles) {
      // A device each, because ten failures suspend a device [C-3.11].
      const sensor = await createDevice(organization, plant.id, 'SENSOR');
      const { [title]: token = '' } = await badTokens(sensor.id);
      const before = await rowCounts(siteOf(plant.id));
      const response = await dialMqtt(sensor.id, token);
      expect([title, response.status, response.webSocket]).toEqual([title, 401, null]);
      bodies.add(await response.clone().text());
      await expectError(response, 401, 'UNAUTHORIZED');
      const { outbox: _outbox, ...after } = await rowCounts(siteOf(plant.id));
      const tables = { recent_connect: expect.any(Number), failed_login: expect.any(Number) };
      expect({ ...before, ...after }).toEqual({ ...before, ...tables });
      expect(after.recent_connect).toBe((before.recent_connect ?? 0) + 1);
      const counted = title === 'another subject' ? 0 : 1;
      expect(after.failed_login).toBe((before.failed_login ?? 0) + counted);
    }
    expect(bodies.size).toBe(1);
    expect(await dialRows(organization.id)).toEqual([]);
    expect((await dialMqtt(plant.gateway.id, await deviceToken(plant.gateway.id))).status).toBe(101);
  });

  it('the token of another device gets 401 [C-3.6]', async ({ organization, plant }) => {
    const sibling = await createDevice(organization, plant.id, 'SENSOR');
    for (const [username, owner] of [
      [plant.gateway.id, sibling.id],
      [sibling.id, plant.gateway.id],
      ['', plant.gateway.id],
      [`${plant.gateway.id} `, plant.gateway.id],
      [plant.id, plant.gateway.id],
    ] as const) {
      await expectError(await dialMqtt(username, await deviceToken(owner)), 401, 'UNAUTHORIZED');
    }
  });

  it('gets 503 if it fails because D1 fails, with a request id in the log line', async ({ plant }) => {
    const token = await deviceToken(plant.gateway.id);
    vi.spyOn(env.DB, 'prepare').mockImplementation(() => {
      throw new Error('D1_ERROR: Network connection lost.');
    });
    const log = vi.spyOn(console, 'error').mockReturnValue(undefined);
    const response = await dialMqtt(plant.gateway.id, token);
    vi.restoreAllMocks();
    expect(response.status).toBeGreaterThanOrEqual(500);
    expect(log.mock.calls).toMatchObject([[expect.any(String), { requestId: UUID }]]);
  });

  it('an unknown device gets 401, and no object is created for it (rule 9)', async () => {
    const id = crypto.randomUUID();
    await expectError(await dialMqtt(id, await deviceToken(id)), 401, 'UNAUTHORIZED');
    const objects = (await listDurableObjectIds(env.SITE)).map(String);
    expect(objects).not.toContain(env.SITE.idFromName(id).toString());
  });

  it.for(['PENDING', 'SUSPENDED', 'DECOMMISSIONED'])(
    'a %s device gets the 401 of a bad token (spec: Device lifecycle)',
    async (status, { plant }) => {
      const { id } = plant.gateway;
      const bad = await (await dialMqtt(id, 'x')).text();
      await setStatus(id, status);
      const response = await dialMqtt(id, await deviceToken(id));
      expect(await response.clone().text()).toBe(bad);
      expect(response.headers.get(STATE_HEADER)).toBe('refused');
      await expectError(response, 401, 'UNAUTHORIZED');
      await setStatus(id, 'ACTIVE');
      expect((await dialMqtt(id, await deviceToken(id))).status).toBe(101);
    },
  );

  it.for(['SUSPENDED', 'DECOMMISSIONED'] as const)(
    'a device that is %s in its Site and ACTIVE in D1 gets 401 (rule 6)',
    async (status, { plant }) => {
      const { id } = plant.gateway;
      await siteOf(plant.id).setDeviceStatus(id, status);
      await expectError(await dialMqtt(id, await deviceToken(id)), 401, 'UNAUTHORIZED');
      expect(await rowCounts(siteOf(plant.id))).toMatchObject({ seen_connection: 0 });
    },
  );

  it('an MTLS device with a token gets 401 (spec: authMethod)', async ({ organization, plant }) => {
    const { id } = await createDevice(organization, plant.id, 'SENSOR', 'MTLS');
    await expectError(await dialMqtt(id, await deviceToken(id)), 401, 'UNAUTHORIZED');
  });

  it('a token is valid until 1 ms before its exp, and gets 401 from then on (spec: Limits)', async ({
    plant,
  }) => {
    const { id } = plant.gateway;
    const exp = Math.floor(Date.now() / 1_000) + 60;
    const token = await deviceToken(id, { exp });
    vi.useFakeTimers({ toFake: ['Date'] });
    vi.setSystemTime(exp * 1_000 - 1);
    expect((await dialMqtt(id, token)).status).toBe(101);
    for (const atMs of [exp * 1_000, exp * 1_000 + 86_400_000]) {
      vi.setSystemTime(atMs);
      await expectError(await dialMqtt(id, token), 401, 'UNAUTHORIZED');
    }
  });

  it('a new session of a device closes its older one [C-3.6]', async ({ plant }) => {
    const token = await deviceToken(plant.gateway.id);
    const older = openLink(await dialMqtt(plant.gateway.id, token));
    expect((await dialMqtt(plant.gateway.id, token)).status).toBe(101);
    expect(await older.untilClosed()).toMatchObject({ code: 4001 });
  });
});
