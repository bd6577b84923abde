/**
 * The life of an API key: it is created, tested with a real connection if it has a vhost with a name, and only
 * then active. Its revocation is stored first in its Vhost, then in D1 (rule 6). If a request is interrupted,
 * `discardStranded` deletes an unfinished key, and the Vhost's agenda writes the revocation to D1.
 */

import { reasonOf } from '../../durable-objects/object/reason.ts';
import { objectNamed } from '../../durable-objects/object-id.ts';
import { sha256Hex } from '../../durable-objects/secrets/hmac.ts';
import { apiKeyPrefix, composeApiKey } from '../../protocol/api-key.ts';
import type { ConnectionTest, Sight } from '../../protocol/api-key-record.ts';
import { fullQueueName } from '../../protocol/routing-keys.ts';
import { type ApiKeyScope, getsEvents, hasVhost } from '../../protocol/scopes.ts';
import {
  type ApiKeyRow,
  activateKey,
  deleteProbingKey,
  insertKey,
  prepareProbe,
  revokeKey,
  strandedKeys,
} from '../../registry/api-keys.ts';
import { writeAudit } from '../../registry/audit.ts';
import type { RegistryChange } from '../../registry/changes.ts';
import type { AuditEntry } from '../../registry/entries.ts';
import type { Env } from '../env.ts';
import { pastFence } from './backup.ts';
import { probe } from './probe.ts';

const DEFAULT_AMQP_PORT = 5671;
/** A creation takes seconds, so one that is unfinished after this time was interrupted. */
const STRANDED_MS = 2 * 60_000;
const STRANDED_PER_ROUND = 10;
/** The vhost name of legacy keys; it opens the queues of the key that connects [C-5.3]. */
const LEGACY_VHOST = '/';

export interface NewKey {
  organizationId: string;
  slug: string;
  name: string;
  partnerId: string;
  sees: Sight;
  scopes: ApiKeyScope[];
  allowedPlantIds: string[] | null;
  allowedIps: string[];
  expiresAtMs: number | null;
  createdBy: string;
}

export type KeyCreation =
  | { ok: true; row: ApiKeyRow; key: string; signingKey: string; change: RegistryChange }
  | { ok: false; error: string };

/**
 * Creates a key, and tests it if it has a vhost with a name. If a step fails, deletes everything that was stored
 * for the key; if that deletion fails, `discardStranded` repeats it. The caller announces the change. `audit`
 * creates the entry for the outcome.
 */
export async function createApiKey(
  env: Env,
  request: NewKey,
  audit: (
    keyId: string | null,
    details: Record<string, unknown>,
    outcome: AuditEntry['outcome'],
  ) => AuditEntry,
  now: number,
): Promise<KeyCreation | 'full'> {
  const { slug, scopes, ...columns } = request;
  const id = crypto.randomUUID();
  const key = composeApiKey(crypto.getRandomValues(new Uint8Array(128)));
  const signingKey = randomHex(32);
  const vhost = hasVhost(scopes) ? `partner-${id}` : null;
  const row: ApiKeyRow = {
    ...columns,
    id,
    keyHash: sha256Hex(key),
    keyPrefix: apiKeyPrefix(key),
    scopes,
    vhost,
    state: 'probing',
    probeHash: null,
    bundleAcknowledgedAtMs: null,
    revokedAtMs: null,
    lastUsedAtMs: null,
    createdAtMs: now,
    updatedAtMs: now,
  };
  const { name, partnerId, sees } = row;
  const details = { name, partnerId, sees, scopes, keyPrefix: row.keyPrefix };

  // 1. Store the key as `probing`: only its connection test is accepted.
  if (!(await insertKey(env.DB, row))) return 'full';
  try {
    // 2. Open its vhost, before a client can connect to it.
    if (vhost !== null || getsEvents(new Set(scopes))) {
      await vhostOf(env, id).open({
        keyId: id,
        keyPrefix: row.keyPrefix,
        partnerId,
        slug,
        vhost: vhost ?? LEGACY_VHOST,
        organizationId: row.organizationId,
        scopes,
        allowedPlantIds: row.allowedPlantIds,
        expiresAtMs: row.expiresAtMs,
        signingKey,
      });
    }
    // 3. Test it with a connection as its partner would open it.
    if (vhost !== null) {
      const tested = await probeKey(env, { id, slug, vhost, key });
      if (!tested.ok) throw new Error(tested.error);
    }
    // 4. Activate it.
    const change = await activateKey(env.DB, row, audit(id, details, 'SUCCESS'), now);
    if (change === 'gone')
      throw new Error(
        'the key was not activated: its creator is no longer an ORG_ADMIN, or the organization was suspended',
      );
    return { ok: true, row: { ...row, state: 'active' }, key, signingKey, change };
  } catch (error) {
    const reason = reasonOf(error);
    await discard(env, id);
    await writeAudit(env.DB, audit(null, { ...details, reason }, 'FAILURE'), now);
    return { ok: false, error: reason };
  }
}

/** Tests the key with a connection through the public listener. */
export async function probeKey(
  env: Env,
  { id, slug, vhost, key }: { id: string; slug: string; vhost: string; key: string },
): Promise<ConnectionTest> {
  if (!env.AMQP_HOST)
    return { ok: false, durationMs: 0, error: 'this deployment has no AMQP listener: set AMQP_HOST' };
  const nonce = randomHex(16);
  await prepareProbe(env.DB, id, nonce);
  return await probe({
    host: env.AMQP_HOST,
    port: amqpPort(env),
    username: slug,
    key,
    vhost,
    queue: fullQueueName(slug, 'event.status'),
    nonce,
  });
}

export function amqpPort(env: Env): number {
  return Number(env.AMQP_PORT ?? DEFAULT_AMQP_PORT);
}

/**
 * Revokes a key. When this returns, the key is refused everywhere and its connections are closed [C-5.6].
 * Returns undefined if `key` already has the time of its revocation, which an earlier request or the Vhost wrote.
 */
export async function revokeApiKey(
  env: Env,
  key: { id: string; organizationId: string; revokedAtMs?: number | null },
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange | undefined> {
  await pastFence(env, { object: 'key', id: key.id }, () => vhostOf(env, key.id).revoke(key.id, audit));
  if (key.revokedAtMs) return undefined;
  return await revokeKey(env.DB, key, audit, now);
}

/** Deletes keys whose creation was interrupted. */
export async function discardStranded(env: Env, now: number): Promise<void> {
  for (const id of await strandedKeys(env.DB, now - STRANDED_MS, STRANDED_PER_ROUND)) await discard(env, id);
}

/** Ends a key's vhost and deletes what it stores. */
export async function discardVhost(env: Env, keyId: string): Promise<void> {
  await vhostOf(env, keyId).discard();
}

/** Deletes the vhost first: if that fails, the remaining D1 row causes another attempt. */
async function discard(env: Env, id: string): Promise<void> {
  try {
    await discardVhost(env, id);
    await deleteProbingKey(env.DB, id);
  } catch (error) {
    console.error('deletion of an unfinished API key failed, housekeeping will retry', {
      keyId: id,
      reason: reasonOf(error),
    });
  }
}

function vhostOf(env: Env, keyId: string) {
  return objectNamed(env, 'VHOST', keyId);
}

function randomHex(bytes: number): string {
  const random = crypto.getRandomValues(new Uint8Array(bytes));
  return [...random].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
