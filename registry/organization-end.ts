/**
 * The end of an organization in D1: the operator suspends it and then deletes it. The deletion removes its
 * members and revokes its keys at once; housekeeping deletes the rest later (lifecycle/organization-end.ts).
 * The row stays, so that no other organization gets the slug, and audit events stay for their retention
 * period.
 */
import { and, count, eq, inArray, isNotNull, isNull, ne, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import type { SQLiteColumn } from 'drizzle-orm/sqlite-core';
import type { FoundPage, PageRequest } from '../protocol/page.ts';
import { commitChangeOf, type RegistryChange } from './changes.ts';
import { isAmong, readPage, runBatch } from './d1.ts';
import type { DeviceRow } from './devices.ts';
import type { AuditEntry } from './entries.ts';
import type { OrganizationRow } from './organizations.ts';
import {
  alertRules,
  alerts,
  apiKeys,
  devices,
  deviceTemplates,
  invitations,
  memberships,
  organizations,
  plants,
  registryChanges,
  subDevices,
  supportSessions,
  webhooks,
} from './schema.ts';

/**
 * Suspends an organization, or reactivates it. `gone`: it already has this state. The caller announces the
 * change.
 */
export async function setSuspended(
  database: D1Database,
  id: string,
  suspendedAtMs: number | null,
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange | 'gone'> {
  const isOther =
    suspendedAtMs === null ? isNotNull(organizations.suspendedAtMs) : isNull(organizations.suspendedAtMs);
  return await commitChangeOf(database, id, { sites: 'all', vhosts: true }, audit, now, (db) => [
    db
      .update(organizations)
      .set({ suspendedAtMs })
      .where(and(eq(organizations.id, id), isNull(organizations.deletedAtMs), isOther))
      .returning({ id: organizations.id }),
  ]);
}

/** Deletes a suspended organization. `gone`: it is not suspended, or deleted already. */
export async function markDeleted(
  database: D1Database,
  id: string,
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange | 'gone'> {
  const mayBeDeleted = and(
    eq(organizations.id, id),
    isNotNull(organizations.suspendedAtMs),
    isNull(organizations.deletedAtMs),
  );
  const isOf = (column: SQLiteColumn) =>
    and(eq(column, id), sql`EXISTS (SELECT 1 FROM ${organizations} WHERE ${mayBeDeleted})`);
  return await commitChangeOf(database, id, {}, audit, now, (db) => [
    db
      .update(apiKeys)
      .set({ revokedAtMs: now })
      .where(and(isOf(apiKeys.organizationId), isNull(apiKeys.revokedAtMs))),
    db.delete(memberships).where(isOf(memberships.organizationId)),
    db.delete(invitations).where(isOf(invitations.organizationId)),
    db.delete(supportSessions).where(isOf(supportSessions.organizationId)),
    db
      .update(organizations)
      .set({ deletedAtMs: now })
      .where(mayBeDeleted)
      .returning({ id: organizations.id }),
  ]);
}

/** A deleted organization that still has rows to delete, and up to `most` of its keys, plants and devices. */
export interface Remains {
  organizationId: string;
  keyIds: string[];
  plantIds: string[];
  /** Devices without a plant. */
  devices: DeviceRow[];
}

export async function findRemains(database: D1Database, most: number): Promise<Remains | undefined> {
  const db = drizzle(database);
  const [found] = await db
    .select({ id: organizations.id })
    .from(organizations)
    // `deleteRest` deletes the name last, so an organization that still has a name is not finished.
    .where(and(isNotNull(organizations.deletedAtMs), ne(organizations.name, '')))
    // In random order, so that an organization whose objects cannot be erased does not block the others.
    .orderBy(sql`random()`)
    .limit(1);
  if (!found) return undefined;
  const { id } = found;
  const [keys, sites, alone] = await db.batch([
    db
      .select({ id: apiKeys.id })
      .from(apiKeys)
      .where(eq(apiKeys.organizationId, id))
      .orderBy(sql`random()`)
      .limit(most),
    db
      .select({ id: plants.id })
      .from(plants)
      .where(eq(plants.organizationId, id))
      .orderBy(sql`random()`)
      .limit(most),
    db
      .select()
      .from(devices)
      .where(and(eq(devices.organizationId, id), isNull(devices.plantId)))
      .orderBy(sql`random()`)
      .limit(most),
  ]);
  return {
    organizationId: id,
    keyIds: keys.map((row) => row.id),
    plantIds: sites.map((row) => row.id),
    devices: alone,
  };
}

/** Deletes the rows of these keys, plants and devices, whose objects are erased. */
export async function deleteRows(
  database: D1Database,
  { organizationId, keyIds, plantIds, devices: alone }: Remains,
): Promise<void> {
  const db = drizzle(database);
  const ids = alone.map(({ id }) => id);
  const isOfPlants = isAmong(devices.plantId, plantIds);
  await runBatch(db, [
    db.delete(apiKeys).where(and(eq(apiKeys.organizationId, organizationId), isAmong(apiKeys.id, keyIds))),
    db.delete(subDevices).where(isAmong(subDevices.plantId, plantIds)),
    db
      .delete(alertRules)
      .where(and(eq(alertRules.organizationId, organizationId), isAmong(alertRules.plantId, plantIds))),
    db.delete(devices).where(and(eq(devices.organizationId, organizationId), isOfPlants)),
    db.delete(devices).where(and(eq(devices.organizationId, organizationId), isAmong(devices.id, ids))),
    db.delete(plants).where(and(eq(plants.organizationId, organizationId), isAmong(plants.id, plantIds))),
  ]);
}

/**
 * Deletes up to `most` alerts. When no alert is left, deletes everything else except the row itself with its
 * slug, and the audit events.
 */
export async function deleteRest(database: D1Database, id: string, most: number): Promise<void> {
  const db = drizzle(database);
  const some = db.select({ id: alerts.id }).from(alerts).where(eq(alerts.organizationId, id)).limit(most);
  const { meta } = await db.delete(alerts).where(sql`${alerts.id} IN ${some}`);
  // `changes` also counts what the trigger of a deleted row changes.
  if (meta.changes >= most) return;
  await runBatch(db, [
    db.delete(alertRules).where(eq(alertRules.organizationId, id)),
    db.delete(deviceTemplates).where(eq(deviceTemplates.organizationId, id)),
    db.delete(registryChanges).where(eq(registryChanges.organizationId, id)),
    db.delete(webhooks).where(eq(webhooks.organizationId, id)),
    db
      .update(organizations)
      .set({ name: '', settings: {}, ceilings: {}, deviceCount: 0 })
      .where(eq(organizations.id, id)),
  ]);
}

/**
 * Devices without a plant that may have a session, of one suspended organization or of all. Their sessions
 * must be ended one by one, because their objects have no copy of the registry.
 */
export async function onlineWithoutPlant(
  database: D1Database,
  organizationId: string | undefined,
  most: number,
): Promise<DeviceRow[]> {
  const rows = await drizzle(database)
    .select({ device: devices })
    .from(organizations)
    .innerJoin(devices, eq(devices.organizationId, organizations.id))
    .where(
      and(
        isNotNull(organizations.suspendedAtMs),
        organizationId === undefined ? undefined : eq(organizations.id, organizationId),
        isNull(devices.plantId),
        inArray(devices.connectionStatus, ['ONLINE', 'MAINTENANCE', 'ERROR']),
      ),
    )
    .orderBy(sql`random()`)
    .limit(most);
  return rows.map(({ device }) => device);
}

/** For the operator: all organizations by slug, or the one with `slug`. */
export async function pageAllOrganizations(
  database: D1Database,
  slug: string | undefined,
  request: PageRequest,
): Promise<FoundPage<OrganizationRow>> {
  const db = drizzle(database);
  const isMeant = slug === undefined ? undefined : eq(organizations.slug, slug);
  const rows = db.select().from(organizations).where(isMeant).orderBy(organizations.slug);
  return await readPage(db, request, rows, db.select({ total: count() }).from(organizations).where(isMeant));
}
