/** The package that a device with a token gets once (spec: Provisioning package; [C-3.3]). */
import { env } from 'cloudflare:workers';
import { calculateJwkThumbprint, decodeProtectedHeader, importJWK, jwtVerify } from 'jose';
import { runSql } from '#workerd/d1.ts';
import { connect } from '#workerd/devices.ts';
import { droppedOf, sendTelemetry } from '#workerd/site-devices.ts';
import { gridPowerKw } from '#workerd/site-reads.ts';
import { numberOf, rowsOf } from '#workerd/site-rows.ts';
import { TOKEN_PUBLIC_KEY } from '#workerd/tokens.ts';
import { describe, expect, expectError, expectInvalid, test } from '#workerd/worker-test.ts';
import type { Env } from '../../../durable-objects/env.ts';
import type { ProvisioningPackage } from '../../../protocol/device-record.ts';
import { AUTH_METHODS } from '../../../protocol/enums.ts';

/** Provisions by a Worker with other bindings. */
const it = test.extend('provisionWith', ({ team }) => async (id: string, bindings: Partial<Env>) => {
  return await team.admin.call(`/devices/${id}/provision`, { method: 'POST', body: {} }, bindings);
});

describe('the package of a device with a token', () => {
  it('the package has the fields of the spec (spec: Provisioning package)', async ({ team }) => {
    const { id: deviceId } = await team.newDevice();
    const { security } = await team.provision(deviceId);
    expect({ deviceId, ...security }).toEqual({
      deviceId,
      hmacSecret: expect.stringMatching(/^[0-9a-f]{64}$/),
      mqttToken: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
      tokenExpiresAt: expect.stringMatching(/Z$/),
    });
    const another = await team.newDevice();
    expect(await team.provision(another.id)).toEqual({
      deviceId: another.id,
      authMethod: 'TOKEN',
      mqtt: {
        broker: 'mqtts://mqtt.example.org:8885',
        port: 8885,
        topics: {
          telemetry: `cpi/${another.id}/telemetry`,
          status: `cpi/${another.id}/status`,
          commands: `cpi/${another.id}/commands`,
          ack: `cpi/${another.id}/ack`,
        },
      },
      security: {
        hmacSecret: expect.not.stringMatching(security.hmacSecret),
        mqttToken: expect.any(String),
        tokenExpiresAt: expect.any(String),
      },
      protocol: { version: '1.0', signatureAlgorithm: 'HMAC-SHA256', timestampToleranceMs: 300_000 },
    });
  });

  it('the token names the device and its topics, and is valid for 3600 s [C-3.6]', async ({ team }) => {
    const { id } = await team.newDevice();
    const beforeMs = Date.now();
    const { mqttToken = '', tokenExpiresAt = '' } = (await team.provision(id)).security;
    const key = await importJWK(TOKEN_PUBLIC_KEY, 'EdDSA');
    const { payload } = await jwtVerify(mqttToken, key, { algorithms: ['EdDSA'], issuer: 'sitewire' });
    const { iat = 0, exp = 0 } = payload;
    expect(payload).toEqual({
      iss: 'sitewire',
      aud: 'mqtt',
      sub: id,
      iat,
      exp: Math.floor(iat) + 3_600,
      publish: ['telemetry', 'status', 'ack'].map((name) => `cpi/${id}/${name}`),
      subscribe: [`cpi/${id}/commands`],
    });
    expect(iat).toBeGreaterThanOrEqual(Math.floor(beforeMs / 1_000));
    expect(iat).toBeLessThanOrEqual(Date.now() / 1_000);
    expect(Date.parse(tokenExpiresAt)).toBe(exp * 1_000);
    const kid = await calculateJwkThumbprint(TOKEN_PUBLIC_KEY);
    expect(decodeProtectedHeader(mqttToken)).toEqual({ alg: 'EdDSA', kid });
  });

  it('provisioning makes the device ACTIVE (spec: Device lifecycle)', async ({ team }) => {
    const before = await team.newDevice();
    const { tokenExpiresAt } = (await team.provision(before.id)).security;
    const after = await team.readDevice(before.id);
    expect(after).toEqual({
      ...before,
      status: 'ACTIVE',
      provisionedAt: expect.stringMatching(/Z$/),
      tokenExpiresAt,
      updatedAt: after.provisionedAt,
    });
    expect(Date.parse(after.provisionedAt ?? '')).toBeGreaterThanOrEqual(Date.parse(before.createdAt));
  });

  it('a device can connect with the token of the package and sign with its secret (spec: Device MQTT)', async ({
    plantId,
    device,
    link,
  }) => {
    expect(await sendTelemetry(link, device, { gridPowerKw: 12 })).toBe(true);
    expect(await gridPowerKw({ id: plantId, gateway: device })).toBe(12);
    expect(await droppedOf(plantId, device.id)).toEqual({});
  });

  it('the package has host, port and CA of the Worker settings [C-3.3]', async ({ team, provisionWith }) => {
    const { id } = await team.newDevice();
    const MQTT_CA = '-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n';
    const bindings = { MQTT_HOST: 'mqtt.plant.test', MQTT_PORT: '18885', MQTT_MTLS_PORT: '18883', MQTT_CA };
    const { mqtt, security } = (await (await provisionWith(id, bindings)).json()) as ProvisioningPackage;
    expect(mqtt).toMatchObject({ broker: 'mqtts://mqtt.plant.test:18885', port: 18_885 });
    expect(security.caCertificate).toBe(MQTT_CA);
  });
});

describe('provisioning', () => {
  it('a device is provisioned once: the next request gets 409 [C-3.3]', async ({ team }) => {
    const device = await team.newTokenDevice();
    const before = await team.readDevice(device.id);
    for (let time = 0; time < 2; time++) {
      const refused = await team.admin.operate(device.id, 'provision');
      const { message, details } = await expectError(refused, 409, 'CONFLICT');
      expect(`${message} ${JSON.stringify(details)}`).not.toContain(device.hmacSecret);
    }
    expect(await team.readDevice(device.id)).toEqual(before);
    expect((await connect(device)).closed).toBeUndefined();
  });

  it('gives the package to one of concurrent requests, and the others get 409 [C-3.3]', async ({
    team,
    plantId,
  }) => {
    const { id } = await team.newDevice({ plantId });
    const answers = await Promise.all([1, 2, 3, 4].map(() => team.admin.operate(id, 'provision', {})));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409]);
    const [won = new Response()] = answers.filter(({ status }) => status === 200);
    const { hmacSecret, mqttToken = '' } = ((await won.json()) as ProvisioningPackage).security;
    const link = await connect({ id, token: mqttToken });
    await sendTelemetry(link, { id, hmacSecret }, { gridPowerKw: 3 });
    expect(await gridPowerKw({ id: plantId, gateway: { id, hmacSecret } })).toBe(3);
    expect(await numberOf(plantId, 'SELECT count(*) FROM device_secret')).toBe(1);
  });

  it('provisioning gets 409 while another request provisions the device, for at most a minute [C-3.3]', async ({
    team,
  }) => {
    const { id } = await team.newDevice();
    const claim = 'UPDATE devices SET provisioning_at_ms = ? WHERE id = ?';
    // As a request leaves it that has begun, and that has ended in the middle.
    await runSql(claim, Date.now(), id);
    const { message } = await expectError(await team.admin.operate(id, 'provision'), 409, 'CONFLICT');
    expect(message).toContain('is being provisioned or moved');
    expect((await team.readDevice(id)).status).toBe('PENDING');
    await runSql(claim, Date.now() - 60_001, id);
    expect((await team.provision(id)).deviceId).toBe(id);
  });

  it('a request with a CSR for a device with a token gets 400 [C-3.3]', async ({ team }) => {
    const { id } = await team.newDevice();
    await expectInvalid(await team.admin.operate(id, 'provision', { csr: 'x' }), 'csr');
    expect((await team.readDevice(id)).status).toBe('PENDING');
    await team.provision(id);
  });

  it('a body with anything other than a csr in text gets 400, and an absent body is accepted (bad input: REST)', async ({
    team,
  }) => {
    const { id } = await team.newDevice();
    for (const body of [[], 'x', { hmacSecret: '0'.repeat(64) }, { csr: null }, { csr: 1 }]) {
      await expectError(await team.admin.operate(id, 'provision', body), 400, 'VALIDATION_ERROR');
    }
    expect((await team.admin.operate(id, 'provision')).status).toBe(200);
  });

  it('provisioning gets 503 where no MQTT listener is configured, and the device stays PENDING [C-10]', async ({
    team,
    provisionWith,
  }) => {
    for (const authMethod of AUTH_METHODS) {
      const { id } = await team.newDevice({ authMethod });
      const response = await provisionWith(id, { MQTT_HOST: '' });
      expect([response.status, await response.json()]).toEqual([
        503,
        expect.objectContaining({ statusCode: 503, code: 'SERVICE_UNAVAILABLE' }),
      ]);
      expect(response.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
      expect(await team.readDevice(id)).toMatchObject({ status: 'PENDING', provisionedAt: null });
      await team.provision(id);
    }
  });
});

describe('a device’s secrets', () => {
  it('no answer after the package has a secret (spec: Provisioning package)', async ({ ownTeam }) => {
    const { id, hmacSecret, token } = await ownTeam.newTokenDevice();
    await ownTeam.admin.operate(id, 'suspend');
    await ownTeam.admin.operate(id, 'reactivate');
    await ownTeam.operator.change(`/devices/${id}`, { name: 'Renamed' });
    const ofDevice = ['', '/diagnostics', '/commands'].map((name) => `/devices/${id}${name}`);
    for (const path of [...ofDevice, '/devices', '/audit-events?limit=100']) {
      const text = await (await ownTeam.orgAdmin.call(path)).text();
      for (const secret of [hmacSecret, token, token.split('.')[2] ?? '']) expect(text).not.toContain(secret);
      expect(text).not.toMatch(/fingerprint|sealed/i);
    }
  });

  it('secrets are sealed in the object and absent from D1 (rule: secrets)', async ({ team }) => {
    const { id, hmacSecret, token, siteId } = await team.newTokenDevice();
    const row = await env.DB.prepare('SELECT * FROM devices WHERE id = ?').bind(id).first();
    const stored = JSON.stringify([row, await rowsOf(siteId, 'SELECT * FROM device_secret')]);
    expect(await rowsOf(siteId, 'SELECT sealed FROM device_secret')).toHaveLength(1);
    for (const secret of [hmacSecret, token]) expect(stored).not.toContain(secret);
  });
});
