/**
 * Seeds a stack over REST, as an admin would. An interrupted seeding is completed by the next one; a finished
 * seeding is not repeated.
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
import { systemTemplateId } from '../protocol/system-template.ts';
import { AdminClient, Operator } from './admin-client.ts';
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

/** A provisioned device, with the credentials that provisioning returns only once. */
export interface SeededDevice {
  id: string;
  hmacSecret: string;
  /** Valid for one hour. */
  token: string;
}

export interface PlantSeed {
  name: string;
  eanCons: string;
  eanProd: string;
  externalPlantId: string | null;
}

/** A plant that has been created, with its gateway. */
export type SeededPlant = PlantSeed & { id: string; gateway: SeededDevice };

/** Creates organization, plant, gateway and key once per data folder. The edge and its bridge must be running. */
export async function seedOnce(
  edgeUrl: string,
  folder: string,
  secrets: StackSecrets,
  plant: PlantSeed,
): Promise<Seeded> {
  const file = join(folder, 'seeded.json');
  if (existsSync(file)) return JSON.parse(readFileSync(file, 'utf8')) as Seeded;
  // Signature hints are on, because developers need them when a signature does not match.
  const admin = await seedOrganization(edgeUrl, secrets, { signatureHints: true });
  const plantId = await makePlant(admin, plant);
  const gateway = await registerDevice(admin, { plantId, type: 'GATEWAY', serialNumber: `GW-${plantId}` });
  const seeded: Seeded = {
    organization: { id: admin.organizationId ?? '', slug: secrets.organization.slug },
    plantId,
    gatewayId: gateway.id,
    apiKey: await seedApiKey(admin),
  };
  // The file is written last, so if it exists, everything in it has been created.
  writeSecretFile(file, seeded);
  return seeded;
}

/**
 * Returns a client logged in as the organization's admin. `settings`: settings of the organization [C-1.1]; `ceilings`:
 * what the operator allows it [C-14.2].
 */
export async function seedOrganization(
  edgeUrl: string,
  {
    admin,
    operatorToken,
    organization: { slug },
  }: Pick<StackSecrets, 'admin' | 'organization' | 'operatorToken'>,
  settings: Readonly<Record<string, unknown>> = {},
  ceilings: Readonly<Record<string, number>> = {},
): Promise<AdminClient> {
  const operator = new Operator(edgeUrl, operatorToken);
  await operator.createOrganization({ name: 'Acme Energy', slug }, { ...admin, name: 'Acme Admin' });
  const client = await AdminClient.enter(edgeUrl, admin);
  const organization = (await client.list<OrganizationRecord>('/organizations')).find(
    (one) => one.slug === slug,
  );
  if (!organization) throw new Error(`${admin.email} is not a member of the organization ${slug}`);
  client.organizationId = organization.id;
  if (Object.keys(ceilings).length > 0)
    await operator.call('PATCH', `/organizations/${organization.id}/limits`, ceilings);
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

/**
 * Creates the plant with its sub-devices and configuration, unless it exists, and returns its id. It has no
 * gateway yet.
 */
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
    const templateId = systemTemplateId(rest.assetType);
    const subDevice = { externalId: deviceId, ...rest, templateId };
    const { status, body } = await admin.ask('POST', `/plants/${id}/sub-devices`, subDevice);
    // 409: an earlier, interrupted seeding has created it.
    if (status !== 201 && status !== 409) throw new Error(`${deviceId}: ${JSON.stringify(body)}`);
  }
  await admin.call('PUT', `/plants/${id}/config`, SITE_CONFIG);
  return id;
}

/** Registers a device, or finds the one that an interrupted seeding has registered. */
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
  if (!known) throw new Error(`cannot register the gateway: ${JSON.stringify(body)}`);
  return known;
}

/** Registers and provisions a device that logs in with a token. */
export async function seedDevice(
  admin: AdminClient,
  plantId: string | null,
  type: DeviceType,
): Promise<SeededDevice> {
  const { id } = await registerDevice(admin, { plantId, type, serialNumber: randomUUID() });
  const { security } = await admin.call<ProvisioningPackage>('POST', `/devices/${id}/provision`);
  return { id, hmacSecret: security.hmacSecret, token: security.mqttToken ?? '' };
}

/** An API key with its secrets, which are shown only once. */
export type SeededKey = Seeded['apiKey'];

export interface KeySeed {
  scopes?: ApiKeyScope[];
  expiresAtMs?: number;
}

/** Creates an API key. The edge tests it through the bridge, which must be running. */
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
