/** API keys: found by their hash, straight in D1. No cache stands between a revocation and its effect [C-5.6]. */
import { eq } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { sha256Hex } from '../../durable-objects/secrets/hmac.ts';
import { apiKeys, organizations } from '../../migrations/schema.ts';
import { isWellFormedApiKey } from '../../protocol/api-key.ts';
import { type ApiKeyScope, effectiveScopes } from '../../protocol/scopes.ts';

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
}

/** The live key behind a plaintext; undefined for one that is unknown, mistyped, revoked or expired alike. */
export async function findApiKey(
  database: D1Database,
  plaintext: string,
  now: number,
): Promise<ApiKey | undefined> {
  if (!isWellFormedApiKey(plaintext)) return undefined;
  const [row] = await drizzle(database)
    .select({ key: apiKeys, slug: organizations.slug })
    .from(apiKeys)
    .innerJoin(organizations, eq(organizations.id, apiKeys.organizationId))
    .where(eq(apiKeys.keyHash, sha256Hex(plaintext)));
  if (!row || row.key.revokedAtMs !== null) return undefined;
  if (row.key.expiresAtMs !== null && row.key.expiresAtMs <= now) return undefined;
  return {
    id: row.key.id,
    prefix: row.key.keyPrefix,
    organizationId: row.key.organizationId,
    slug: row.slug,
    scopes: effectiveScopes(row.key.scopes as ApiKeyScope[]),
    allowedPlantIds: row.key.allowedPlantIds,
    allowedIps: row.key.allowedIps,
    lastUsedAtMs: row.key.lastUsedAtMs,
  };
}

/** Whose key it is; undefined when there is none of that id. */
export async function organizationOfKey(database: D1Database, keyId: string): Promise<string | undefined> {
  const [row] = await drizzle(database)
    .select({ id: apiKeys.organizationId })
    .from(apiKeys)
    .where(eq(apiKeys.id, keyId));
  return row?.id;
}
