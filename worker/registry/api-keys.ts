/** API keys in D1, looked up by hash and never cached: a revocation is effective at once [C-5.6]. */
import { and, desc, eq, gt, isNull, lt, or, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { auditRow, auditRowIfChanged } from '../../durable-objects/registry/audit-events.ts';
import type { AuditEntry } from '../../durable-objects/registry/entries.ts';
import { sha256Hex } from '../../durable-objects/secrets/hmac.ts';
import { apiKeys, organizations, users } from '../../migrations/schema.ts';
import { isWellFormedApiKey } from '../../protocol/api-key.ts';
import type { ApiKeyRecord } from '../../protocol/api-key-record.ts';
import { formatInstant } from '../../protocol/ids.ts';
import { type OrganizationSettings, organizationSettings } from '../../protocol/organization.ts';
import type { FoundPage, PageRequest } from '../../protocol/page.ts';
import { type ApiKeyScope, effectiveScopes } from '../../protocol/scopes.ts';
import { commitChange, type RegistryChange } from './changes.ts';
import { countOf, readJoinedPage, runBatch } from './d1.ts';

export type ApiKeyRow = typeof apiKeys.$inferSelect;
type Creator = Pick<typeof users.$inferSelect, 'id' | 'name' | 'email'>;

/** The API key of a request. */
export interface ApiKey {
  id: string;
  prefix: string;
  organizationId: string;
  slug: string;
  scopes: ReadonlySet<ApiKeyScope>;
  /** Null = every plant of the organization. */
  allowedPlantIds: string[] | null;
  /** CIDR ranges; empty = no restriction. */
  allowedIps: string[];
  lastUsedAtMs: number | null;
  /** Settings of the key's organization. */
  settings: OrganizationSettings;
}

/** The active key with this plaintext; undefined if it is unknown, mistyped, revoked or expired. */
export async function findApiKey(
  database: D1Database,
  plaintext: string,
  now: number,
): Promise<ApiKey | undefined> {
  if (!isWellFormedApiKey(plaintext)) return undefined;
  const found = await findByHash(database, sha256Hex(plaintext));
  if (!found || found.row.revokedAtMs !== null || found.row.state !== 'active') return undefined;
  if (found.row.expiresAtMs !== null && found.row.expiresAtMs <= now) return undefined;
  return found.key;
}

/** The key whose connection test uses this nonce. The nonce is valid once; otherwise returns undefined [C-5.4]. */
export async function takeProbe(
  database: D1Database,
  plaintext: string,
  nonce: string,
): Promise<ApiKey | undefined> {
  if (nonce === '' || !isWellFormedApiKey(plaintext)) return undefined;
  const keyHash = sha256Hex(plaintext);
  const taken = await drizzle(database)
    .update(apiKeys)
    .set({ probeHash: null })
    .where(
      and(eq(apiKeys.keyHash, keyHash), eq(apiKeys.probeHash, sha256Hex(nonce)), isNull(apiKeys.revokedAtMs)),
    )
    .returning({ id: apiKeys.id });
  return taken.length > 0 ? (await findByHash(database, keyHash))?.key : undefined;
}

async function findByHash(
  database: D1Database,
  keyHash: string,
): Promise<{ row: ApiKeyRow; key: ApiKey } | undefined> {
  const [found] = await drizzle(database)
    .select({ row: apiKeys, slug: organizations.slug, settings: organizations.settings })
    .from(apiKeys)
    .innerJoin(organizations, eq(organizations.id, apiKeys.organizationId))
    .where(eq(apiKeys.keyHash, keyHash));
  if (!found) return undefined;
  const { row, slug, settings } = found;
  const key: ApiKey = {
    id: row.id,
    prefix: row.keyPrefix,
    organizationId: row.organizationId,
    slug,
    scopes: effectiveScopes(row.scopes as ApiKeyScope[]),
    allowedPlantIds: row.allowedPlantIds,
    allowedIps: row.allowedIps,
    lastUsedAtMs: row.lastUsedAtMs,
    settings: organizationSettings.parse(settings),
  };
  return { row, key };
}

/** The organization of a key; undefined if no key has this id. */
export async function organizationOfKey(database: D1Database, keyId: string): Promise<string | undefined> {
  const row = await drizzle(database)
    .select({ id: apiKeys.organizationId })
    .from(apiKeys)
    .where(eq(apiKeys.id, keyId))
    .get();
  return row?.id;
}

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

export async function countLiveKeys(
  database: D1Database,
  organizationId: string,
  now: number,
): Promise<number> {
  const isLive = and(
    isNull(apiKeys.revokedAtMs),
    or(isNull(apiKeys.expiresAtMs), gt(apiKeys.expiresAtMs, now)),
  );
  return await drizzle(database).$count(apiKeys, and(eq(apiKeys.organizationId, organizationId), isLive));
}

export async function insertKey(database: D1Database, row: ApiKeyRow): Promise<void> {
  await drizzle(database).insert(apiKeys).values(row);
}

/** Activates a key. Once the caller has announced the change, all Sites send the key their events. */
export async function activateKey(
  database: D1Database,
  { id, organizationId }: { id: string; organizationId: string },
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange> {
  return await commitChange(database, organizationId, { sites: 'all' }, now, (db) => [
    db.update(apiKeys).set({ state: 'active', probeHash: null }).where(eq(apiKeys.id, id)),
    auditRow(db, audit, now),
  ]);
}

/** Deletes a key whose creation failed. */
export async function deleteProbingKey(database: D1Database, id: string): Promise<void> {
  await drizzle(database)
    .delete(apiKeys)
    .where(and(eq(apiKeys.id, id), eq(apiKeys.state, 'probing')));
}

/** Keys whose creation was interrupted; in random order, so that a failing one does not block others. */
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
      .where(and(eq(apiKeys.id, id), isNull(apiKeys.revokedAtMs))),
    auditRow(db, audit, now, `api_key.revoked|${id}`),
  ]);
}

export async function acknowledgeBundle(
  database: D1Database,
  id: string,
  audit: AuditEntry,
  now: number,
): Promise<void> {
  const db = drizzle(database);
  await runBatch(db, [
    db
      .update(apiKeys)
      .set({ bundleAcknowledgedAtMs: now, updatedAtMs: now })
      .where(and(eq(apiKeys.id, id), isNull(apiKeys.bundleAcknowledgedAtMs))),
    auditRowIfChanged(db, audit, now),
  ]);
}

/** Whether this plaintext is that of the key. */
export function isKey({ keyHash }: ApiKeyRow, plaintext: string): boolean {
  return isWellFormedApiKey(plaintext) && sha256Hex(plaintext) === keyHash;
}

/** [C-5.2] The key as answers show it, without secrets. */
export function apiKeyRecordOf({ row, creator }: KeyWithCreator, now: number): ApiKeyRecord {
  const scopes = row.scopes as ApiKeyScope[];
  const hasExpired = row.expiresAtMs !== null && row.expiresAtMs <= now;
  return {
    id: row.id,
    keyPrefix: row.keyPrefix,
    name: row.name,
    partnerId: row.partnerId,
    scopes,
    effectiveScopes: [...effectiveScopes(scopes)],
    allowedPlantIds: row.allowedPlantIds,
    allowedIps: row.allowedIps,
    vhost: row.vhost,
    isActive: row.revokedAtMs === null && !hasExpired,
    expiresAt: row.expiresAtMs === null ? null : formatInstant(row.expiresAtMs),
    lastUsedAt: row.lastUsedAtMs === null ? null : formatInstant(row.lastUsedAtMs),
    createdBy: row.createdBy,
    organizationId: row.organizationId,
    createdAt: formatInstant(row.createdAtMs),
    updatedAt: formatInstant(row.updatedAtMs),
    creator,
  };
}
