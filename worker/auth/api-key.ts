/** API keys: found by their hash, straight in D1. No cache stands between a revocation and its effect [C-5.6]. */
import { and, eq, isNull, lt, or } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { createMiddleware } from 'hono/factory';
import { sha256Hex } from '../../durable-objects/secrets/hmac.ts';
import { apiKeys, organizations } from '../../migrations/schema.ts';
import { isWellFormedApiKey } from '../../protocol/api-key.ts';
import { type ApiKeyScope, effectiveScopes } from '../../protocol/scopes.ts';
import type { AppContext } from '../env.ts';
import { ApiError } from '../error-response.ts';
import { clientAddress, isAllowedAddress } from './address.ts';

export interface ApiKey {
  id: string;
  prefix: string;
  organizationId: string;
  slug: string;
  scopes: ReadonlySet<ApiKeyScope>;
  allowedPlantIds: string[] | null;
  allowedIps: string[];
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
  };
}

/** How stale `lastUsedAt` may be: a busy key is not a write for each request. */
const LAST_USED_STEP_MS = 60_000;

export async function markUsed(database: D1Database, keyId: string, now: number): Promise<void> {
  const isStale = or(isNull(apiKeys.lastUsedAtMs), lt(apiKeys.lastUsedAtMs, now - LAST_USED_STEP_MS));
  await drizzle(database)
    .update(apiKeys)
    .set({ lastUsedAtMs: now })
    .where(and(eq(apiKeys.id, keyId), isStale));
}

/** spec: REST partner surface. 401 without a live key, 403 from a wrong address or without the scope. */
export function requireApiKey(scope: ApiKeyScope) {
  return createMiddleware<AppContext>(async (c, next) => {
    const plaintext = c.req.header('x-api-key');
    if (!plaintext) throw new ApiError('UNAUTHORIZED', 'Missing X-API-Key header');
    const now = Date.now();
    const apiKey = await findApiKey(c.env.DB, plaintext, now);
    if (!apiKey) throw new ApiError('UNAUTHORIZED', 'Invalid API key');
    if (!isAllowedAddress(clientAddress(c.req.raw.headers), apiKey.allowedIps)) {
      throw new ApiError('FORBIDDEN', 'The client address is not allowed for this API key');
    }
    if (!apiKey.scopes.has(scope)) throw new ApiError('FORBIDDEN', `The API key lacks the scope ${scope}`);
    c.set('apiKey', apiKey);
    c.executionCtx.waitUntil(markUsed(c.env.DB, apiKey.id, now));
    await next();
  });
}
