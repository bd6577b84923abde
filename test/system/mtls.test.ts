/**
 * Devices with certificates on the whole stack, with a stock client: mqtt.js on the listener of 8883 [C-3.3].
 */
import { createHmac, randomUUID } from 'node:crypto';
import { connectAsync, type MqttClient } from 'mqtt';
import { describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';
import type { DeviceDiagnostics, DeviceRecord, ProvisioningPackage } from '../../protocol/device-record.ts';
import { telemetrySigningString } from '../../protocol/signing.ts';

const stack = suiteStack({ bridgeProcess: true });

async function provision(): Promise<ProvisioningPackage> {
  const { plantId } = stack.credentials;
  const fields = { name: 'Certified', serialNumber: randomUUID(), type: 'SENSOR', plantId };
  const { id } = await stack.admin.call<DeviceRecord>('POST', '/devices', fields);
  return await stack.admin.call<ProvisioningPackage>('POST', `/devices/${id}/provision`);
}

type Identity = { certificate: string; privateKey: string };

function identityOf({ security }: ProvisioningPackage): Identity {
  return { certificate: security.certificate ?? '', privateKey: security.privateKey ?? '' };
}

/** Connects with nothing but the content of the package; rejects with the CONNACK's error. */
async function logIn(
  device: ProvisioningPackage,
  identity = identityOf(device),
  username?: string,
): Promise<MqttClient> {
  const client = await connectAsync({
    protocol: 'mqtts',
    host: 'localhost',
    port: device.mqtt.port,
    ca: device.security.caCertificate ?? '',
    cert: identity.certificate,
    key: identity.privateKey,
    clientId: 'any',
    reconnectPeriod: 0,
    ...(username === undefined ? {} : { username, password: 'ignored' }),
  });
  onTestFinished(() => client.endAsync(true));
  return client;
}

async function publish(client: MqttClient, { deviceId, security, mqtt }: ProvisioningPackage): Promise<void> {
  const [ts, nonce, data] = [Date.now(), randomUUID(), '{"powerKw":1.5}'];
  const text = telemetrySigningString(deviceId, ts, nonce, data);
  const sig = createHmac('sha256', security.hmacSecret).update(text).digest('hex');
  const payload = `{"ts":${ts},"nonce":"${nonce}","data":${data},"sig":"${sig}"}`;
  await client.publishAsync(mqtt.topics.telemetry, payload, { qos: 1 });
}

async function diagnosticsOf(device: ProvisioningPackage): Promise<DeviceDiagnostics> {
  return await stack.admin.call<DeviceDiagnostics>('GET', `/devices/${device.deviceId}/diagnostics`);
}

describe('a device with a certificate', () => {
  it('connects with only the certificate, with its own user name or none, and its messages are accepted', async () => {
    const device = await provision();
    for (const username of [undefined, device.deviceId]) {
      await publish(await logIn(device, identityOf(device), username), device);
    }
    const { drops, connects } = await diagnosticsOf(device);
    expect(drops).toEqual({});
    expect(connects.map(({ outcome }) => outcome)).toEqual(['ACCEPTED', 'ACCEPTED']);
  });

  it('gets code 5 with the user name of another device, and nothing is recorded for that device', async () => {
    const [device, other] = [await provision(), await provision()];
    await expect(logIn(device, identityOf(device), other.deviceId)).rejects.toMatchObject({ code: 5 });
    expect((await diagnosticsOf(other)).connects).toEqual([]);
  });

  it('cannot connect on the listener for tokens', async () => {
    const device = await provision();
    const token = await stack.deviceToken(device.deviceId);
    await expect(stack.mqtt(device.deviceId, token)).rejects.toMatchObject({ code: 5 });
  });

  it('is disconnected when it is revoked, and its certificate is no longer accepted', async () => {
    const device = await provision();
    const client = await logIn(device);
    const closed = new Promise<void>((resolve) => client.once('close', () => resolve()));
    await stack.admin.call('POST', `/devices/${device.deviceId}/revoke`);
    await closed;
    await expect(logIn(device)).rejects.toMatchObject({ code: 5 });
  });

  it('changes to another certificate while the previous one is still valid', async () => {
    const device = await provision();
    const next = await stack.admin.call<Identity>('POST', `/devices/${device.deviceId}/certificate`);
    await publish(await logIn(device, next), device);
    await publish(await logIn(device), device);
  });

  it('reconnects with the certificate after a kill -9 of the bridge, and of the edge', async () => {
    const device = await provision();
    await logIn(device);
    await stack.bridge.kill();
    await stack.restartBridge();
    await publish(await logIn(device), device);
    await stack.killEdge();
    await eventually(async () => {
      const client = await logIn(device).catch(() => undefined);
      if (client) await publish(client, device);
      return client !== undefined;
    });
  });
});
