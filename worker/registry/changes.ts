/**
 * Changes on their way to the objects that hold a copy of them: a row written with the change itself, which goes when
 * all of them have taken it. Versions grow per organization.
 */
import { and, asc, eq, isNull, lte, sql } from 'drizzle-orm';
import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1';
import { apiKeys, organizations, plants, registryChanges } from '../../migrations/schema.ts';
import { type ApiKeyScope, effectiveScopes, mayConnect } from '../../protocol/scopes.ts';
import { runBatch, type Statement } from './batch.ts';

/** `site:<plant id>` or `vhost:<key id>`. */
export type Target = `site:${string}` | `vhost:${string}`;

export interface RegistryChange {
  id: string;
  organizationId: string;
  version: number;
  targets: Target[];
}

/** Whoever drives a change has it for so long; then it is anybody's again. */
const HELD_MS = 10_000;

/** The statements of a change, its announcement with them, in one transaction. `results`: theirs, in their order. */
export async function commitChange(
  database: D1Database,
  organizationId: string,
  targets: readonly Target[],
  now: number,
  statements: (db: DrizzleD1Database) => readonly Statement[],
): Promise<RegistryChange & { results: unknown[] }> {
  const db = drizzle(database);
  const id = crypto.randomUUID();
  const isOrganization = eq(organizations.id, organizationId);
  const results = await runBatch(db, [
    ...statements(db),
    db
      .update(organizations)
      .set({ registryVersion: sql`${organizations.registryVersion} + 1` })
      .where(isOrganization),
    db.insert(registryChanges).values({
      id,
      organizationId,
      version: sql`(SELECT registry_version FROM organizations WHERE id = ${organizationId})`,
      targets: [...targets],
      dueAtMs: now + HELD_MS,
      createdAtMs: now,
    }),
    db.select({ version: organizations.registryVersion }).from(organizations).where(isOrganization),
  ]);
  const [row] = results.at(-1) as { version: number }[];
  return { id, organizationId, version: row?.version ?? 0, targets: [...targets], results };
}

/** What is due to be told again, so many of the oldest, held for this caller. */
export async function dueChanges(database: D1Database, now: number, most: number): Promise<RegistryChange[]> {
  const db = drizzle(database);
  const due = db
    .select({ id: registryChanges.id })
    .from(registryChanges)
    .where(lte(registryChanges.dueAtMs, now))
    .orderBy(asc(registryChanges.dueAtMs))
    .limit(most);
  const rows = await db
    .update(registryChanges)
    .set({ dueAtMs: now + HELD_MS })
    .where(sql`${registryChanges.id} IN ${due}`)
    .returning();
  return rows.map(({ id, organizationId, version, targets }) => ({
    id,
    organizationId,
    version,
    targets: targets as Target[],
  }));
}

/** Who has not taken it yet; nobody: it is over. */
export async function settleChange(
  database: D1Database,
  id: string,
  left: readonly Target[],
  now: number,
): Promise<void> {
  const db = drizzle(database);
  const isChange = eq(registryChanges.id, id);
  if (left.length === 0) await db.delete(registryChanges).where(isChange);
  else
    await db
      .update(registryChanges)
      .set({ targets: [...left], dueAtMs: now })
      .where(isChange);
}

/** The objects of an organization: all of its Sites, and the Vhosts of its keys that may connect. */
export async function targetsOf(
  database: D1Database,
  organizationId: string,
  kinds: { sites: boolean; vhosts: boolean },
): Promise<Target[]> {
  const db = drizzle(database);
  const [sites, keys] = await Promise.all([
    kinds.sites
      ? db.select({ id: plants.id }).from(plants).where(eq(plants.organizationId, organizationId))
      : [],
    kinds.vhosts
      ? db
          .select({ id: apiKeys.id, scopes: apiKeys.scopes })
          .from(apiKeys)
          .where(and(eq(apiKeys.organizationId, organizationId), isNull(apiKeys.revokedAtMs)))
      : [],
  ]);
  const connecting = keys.filter(({ scopes }) => mayConnect(effectiveScopes(scopes as ApiKeyScope[])));
  return [
    ...connecting.map(({ id }): Target => `vhost:${id}`),
    ...sites.map(({ id }): Target => `site:${id}`),
  ];
}
