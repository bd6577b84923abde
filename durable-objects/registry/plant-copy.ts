/**
 * What a Site must know of the registry: its sub-devices, its organization's settings, and the keys that may see it.
 * Read from D1 at first use and each minute while busy, kept as a fact so that a wake needs no D1.
 */
import { and, eq, gt, isNotNull, isNull, or } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { apiKeys, organizations, plants, subDevices } from '../../migrations/schema.ts';
import type { AssetType, MeterRole } from '../../protocol/enums.ts';
import { type OrganizationSettings, organizationSettings } from '../../protocol/organization.ts';
import type { Clock } from '../object/clock.ts';
import type { Facts } from '../object/facts.ts';
import type { Turns } from '../object/turn.ts';

const REFRESH_MS = 60_000;

/** A sub-device as the registry lists it. */
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

export interface PlantRecord {
  plantId: string | null;
  organizationId: string;
  settings: OrganizationSettings;
  subDevices: SubDevice[];
  /** Keys with a vhost that may see this plant, neither revoked nor expired [C-8.1]. */
  keyIds: string[];
}

export interface PlantCopyHost {
  clock: Clock;
  turns: Turns;
  database: D1Database;
  siteId(): string | undefined;
  keepAlive(work: Promise<void>): void;
}

/** The copy that a site keeps, and how old it is. */
export class PlantCopy {
  readonly #facts: Facts<'registry'>;
  readonly #host: PlantCopyHost;
  #record: PlantRecord | undefined;
  #externalIds: ReadonlySet<string> = new Set();
  #readAtMs = 0;

  constructor(facts: Facts<'registry'>, host: PlantCopyHost) {
    this.#facts = facts;
    this.#host = host;
    this.#use(facts.get<PlantRecord>('registry'));
  }

  /** Undefined until it was read, and for a device that has no plant. */
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

  /** Resolves once there is a copy to decide by; one that is old is read again meanwhile. */
  async ready(): Promise<void> {
    if (!this.#record) await this.#refresh();
    else this.refreshInBackground();
  }

  refreshInBackground(): void {
    const now = this.#host.clock.now();
    if (now - this.#readAtMs < REFRESH_MS) return;
    this.#readAtMs = now;
    this.#host.keepAlive(
      this.#refresh().catch((error: unknown) => {
        console.warn('registry not read', { error: String(error) });
      }),
    );
  }

  async #refresh(): Promise<void> {
    const siteId = this.#host.siteId();
    if (!siteId) return;
    const record = await readPlant(this.#host.database, siteId, this.#host.clock.now());
    this.#readAtMs = this.#host.clock.now();
    if (!record || JSON.stringify(record) === JSON.stringify(this.#record)) return;
    this.#host.turns.attempt((turn) => this.#facts.set(turn, 'registry', record));
    this.#use(record);
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
  const [plant] = await db
    .select({ organizationId: plants.organizationId, settings: organizations.settings })
    .from(plants)
    .innerJoin(organizations, eq(organizations.id, plants.organizationId))
    .where(eq(plants.id, plantId));
  if (!plant) return undefined;
  const [rows, keys] = await Promise.all([
    db.select().from(subDevices).where(eq(subDevices.plantId, plantId)).orderBy(subDevices.externalId),
    db
      .select({ id: apiKeys.id, allowedPlantIds: apiKeys.allowedPlantIds })
      .from(apiKeys)
      .where(
        and(
          eq(apiKeys.organizationId, plant.organizationId),
          isNull(apiKeys.revokedAtMs),
          isNotNull(apiKeys.vhost),
          or(isNull(apiKeys.expiresAtMs), gt(apiKeys.expiresAtMs, now)),
        ),
      ),
  ]);
  return {
    plantId,
    organizationId: plant.organizationId,
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
    keyIds: keys.filter((key) => key.allowedPlantIds?.includes(plantId) ?? true).map((key) => key.id),
  };
}
