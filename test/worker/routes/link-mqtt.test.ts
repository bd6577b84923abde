/** What a device's upgrade answers once its bridge is proven: its token, its state, its site's word [C-3.6]. */
import { listDurableObjectIds } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { exportJWK, generateKeyPair } from 'jose';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { writeRegistry } from '../../../durable-objects/registry/status-lane.ts';
import type { DeviceLinkDown, DeviceLinkUp } from '../../../protocol/link/device.ts';
import { deviceToken, signToken, tokenClaims, unsignedToken } from '../../support/workerd/device-tokens.ts';
import { dialMqtt, dialRows, rowCounts } from '../../support/workerd/door.ts';
import { openLink, telemetryMessage } from '../../support/workerd/links.ts';
import { expectError } from '../../support/workerd/rest.ts';
import { newSite } from '../../support/workerd/site-scenes.ts';
import { TOKEN_PRIVATE_KEY } from '../../support/workerd/tokens.ts';
import { createDevice, createOrganization, siteOf } from '../../support/workerd/world.ts';

const { d: _secret, ...PUBLIC_KEY } = TOKEN_PRIVATE_KEY;

/** In D1 alone. */
async function setStatus(deviceId: string, status: string): Promise<void> {
  await writeRegistry(env.DB, [{ kind: 'device', id: deviceId, columns: { status } }]);
}

/** Every token that must not open the door of this device. */
async function badTokens(id: string): Promise<Record<string, string>> {
  const attacker = await generateKeyPair('EdDSA', { extractable: true });
  const jwk = await exportJWK(attacker.publicKey);
  const good = await deviceToken(id);
  const [header = '', payload = '', signature = ''] = good.split('.');
  const nowSeconds = Math.floor(Date.now() / 1_000);
  const secretOf = (text: string) => new TextEncoder().encode(text);
  const hs256 = { header: { alg: 'HS256' } } as const;
  const forged = { key: attacker.privateKey };
  const claims = tokenClaims(id);
  const tokens: Record<string, string | Promise<string>> = {
    'no token': '',
    'no JWT': 'x',
    'three dots': '...',
    'alg none': unsignedToken({ alg: 'none' }, claims),
    'alg None, with the good signature': unsignedToken({ alg: 'None' }, claims, signature),
    'no alg': unsignedToken({ typ: 'JWT' }, claims, signature),
    'HS256 under the public key as JWK text': signToken(claims, {
      ...hs256,
      key: secretOf(JSON.stringify(PUBLIC_KEY)),
    }),
    'HS256 under the public key’s coordinate': signToken(claims, { ...hs256, key: secretOf(PUBLIC_KEY.x) }),
    'another key': signToken(claims, forged),
    'another key, injected as jwk': signToken(claims, { ...forged, header: { alg: 'EdDSA', jwk } }),
    'another key, injected as kid': signToken(claims, {
      ...forged,
      header: { alg: 'EdDSA', kid: '../../key' },
    }),
    'another key, injected as jku': signToken(claims, {
      ...forged,
      header: { alg: 'EdDSA', jku: 'https://attacker.example/jwks.json', x5u: 'https://attacker.example/x' },
    }),
    'an unknown critical header': `${btoa('{"alg":"EdDSA","crit":["x"],"x":1}').replaceAll('=', '')}.${payload}.${signature}`,
    'no signature': `${header}.${payload}.`,
    'a signature cut short': good.slice(0, -4),
    'claims that were not signed': `${header}.${unsignedToken({}, tokenClaims(id, { exp: 9_999_999_999 })).split('.')[1]}.${signature}`,
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

afterEach(() => {
  vi.useRealTimers();
});

describe('a device’s dial', () => {
  it('with a good token opens its link: 101, and its frames reach its site [C-3.6]', async () => {
    const { plant } = await newSite();
    const response = await dialMqtt(plant.gateway.id, await deviceToken(plant.gateway.id));
    expect(response.status).toBe(101);
    const link = openLink<DeviceLinkUp, DeviceLinkDown>(response);
    const payload = telemetryMessage(plant.gateway, '{"gridPowerKw":1}');
    link.send({ kind: 'publish', seq: 1, topic: 'telemetry', payload });
    expect(await link.next((frame) => frame.kind === 'stored')).toEqual({ kind: 'stored', seqs: [1] });
    const { payload: latest } = await siteOf(plant.id).readLatestTelemetry(plant.id);
    expect(latest.gridPowerKw).toBe(1);
  });

  it('of a device without a plant reaches an object of its own [C-2.4]', async () => {
    const device = await createDevice(await createOrganization(), null, 'SENSOR');
    expect((await dialMqtt(device.id, await deviceToken(device.id))).status).toBe(101);
    expect(await rowCounts(siteOf(device.id))).toMatchObject({ device: 1, seen_connection: 1 });
  });

  it('with a token that does not hold gets one same 401, whatever is wrong, and leaves but a line of its log, counted [C-3.6]', async () => {
    const { organization, plant } = await newSite();
    const titles = Object.keys(await badTokens(plant.gateway.id));
    const bodies = new Set<string>();
    for (const title of titles) {
      // Ten of one device would suspend it [C-3.11].
      const device = await createDevice(organization, plant.id, 'SENSOR');
      const { [title]: token = '' } = await badTokens(device.id);
      const before = await rowCounts(siteOf(plant.id));
      const response = await dialMqtt(device.id, token);
      expect([title, response.status, response.webSocket]).toEqual([title, 401, null]);
      bodies.add(await response.clone().text());
      await expectError(response, 401, 'UNAUTHORIZED');
      const { outbox: _told, ...after } = await rowCounts(siteOf(plant.id));
      const kept = { recent_connect: expect.any(Number), failed_login: expect.any(Number) };
      expect({ ...before, ...after }).toEqual({ ...before, ...kept });
      expect(after.recent_connect).toBe((before.recent_connect ?? 0) + 1);
      expect(after.failed_login).toBe((before.failed_login ?? 0) + 1);
    }
    expect(bodies.size).toBe(1);
    expect(await dialRows(organization.id)).toEqual([]);
    expect((await dialMqtt(plant.gateway.id, await deviceToken(plant.gateway.id))).status).toBe(101);
  });

  it('with the token of another device gets 401, in either direction [C-3.6]', async () => {
    const { organization, plant } = await newSite();
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

  it('of a device that nobody registered gets 401 and makes no object (rule 9)', async () => {
    const id = crypto.randomUUID();
    await expectError(await dialMqtt(id, await deviceToken(id)), 401, 'UNAUTHORIZED');
    const objects = (await listDurableObjectIds(env.SITE)).map(String);
    expect(objects).not.toContain(env.SITE.idFromName(id).toString());
  });

  it.each(['PENDING', 'SUSPENDED', 'DECOMMISSIONED'])(
    'of a %s device gets 401, in the words of a bad token (spec: Device lifecycle)',
    async (status) => {
      const { plant } = await newSite();
      const { id } = plant.gateway;
      const bad = await (await dialMqtt(id, 'x')).text();
      await setStatus(id, status);
      const response = await dialMqtt(id, await deviceToken(id));
      expect(await response.clone().text()).toBe(bad);
      await expectError(response, 401, 'UNAUTHORIZED');
      await setStatus(id, 'ACTIVE');
      expect((await dialMqtt(id, await deviceToken(id))).status).toBe(101);
    },
  );

  it.each(['SUSPENDED', 'DECOMMISSIONED'] as const)(
    'of a device that its site holds as %s gets 401, whatever D1 says (rule 6)',
    async (status) => {
      const { plant } = await newSite();
      const { id } = plant.gateway;
      await siteOf(plant.id).setDeviceStatus(id, status);
      await expectError(await dialMqtt(id, await deviceToken(id)), 401, 'UNAUTHORIZED');
      expect(await rowCounts(siteOf(plant.id))).toMatchObject({ seen_connection: 0 });
    },
  );

  it('of an MTLS device gets 401 with a token (spec: authMethod)', async () => {
    const { organization, plant } = await newSite();
    const { id } = await createDevice(organization, plant.id, 'SENSOR', 'MTLS');
    await expectError(await dialMqtt(id, await deviceToken(id)), 401, 'UNAUTHORIZED');
  });

  it('with one and the same token is good until the second that exp names (spec: Limits)', async () => {
    const { plant } = await newSite();
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

  it('takes over the device’s older session [C-3.6]', async () => {
    const { plant } = await newSite();
    const token = await deviceToken(plant.gateway.id);
    const older = openLink(await dialMqtt(plant.gateway.id, token));
    expect((await dialMqtt(plant.gateway.id, token)).status).toBe(101);
    expect(await older.untilClosed()).toMatchObject({ code: 4001 });
  });
});
