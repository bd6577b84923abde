/**
 * What a seeded stack consists of, made over REST as an admin makes it. A seeding that was cut short can be done again; one
 * that was done is left alone.
 */
import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DeviceRecord, ProvisioningPackage } from '../protocol/device-record.ts';
import type { AssetType, DeviceType } from '../protocol/enums.ts';
import type { OrganizationRecord } from '../protocol/organization.ts';
import type { PlantRecord } from '../protocol/plant-record.ts';
import type { ApiKeyScope } from '../protocol/scopes.ts';
import type { Constraints, SiteConfig } from '../protocol/site-config.ts';
import { AdminClient } from './admin-client.ts';
import { type Seeded, type StackSecrets, writeSecretFile } from './credentials.ts';

export const VCP_SCOPES: ApiKeyScope[] = [
  'vcp:connect',
  'vcp:read',
  'vcp:write:setpoint',
  'vcp:write:device-command',
  'vcp:write:schedule',
  'vcp:write:mode',
  'vcp:write:config',
];

export interface SeededSubDevice {
  deviceId: string;
  assetType: AssetType;
  name: string;
  ratedPowerKw: number | null;
  capacityKwh: number | null;
}

export const SUB_DEVICES: SeededSubDevice[] = [
  {
    deviceId: 'BESS-1',
    assetType: 'BESS',
    name: 'Battery',
    ratedPowerKw: 50,
    capacityKwh: 100,
  },
  {
    deviceId: 'FVE-1',
    assetType: 'FVE',
    name: 'Roof PV',
    ratedPowerKw: 80,
    capacityKwh: null,
  },
  {
    deviceId: 'METER-1',
    assetType: 'METER',
    name: 'Grid meter',
    ratedPowerKw: null,
    capacityKwh: null,
  },
  {
    deviceId: 'EV-1',
    assetType: 'EV_CHARGER',
    name: 'Car park',
    ratedPowerKw: 22,
    capacityKwh: null,
  },
];

export const CONSTRAINTS: Constraints = {
  maxImportKw: 120,
  maxExportKw: 90,
  maxChargeKw: 50,
  maxDischargeKw: 50,
  minSocPercent: 10,
  maxSocPercent: 95,
  maxRampKwPerMinute: null,
};

export const SITE_CONFIG: SiteConfig = {
  constraints: CONSTRAINTS,
  hardLimits: null,
  fallback: { mode: 'STANDARD', afterSeconds: 300, action: 'MODE', setpointKw: null },
  operatingMode: 'STANDARD',
};

/** A device that is provisioned, and what it was told once. */
export interface SeededDevice {
  id: string;
  hmacSecret: string;
  /** Good for an hour. */
  token: string;
}

export interface PlantSeed {
  name: string;
  eanCons: string;
  eanProd: string;
  externalPlantId: string | null;
}

/** A plant that is there, with its gateway. */
export type SeededPlant = PlantSeed & { id: string; gateway: SeededDevice };

/** Organization, plant, gateway and key, once in the life of a data folder. The edge and its bridge are up. */
export async function seedOnce(
  edgeUrl: string,
  folder: string,
  secrets: StackSecrets,
  plant: PlantSeed,
): Promise<Seeded> {
  const file = join(folder, 'seeded.json');
  if (existsSync(file)) {
    const seeded = JSON.parse(readFileSync(file, 'utf8')) as Seeded;
    // Folders of before have no gateway of this platform's making.
    if (seeded.gatewayId) return seeded;
  }
  // Whoever tries things out here is told why a signature does not match.
  const admin = await seedOrganization(edgeUrl, secrets, { signatureHints: true });
  const plantId = await makePlant(admin, plant);
  const gateway = await registerDevice(admin, { plantId, type: 'GATEWAY', serialNumber: `GW-${plantId}` });
  const seeded: Seeded = {
    organization: { id: admin.organizationId ?? '', slug: secrets.organization.slug },
    plantId,
    gatewayId: gateway.id,
    apiKey: await seedApiKey(admin),
  };
  // Last: where it stands, all before it was done.
  writeSecretFile(file, seeded);
  return seeded;
}

/** The organization's admin, in its context. `settings`: what the organization sets for itself [C-1.1]. */
export async function seedOrganization(
  edgeUrl: string,
  { admin, organization: { slug } }: Pick<StackSecrets, 'admin' | 'organization'>,
  settings: Readonly<Record<string, unknown>> = {},
): Promise<AdminClient> {
  const client = await AdminClient.enter(edgeUrl, admin, 'Acme Admin');
  const own = await client.list<OrganizationRecord>('/organizations');
  const organization =
    own.find((one) => one.slug === slug) ??
    (await client.call<OrganizationRecord>('POST', '/organizations', { name: 'Acme Energy', slug }));
  client.organizationId = organization.id;
  if (Object.keys(settings).length > 0) {
    await client.call('PATCH', `/organizations/${organization.id}`, { settings });
  }
  return client;
}

export async function seedPlant(
  admin: AdminClient,
  plant: PlantSeed,
  subDevices: readonly SeededSubDevice[] = SUB_DEVICES,
): Promise<SeededPlant> {
  const id = await makePlant(admin, plant, subDevices);
  return { id, gateway: await seedDevice(admin, id, 'GATEWAY'), ...plant };
}

/** Its id, when it is there with its sub-devices and configuration; nobody serves it yet. */
export async function makePlant(
  admin: AdminClient,
  plant: PlantSeed,
  subDevices: readonly SeededSubDevice[] = SUB_DEVICES,
): Promise<string> {
  const known = plant.externalPlantId
    ? (await admin.list<PlantRecord>('/plants')).find(
        ({ externalPlantId }) => externalPlantId === plant.externalPlantId,
      )
    : undefined;
  const { id } = known ?? (await admin.call<PlantRecord>('POST', '/plants', plant));
  for (const { deviceId, ...rest } of subDevices) {
    const subDevice = { externalId: deviceId, ...rest };
    const { status, body } = await admin.ask('POST', `/plants/${id}/sub-devices`, subDevice);
    // There already, when an earlier seeding was cut short.
    if (status !== 201 && status !== 409) throw new Error(`${deviceId}: ${JSON.stringify(body)}`);
  }
  await admin.call('PUT', `/plants/${id}/config`, SITE_CONFIG);
  return id;
}

/** A device, registered now or when an earlier seeding was cut short. */
async function registerDevice(
  admin: AdminClient,
  { plantId, type, serialNumber }: { plantId: string | null; type: DeviceType; serialNumber: string },
): Promise<DeviceRecord> {
  const fields = {
    name: `Gateway ${serialNumber.slice(-6)}`,
    serialNumber: serialNumber.slice(0, 50),
    type,
    plantId,
  };
  const { status, body } = await admin.ask<DeviceRecord>('POST', '/devices', {
    ...fields,
    authMethod: 'TOKEN',
  });
  if (status === 201) return body;
  const known = (await admin.list<DeviceRecord>('/devices')).find(
    (one) => one.serialNumber === fields.serialNumber,
  );
  if (!known) throw new Error(`the gateway is not registered: ${JSON.stringify(body)}`);
  return known;
}

/** A device that logs in with a token, provisioned. */
export async function seedDevice(
  admin: AdminClient,
  plantId: string | null,
  type: DeviceType,
): Promise<SeededDevice> {
  const { id } = await registerDevice(admin, { plantId, type, serialNumber: randomUUID() });
  const { security } = await admin.call<ProvisioningPackage>('POST', `/devices/${id}/provision`);
  return { id, hmacSecret: security.hmacSecret, token: security.mqttToken ?? '' };
}

/** A key, with what is told of it once. */
export type SeededKey = Seeded['apiKey'];

export interface KeySeed {
  scopes?: ApiKeyScope[];
  expiresAtMs?: number;
}

/** A key that its probe has let in: the bridge is up. */
export async function seedApiKey(
  admin: AdminClient,
  { scopes = VCP_SCOPES, expiresAtMs }: KeySeed = {},
): Promise<SeededKey> {
  const { key, signingKey, apiKey } = await admin.createKey({
    name: 'Trading desk',
    partnerId: 'acme-trader',
    scopes,
    ...(expiresAtMs === undefined ? {} : { expiresAt: new Date(expiresAtMs).toISOString() }),
  });
  return { id: apiKey.id, key, signingKey };
}
