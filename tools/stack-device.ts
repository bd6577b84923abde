/** A device of the running stack, for tools: finds or registers it, and provides its identity and its package. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DeviceRecord, ProvisioningPackage, TokenAnswer } from '../protocol/device-record.ts';
import { LIMIT } from '../protocol/limits.ts';
import type { PlantRecord } from '../protocol/plant-record.ts';
import { deviceTopic } from '../protocol/topics.ts';
import { AdminClient } from './admin-client.ts';
import { Identity, type IdentityOptions } from './simulator/identity.ts';
import { dataFolder, type Stack } from './stack-file.ts';

export async function enterStack(stack: Stack): Promise<AdminClient> {
  const admin = await AdminClient.enter(stack.baseUrl, stack.admin);
  admin.organizationId = stack.organization.id;
  return admin;
}

/**
 * Finds a device by id, name or serial number. If none or several match, throws a message that lists the
 * choices.
 */
export async function findDevice(admin: AdminClient, word: string): Promise<DeviceRecord> {
  const all = await admin.list<DeviceRecord>('/devices');
  const found = all.filter(({ id, name, serialNumber }) => [id, name, serialNumber].includes(word));
  return onlyOne(found, 'device', word, all);
}

/** Returns the gateway that this tool uses for the plant: registered once, later found by its serial number. */
export async function ensureGateway(admin: AdminClient, word: string): Promise<DeviceRecord> {
  const plants = await admin.list<PlantRecord>('/plants');
  const plant = onlyOne(
    plants.filter(({ id, name, externalPlantId }) => [id, name, externalPlantId].includes(word)),
    'plant',
    word,
    plants,
  );
  const serialNumber = `OWN-${plant.id}`;
  const known = (await admin.list<DeviceRecord>('/devices')).find((one) => one.serialNumber === serialNumber);
  const fields = { name: `Own gateway of ${plant.name}`.slice(0, 100), serialNumber, plantId: plant.id };
  return (
    known ??
    (await admin.call<DeviceRecord>('POST', '/devices', { ...fields, type: 'GATEWAY', authMethod: 'TOKEN' }))
  );
}

function onlyOne<Row extends { id: string; name: string }>(
  found: readonly Row[],
  noun: string,
  word: string,
  all: readonly Row[],
): Row {
  const [first, second] = found;
  if (first && !second) return first;
  const list = (second ? found : all).map(({ id, name }) => `\n  ${id}  ${name}`).join('');
  throw new Error(
    `${second ? 'more than one' : 'no'} ${noun} is called "${word}"; choose one of:${list || ' (there are none)'}`,
  );
}

/**
 * Returns the device's identity: stored in this folder, or provisioned now. A device that was provisioned
 * elsewhere gets a new secret. Throws if the device does not use tokens or is neither PENDING nor ACTIVE.
 */
export async function identify(
  stack: Stack,
  { id, name, status, authMethod }: DeviceRecord,
): Promise<Identity> {
  if (authMethod !== 'TOKEN')
    throw new Error(`${name} logs in with a certificate; this tool supports only devices with tokens`);
  if (status !== 'PENDING' && status !== 'ACTIVE')
    throw new Error(`${name} is ${status}; it must be PENDING or ACTIVE`);
  return await Identity.ensure(identityOptions(stack, id));
}

function identityOptions({ baseUrl, admin, organization, plants }: Stack, deviceId: string): IdentityOptions {
  // If the device is the plant's gateway, the simulator uses it, too. Both then share one identity file, so
  // that they use the same secret.
  const isSimulated = plants.some(({ gatewayId }) => gatewayId === deviceId);
  const file = join(dataFolder(), isSimulated ? 'gateway.json' : `device-${deviceId}.json`);
  return { edgeUrl: baseUrl, admin, organizationId: organization.id, deviceId, file };
}

/** `expiresIn`: seconds. */
export async function freshToken(admin: AdminClient, id: string, expiresIn: number): Promise<TokenAnswer> {
  return await admin.call<TokenAnswer>('POST', `/devices/${id}/mqtt-token`, { expiresIn });
}

/**
 * Builds a provisioning package from the running stack, the device's stored secret and a new token, so that the
 * user's own client can log in as the device.
 */
export function packageOf(stack: Stack, id: string, secret: string, token: TokenAnswer): ProvisioningPackage {
  const { host, port, ca } = stack.mqtt;
  const topic = (name: 'telemetry' | 'status' | 'commands' | 'ack') => deviceTopic(id, name);
  return {
    deviceId: id,
    authMethod: 'TOKEN',
    mqtt: {
      broker: `mqtts://${host}:${port}`,
      port,
      topics: {
        telemetry: topic('telemetry'),
        status: topic('status'),
        commands: topic('commands'),
        ack: topic('ack'),
      },
    },
    security: {
      hmacSecret: secret,
      mqttToken: token.token,
      tokenExpiresAt: token.expiresAt,
      caCertificate: readFileSync(ca, 'utf8'),
    },
    protocol: {
      version: '1.0',
      signatureAlgorithm: 'HMAC-SHA256',
      timestampToleranceMs: LIMIT.timestampToleranceMs,
    },
  };
}
