/** Dials of a bridge: upgrade requests to the Worker with a proof, valid or tampered with. */
import { runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { rowsFrom } from '#workerd/d1.ts';
import type { VhostGrant } from '../../../durable-objects/rpc.ts';
import { hmacHex } from '../../../durable-objects/secrets/hmac.ts';
import {
  type BridgeProof,
  formatProof,
  LINK_PATHS,
  LINK_VERSION,
  LINK_VERSION_HEADER,
  PROOF_HEADER,
  proofSigningString,
} from '../../../protocol/link/proof.ts';
import { restRequest, sendRequest } from './rest.ts';
import { ALL_VCP_SCOPES, type Key, type Organization, randomHex } from './world.ts';

export interface Dial {
  path: string;
  /** The Authorization header; none when absent. */
  authorization?: string;
  /** Fields of the proof that differ from those of a new, valid one. */
  proof?: Partial<BridgeProof>;
  /** The path, credential and secret for the MAC, if not those of the dial. */
  signed?: { path?: string; authorization?: string; secret?: string };
  /** Changes the finished proof header; undefined leaves it out. */
  tamper?: (header: string) => string | undefined;
  headers?: Record<string, string>;
}

/** Base64 in the URL alphabet, without padding. */
export function base64Url(text: string): string {
  return btoa(text).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}

/** A valid proof of the present time, with the given fields replaced. */
export function freshProof(fields: Partial<BridgeProof> = {}): BridgeProof {
  return {
    bridge: 'bridge-1',
    boot: 'boot-1',
    connection: crypto.randomUUID(),
    address: '192.0.2.7',
    fingerprint: '',
    timeMs: Date.now(),
    probe: '',
    ...fields,
  };
}

/** The Authorization header of a user name and a password. */
export function basic(username: string, password: string): string {
  return `Basic ${btoa(`${username}:${password}`)}`;
}

/** The upgrade that a dial describes, with its proof. */
export function dialRequest(dial: Dial): Request {
  const proof = freshProof(dial.proof);
  const {
    path = dial.path,
    authorization = dial.authorization ?? '',
    secret = env.BRIDGE_SECRET,
  } = dial.signed ?? {};
  const mac = hmacHex(secret, proofSigningString(proof, path, authorization));
  const header = dial.tamper ? dial.tamper(formatProof(proof, mac)) : formatProof(proof, mac);
  const version = { [LINK_VERSION_HEADER]: String(LINK_VERSION) };
  const headers = new Headers({ upgrade: 'websocket', ...version, ...dial.headers });
  if (header !== undefined) headers.set(PROOF_HEADER, header);
  if (dial.authorization !== undefined) headers.set('authorization', dial.authorization);
  return restRequest(dial.path, { headers });
}

/** Dials through the real Worker and waits for all that it writes. */
export async function dial(options: Dial): Promise<Response> {
  return await sendRequest(dialRequest(options));
}

/** An AMQP dial of a bridge; the default user name is the slug. */
export async function dialAmqp(
  organization: Organization,
  key: Pick<Key, 'key'>,
  options: Partial<Dial> & { username?: string } = {},
): Promise<Response> {
  const { username = organization.slug, ...rest } = options;
  return await dial({ path: LINK_PATHS.amqp, authorization: basic(username, key.key), ...rest });
}

/** An MQTT dial of a bridge. */
export async function dialMqtt(
  deviceId: string,
  token: string,
  options: Partial<Dial> = {},
): Promise<Response> {
  return await dial({ path: LINK_PATHS.mqtt, authorization: basic(deviceId, token), ...options });
}

export interface AuditRow {
  event: string;
  actor_type: string;
  actor: string;
  actor_name: string | null;
  address: string | null;
  target_type: string;
  target: string | null;
  outcome: string;
  details: string;
  count: number;
}

/** The audit rows of an organization, oldest first. */
export async function auditRows(organizationId: string): Promise<AuditRow[]> {
  return await rowsFrom<AuditRow>(
    `SELECT event, actor_type, actor, actor_name, address, target_type, target, outcome, details, count FROM audit_events
     WHERE organization_id = ? ORDER BY created_at_ms`,
    organizationId,
  );
}

/** The audit rows about dials, without the actions of admins. */
export async function dialRows(organizationId: string): Promise<AuditRow[]> {
  return (await auditRows(organizationId)).filter(({ actor_type }) => actor_type !== 'USER');
}

/** The time of a key's last use in the registry; null before its first use. */
export async function lastUsedAtMs(keyId: string): Promise<number | null> {
  return await env.DB.prepare('SELECT last_used_at_ms FROM api_keys WHERE id = ?')
    .bind(keyId)
    .first<number | null>('last_used_at_ms');
}

/** How many rows each table of an object's own storage holds. */
export async function rowCounts(
  stub: Parameters<typeof runInDurableObject>[0],
): Promise<Record<string, number>> {
  return await runInDurableObject(stub, (_instance, state) => {
    const { sql } = state.storage;
    const tables = sql
      .exec<{ name: string }>(
        `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB '_*' AND name NOT GLOB 'sqlite_*'`,
      )
      .toArray();
    return Object.fromEntries(
      tables.map(({ name }) => [
        name,
        sql.exec<{ count: number }>(`SELECT count(*) AS count FROM "${name}"`).one().count,
      ]),
    );
  });
}

/** What the Worker hands to the vhost of a key that may do everything, with a new signing key. */
export function grantOf(keyId: string, { slug, id: organizationId }: Organization): VhostGrant {
  return {
    ...{ keyId, keyPrefix: 'sw_abc', partnerId: 'partner', slug, vhost: `partner-${keyId}`, organizationId },
    ...{ scopes: ALL_VCP_SCOPES, allowedPlantIds: null, expiresAtMs: null, signingKey: randomHex(32) },
  };
}
