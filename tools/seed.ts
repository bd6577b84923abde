/**
 * What a seeded stack consists of, made over REST as an admin makes it; devices alone have no REST yet, and go into D1 and
 * their object by hand. A seeding that was cut short can be done again; one that was done is left alone.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Miniflare } from 'miniflare';
import type { AssetType, DeviceType } from '../protocol/enums.ts';
import type { OrganizationRecord } from '../protocol/organization.ts';
import type { PlantRecord } from '../protocol/plant-record.ts';
import type { ApiKeyScope } from '../protocol/scopes.ts';
import type { Constraints, SiteConfig } from '../protocol/site-config.ts';
import { AdminClient } from './admin-client.ts';
import { type Seeded, type StackSecrets, writeSecretFile } from './credentials.ts';
import { siteOf } from './objects.ts';

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
  meterRole: string | null;
}

export const SUB_DEVICES: SeededSubDevice[] = [
  {
    deviceId: 'BESS-1',
    assetType: 'BESS',
    name: 'Battery',
    ratedPowerKw: 50,
    capacityKwh: 100,
    meterRole: null,
  },
  {
    deviceId: 'FVE-1',
    assetType: 'FVE',
    name: 'Roof PV',
    ratedPowerKw: 80,
    capacityKwh: null,
    meterRole: null,
  },
  {
    deviceId: 'METER-1',
    assetType: 'METER',
    name: 'Grid meter',
    ratedPowerKw: null,
    capacityKwh: null,
    meterRole: 'GRID',
  },
  {
    deviceId: 'EV-1',
    assetType: 'EV_CHARGER',
    name: 'Car park',
    ratedPowerKw: 22,
    capacityKwh: null,
    meterRole: null,
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

export interface Gateway {
  id: string;
  hmacSecret: string;
}

export interface PlantSeed {
  name: string;
  eanCons: string;
  eanProd: string;
  externalPlantId: string | null;
  gateway: Gateway;
}

/** A plant that is there. */
export type SeededPlant = PlantSeed & { id: string };

/** Organization, plant and key, once in the life of a data folder. The edge and its bridge are up. */
export async function seedOnce(
  edge: { url: string; miniflare: Miniflare },
  folder: string,
  secrets: StackSecrets,
  plant: PlantSeed,
): Promise<Seeded> {
  const file = join(folder, 'seeded.json');
  if (existsSync(file)) return JSON.parse(readFileSync(file, 'utf8')) as Seeded;
  const admin = await seedOrganization(edge.url, secrets);
  const { id: plantId } = await seedPlant(admin, edge.miniflare, plant);
  const seeded: Seeded = {
    organization: { id: admin.organizationId ?? '', slug: secrets.organization.slug },
    plantId,
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
  miniflare: Miniflare,
  { gateway, ...plant }: PlantSeed,
  subDevices: readonly SeededSubDevice[] = SUB_DEVICES,
): Promise<SeededPlant> {
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
  await seedDevice(
    miniflare,
    { organizationId: admin.organizationId ?? '', plantId: id, type: 'GATEWAY' },
    gateway,
  );
  return { id, gateway, ...plant };
}

/** A device that is provisioned, in D1 and in the object that serves it. */
export async function seedDevice(
  miniflare: Miniflare,
  { organizationId, plantId, type }: { organizationId: string; plantId: string; type: DeviceType },
  { id, hmacSecret }: Gateway,
): Promise<void> {
  const database = await miniflare.getD1Database('DB');
  const now = Date.now();
  await database
    .prepare(
      `INSERT OR IGNORE INTO devices (id, organization_id, plant_id, name, serial_number, type, auth_method, status, provisioned_at_ms, created_at_ms)
       VALUES (?, ?, ?, ?, ?, ?, 'TOKEN', 'ACTIVE', ?, ?)`,
    )
    .bind(id, organizationId, plantId, `Device ${id.slice(0, 8)}`, `SN-${id.slice(0, 8)}`, type, now, now)
    .run();
  const site = await siteOf(miniflare, plantId);
  await site.adoptDevice({ siteId: plantId, plantId, deviceId: id, type, hmacSecret });
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
