/**
 * Organizations with plants, gateways and keys, made by functions of the Worker in D1 and in their objects; unique for
 * each call. Existing objects do not get the changes: new objects read D1, a test notifies older ones itself.
 */
import { env } from 'cloudflare:workers';
import { sha256Hex } from '../../../durable-objects/secrets/hmac.ts';
import { apiKeyPrefix, composeApiKey } from '../../../protocol/api-key.ts';
import type { AuditEventName } from '../../../protocol/audit-names.ts';
import type { AssetType, AuthMethod, DeviceType, MeterRole } from '../../../protocol/enums.ts';
import { organizationChange } from '../../../protocol/organization.ts';
import { type ApiKeyScope, getsEvents, hasVhost } from '../../../protocol/scopes.ts';
import { DEFAULT_SITE_CONFIG, type SiteConfig, UNLIMITED } from '../../../protocol/site-config.ts';
import { type ApiKeyRow, activateKey, insertKey } from '../../../registry/api-keys.ts';
import { createDevice as registerDevice } from '../../../registry/devices.ts';
import { changeOrganization } from '../../../registry/organizations.ts';
import { createPlant as registerPlant } from '../../../registry/plants.ts';
import { createSubDevice } from '../../../registry/sub-devices.ts';
import { registerUser } from '../../../registry/users.ts';
import { revokeApiKey } from '../../../worker/lifecycle/api-key.ts';
import { provisionDevice } from '../../../worker/lifecycle/device.ts';
import { KeyClient } from './client.ts';
import { auditOf, done, markDelivered } from './commits.ts';

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

/** A hash that no password has: the admins of these organizations cannot log in. */
const NO_PASSWORD = 'scrypt$2$1$1$$';

export interface Organization {
  id: string;
  slug: string;
  adminId: string;
}

/** An organization with an admin, a unique slug, and rate limits that no test reaches by accident. */
export async function createOrganization(changes: Record<string, unknown> = {}): Promise<Organization> {
  const slug = `org-${randomHex(4)}`;
  const now = Date.now();
  const admin = { email: `${slug}@example.org`, name: 'Admin', provedAtMs: 1, passwordHash: NO_PASSWORD };
  const { user, organization } = done(
    await registerUser(env.DB, admin, { name: slug, slug }, { address: null, now }),
  );
  const id = organization?.id ?? '';
  const settings = { deviceRatePerSecond: 1_000, publishRatePerSecond: 10_000, ...changes };
  const change = organizationChange.parse({ settings });
  const world = { id, slug, adminId: user.id };
  const audit = auditOf(world, 'organization.updated', 'ORGANIZATION')(id);
  await markDelivered(await changeOrganization(env.DB, id, change, audit, now));
  return world;
}

export interface SubDeviceOptions {
  externalId: string;
  assetType: AssetType;
  linkedDeviceId?: string;
  ratedPowerKw?: number;
  capacityKwh?: number;
  meterRole?: MeterRole;
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

export interface PlantNames {
  name?: string;
  externalPlantId?: string;
  eanCons?: string;
  eanProd?: string;
}

export interface PlantOptions extends PlantNames {
  subDevices?: SubDeviceOptions[];
  config?: SiteConfig;
}

/** A plant with its sub-devices, its configuration and one ACTIVE gateway that its Site has adopted. */
export async function createPlant(organization: Organization, options: PlantOptions = {}): Promise<Plant> {
  const { subDevices = DEFAULT_SUB_DEVICES, config = LIMITED, ...names } = options;
  const id = await addPlant(organization, names);
  const [gateway] = await Promise.all([
    createDevice(organization, id, 'GATEWAY'),
    siteOf(id).configure(id, config),
    ...subDevices.map((subDevice) => addSubDevice(organization, id, subDevice)),
  ]);
  return { id, gateway };
}

/** Adds a plant to the registry, without a Site, and returns its id. */
export async function addPlant(organization: Organization, names: PlantNames = {}): Promise<string> {
  const request = { name: `Plant ${randomHex(4)}`, ...names };
  const audit = auditOf(organization, 'plant.created', 'PLANT');
  const { row, change } = done(await registerPlant(env.DB, organization.id, request, audit, Date.now()));
  await markDelivered(change);
  return row.id;
}

/** Adds a sub-device without notifying the Site, and returns its id. */
export async function addSubDevice(
  organization: Organization,
  plantId: string,
  subDevice: SubDeviceOptions,
): Promise<string> {
  const { row, change } = await registerSubDevice(organization, plantId, subDevice);
  await markDelivered(change);
  return row.id;
}

/** Adds a sub-device; the caller must mark the change as delivered. */
export async function registerSubDevice(
  organization: Organization,
  plantId: string,
  subDevice: SubDeviceOptions,
) {
  const whose = { organizationId: organization.id, plantId };
  const request = { name: subDevice.externalId, ...subDevice };
  const audit = auditOf(organization, 'sub_device.created', 'SUB_DEVICE');
  return done(await createSubDevice(env.DB, whose, request, audit, Date.now()));
}

/** Adds a device and provisions it in the object that serves it. */
export async function createDevice(
  organization: Organization,
  plantId: string | null,
  type: DeviceType,
  authMethod: AuthMethod = 'TOKEN',
): Promise<{ id: string; hmacSecret: string }> {
  const serialNumber = crypto.randomUUID();
  const name = `Device ${serialNumber.slice(0, 8)}`;
  const request = { name, serialNumber, type, authMethod, metadata: {}, plantId, templateId: null };
  const now = Date.now();
  const audit = (event: AuditEventName) => auditOf(organization, event, 'DEVICE');
  const { row, change } = done(
    await registerDevice(env.DB, organization.id, request, audit('device.registered'), now),
  );
  const [provisioned] = await Promise.all([
    provisionDevice(env, row, undefined, audit('device.provisioned')(row.id), now),
    markDelivered(change),
  ]);
  if (!provisioned) throw new Error('a new device that cannot be provisioned');
  return { id: row.id, hmacSecret: provisioned.security.hmacSecret };
}

/** A device that serves a sub-device of its own, which is added without notifying the Site. */
export async function createLinked(
  organization: Organization,
  plantId: string,
  subDevice: SubDeviceOptions = { externalId: 'BESS-2', assetType: 'BESS' },
): Promise<{ id: string; hmacSecret: string }> {
  const device = await createDevice(organization, plantId, 'ACTUATOR');
  await addSubDevice(organization, plantId, { ...subDevice, linkedDeviceId: device.id });
  return device;
}

export interface Key {
  id: string;
  key: string;
  signingKey: string;
}

export interface KeyOptions {
  /** Keys of an organization with the same partnerId are one partner [C-15.1]. */
  partnerId?: string;
  scopes?: ApiKeyScope[];
  allowedPlantIds?: string[] | null;
  allowedIps?: string[];
  expiresAtMs?: number;
  revokedAtMs?: number;
  /** `probing`: the creation of the key stops before its probe. */
  state?: 'probing' | 'active';
}

/** Makes a key without probing it, for which a broker would have to listen. */
export async function createKey(organization: Organization, options: KeyOptions = {}): Promise<KeyClient> {
  const { scopes = ALL_VCP_SCOPES, allowedPlantIds = null, allowedIps = [], expiresAtMs = null } = options;
  const { partnerId = 'partner' } = options;
  const { id: organizationId, slug, adminId } = organization;
  const id = crypto.randomUUID();
  const key = composeApiKey(crypto.getRandomValues(new Uint8Array(128)));
  const keyPrefix = apiKeyPrefix(key);
  const signingKey = randomHex(32);
  const vhost = hasVhost(scopes) ? `partner-${id}` : null;
  const now = Date.now();
  const shared = { keyPrefix, organizationId, scopes, allowedPlantIds, expiresAtMs };
  const row: ApiKeyRow = {
    ...shared,
    id,
    keyHash: sha256Hex(key),
    name: 'key',
    partnerId,
    sees: 'PARTNER',
    allowedIps,
    vhost,
    state: 'probing',
    probeHash: null,
    bundleAcknowledgedAtMs: null,
    revokedAtMs: null,
    lastUsedAtMs: null,
    createdBy: adminId,
    createdAtMs: now,
    updatedAtMs: now,
  };
  await insertKey(env.DB, row);
  if (vhost !== null || getsEvents(new Set(scopes)))
    await vhostOf(id).open({ ...shared, partnerId, keyId: id, slug, vhost: vhost ?? '/', signingKey });
  const audit = (event: AuditEventName) => auditOf(organization, event, 'API_KEY')(id);
  if (options.state !== 'probing')
    await markDelivered(done(await activateKey(env.DB, row, audit('api_key.created'), now)));
  const { revokedAtMs } = options;
  if (revokedAtMs !== undefined) {
    const change = await revokeApiKey(
      env,
      { id, organizationId: row.organizationId },
      audit('api_key.revoked'),
      revokedAtMs,
    );
    if (change) await markDelivered(change);
  }
  return new KeyClient({ id, key, signingKey });
}

export interface World {
  organization: Organization;
  plant: Plant;
  key: KeyClient;
}

export interface World {
  organization: Organization;
  plant: Plant;
  key: KeyClient;
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

/** An EAN of 18 digits that no other plant has. */
export function randomEan(): string {
  return [...crypto.getRandomValues(new Uint8Array(18))].map((byte) => byte % 10).join('');
}
