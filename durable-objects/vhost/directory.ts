/**
 * The organization's plants and settings as a Vhost holds them: which site a command is for, and whether there is one.
 * A stub is made only for ids found here: any name would make an object (rule 9).
 */
import { eq } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { organizations, plants } from '../../migrations/schema.ts';
import { organizationSettings } from '../../protocol/config.ts';
import { isUuid } from '../../protocol/ids.ts';
import type { VhostStorage } from './storage.ts';

export interface Directory {
  requireSignedCommands: boolean;
  plants: { id: string; externalPlantId: string | null }[];
}

/** How old the directory may be while in use, and how soon an unknown site may ask for a fresh one. */
export const DIRECTORY_REFRESH_MS = 60_000;
export const DIRECTORY_RETRY_MS = 1_000;

async function readDirectory(database: D1Database, organizationId: string): Promise<Directory> {
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

/** The site that an envelope's `siteId` means to a key; undefined: unknown, foreign and not allowed alike [C-7.1]. */
export function findSite(
  directory: Directory | undefined,
  allowedPlantIds: readonly string[] | null,
  siteId: string,
): string | undefined {
  const wanted = isUuid(siteId) ? siteId.toLowerCase() : undefined;
  const plant = directory?.plants.find((one) =>
    wanted ? one.id === wanted : one.externalPlantId === siteId,
  );
  if (!plant || (allowedPlantIds && !allowedPlantIds.includes(plant.id))) return undefined;
  return plant.id;
}

/** Larger ones are read again at each wake. */
const MAX_STORED_CHARS = 500_000;

/** The directory in memory and storage, read again on demand, one read at a time. */
export class DirectoryHolder {
  readonly #database: D1Database;
  readonly #storage: VhostStorage;
  #directory: Directory | undefined;
  #readAtMs = 0;
  #reading: Promise<void> | undefined;

  constructor(database: D1Database, storage: VhostStorage) {
    this.#database = database;
    this.#storage = storage;
    this.#directory = storage.fact<Directory>('directory');
  }

  get current(): Directory | undefined {
    return this.#directory;
  }

  /** Reads it unless it is younger than that. */
  async refresh(organizationId: string, maxAgeMs: number, now: () => number): Promise<void> {
    if (now() - this.#readAtMs < maxAgeMs) return;
    this.#reading ??= readDirectory(this.#database, organizationId)
      .then((directory) => this.#take(directory, now()))
      .finally(() => {
        this.#reading = undefined;
      });
    await this.#reading;
  }

  #take(directory: Directory, now: number): void {
    const text = JSON.stringify(directory);
    const isSame = text === JSON.stringify(this.#directory);
    this.#directory = directory;
    this.#readAtMs = now;
    if (!isSame && text.length <= MAX_STORED_CHARS) this.#storage.setFact('directory', directory);
  }
}
