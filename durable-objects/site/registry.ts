/**
 * What a Site must know of the registry: its sub-devices, its devices, and the keys that may see it. Read from D1
 * at first use and each minute while busy, kept as a fact so that a wake needs no D1.
 */
import { and, eq, gt, isNotNull, isNull, or } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { apiKeys, organizations, plants, subDevices } from '../../migrations/schema.ts';
import { type OrganizationSettings, organizationSettings } from '../../protocol/config.ts';
import type { SubDevice } from './schema.ts';
import type { SiteState } from './state.ts';

const REFRESH_MS = 60_000;

export interface SiteRegistry {
  plantId: string | null;
  organizationId: string;
  settings: OrganizationSettings;
  subDevices: SubDevice[];
  /** Keys with a vhost that may see this plant, neither revoked nor expired [C-8.1]. */
  keyIds: string[];
}

/** The copy that a site keeps, and how old it is. */
export class RegistryHolder {
  readonly #state: SiteState;
  readonly #database: D1Database;
  readonly #keepAlive: (work: Promise<void>) => void;
  #readAtMs = 0;

  constructor(state: SiteState, database: D1Database, keepAlive: (work: Promise<void>) => void) {
    this.#state = state;
    this.#database = database;
    this.#keepAlive = keepAlive;
  }

  /** Resolves once there is a copy to decide by; one that is old is read again meanwhile. */
  async ready(): Promise<void> {
    if (!this.#state.registry) await this.#refresh();
    else this.refreshInBackground();
  }

  refreshInBackground(): void {
    const now = this.#state.now();
    if (now - this.#readAtMs < REFRESH_MS) return;
    this.#readAtMs = now;
    this.#keepAlive(
      this.#refresh().catch((error: unknown) => {
        console.warn('registry not read', { error: String(error) });
      }),
    );
  }

  async #refresh(): Promise<void> {
    const { siteId, storage } = this.#state;
    if (!siteId) return;
    const registry = await readRegistry(this.#database, siteId, this.#state.now());
    this.#readAtMs = this.#state.now();
    if (!registry || JSON.stringify(registry) === JSON.stringify(this.#state.registry)) return;
    storage.setFact('registry', registry);
    this.#state.registry = registry;
  }
}

/** Undefined when the registry has no such plant. */
async function readRegistry(
  database: D1Database,
  plantId: string,
  now: number,
): Promise<SiteRegistry | undefined> {
  const db = drizzle(database);
  const [plant] = await db
    .select({ organizationId: plants.organizationId, settings: organizations.settings })
    .from(plants)
    .innerJoin(organizations, eq(organizations.id, plants.organizationId))
    .where(eq(plants.id, plantId));
  if (!plant) return undefined;
  const [assets, keys] = await Promise.all([
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
    subDevices: assets.map(
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
