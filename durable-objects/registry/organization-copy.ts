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
import type { Turn, Turns } from '../object/turn.ts';
import { within } from '../object/within.ts';

export interface OrganizationRecord {
  /** Absent in a copy that older code stored. */
  version?: number;
  requireSignedCommands: boolean;
  /** Both absent in a copy that older code stored. */
  publishRatePerSecond?: number;
  signatureHints?: boolean;
  plants: { id: string; externalPlantId: string | null }[];
}

/** How old the copy may be that decides, how soon an unknown site may ask for a fresh one, and how long a read takes. */
export const FRESH_MS = 20 * 60_000;
export const RETRY_MS = 1_000;
/**
 * How often it is read while in use: changes are told, this is the net. It is less than FRESH_MS, so nobody who publishes
 * often ever waits for the registry.
 */
const POLL_MS = 15 * 60_000;
/** After a read that failed. */
const PAUSE_MS = 60_000;
const READ_LIMIT_MS = 3_000;
/** A larger one is read again at each wake. */
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
  readonly #facts: Facts<'registry' | 'registryReadAt'>;
  readonly #turns: Turns;
  readonly #clock: Clock;
  readonly #database: D1Database;
  #record: OrganizationRecord | undefined;
  #readAtMs = 0;
  #triedAtMs = 0;
  #isForgotten = false;
  #reading: Promise<void> | undefined;

  constructor(facts: Facts<'registry' | 'registryReadAt'>, turns: Turns, clock: Clock, database: D1Database) {
    this.#facts = facts;
    this.#turns = turns;
    this.#clock = clock;
    this.#database = database;
    this.#record = facts.get<OrganizationRecord | null>('registry') ?? undefined;
    if (this.#record) this.#readAtMs = facts.get<number>('registryReadAt') ?? 0;
  }

  get record(): OrganizationRecord | undefined {
    return this.#record;
  }

  /** Whether it is young enough to decide by. */
  isFresh(): boolean {
    return this.#clock.now() - this.#readAtMs < FRESH_MS;
  }

  /** Resolves once the copy is of that version. A read that was under way may be older than the change. */
  async upTo(organizationId: string, version: number): Promise<void> {
    if (this.#record?.version === version) return;
    await this.#reading?.catch(() => {});
    await this.refresh(organizationId, Number.NEGATIVE_INFINITY);
    const known = this.#record?.version ?? 0;
    if (known < version) throw new Error(`the registry answers version ${known}, not ${version}`);
  }

  /** The net: reads it behind who comes. One that could not be read is tried again each minute. */
  async keepUp(organizationId: string): Promise<void> {
    const now = this.#clock.now();
    if (now - this.#readAtMs < POLL_MS || now - this.#triedAtMs < PAUSE_MS) return;
    this.#triedAtMs = now;
    await this.refresh(organizationId, POLL_MS);
  }

  /** Reads it unless it is younger than that. Rejects when the registry does not answer in time. */
  async refresh(organizationId: string, maxAgeMs: number): Promise<void> {
    if (this.#clock.now() - this.#readAtMs < maxAgeMs) return;
    this.#reading ??= within(READ_LIMIT_MS, readOrganization(this.#database, organizationId))
      .then((record) => this.#take(record))
      .finally(() => {
        this.#reading = undefined;
      });
    await this.#reading;
  }

  /** Nothing of it is left, and what is still being read is not taken. */
  forget(turn: Turn): void {
    this.#isForgotten = true;
    this.#record = undefined;
    this.#facts.set(turn, 'registry', null);
    this.#facts.set(turn, 'registryReadAt', null);
  }

  #take(record: OrganizationRecord): void {
    if (this.#isForgotten) return;
    const text = JSON.stringify(record);
    const isSame = text === JSON.stringify(this.#record);
    const [recordBefore, readAtBefore] = [this.#record, this.#readAtMs];
    const readAtMs = this.#clock.now();
    this.#turns.attempt((turn) => {
      turn.undo(() => {
        this.#record = recordBefore;
        this.#readAtMs = readAtBefore;
      });
      this.#record = record;
      this.#readAtMs = readAtMs;
      this.#facts.set(turn, 'registryReadAt', readAtMs);
      // An older one must not stand in its place.
      if (!isSame) this.#facts.set(turn, 'registry', text.length > MAX_STORED_CHARS ? null : record);
    });
  }
}

async function readOrganization(database: D1Database, organizationId: string): Promise<OrganizationRecord> {
  const db = drizzle(database);
  const [[organization], rows] = await db.batch([
    db
      .select({ settings: organizations.settings, version: organizations.registryVersion })
      .from(organizations)
      .where(eq(organizations.id, organizationId)),
    db
      .select({ id: plants.id, externalPlantId: plants.externalPlantId })
      .from(plants)
      .where(eq(plants.organizationId, organizationId)),
  ]);
  const settings = organizationSettings.parse(organization?.settings ?? {});
  const { requireSignedCommands, publishRatePerSecond, signatureHints } = settings;
  const version = organization?.version ?? 0;
  return { version, requireSignedCommands, publishRatePerSecond, signatureHints, plants: rows };
}
