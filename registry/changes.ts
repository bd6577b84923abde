/**
 * Registry changes that Sites and Vhosts with a copy must apply. The row of a change is written in the same
 * transaction and deleted when all targets have applied it, or when a newer change for all Sites has all of its
 * targets. Each organization has its own increasing versions.
 */
import { and, asc, eq, lte, ne, not, sql } from 'drizzle-orm';
import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1';
import { EVENT_SCOPES } from '../protocol/scopes.ts';
import { auditRowIfChanged } from './audit-events.ts';
import { isAmong, isEmpty, runBatch, type Statement } from './d1.ts';
import type { AuditEntry } from './entries.ts';
import { organizations, registryChanges } from './schema.ts';

/** `site:<plant id>` or `vhost:<key id>`. */
export type Target = `site:${string}` | `vhost:${string}`;

export interface RegistryChange {
  id: string;
  organizationId: string;
  version: number;
  targets: Target[];
}

/** How long a change is reserved for the request that announces it. After that another request may announce it. */
const HELD_MS = 10_000;

/**
 * The targets of a change: Sites by id or all of the organization, the Vhosts of its keys that get events, and the
 * Vhosts of single keys.
 */
export interface ChangeTargets {
  sites?: 'all' | string[];
  vhosts?: boolean;
  keys?: string[];
}

/**
 * Runs the statements of a change and inserts its announcement in one transaction. Objects that exist at that
 * time must be notified: the caller passes the change to `announce` or `announceLater`, else the scheduled task
 * announces it. Later objects read the new data. `results`: the results of the statements in order.
 */
export async function commitChange(
  database: D1Database,
  organizationId: string,
  affected: ChangeTargets,
  now: number,
  statements: (db: DrizzleD1Database) => readonly Statement[],
): Promise<RegistryChange & { results: unknown[] }> {
  const db = drizzle(database);
  const id = crypto.randomUUID();
  const own = statements(db);
  const results = await runBatch(db, [
    ...own,
    db
      .update(organizations)
      .set({ registryVersion: sql`${organizations.registryVersion} + 1` })
      .where(eq(organizations.id, organizationId)),
    db
      .insert(registryChanges)
      .values({
        id,
        organizationId,
        version: sql`(SELECT registry_version FROM organizations WHERE id = ${organizationId})`,
        targets: targetsOf(organizationId, affected),
        dueAtMs: now + HELD_MS,
        createdAtMs: now,
      })
      .returning({ version: registryChanges.version, targets: registryChanges.targets }),
    ...superseded(db, { id, organizationId }, affected),
  ]);
  const [row] = results[own.length + 1] as { version: number; targets: Target[] }[];
  const { version, targets } = row ?? { version: 0, targets: [] };
  return { id, organizationId, version, targets, results: results.slice(0, own.length) };
}

/**
 * Returns the statement that deletes older announcements all of whose targets are also targets of the new
 * change: an object that applies the new version has thereby applied the older ones. Without it, an
 * organization that often changes its settings would add a list of all its objects each time.
 */
function superseded(
  db: DrizzleD1Database,
  { id, organizationId }: { id: string; organizationId: string },
  { sites }: ChangeTargets,
): Statement[] {
  if (sites !== 'all') return [];
  const targets = sql`(SELECT value FROM json_each((SELECT newer.targets FROM ${registryChanges} AS newer WHERE newer.id = ${id})))`;
  const hasOther = sql`EXISTS (SELECT 1 FROM json_each(${registryChanges.targets}) WHERE value NOT IN ${targets})`;
  return [
    db
      .delete(registryChanges)
      .where(
        and(eq(registryChanges.organizationId, organizationId), ne(registryChanges.id, id), not(hasOther)),
      ),
  ];
}

/**
 * Commits a change and its audit row. The last statement returns a row if it changed one; otherwise nothing is
 * audited, and the answer is `gone`.
 */
export async function commitChangeOf(
  database: D1Database,
  organizationId: string,
  affected: ChangeTargets,
  audit: AuditEntry,
  now: number,
  statements: (db: DrizzleD1Database) => readonly Statement[],
): Promise<RegistryChange | 'gone'> {
  const { results, ...change } = await commitChange(database, organizationId, affected, now, (db) => [
    ...statements(db),
    auditRowIfChanged(db, audit, now),
  ]);
  return isEmpty(results.at(-2)) ? 'gone' : change;
}

function targetsOf(organizationId: string, { sites = [], vhosts = false, keys = [] }: ChangeTargets) {
  const named = JSON.stringify(sites === 'all' ? [] : sites);
  return sql`(SELECT json_group_array(target) FROM (
    SELECT 'vhost:' || id AS target FROM api_keys
      WHERE ${vhosts ? 1 : 0} AND organization_id = ${organizationId} AND revoked_at_ms IS NULL
      AND EXISTS (SELECT 1 FROM json_each(scopes) WHERE ${isAmong(sql`value`, EVENT_SCOPES)})
    UNION ALL SELECT 'site:' || id FROM plants
      WHERE ${sites === 'all' ? 1 : 0} AND organization_id = ${organizationId}
    UNION ALL SELECT 'site:' || value FROM json_each(${named})
    UNION ALL SELECT 'vhost:' || value FROM json_each(${JSON.stringify(keys)})))`;
}

/**
 * Up to `most` changes whose retry is due, oldest first. They are reserved for this caller, which announces
 * them and then calls `storeTargetsLeft`.
 */
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

/** Stores the targets that have not applied the change yet. Deletes the change if none is left. */
export async function storeTargetsLeft(
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
