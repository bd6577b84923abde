/** An organization with plants, gateways and keys in D1 and in their objects; unique for each call. */
import { env } from 'cloudflare:workers';
import { sha256Hex } from '../../../durable-objects/secrets/hmac.ts';
import { apiKeyPrefix, composeApiKey } from '../../../protocol/api-key.ts';
import type { AssetType, DeviceType } from '../../../protocol/enums.ts';
import type { ApiKeyScope } from '../../../protocol/scopes.ts';
import { DEFAULT_SITE_CONFIG, type SiteConfig, UNLIMITED } from '../../../protocol/site-config.ts';

export const ALL_VCP_SCOPES: ApiKeyScope[] = [
  'vcp:connect',
  'vcp:read',
  'vcp:write:setpoint',
  'vcp:write:device-command',
  'vcp:write:schedule',
  'vcp:write:mode',
  'vcp:write:config',
];

export const LIMITED: SiteConfig = {
  ...DEFAULT_SITE_CONFIG,
  constraints: { ...UNLIMITED, maxImportKw: 100, maxExportKw: 80, maxChargeKw: 50, maxDischargeKw: 50 },
};

export interface Organization {
  id: string;
  slug: string;
  adminId: string;
}

/** An organization with an admin, a slug that no other has, and rates that no test meets unless it sets its own. */
export async function createOrganization(changes: Record<string, unknown> = {}): Promise<Organization> {
  const settings = { deviceRatePerSecond: 1_000, publishRatePerSecond: 10_000, ...changes };
  const id = crypto.randomUUID();
  const adminId = crypto.randomUUID();
  const slug = `org-${id.slice(0, 8)}`;
  await env.DB.batch([
    env.DB.prepare(
      'INSERT INTO organizations (id, name, slug, settings, created_at_ms) VALUES (?, ?, ?, ?, ?)',
    ).bind(id, slug, slug, JSON.stringify(settings), Date.now()),
    env.DB.prepare('INSERT INTO users (id, email, name, created_at_ms) VALUES (?, ?, ?, ?)').bind(
      adminId,
      `${slug}@example.org`,
      'Admin',
      Date.now(),
    ),
  ]);
  return { id, slug, adminId };
}

export interface SubDeviceOptions {
  externalId: string;
  assetType: AssetType;
  linkedDeviceId?: string;
  ratedPowerKw?: number;
  capacityKwh?: number;
  meterRole?: string;
}

export const DEFAULT_SUB_DEVICES: SubDeviceOptions[] = [
  { externalId: 'BESS-1', assetType: 'BESS', ratedPowerKw: 40, capacityKwh: 100 },
  { externalId: 'FVE-1', assetType: 'FVE', ratedPowerKw: 80 },
  { externalId: 'METER-1', assetType: 'METER', meterRole: 'GRID' },
];

export interface Plant {
  id: string;
  gateway: { id: string; hmacSecret: string };
}

export interface PlantOptions {
  subDevices?: SubDeviceOptions[];
  config?: SiteConfig;
  externalPlantId?: string;
  eanCons?: string;
  eanProd?: string;
}

/** A plant with its sub-devices, its configuration and one ACTIVE gateway that its Site has adopted. */
export async function createPlant(organization: Organization, options: PlantOptions = {}): Promise<Plant> {
  const id = crypto.randomUUID();
  await env.DB.prepare(
    'INSERT INTO plants (id, organization_id, name, external_plant_id, ean_cons, ean_prod, created_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?)',
  )
    .bind(
      id,
      organization.id,
      `Plant ${id.slice(0, 8)}`,
      options.externalPlantId ?? null,
      options.eanCons ?? null,
      options.eanProd ?? null,
      Date.now(),
    )
    .run();
  for (const subDevice of options.subDevices ?? DEFAULT_SUB_DEVICES) {
    await env.DB.prepare(
      `INSERT INTO sub_devices (id, plant_id, external_id, asset_type, name, linked_device_id, rated_power_kw, capacity_kwh, meter_role, created_at_ms)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    )
      .bind(
        crypto.randomUUID(),
        id,
        subDevice.externalId,
        subDevice.assetType,
        subDevice.externalId,
        subDevice.linkedDeviceId ?? null,
        subDevice.ratedPowerKw ?? null,
        subDevice.capacityKwh ?? null,
        subDevice.meterRole ?? null,
        Date.now(),
      )
      .run();
  }
  await siteOf(id).configure(id, options.config ?? LIMITED);
  const gateway = await createDevice(organization, id, 'GATEWAY');
  return { id, gateway };
}

/** A device in D1, adopted by the object that serves it. */
export async function createDevice(
  organization: Organization,
  plantId: string | null,
  type: DeviceType,
): Promise<{ id: string; hmacSecret: string }> {
  const id = crypto.randomUUID();
  const hmacSecret = randomHex(32);
  await env.DB.prepare(
    `INSERT INTO devices (id, organization_id, plant_id, name, serial_number, type, auth_method, status, created_at_ms)
     VALUES (?, ?, ?, ?, ?, ?, 'TOKEN', 'ACTIVE', ?)`,
  )
    .bind(id, organization.id, plantId, `Device ${id.slice(0, 8)}`, id, type, Date.now())
    .run();
  const siteId = plantId ?? id;
  await siteOf(siteId).adoptDevice({ siteId, plantId, deviceId: id, type, hmacSecret });
  return { id, hmacSecret };
}

export interface Key {
  id: string;
  key: string;
  signingKey: string;
}

export interface KeyOptions {
  scopes?: ApiKeyScope[];
  allowedPlantIds?: string[] | null;
  allowedIps?: string[];
  expiresAtMs?: number;
  revokedAtMs?: number;
}

/** A key in D1 and, unless it is a pure REST key, its Vhost. */
export async function createKey(organization: Organization, options: KeyOptions = {}): Promise<Key> {
  const id = crypto.randomUUID();
  const key = composeApiKey(crypto.getRandomValues(new Uint8Array(128)));
  const signingKey = randomHex(32);
  const scopes = options.scopes ?? ALL_VCP_SCOPES;
  const vhost = `partner-${id}`;
  await env.DB.prepare(
    `INSERT INTO api_keys (id, organization_id, key_hash, key_prefix, name, partner_id, scopes, allowed_plant_ids, allowed_ips, vhost, expires_at_ms, revoked_at_ms, created_by, created_at_ms, updated_at_ms)
     VALUES (?, ?, ?, ?, 'key', 'partner', ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  )
    .bind(
      id,
      organization.id,
      sha256Hex(key),
      apiKeyPrefix(key),
      JSON.stringify(scopes),
      options.allowedPlantIds ? JSON.stringify(options.allowedPlantIds) : null,
      JSON.stringify(options.allowedIps ?? []),
      vhost,
      options.expiresAtMs ?? null,
      options.revokedAtMs ?? null,
      organization.adminId,
      Date.now(),
      Date.now(),
    )
    .run();
  await vhostOf(id).open({
    keyId: id,
    keyPrefix: apiKeyPrefix(key),
    slug: organization.slug,
    vhost,
    organizationId: organization.id,
    scopes,
    allowedPlantIds: options.allowedPlantIds ?? null,
    expiresAtMs: options.expiresAtMs ?? null,
    signingKey,
  });
  return { id, key, signingKey };
}

export interface World {
  organization: Organization;
  plant: Plant;
  key: Key;
}

/** A new organization with a plant, and a key that was made after it. */
export async function createWorld(options: PlantOptions = {}): Promise<World> {
  const organization = await createOrganization();
  const plant = await createPlant(organization, options);
  return { organization, plant, key: await createKey(organization) };
}

/** The Site of a plant, or of a device without one. */
export function siteOf(siteId: string) {
  return env.SITE.get(env.SITE.idFromName(siteId));
}

/** The Vhost of a key. */
export function vhostOf(keyId: string) {
  return env.VHOST.get(env.VHOST.idFromName(keyId));
}

/** Random bytes as hexadecimal text. */
export function randomHex(bytes: number): string {
  return [...crypto.getRandomValues(new Uint8Array(bytes))]
    .map((byte) => byte.toString(16).padStart(2, '0'))
    .join('');
}
