/** Provisioning: what a device with a token is told of itself, once (spec: Provisioning package; [C-3.3]). */
import { env } from 'cloudflare:workers';
import { calculateJwkThumbprint, decodeProtectedHeader, importJWK, jwtVerify } from 'jose';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Env } from '../../../durable-objects/env.ts';
import type { ProvisioningPackage } from '../../../protocol/device-record.ts';
import { AUTH_METHODS } from '../../../protocol/enums.ts';
import {
  connect,
  newDeviceIn,
  newTokenDevice,
  operate,
  postDevice,
  provision,
  readDevice,
} from '../../support/workerd/devices.ts';
import { postPlant } from '../../support/workerd/fleet.ts';
import { createTeam, type Team } from '../../support/workerd/people.ts';
import { expectError, restRequest, settle } from '../../support/workerd/rest.ts';
import { droppedOf, sendTelemetry } from '../../support/workerd/site-devices.ts';
import { gridPowerKw } from '../../support/workerd/site-reads.ts';
import { rowsOf } from '../../support/workerd/site-rows.ts';
import { TOKEN_PRIVATE_KEY } from '../../support/workerd/tokens.ts';

const { d: _secret, ...PUBLIC_KEY } = TOKEN_PRIVATE_KEY;

let team: Team;

beforeAll(async () => {
  team = await createTeam();
});

/** Provisions by a Worker that has other bindings. */
async function provisionWith(id: string, bindings: Partial<Env>): Promise<Response> {
  const headers = { authorization: `Bearer ${team.admin.accessToken}`, 'content-type': 'application/json' };
  return await settle(
    restRequest(`/api/v1/devices/${id}/provision`, { method: 'POST', headers, body: '{}' }),
    bindings,
  );
}

describe('the package of a device with a token', () => {
  it('has every field of the spec, and no other (spec: Provisioning package)', async () => {
    const { id: deviceId } = await postDevice(team.operator);
    const { security } = await provision(team, deviceId);
    const told = { deviceId, ...security };
    expect(told).toEqual({
      deviceId,
      hmacSecret: expect.stringMatching(/^[0-9a-f]{64}$/),
      mqttToken: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
      tokenExpiresAt: expect.stringMatching(/Z$/),
    });
    const another = await postDevice(team.operator);
    expect(await provision(team, another.id)).toEqual({
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

  it('brings a token for this device alone, of 3600 s, with its topics as claims [C-3.6]', async () => {
    const { id } = await postDevice(team.operator);
    const beforeMs = Date.now();
    const { mqttToken = '', tokenExpiresAt = '' } = (await provision(team, id)).security;
    const key = await importJWK(PUBLIC_KEY, 'EdDSA');
    const { payload } = await jwtVerify(mqttToken, key, { algorithms: ['EdDSA'], issuer: 'sitewire' });
    const { iat = 0, exp = 0 } = payload;
    expect(payload).toEqual({
      iss: 'sitewire',
      aud: 'mqtt',
      sub: id,
      iat,
      exp: iat + 3_600,
      publish: ['telemetry', 'status', 'ack'].map((name) => `cpi/${id}/${name}`),
      subscribe: [`cpi/${id}/commands`],
    });
    expect(iat).toBeGreaterThanOrEqual(Math.floor(beforeMs / 1_000));
    expect(iat).toBeLessThanOrEqual(Date.now() / 1_000);
    expect(Date.parse(tokenExpiresAt)).toBe(exp * 1_000);
    const kid = await calculateJwkThumbprint(PUBLIC_KEY);
    expect(decodeProtectedHeader(mqttToken)).toEqual({ alg: 'EdDSA', kid });
  });

  it('makes the device ACTIVE, and its record says since when, until when (spec: Device lifecycle)', async () => {
    const before = await postDevice(team.operator);
    const { tokenExpiresAt } = (await provision(team, before.id)).security;
    const after = await readDevice(team, before.id);
    expect(after).toEqual({
      ...before,
      status: 'ACTIVE',
      provisionedAt: expect.stringMatching(/Z$/),
      tokenExpiresAt,
      updatedAt: after.provisionedAt,
    });
    expect(Date.parse(after.provisionedAt ?? '')).toBeGreaterThanOrEqual(Date.parse(before.createdAt));
  });

  it('opens the door, and its secret signs what the plant shows (spec: Device MQTT)', async () => {
    const { id: plantId } = await postPlant(team.operator);
    const device = await newTokenDevice(team, { plantId });
    const link = await connect(device);
    expect(await sendTelemetry(link, device, { gridPowerKw: 12 })).toBe(true);
    expect(await gridPowerKw({ id: plantId, gateway: device })).toBe(12);
    expect(await droppedOf(plantId, device.id)).toEqual({});
  });

  it('names the listener’s public port, and what is trusted there where systems do not [C-3.3]', async () => {
    const { id } = await postDevice(team.operator);
    const MQTT_CA = '-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n';
    const bindings = { MQTT_HOST: 'mqtt.plant.test', MQTT_PORT: '18885', MQTT_MTLS_PORT: '18883', MQTT_CA };
    const told = (await (await provisionWith(id, bindings)).json()) as ProvisioningPackage;
    expect(told.mqtt).toMatchObject({ broker: 'mqtts://mqtt.plant.test:18885', port: 18_885 });
    expect(told.security.caCertificate).toBe(MQTT_CA);
  });
});

describe('provisioning', () => {
  it('is done once: again it is 409, and nothing is told again [C-3.3]', async () => {
    const device = await newTokenDevice(team);
    const before = await readDevice(team, device.id);
    for (let time = 0; time < 2; time++) {
      const { message, details } = await expectError(
        await operate(team.admin, device.id, 'provision'),
        409,
        'CONFLICT',
      );
      expect(`${message} ${JSON.stringify(details)}`).not.toContain(device.hmacSecret);
    }
    expect(await readDevice(team, device.id)).toEqual(before);
    expect((await connect(device)).closed).toBeUndefined();
  });

  it.each(['SUSPENDED', 'DECOMMISSIONED'] as const)('of a %s device is 409 [C-3.3]', async (status) => {
    const id = await newDeviceIn(team, status);
    await expectError(await operate(team.admin, id, 'provision'), 409, 'CONFLICT');
    expect((await readDevice(team, id)).status).toBe(status);
  });

  it('is won by one of several that ask at once, and what it was told is good [C-3.3]', async () => {
    const { id: plantId } = await postPlant(team.operator);
    const { id } = await postDevice(team.operator, { plantId });
    const answers = await Promise.all([1, 2, 3, 4].map(() => operate(team.admin, id, 'provision', {})));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409]);
    const [won] = answers.filter(({ status }) => status === 200);
    const told = (await won?.json()) as ProvisioningPackage;
    const { hmacSecret, mqttToken = '' } = told.security;
    const link = await connect({ id, token: mqttToken });
    await sendTelemetry(link, { id, hmacSecret }, { gridPowerKw: 3 });
    expect(await gridPowerKw({ id: plantId, gateway: { id, hmacSecret } })).toBe(3);
    expect(await rowsOf(plantId, 'SELECT count(*) AS count FROM device_secret')).toEqual([{ count: 1 }]);
  });

  it('takes no certificate request for a device with a token: 400, and it is PENDING still [C-3.3]', async () => {
    const { id } = await postDevice(team.operator);
    const response = await operate(team.admin, id, 'provision', { csr: 'x' });
    const { details } = await expectError(response, 400, 'VALIDATION_ERROR');
    expect(details).toEqual([expect.stringMatching(/^csr: /)]);
    expect((await readDevice(team, id)).status).toBe('PENDING');
    await provision(team, id);
  });

  it('takes no body, an empty one or csr alone (bad input: REST)', async () => {
    const { id } = await postDevice(team.operator);
    for (const body of [[], 'x', { hmacSecret: '0'.repeat(64) }, { csr: null }, { csr: 1 }]) {
      await expectError(await operate(team.admin, id, 'provision', body), 400, 'VALIDATION_ERROR');
    }
    expect((await operate(team.admin, id, 'provision')).status).toBe(200);
  });

  it('where nobody listens is 503, and the device is PENDING still [C-10]', async () => {
    for (const authMethod of AUTH_METHODS) {
      const { id } = await postDevice(team.operator, { authMethod });
      const response = await provisionWith(id, { MQTT_HOST: '' });
      expect([response.status, await response.json()]).toEqual([
        503,
        expect.objectContaining({ statusCode: 503, code: 'SERVICE_UNAVAILABLE' }),
      ]);
      expect(response.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
      expect(await readDevice(team, id)).toMatchObject({ status: 'PENDING', provisionedAt: null });
      await provision(team, id);
    }
  });
});

describe('a device’s secrets', () => {
  it('are in no later answer, whoever asks (spec: Provisioning package)', async () => {
    const own = await createTeam();
    const { id, hmacSecret, token } = await newTokenDevice(own);
    await operate(own.admin, id, 'suspend');
    await operate(own.admin, id, 'reactivate');
    await own.operator.read(`/devices/${id}`, { method: 'PATCH', body: { name: 'Renamed' } });
    for (const path of [
      `/devices/${id}`,
      '/devices',
      `/devices/${id}/diagnostics`,
      `/devices/${id}/commands`,
      '/audit-events?limit=100',
    ]) {
      const text = await (await own.orgAdmin.call(path)).text();
      for (const secret of [hmacSecret, token, token.split('.')[2] ?? '']) expect(text).not.toContain(secret);
      expect(text).not.toMatch(/fingerprint|sealed/i);
    }
  });

  it('are not in D1, and sealed where they are kept (rule: secrets)', async () => {
    const { id, hmacSecret, token, siteId } = await newTokenDevice(team);
    const row = await env.DB.prepare('SELECT * FROM devices WHERE id = ?').bind(id).first();
    const kept = JSON.stringify([row, await rowsOf(siteId, 'SELECT * FROM device_secret')]);
    expect(await rowsOf(siteId, 'SELECT sealed FROM device_secret')).toHaveLength(1);
    for (const secret of [hmacSecret, token]) expect(kept).not.toContain(secret);
  });
});
