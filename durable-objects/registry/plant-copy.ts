/**
 * A Site's copy of the registry: its sub-devices, its organization's settings, and the keys that may see it.
 * The copy is stored with its version and age. The Worker notifies the Site of changes (`upTo`); regular
 * reads find missed ones.
 */

import { and, eq, gt, isNull, or } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { alertRules, apiKeys, devices, organizations, plants, subDevices } from '../../migrations/schema.ts';
import type { AlertOperator, AlertSeverity } from '../../protocol/alert.ts';
import type { AssetType, DeviceType, MeterRole } from '../../protocol/enums.ts';
import { type OrganizationSettings, organizationSettings } from '../../protocol/organization.ts';
import { type ApiKeyScope, effectiveScopes, mayConnect } from '../../protocol/scopes.ts';
import type { Clock } from '../object/clock.ts';
import type { Facts } from '../object/facts.ts';
import { reasonOf } from '../object/reason.ts';
import type { Turn, Turns } from '../object/turn.ts';
import { within } from '../object/within.ts';

/** Maximum age of a copy that decides. */
const FRESH_MS = 20 * 60_000;
/**
 * From this age on the copy is read again in the background, so frequent callers never wait for the registry.
 */
const POLL_MS = 15 * 60_000;
/** How often the age is stored while the copy does not change; each time is a written row. */
const AGE_STEP_MS = 10 * 60_000;
/** Pause after a failed read. */
const RETRY_MS = 60_000;
const READ_LIMIT_MS = 3_000;

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

export interface PlantRecord {
  plantId: string | null;
  organizationId: string;
  /** Registry version of the organization; absent if older code stored the copy. */
  version?: number;
  settings: OrganizationSettings;
  subDevices: SubDevice[];
  /** By device id; absent if older code stored the copy. */
  deviceTypes?: Record<string, DeviceType>;
  /** Enabled rules; absent if older code stored the copy. */
  alertRules?: AlertRule[];
  /** Keys that may connect and see this plant, neither revoked nor expired [C-8.1]. */
  keyIds: string[];
}

export interface PlantCopyHost {
  clock: Clock;
  turns: Turns;
  database: D1Database;
  siteId(): string | undefined;
  keepAlive(work: Promise<void>): void;
  /** The registry data of the plant changed in this turn, or the plant was deleted (`isGone`). */
  onChange(turn: Turn, isGone: boolean): void;
}

/** The site's copy and its age. */
export class PlantCopy {
  readonly #facts: Facts<'registry' | 'registryReadAt'>;
  readonly #host: PlantCopyHost;
  #record: PlantRecord | undefined;
  #externalIds: ReadonlySet<string> = new Set();
  #readAtMs = 0;
  #triedAtMs = 0;
  #storedAtMs = 0;
  #reading: Promise<void> | undefined;

  constructor(facts: Facts<'registry' | 'registryReadAt'>, host: PlantCopyHost) {
    this.#facts = facts;
    this.#host = host;
    this.#use(facts.get<PlantRecord | null>('registry') ?? undefined);
    if (this.#record) this.#readAtMs = facts.get<number>('registryReadAt') ?? 0;
    this.#storedAtMs = this.#readAtMs;
  }

  /** Undefined before the first read, and for a device without a plant. */
  get record(): PlantRecord | undefined {
    return this.#record;
  }

  get subDevices(): readonly SubDevice[] {
    return this.#record?.subDevices ?? [];
  }

  isSubDevice(externalId: string): boolean {
    return this.#externalIds.has(externalId);
  }

  get keyIds(): readonly string[] {
    return this.#record?.keyIds ?? [];
  }

  /** Resolves once the copy is recent enough for decisions. Rejects if the registry does not answer in time. */
  async fresh(): Promise<void> {
    if (this.#record && this.#host.clock.now() - this.#readAtMs < FRESH_MS) this.refreshInBackground();
    else await this.#refresh();
  }

  /** Resolves once there is a copy, of any age; an old one is read again in the background. */
  async ready(): Promise<void> {
    if (!this.#record) await this.#refresh();
    else this.refreshInBackground();
  }

  /** Resolves once the copy has this version or a later one. A read that is already running may miss the change. */
  async upTo(version: number): Promise<void> {
    if (this.#record?.version === version) return;
    await this.#reading?.catch(() => {});
    await this.#refresh();
    const known = this.#record?.version ?? version;
    if (known < version) throw new Error(`the registry has version ${known}, expected at least ${version}`);
  }

  refreshInBackground(): void {
    const now = this.#host.clock.now();
    // A failed read is retried at most once a minute.
    if (now - this.#readAtMs < POLL_MS || now - this.#triedAtMs < RETRY_MS) return;
    this.#triedAtMs = now;
    this.#host.keepAlive(
      this.#refresh().catch((error: unknown) => {
        console.warn('failed to read registry', { reason: reasonOf(error) });
      }),
    );
  }

  /** One read at a time. */
  async #refresh(): Promise<void> {
    const siteId = this.#host.siteId();
    if (!siteId) return;
    this.#reading ??= this.#read(siteId).finally(() => {
      this.#reading = undefined;
    });
    await this.#reading;
  }

  async #read(siteId: string): Promise<void> {
    const { database, clock, turns } = this.#host;
    const record = await within(READ_LIMIT_MS, readPlant(database, siteId, clock.now()));
    const readAtMs = clock.now();
    const before = this.#record;
    if (record || before) {
      const isOther = JSON.stringify(record) !== JSON.stringify(before);
      if (!isOther && readAtMs - this.#storedAtMs < AGE_STEP_MS) {
        this.#readAtMs = readAtMs;
        return;
      }
      turns.attempt((turn) => {
        turn.undo(() => this.#use(before));
        this.#use(record);
        this.#facts.set(turn, 'registryReadAt', readAtMs);
        if (!isOther) return;
        this.#facts.set(turn, 'registry', record ?? null);
        this.#host.onChange(turn, !record);
      });
    }
    this.#readAtMs = readAtMs;
    this.#storedAtMs = readAtMs;
  }

  #use(record: PlantRecord | undefined): void {
    this.#record = record;
    this.#externalIds = new Set(record?.subDevices.map((subDevice) => subDevice.externalId));
  }
}

/** Undefined when the registry has no such plant. */
async function readPlant(
  database: D1Database,
  plantId: string,
  now: number,
): Promise<PlantRecord | undefined> {
  const db = drizzle(database);
  const isPlant = eq(plants.id, plantId);
  // One transaction, so that the version belongs to the data.
  const [[plant], rows, keys, types, rules] = await db.batch([
    db
      .select({
        organizationId: plants.organizationId,
        settings: organizations.settings,
        version: organizations.registryVersion,
      })
      .from(plants)
      .innerJoin(organizations, eq(organizations.id, plants.organizationId))
      .where(isPlant),
    db.select().from(subDevices).where(eq(subDevices.plantId, plantId)).orderBy(subDevices.externalId),
    db
      .select({ id: apiKeys.id, scopes: apiKeys.scopes, allowedPlantIds: apiKeys.allowedPlantIds })
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
    keyIds: keys
      .filter(({ scopes }) => mayConnect(effectiveScopes(scopes as ApiKeyScope[])))
      .filter(({ allowedPlantIds }) => allowedPlantIds?.includes(plantId) ?? true)
      .map(({ id }) => id),
  };
}
