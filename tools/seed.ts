/**
 * Rows and objects of a seeded organization: what the admin surface will do by hand. A seeding that was cut short can be
 * done again; one that was done is left alone, for its objects would lose what partners and admins changed since.
 */
import { createHash, randomBytes, randomUUID, scryptSync } from 'node:crypto';
import type { Miniflare } from 'miniflare';
import { apiKeyPrefix } from '../protocol/api-key.ts';
import type { AssetType } from '../protocol/enums.ts';
import type { ApiKeyScope } from '../protocol/scopes.ts';
import type { Constraints, SiteConfig } from '../protocol/site-config.ts';
import type { StackCredentials } from './credentials.ts';
import { siteOf, vhostOf } from './objects.ts';

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

export interface PlantSeed {
  id: string;
  name: string;
  eanCons: string;
  eanProd: string;
  externalPlantId: string | null;
  gateway: { id: string; hmacSecret: string };
}

/** Organization, plant and key, once in the life of a data folder. */
export async function seedOnce(
  miniflare: Miniflare,
  credentials: StackCredentials,
  plant: PlantSeed,
): Promise<void> {
  const { organization, admin, apiKey } = credentials;
  const database = await miniflare.getD1Database('DB');
  // The key's row comes last: where it stands, all before it was done.
  if (await database.prepare('SELECT 1 FROM api_keys WHERE id = ?').bind(apiKey.id).first()) return;
  await seedOrganization(miniflare, credentials);
  await seedPlant(miniflare, organization.id, plant);
  await seedApiKey(miniflare, organization, admin.id, apiKey);
}

/** `settings`: what the organization sets for itself [C-1.1]. */
export async function seedOrganization(
  miniflare: Miniflare,
  credentials: StackCredentials,
  settings: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  const database = await miniflare.getD1Database('DB');
  const { organization, admin } = credentials;
  const now = Date.now();
  await database.batch([
    database
      .prepare(
        'INSERT OR IGNORE INTO organizations (id, name, slug, settings, created_at_ms) VALUES (?, ?, ?, ?, ?)',
      )
      .bind(organization.id, 'Acme Energy', organization.slug, JSON.stringify(settings), now),
    database
      .prepare(
        'INSERT OR IGNORE INTO users (id, email, name, password_hash, created_at_ms) VALUES (?, ?, ?, ?, ?)',
      )
      .bind(admin.id, admin.email, 'Acme Admin', hashPassword(admin.password), now),
    database
      .prepare(
        'INSERT OR IGNORE INTO memberships (organization_id, user_id, role, created_at_ms) VALUES (?, ?, ?, ?)',
      )
      .bind(organization.id, admin.id, 'ORG_ADMIN', now),
  ]);
}

export async function seedPlant(
  miniflare: Miniflare,
  organizationId: string,
  plant: PlantSeed,
  subDevices: readonly SeededSubDevice[] = SUB_DEVICES,
): Promise<void> {
  const database = await miniflare.getD1Database('DB');
  const now = Date.now();
  await database.batch([
    database
      .prepare(
        'INSERT OR IGNORE INTO plants (id, organization_id, name, external_plant_id, ean_cons, ean_prod, created_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?)',
      )
      .bind(plant.id, organizationId, plant.name, plant.externalPlantId, plant.eanCons, plant.eanProd, now),
    database
      .prepare(
        `INSERT OR IGNORE INTO devices (id, organization_id, plant_id, name, serial_number, type, auth_method, status, provisioned_at_ms, created_at_ms)
         VALUES (?, ?, ?, ?, ?, 'GATEWAY', 'TOKEN', 'ACTIVE', ?, ?)`,
      )
      .bind(
        plant.gateway.id,
        organizationId,
        plant.id,
        `Gateway of ${plant.name}`,
        `GW-${plant.gateway.id.slice(0, 8)}`,
        now,
        now,
      ),
    ...subDevices.map((subDevice) =>
      database
        .prepare(
          `INSERT OR IGNORE INTO sub_devices (id, plant_id, external_id, asset_type, name, rated_power_kw, capacity_kwh, meter_role, created_at_ms)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        )
        .bind(
          randomUUID(),
          plant.id,
          subDevice.deviceId,
          subDevice.assetType,
          subDevice.name,
          subDevice.ratedPowerKw,
          subDevice.capacityKwh,
          subDevice.meterRole,
          now,
        ),
    ),
  ]);
  const site = await siteOf(miniflare, plant.id);
  await site.configure(plant.id, SITE_CONFIG);
  await site.adoptDevice({
    siteId: plant.id,
    plantId: plant.id,
    deviceId: plant.gateway.id,
    type: 'GATEWAY',
    hmacSecret: plant.gateway.hmacSecret,
  });
}

export interface KeySeed {
  id: string;
  key: string;
  signingKey: string;
  scopes?: ApiKeyScope[];
  allowedPlantIds?: string[] | null;
  expiresAtMs?: number | null;
}

export async function seedApiKey(
  miniflare: Miniflare,
  organization: { id: string; slug: string },
  createdBy: string,
  seed: KeySeed,
): Promise<void> {
  const database = await miniflare.getD1Database('DB');
  const now = Date.now();
  const scopes = seed.scopes ?? VCP_SCOPES;
  const vhost = `partner-${seed.id}`;
  // The row last: it says that all is seeded.
  const object = await vhostOf(miniflare, seed.id);
  await object.open({
    keyId: seed.id,
    keyPrefix: apiKeyPrefix(seed.key),
    slug: organization.slug,
    vhost,
    organizationId: organization.id,
    scopes,
    allowedPlantIds: seed.allowedPlantIds ?? null,
    expiresAtMs: seed.expiresAtMs ?? null,
    signingKey: seed.signingKey,
  });
  await database
    .prepare(
      `INSERT OR IGNORE INTO api_keys (id, organization_id, key_hash, key_prefix, name, partner_id, scopes, allowed_plant_ids, vhost, expires_at_ms, created_by, created_at_ms, updated_at_ms)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    )
    .bind(
      seed.id,
      organization.id,
      createHash('sha256').update(seed.key).digest('hex'),
      apiKeyPrefix(seed.key),
      'Trading desk',
      'acme-trader',
      JSON.stringify(scopes),
      seed.allowedPlantIds ? JSON.stringify(seed.allowedPlantIds) : null,
      vhost,
      seed.expiresAtMs ?? null,
      createdBy,
      now,
      now,
    )
    .run();
}

/** scrypt with its parameters in front, as the login will read it. */
function hashPassword(password: string): string {
  const [cost, blockSize, parallelization] = [16_384, 8, 1];
  const salt = randomBytes(16);
  const hash = scryptSync(password, salt, 32, { cost, blockSize, parallelization });
  return [
    'scrypt',
    cost,
    blockSize,
    parallelization,
    salt.toString('base64url'),
    hash.toString('base64url'),
  ].join('$');
}
