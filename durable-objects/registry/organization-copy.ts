/**
 * What a Vhost must know of the registry: its organization's plants and settings, so which site a command is for and
 * whether there is one. A stub is made only for ids found here: any name would make an object (rule 9).
 */
import { eq } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { organizations, plants } from '../../migrations/schema.ts';
import { isUuid } from '../../protocol/ids.ts';
import { organizationSettings } from '../../protocol/organization.ts';
import type { Clock } from '../object/clock.ts';
import type { Facts } from '../object/facts.ts';
import type { Turns } from '../object/turn.ts';

export interface OrganizationRecord {
  requireSignedCommands: boolean;
  plants: { id: string; externalPlantId: string | null }[];
}

/** How old the copy may be while in use, and how soon an unknown site may ask for a fresh one. */
export const REFRESH_MS = 60_000;
export const RETRY_MS = 1_000;
/** Larger ones are read again at each wake. */
const MAX_STORED_CHARS = 500_000;

/** The site that an envelope's `siteId` means to a key; undefined: unknown, foreign and not allowed alike [C-7.1]. */
export function findSite(
  organization: OrganizationRecord | undefined,
  allowedPlantIds: readonly string[] | null,
  siteId: string,
): string | undefined {
  const wanted = isUuid(siteId) ? siteId.toLowerCase() : undefined;
  const plant = organization?.plants.find((one) =>
    wanted ? one.id === wanted : one.externalPlantId === siteId,
  );
  if (!plant || (allowedPlantIds && !allowedPlantIds.includes(plant.id))) return undefined;
  return plant.id;
}

/** The copy in memory and storage, read again on demand, one read at a time. */
export class OrganizationCopy {
  readonly #facts: Facts<'registry'>;
  readonly #turns: Turns;
  readonly #clock: Clock;
  readonly #database: D1Database;
  #record: OrganizationRecord | undefined;
  #readAtMs = 0;
  #reading: Promise<void> | undefined;

  constructor(facts: Facts<'registry'>, turns: Turns, clock: Clock, database: D1Database) {
    this.#facts = facts;
    this.#turns = turns;
    this.#clock = clock;
    this.#database = database;
    this.#record = facts.get<OrganizationRecord>('registry');
  }

  get record(): OrganizationRecord | undefined {
    return this.#record;
  }

  /** Reads it unless it is younger than that. */
  async refresh(organizationId: string, maxAgeMs: number): Promise<void> {
    if (this.#clock.now() - this.#readAtMs < maxAgeMs) return;
    this.#reading ??= readOrganization(this.#database, organizationId)
      .then((record) => this.#take(record))
      .finally(() => {
        this.#reading = undefined;
      });
    await this.#reading;
  }

  #take(record: OrganizationRecord): void {
    const text = JSON.stringify(record);
    const isSame = text === JSON.stringify(this.#record);
    this.#record = record;
    this.#readAtMs = this.#clock.now();
    if (isSame || text.length > MAX_STORED_CHARS) return;
    this.#turns.attempt((turn) => this.#facts.set(turn, 'registry', record));
  }
}

async function readOrganization(database: D1Database, organizationId: string): Promise<OrganizationRecord> {
  const db = drizzle(database);
  const [[organization], rows] = await Promise.all([
    db
      .select({ settings: organizations.settings })
      .from(organizations)
      .where(eq(organizations.id, organizationId)),
    db
      .select({ id: plants.id, externalPlantId: plants.externalPlantId })
      .from(plants)
      .where(eq(plants.organizationId, organizationId)),
  ]);
  const settings = organizationSettings.parse(organization?.settings ?? {});
  return { requireSignedCommands: settings.requireSignedCommands, plants: rows };
}
