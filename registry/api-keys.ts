/** API keys in D1: made, listed, activated and revoked. The keys of requests are found in key-lookup.ts [C-5.1]. */
import { and, desc, eq, gt, isNull, lt, or, type SQL, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { sha256Hex } from '../durable-objects/secrets/hmac.ts';
import { isWellFormedApiKey } from '../protocol/api-key.ts';
import type { ApiKeyRecord, Sight } from '../protocol/api-key-record.ts';
import { LIMIT } from '../protocol/limits.ts';
import type { FoundPage, PageRequest } from '../protocol/page.ts';
import { type ApiKeyScope, effectiveScopes } from '../protocol/scopes.ts';
import { auditRow, auditRowIfChanged } from './audit-events.ts';
import { commitChange, commitChangeOf, type RegistryChange } from './changes.ts';
import { areFewer, countOf, readJoinedPage, runBatch, withInstants } from './d1.ts';
import type { AuditEntry } from './entries.ts';
import { insertIf } from './insert-if.ts';
import { apiKeys, memberships, organizations, users } from './schema.ts';

export type ApiKeyRow = typeof apiKeys.$inferSelect;
type Creator = Pick<typeof users.$inferSelect, 'id' | 'name' | 'email'>;

export interface KeyWithCreator {
  row: ApiKeyRow;
  creator: Creator;
}

const CREATOR = { id: users.id, name: users.name, email: users.email };

/** Newest first, without keys that are still being created. */
export async function pageApiKeys(
  database: D1Database,
  organizationId: string,
  request: PageRequest,
): Promise<FoundPage<KeyWithCreator>> {
  const db = drizzle(database);
  const isOwn = and(eq(apiKeys.organizationId, organizationId), eq(apiKeys.state, 'active'));
  const rows = db
    .select({ row: apiKeys, creator: CREATOR })
    .from(apiKeys)
    .innerJoin(users, eq(users.id, apiKeys.createdBy))
    .where(isOwn)
    .orderBy(desc(apiKeys.createdAtMs), desc(apiKeys.id));
  return await readJoinedPage(request, rows, countOf(db, apiKeys, isOwn));
}

export async function findKeyOf(
  database: D1Database,
  organizationId: string,
  id: string,
): Promise<KeyWithCreator | undefined> {
  return await drizzle(database)
    .select({ row: apiKeys, creator: CREATOR })
    .from(apiKeys)
    .innerJoin(users, eq(users.id, apiKeys.createdBy))
    .where(and(eq(apiKeys.id, id), eq(apiKeys.organizationId, organizationId), eq(apiKeys.state, 'active')))
    .get();
}

/** Condition: the organization has room for one more key that has not ended. */
function hasRoomForKey(organizationId: string, now: number): SQL {
  const isLive = and(
    eq(apiKeys.organizationId, organizationId),
    isNull(apiKeys.revokedAtMs),
    or(isNull(apiKeys.expiresAtMs), gt(apiKeys.expiresAtMs, now)),
  );
  return areFewer(apiKeys, isLive, LIMIT.keysPerOrganization);
}

/** False if the organization has reached its limit of keys. */
export async function insertKey(database: D1Database, row: ApiKeyRow): Promise<boolean> {
  const hasRoom = hasRoomForKey(row.organizationId, row.createdAtMs);
  const inserted = await insertIf(drizzle(database), apiKeys, row, hasRoom).returning({ id: apiKeys.id });
  return inserted.length > 0;
}

/**
 * Activates a key. Once the caller has announced the change, all Sites send the key their events. `gone`: in
 * the meantime the user who creates the key has lost the role ORG_ADMIN, or the organization was suspended.
 */
export async function activateKey(
  database: D1Database,
  { id, organizationId, createdBy }: Pick<ApiKeyRow, 'id' | 'organizationId' | 'createdBy'>,
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange | 'gone'> {
  const mayStill = sql`EXISTS (SELECT 1 FROM ${memberships} JOIN ${organizations} ON ${organizations.id} = ${organizationId}
    WHERE ${memberships.organizationId} = ${organizationId} AND ${memberships.userId} = ${createdBy}
    AND ${memberships.role} = 'ORG_ADMIN' AND ${organizations.suspendedAtMs} IS NULL)`;
  return await commitChangeOf(database, organizationId, { sites: 'all' }, audit, now, (db) => [
    db
      .update(apiKeys)
      .set({ state: 'active', probeHash: null })
      .where(and(eq(apiKeys.id, id), eq(apiKeys.organizationId, organizationId), mayStill))
      .returning({ id: apiKeys.id }),
  ]);
}

/** Deletes a key whose creation failed. */
export async function deleteProbingKey(database: D1Database, id: string): Promise<void> {
  await drizzle(database)
    .delete(apiKeys)
    .where(and(eq(apiKeys.id, id), eq(apiKeys.state, 'probing')));
}

/**
 * Keys whose creation was interrupted, in random order, so that a key that cannot be deleted does not block
 * the others.
 */
export async function strandedKeys(database: D1Database, beforeMs: number, most: number): Promise<string[]> {
  const rows = await drizzle(database)
    .select({ id: apiKeys.id })
    .from(apiKeys)
    .where(and(eq(apiKeys.state, 'probing'), lt(apiKeys.createdAtMs, beforeMs)))
    .orderBy(sql`random()`)
    .limit(most);
  return rows.map(({ id }) => id);
}

/** Stores the nonce of the next connection test. It is valid once. */
export async function prepareProbe(database: D1Database, id: string, nonce: string): Promise<void> {
  await drizzle(database)
    .update(apiKeys)
    .set({ probeHash: sha256Hex(nonce) })
    .where(eq(apiKeys.id, id));
}

/** Writes the revocation to D1. An earlier revocation time stays. */
export async function revokeKey(
  database: D1Database,
  { id, organizationId }: { id: string; organizationId: string },
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange> {
  return await commitChange(database, organizationId, { sites: 'all' }, now, (db) => [
    db
      .update(apiKeys)
      .set({ revokedAtMs: now, updatedAtMs: now })
      .where(
        and(eq(apiKeys.id, id), eq(apiKeys.organizationId, organizationId), isNull(apiKeys.revokedAtMs)),
      ),
    auditRow(db, audit, now, `api_key.revoked|${id}`),
  ]);
}

/** Changes whose commands a key reads. `gone`: the organization has no such key. */
export async function changeSight(
  database: D1Database,
  { id, organizationId }: Pick<ApiKeyRow, 'id' | 'organizationId'>,
  sees: Sight,
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange | 'gone'> {
  // Sites send the key another copy of alarms from then on, and its Vhost asks for dry runs as the key.
  return await commitChangeOf(database, organizationId, { sites: 'all', keys: [id] }, audit, now, (db) => [
    db
      .update(apiKeys)
      .set({ sees, updatedAtMs: now })
      .where(and(eq(apiKeys.id, id), eq(apiKeys.organizationId, organizationId)))
      .returning({ id: apiKeys.id }),
  ]);
}

export async function acknowledgeBundle(
  database: D1Database,
  { id, organizationId }: Pick<ApiKeyRow, 'id' | 'organizationId'>,
  audit: AuditEntry,
  now: number,
): Promise<void> {
  const db = drizzle(database);
  await runBatch(db, [
    db
      .update(apiKeys)
      .set({ bundleAcknowledgedAtMs: now, updatedAtMs: now })
      .where(
        and(
          eq(apiKeys.id, id),
          eq(apiKeys.organizationId, organizationId),
          isNull(apiKeys.bundleAcknowledgedAtMs),
        ),
      ),
    auditRowIfChanged(db, audit, now),
  ]);
}

/** Whether this is the plaintext of the key. */
export function isKey({ keyHash }: ApiKeyRow, plaintext: string): boolean {
  return isWellFormedApiKey(plaintext) && sha256Hex(plaintext) === keyHash;
}

/** [C-5.2] The key as answers show it, without secrets. */
export function apiKeyRecordOf({ row, creator }: KeyWithCreator, now: number): ApiKeyRecord {
  const scopes = row.scopes as ApiKeyScope[];
  const { expiresAtMs, lastUsedAtMs, createdAtMs, updatedAtMs } = row;
  const hasExpired = expiresAtMs !== null && expiresAtMs <= now;
  return {
    id: row.id,
    keyPrefix: row.keyPrefix,
    name: row.name,
    partnerId: row.partnerId,
    sees: row.sees,
    scopes,
    effectiveScopes: [...effectiveScopes(scopes)],
    allowedPlantIds: row.allowedPlantIds,
    allowedIps: row.allowedIps,
    vhost: row.vhost,
    isActive: row.revokedAtMs === null && !hasExpired,
    createdBy: row.createdBy,
    organizationId: row.organizationId,
    ...withInstants({ expiresAtMs, lastUsedAtMs, createdAtMs, updatedAtMs }),
    creator,
  };
}
