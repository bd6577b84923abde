/**
 * A Site's copy of the registry: its sub-devices, devices and alert rules, its organization's settings and
 * suspension, and the keys that may see it.
 */
import { and, eq, gt, isNull, or } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { RegistryCopy } from '../durable-objects/object/registry-copy.ts';
import type { AlertOperator, AlertSeverity } from '../protocol/alert.ts';
import type { Sight } from '../protocol/api-key-record.ts';
import type { AssetType, DeviceType, MeterRole } from '../protocol/enums.ts';
import { type OrganizationSettings, organizationSettings } from '../protocol/organization.ts';
import { type ApiKeyScope, effectiveScopes, getsEvents } from '../protocol/scopes.ts';
import { alertRules, apiKeys, devices, organizations, plants, subDevices } from './schema.ts';

/** A sub-device in the registry. */
export interface SubDevice {
  id: string;
  externalId: string;
  assetType: AssetType;
  name: string;
  linkedDeviceId: string | null;
  ratedPowerKw: number | null;
  capacityKwh: number | null;
  meterRole: MeterRole | null;
}

/** An alert rule for this plant, for one of its devices, or for every plant [C-9]. */
export interface AlertRule {
  id: string;
  name: string;
  deviceId: string | null;
  severity: AlertSeverity;
  metric: string;
  operator: AlertOperator;
  threshold: number | null;
  forSeconds: number;
  cooldownSeconds: number;
  createdAtMs: number;
}

/** A key that gets the events of the plant. */
export interface EventKey {
  id: string;
  partnerId: string;
  sees: Sight;
}

export interface PlantRecord {
  plantId: string;
  organizationId: string;
  /** Registry version of the organization. */
  version: number;
  /** The operator has suspended the organization: its devices are refused. */
  isSuspended: boolean;
  settings: OrganizationSettings;
  subDevices: SubDevice[];
  /** By device id. */
  deviceTypes: Record<string, DeviceType>;
  /** Enabled rules. */
  alertRules: AlertRule[];
  /** Keys that may connect and see this plant, neither revoked nor expired [C-8.1]. */
  keys: EventKey[];
}

/** The record is undefined for a device without a plant. */
export class PlantCopy extends RegistryCopy<PlantRecord> {
  #idsOf: PlantRecord | undefined;
  #externalIds: ReadonlySet<string> = new Set();

  get subDevices(): readonly SubDevice[] {
    return this.record?.subDevices ?? [];
  }

  isSubDevice(externalId: string): boolean {
    if (this.#idsOf !== this.record) {
      this.#idsOf = this.record;
      this.#externalIds = new Set(this.subDevices.map((subDevice) => subDevice.externalId));
    }
    return this.#externalIds.has(externalId);
  }

  get keys(): readonly EventKey[] {
    return this.record?.keys ?? [];
  }

  get keyIds(): readonly string[] {
    return this.keys.map(({ id }) => id);
  }

  /** Resolves once the copy is recent enough for commands. Rejects if the registry does not answer in time. */
  async fresh(): Promise<void> {
    if (this.record && this.isFresh()) this.keepUp();
    else await this.refresh();
  }

  /** Resolves once the object has a copy, of any age; an old copy is read again in the background. */
  async ready(): Promise<void> {
    if (this.record) this.keepUp();
    else await this.refresh();
  }
}

/** Undefined when the registry has no such plant. */
export async function readPlant(
  database: D1Database,
  plantId: string,
  now: number,
): Promise<PlantRecord | undefined> {
  const db = drizzle(database);
  const isPlant = eq(plants.id, plantId);
  // All reads run in one transaction, so that the version belongs to the data.
  const [[plant], rows, keys, types, rules] = await db.batch([
    db
      .select({
        organizationId: plants.organizationId,
        settings: organizations.settings,
        version: organizations.registryVersion,
        suspendedAtMs: organizations.suspendedAtMs,
      })
      .from(plants)
      .innerJoin(organizations, eq(organizations.id, plants.organizationId))
      .where(isPlant),
    db.select().from(subDevices).where(eq(subDevices.plantId, plantId)).orderBy(subDevices.externalId),
    db
      .select({
        id: apiKeys.id,
        partnerId: apiKeys.partnerId,
        sees: apiKeys.sees,
        scopes: apiKeys.scopes,
        allowedPlantIds: apiKeys.allowedPlantIds,
      })
      .from(apiKeys)
      .innerJoin(plants, and(eq(plants.organizationId, apiKeys.organizationId), isPlant))
      .where(
        and(
          isNull(apiKeys.revokedAtMs),
          eq(apiKeys.state, 'active'),
          or(isNull(apiKeys.expiresAtMs), gt(apiKeys.expiresAtMs, now)),
        ),
      ),
    db
      .select({ id: devices.id, type: devices.type })
      .from(devices)
      .where(eq(devices.plantId, plantId))
      .orderBy(devices.id),
    db
      .select({
        id: alertRules.id,
        name: alertRules.name,
        deviceId: alertRules.deviceId,
        severity: alertRules.severity,
        metric: alertRules.metric,
        operator: alertRules.operator,
        threshold: alertRules.threshold,
        forSeconds: alertRules.forSeconds,
        cooldownSeconds: alertRules.cooldownSeconds,
        createdAtMs: alertRules.createdAtMs,
      })
      .from(alertRules)
      .innerJoin(plants, and(eq(plants.organizationId, alertRules.organizationId), isPlant))
      .leftJoin(devices, eq(devices.id, alertRules.deviceId))
      .where(
        and(
          eq(alertRules.enabled, true),
          or(isNull(alertRules.plantId), eq(alertRules.plantId, plantId)),
          or(isNull(alertRules.deviceId), eq(devices.plantId, plantId)),
        ),
      )
      .orderBy(alertRules.id),
  ]);
  if (!plant) return undefined;
  return {
    plantId,
    organizationId: plant.organizationId,
    version: plant.version,
    isSuspended: plant.suspendedAtMs !== null,
    settings: organizationSettings.parse(plant.settings),
    subDevices: rows.map(
      ({ id, externalId, assetType, name, linkedDeviceId, ratedPowerKw, capacityKwh, meterRole }) => ({
        id,
        externalId,
        assetType,
        name,
        linkedDeviceId,
        ratedPowerKw,
        capacityKwh,
        meterRole,
      }),
    ),
    deviceTypes: Object.fromEntries(types.map(({ id, type }) => [id, type])),
    alertRules: rules,
    keys: keys
      .filter(({ scopes }) => getsEvents(effectiveScopes(scopes as ApiKeyScope[])))
      .filter(({ allowedPlantIds }) => allowedPlantIds?.includes(plantId) ?? true)
      .map(({ id, partnerId, sees }) => ({ id, partnerId, sees })),
  };
}
