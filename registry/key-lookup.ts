/**
 * The key of a request or a dial, looked up in D1 by its hash and never cached: a revocation is effective at once
 * [C-5.6].
 */
import { and, eq, isNull, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { sha256Hex } from '../durable-objects/secrets/hmac.ts';
import { isWellFormedApiKey } from '../protocol/api-key.ts';
import type { Sight } from '../protocol/api-key-record.ts';
import { type OrganizationSettings, organizationSettings } from '../protocol/organization.ts';
import { type ApiKeyScope, effectiveScopes } from '../protocol/scopes.ts';
import type { ApiKeyRow } from './api-keys.ts';
import { preparedOnce } from './d1.ts';
import { apiKeys, organizations, plants } from './schema.ts';

/** The API key of a request. */
export interface ApiKey {
  id: string;
  prefix: string;
  partnerId: string;
  /** Whose commands the key reads [C-15.1]. */
  sees: Sight;
  organizationId: string;
  slug: string;
  scopes: ReadonlySet<ApiKeyScope>;
  /** Null = every plant of the organization. */
  allowedPlantIds: string[] | null;
  /** CIDR ranges; empty = no restriction. */
  allowedIps: string[];
  lastUsedAtMs: number | null;
  /** Settings and ceilings of the key's organization. */
  settings: OrganizationSettings;
  ceilings: Record<string, number>;
  /** The plant that the lookup named, if it is one of the key's organization; else null. */
  namedPlantId: string | null;
}

/** Why a key is refused. */
export type KeyRefusal = 'unknown key' | 'revoked key' | 'expired key' | 'suspended organization';

/** A valid key; or the reason why the key is rejected, with the key itself if it exists. */
export type JudgedKey = { refusal: undefined; key: ApiKey } | { refusal: KeyRefusal; key?: ApiKey };

/**
 * The active key with this plaintext; undefined if it is refused. `plantId`: the plant that the request names, so that
 * the same query looks it up.
 */
export async function findApiKey(
  database: D1Database,
  plaintext: string,
  now: number,
  plantId?: string,
): Promise<ApiKey | undefined> {
  const { refusal, key } = await judgeApiKey(database, plaintext, now, plantId);
  return refusal === undefined ? key : undefined;
}

/** Looks a key up and checks it. A key with a wrong checksum is mistyped and is rejected without a lookup. */
export async function judgeApiKey(
  database: D1Database,
  plaintext: string,
  now: number,
  plantId?: string,
): Promise<JudgedKey> {
  if (!isWellFormedApiKey(plaintext)) return { refusal: 'unknown key' };
  const found = await findByHash(database, sha256Hex(plaintext), plantId);
  if (!found) return { refusal: 'unknown key' };
  const { row, key, isSuspended } = found;
  if (row.revokedAtMs !== null) return { refusal: 'revoked key', key };
  if (row.expiresAtMs !== null && row.expiresAtMs <= now) return { refusal: 'expired key', key };
  if (isSuspended) return { refusal: 'suspended organization', key };
  if (row.state !== 'active') return { refusal: 'unknown key', key };
  return { refusal: undefined, key };
}

/** The organization's key with this prefix, for the audit row of a mistyped key. */
export async function findKeyByPrefix(
  database: D1Database,
  organizationId: string,
  keyPrefix: string,
): Promise<{ id: string; prefix: string } | undefined> {
  return await drizzle(database)
    .select({ id: apiKeys.id, prefix: apiKeys.keyPrefix })
    .from(apiKeys)
    .where(and(eq(apiKeys.organizationId, organizationId), eq(apiKeys.keyPrefix, keyPrefix)))
    .get();
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
  const found = taken.length > 0 ? await findByHash(database, keyHash) : undefined;
  return found?.isSuspended ? undefined : found?.key;
}

async function findByHash(
  database: D1Database,
  keyHash: string,
  plantId = '',
): Promise<{ row: ApiKeyRow; key: ApiKey; isSuspended: boolean } | undefined> {
  const [found] = await lookupIn(database).execute({ keyHash, plantId });
  if (!found) return undefined;
  const { row, slug, settings, ceilings, suspendedAtMs, namedPlantId } = found;
  const key: ApiKey = {
    id: row.id,
    prefix: row.keyPrefix,
    partnerId: row.partnerId,
    sees: row.sees,
    organizationId: row.organizationId,
    slug,
    scopes: effectiveScopes(row.scopes as ApiKeyScope[]),
    allowedPlantIds: row.allowedPlantIds,
    allowedIps: row.allowedIps,
    lastUsedAtMs: row.lastUsedAtMs,
    settings: organizationSettings.parse(settings),
    ceilings,
    namedPlantId,
  };
  return { row, key, isSuspended: suspendedAtMs !== null };
}

/** Each request with a key makes this query. */
const lookupIn = preparedOnce((database) =>
  drizzle(database)
    .select({
      row: apiKeys,
      slug: organizations.slug,
      settings: organizations.settings,
      ceilings: organizations.ceilings,
      suspendedAtMs: organizations.suspendedAtMs,
      namedPlantId: plants.id,
    })
    .from(apiKeys)
    .innerJoin(organizations, eq(organizations.id, apiKeys.organizationId))
    .leftJoin(
      plants,
      and(eq(plants.id, sql.placeholder('plantId')), eq(plants.organizationId, apiKeys.organizationId)),
    )
    .where(eq(apiKeys.keyHash, sql.placeholder('keyHash')))
    .prepare(),
);

/** The organization of a key; undefined if no key has this id. */
export async function organizationOfKey(database: D1Database, keyId: string): Promise<string | undefined> {
  const row = await drizzle(database)
    .select({ id: apiKeys.organizationId })
    .from(apiKeys)
    .where(eq(apiKeys.id, keyId))
    .get();
  return row?.id;
}
