/**
 * A Vhost's copy of the registry: the plants and settings of its organization. The Vhost finds the site of a
 * command here. Stubs are created only for ids from this copy, because a stub with any other name would
 * create an object (rule 9).
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
  /** Absent if older code stored the copy. */
  version?: number;
  requireSignedCommands: boolean;
  /** This and `signatureHints` are absent if older code stored the copy. */
  publishRatePerSecond?: number;
  signatureHints?: boolean;
  plants: { id: string; externalPlantId: string | null }[];
}

/** FRESH_MS: maximum age of a copy that decides. RETRY_MS: minimum age before an unknown site triggers a new read. */
export const FRESH_MS = 20 * 60_000;
export const RETRY_MS = 1_000;
/**
 * How often a copy in use is read again, in case a change notification was lost. Less than FRESH_MS, so
 * frequent publishers never wait for the registry.
 */
const POLL_MS = 15 * 60_000;
/** Pause after a failed read. */
const PAUSE_MS = 60_000;
const READ_LIMIT_MS = 3_000;
/** A larger copy is not stored, but read again whenever the object is loaded. */
const MAX_STORED_CHARS = 500_000;

/**
 * Finds the site for an envelope's `siteId`; undefined if it is unknown, foreign or not allowed for the key
 * [C-7.1].
 */
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

/** The copy in memory and storage. It is read again on demand, one read at a time. */
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

  /** Whether the copy is recent enough for decisions. */
  isFresh(): boolean {
    return this.#clock.now() - this.#readAtMs < FRESH_MS;
  }

  /** Resolves once the copy has this version or a later one. A read that is already running may miss the change. */
  async upTo(organizationId: string, version: number): Promise<void> {
    if (this.#record?.version === version) return;
    await this.#reading?.catch(() => {});
    await this.refresh(organizationId, Number.NEGATIVE_INFINITY);
    const known = this.#record?.version ?? 0;
    if (known < version) throw new Error(`the registry has version ${known}, expected at least ${version}`);
  }

  /** Reads the copy again if it is older than POLL_MS; after a failure at most once a minute. */
  async keepUp(organizationId: string): Promise<void> {
    const now = this.#clock.now();
    if (now - this.#readAtMs < POLL_MS || now - this.#triedAtMs < PAUSE_MS) return;
    this.#triedAtMs = now;
    await this.refresh(organizationId, POLL_MS);
  }

  /** Reads the copy again unless it is younger than `maxAgeMs`. Rejects if the registry does not answer in time. */
  async refresh(organizationId: string, maxAgeMs: number): Promise<void> {
    if (this.#clock.now() - this.#readAtMs < maxAgeMs) return;
    this.#reading ??= within(READ_LIMIT_MS, readOrganization(this.#database, organizationId))
      .then((record) => this.#take(record))
      .finally(() => {
        this.#reading = undefined;
      });
    await this.#reading;
  }

  /** Deletes the copy; the result of a running read is ignored. */
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
      // A copy that is too large is replaced by null, so that no older copy stays stored.
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
