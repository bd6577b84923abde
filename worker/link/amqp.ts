/** The dial of an AMQP client: checks bridge proof and API key, hands the socket to the key's Vhost. */

import type { Context } from 'hono';
import { createMiddleware } from 'hono/factory';
import { type ClientDial, DIAL_HEADER, refusalResponse, stateRefusal } from '../../durable-objects/dial.ts';
import type { PartnerRefusal } from '../../durable-objects/metrics/families.ts';
import { reasonOf } from '../../durable-objects/object/reason.ts';
import { objectNamed } from '../../durable-objects/object-id.ts';
import { apiKeyPrefix } from '../../protocol/api-key.ts';
import { type BridgeProof, PROBE_HEADER } from '../../protocol/link/proof.ts';
import { mayConnect } from '../../protocol/scopes.ts';
import { type RefusedConnection, writeRefusedConnection } from '../../registry/audit-events.ts';
import {
  findKeyByPrefix,
  type JudgedKey,
  judgeApiKey,
  type KeyRefusal,
  organizationOfKey,
  takeProbe,
} from '../../registry/key-lookup.ts';
import { organizationOfSlug } from '../../registry/organizations.ts';
import { isAllowedAddress } from '../auth/address.ts';
import type { AppContext } from '../env.ts';
import { count } from '../metrics/counts.ts';
import { basicCredentials, verifyBridge } from './bridge-proof.ts';

const STATE_TEXTS: Record<Exclude<KeyRefusal, 'unknown key'>, string> = {
  'revoked key': 'The API key has been revoked: use another one',
  'expired key': 'The API key has expired: use another one',
  'suspended organization': 'The operator has suspended the organization: ask the operator why',
};

export const linkAmqp = createMiddleware<AppContext>(async (c, next) => {
  const now = Date.now();
  const proof = verifyBridge(c.req.raw, c.env.BRIDGE_SECRET, now);
  // Without a valid proof the path does not exist: `next` answers 404 as for any unknown path.
  if (!proof || c.req.header('upgrade') !== 'websocket') return await next();

  // D1 shows whether the key is unknown, revoked or expired, or its organization suspended. If D1 does not have
  // a revocation yet, the Vhost, which is called below, rejects the key.
  const credentials = basicCredentials(c.req.raw.headers);
  const probed = credentials && (await takeProbe(c.env.DB, credentials.password, proof.probe));
  const judged: JudgedKey = probed
    ? { refusal: undefined, key: probed }
    : await judgeApiKey(c.env.DB, credentials?.password ?? '', now);
  const apiKey = judged.key;
  const isProbe = probed !== undefined;
  const ofProbe: Record<string, string> = isProbe ? { [PROBE_HEADER]: 'known' } : {};
  if (!credentials || !apiKey || judged.refusal || apiKey.slug !== credentials.username) {
    await noteBadKey(c, proof, credentials, judged, now);
    // Who has the key and the slug may learn what has happened to the key; anybody else learns nothing.
    const { refusal } = judged;
    if (apiKey && apiKey.slug === credentials?.username && refusal && refusal !== 'unknown key')
      return stateRefusal(STATE_TEXTS[refusal], ofProbe);
    return refusalResponse(
      'UNAUTHORIZED',
      'The API key is unknown, revoked or expired, or the user name is not the slug of its organization',
      ofProbe,
    );
  }
  const who = { username: apiKey.slug, organizationId: apiKey.organizationId, key: apiKey };
  if (!mayConnect(apiKey.scopes)) {
    if (!isProbe) await noteRefusal(c, proof, who, 'missing scope', now);
    return refusalResponse('FORBIDDEN', 'The API key lacks the scope vcp:connect', ofProbe);
  }
  if (!isProbe && !isAllowedAddress(proof.address, apiKey.allowedIps)) {
    await noteRefusal(c, proof, who, 'address', now);
    return refusalResponse(
      'FORBIDDEN',
      `The client address ${proof.address} is not in allowedIps of the API key`,
    );
  }

  const dial: ClientDial = {
    keyId: apiKey.id,
    connection: proof.connection,
    bridge: proof.bridge,
    boot: proof.boot,
    address: proof.address,
    isProbe,
  };
  const stub = objectNamed(c.env, 'VHOST', apiKey.id);
  const headers = { upgrade: 'websocket', [DIAL_HEADER]: JSON.stringify(dial) };
  const response = await stub.fetch(new Request('https://vhost/link', { headers }));
  if (response.status === 404) return await next();
  if (response.status !== 101) {
    const why = response.status === 409 ? 'connection limit' : 'key ended';
    if (!isProbe) await noteRefusal(c, proof, who, why, now);
  }
  // An accepted connection is not audited here: the Vhost audits it at its connection.open.
  return response;
});

/**
 * Audits a rejected credential, with the reason and, if it can be found, the key that the credential names
 * [C-14.3].
 */
async function noteBadKey(
  c: Context<AppContext>,
  proof: BridgeProof,
  credentials: { username: string; password: string } | undefined,
  { refusal, key }: JudgedKey,
  now: number,
): Promise<void> {
  const { username, password } = credentials ?? { username: '', password: '' };
  const organizationId = key?.organizationId ?? (await organizationOf(c, username));
  const named =
    key ?? (organizationId && (await findKeyByPrefix(c.env.DB, organizationId, apiKeyPrefix(password))));
  const who = { username, organizationId, key: named || undefined };
  await noteRefusal(c, proof, who, 'bad key', now, refusal ?? 'user name');
}

/** The organization for the audit row: that of the slug, or of the key whose id the client sent as user name. */
async function organizationOf(c: Context<AppContext>, username: string): Promise<string | undefined> {
  return (await organizationOfSlug(c.env.DB, username)) ?? (await organizationOfKey(c.env.DB, username));
}

/** Counts a refused dial and audits it, if the organization is known. `why`: the reason in the audit event. */
async function noteRefusal(
  c: Context<AppContext>,
  proof: BridgeProof,
  who: Pick<RefusedConnection, 'username' | 'key'> & { organizationId: string | undefined },
  reason: PartnerRefusal,
  now: number,
  why: string = reason,
): Promise<void> {
  count(c, `refused_dials/partner/${reason}`);
  const { username, organizationId, key } = who;
  if (!organizationId) return;
  const refused = {
    organizationId,
    username,
    address: proof.address,
    reason: why,
    key: key && { id: key.id, prefix: key.prefix },
  };
  try {
    await writeRefusedConnection(c.env.DB, refused, now);
  } catch (error) {
    // The client gets the same rejection even if its audit event cannot be written.
    console.warn('audit event of a refused AMQP login not written, the client stays refused', {
      organizationId,
      reason: reasonOf(error),
    });
  }
}
