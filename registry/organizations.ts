/** Organizations in D1, and their ceilings [C-1.1], [C-14.2]. */
import { and, asc, count, eq, type SQL, sql } from 'drizzle-orm';
import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1';
import { type CeilingName, type CeilingsChange, ceilingsOf, overCeiling } from '../protocol/ceilings.ts';
import type { Role } from '../protocol/enums.ts';
import { LIMIT } from '../protocol/limits.ts';
import {
  type OrganizationChange,
  type OrganizationRecord,
  organizationSettings,
} from '../protocol/organization.ts';
import type { FoundPage, PageRequest } from '../protocol/page.ts';
import { auditRow, auditRowIfChanged } from './audit-events.ts';
import { type ChangeTargets, commitChange, type RegistryChange } from './changes.ts';
import { areFewer, brokenUnique, isEmpty, readPage, runBatch, type Statement, withInstants } from './d1.ts';
import type { AuditEntry } from './entries.ts';
import { IF_CHANGED, insertIf } from './insert-if.ts';
import { memberships, organizations } from './schema.ts';

export type OrganizationRow = typeof organizations.$inferSelect;

export async function organizationOfSlug(database: D1Database, slug: string): Promise<string | undefined> {
  const row = await drizzle(database)
    .select({ id: organizations.id })
    .from(organizations)
    .where(eq(organizations.slug, slug))
    .get();
  return row?.id;
}

/** Finds an organization; undefined if it does not exist or was deleted. */
export async function findOrganization(
  database: D1Database,
  id: string,
): Promise<OrganizationRow | undefined> {
  const row = await findAnyOrganization(database, id);
  return row?.deletedAtMs === null ? row : undefined;
}

export async function findAnyOrganization(
  database: D1Database,
  id: string,
): Promise<OrganizationRow | undefined> {
  return await drizzle(database).select().from(organizations).where(eq(organizations.id, id)).get();
}

/**
 * The statements that create an organization with its creator as ORG_ADMIN [C-1.2]. The first returns no row if the user
 * is in as many organizations as allowed, or is ORG_ADMIN of as many as allowed.
 */
export function newOrganization(
  db: DrizzleD1Database,
  organization: { id: string; name: string; slug: string },
  maker: Maker,
  now: number,
): Statement[] {
  const { id: organizationId, slug } = organization;
  const audit: AuditEntry = {
    organizationId,
    event: 'organization.created',
    actor: { type: 'USER', id: maker.id, name: maker.email },
    target: { type: 'ORGANIZATION', id: organizationId },
    address: maker.address,
    outcome: 'SUCCESS',
    details: { slug },
  };
  const isOfMaker = eq(memberships.userId, maker.id);
  const hasRoom = sql`${areFewer(memberships, isOfMaker, LIMIT.organizationsPerUser)}
    AND ${areFewer(memberships, and(isOfMaker, eq(memberships.role, 'ORG_ADMIN')), LIMIT.organizationsMade)}`;
  const row = { id: organizationId, name: organization.name, slug, createdAtMs: now };
  const member = { organizationId, userId: maker.id, role: 'ORG_ADMIN' as const, createdAtMs: now };
  // Each row is inserted only if the previous one was inserted.
  return [
    insertIf(db, organizations, row, hasRoom).returning({ id: organizations.id }),
    insertIf(db, memberships, member, IF_CHANGED),
    auditRowIfChanged(db, audit, now),
  ];
}

/** The creating user, and the client address of the request. */
export interface Maker {
  id: string;
  email: string;
  address: string | null;
}

export interface ListedOrganization {
  organization: OrganizationRow;
  role: Role | null;
}

/** The organizations of a user, ordered by slug. `all`: all organizations, with the user's role or null. */
export async function listOrganizations(
  database: D1Database,
  userId: string,
  all: boolean,
  request: PageRequest,
): Promise<FoundPage<ListedOrganization>> {
  const db = drizzle(database);
  const isOwn = and(eq(memberships.organizationId, organizations.id), eq(memberships.userId, userId));
  const from = db
    .select({ organization: organizations, role: memberships.role })
    .from(organizations)
    .$dynamic();
  const rows = all ? from.leftJoin(memberships, isOwn) : from.innerJoin(memberships, isOwn);
  const counted = db.select({ total: count() }).from(organizations).$dynamic();
  return await readPage<ListedOrganization>(
    db,
    request,
    rows.orderBy(asc(organizations.slug)),
    all ? counted : counted.innerJoin(memberships, isOwn),
  );
}

export function organizationRecordOf(row: OrganizationRow, role: Role | null): OrganizationRecord {
  const { id, name, slug, createdAtMs } = row;
  const settings = organizationSettings.parse(row.settings);
  return { id, name, slug, settings, role, ...withInstants({ createdAtMs }) };
}

/** The value of one ceiling of an organization in a statement, so that it can be compared with a count of the same moment. */
export function ceilingIn(id: string, name: CeilingName): SQL {
  return sql`(SELECT coalesce(json_extract(ceilings, ${`$.${name}`}), ${ceilingsOf({})[name]}) FROM organizations
    WHERE id = ${id})`;
}

/** Sets ceilings; null restores a default. Settings that exceed a new ceiling are lowered to it [C-14.2]. */
export async function changeCeilings(
  database: D1Database,
  { id, settings, ceilings }: OrganizationRow,
  change: CeilingsChange,
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange> {
  const patch = JSON.stringify(change);
  const wanted: Record<string, number | null | undefined> = { ...ceilings, ...change };
  const set = Object.entries(wanted).filter(
    (entry): entry is [string, number] => typeof entry[1] === 'number',
  );
  const next = ceilingsOf(Object.fromEntries(set));
  const lowered = Object.fromEntries(overCeiling(settings, next).map((name) => [name, next[name]]));
  return await commitChange(database, id, { sites: 'all', vhosts: true }, now, (db) => [
    db
      .update(organizations)
      .set({
        ceilings: sql`json_patch(${organizations.ceilings}, ${patch})`,
        settings: sql`json_patch(${organizations.settings}, ${JSON.stringify(lowered)})`,
      })
      .where(eq(organizations.id, id)),
    auditRow(db, audit, now),
  ]);
}

/**
 * Changes name and settings; omitted settings stay unchanged. The caller announces changed settings to all
 * Sites and Vhosts.
 */
export async function changeOrganization(
  database: D1Database,
  id: string,
  { name, settings }: OrganizationChange,
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange> {
  const affected: ChangeTargets = settings ? { sites: 'all', vhosts: true } : {};
  return await commitChange(database, id, affected, now, (db) => [
    db
      .update(organizations)
      .set({
        name: name ?? sql`${organizations.name}`,
        settings: sql`json_patch(${organizations.settings}, ${JSON.stringify(settings ?? {})})`,
      })
      .where(eq(organizations.id, id)),
    auditRow(db, audit, now),
  ]);
}

export async function createOrganization(
  database: D1Database,
  { name, slug }: { name: string; slug: string },
  maker: Maker,
  now: number,
): Promise<OrganizationRow | 'slug' | 'full'> {
  const db = drizzle(database);
  const organization = { id: crypto.randomUUID(), name, slug };
  try {
    const [made] = await runBatch(db, newOrganization(db, organization, maker, now));
    if (isEmpty(made)) return 'full';
  } catch (error) {
    if (brokenUnique(error) === 'organizations.slug') return 'slug';
    throw error;
  }
  return newRow(organization, now);
}

/** The row of an organization that was just created. */
export function newRow(
  organization: { id: string; name: string; slug: string },
  now: number,
): OrganizationRow {
  const counts = { registryVersion: 1, deviceCount: 0, auditCount: 0, alertCount: 0 };
  const rest = { settings: {}, ceilings: {}, suspendedAtMs: null, deletedAtMs: null };
  return { ...organization, ...rest, ...counts, createdAtMs: now };
}
