/** The upgrade of an AMQP client: bridge proof, then the key as in any connect, then the key's own object. */
import type { Context } from 'hono';
import { createMiddleware } from 'hono/factory';
import { type ClientDial, DIAL_HEADER, refusalResponse } from '../../durable-objects/rpc.ts';
import type { BridgeProof } from '../../protocol/link/proof.ts';
import { mayConnect } from '../../protocol/scopes.ts';
import { isAllowedAddress } from '../auth/address.ts';
import type { AppContext } from '../env.ts';
import { findApiKey, markUsed, organizationOfKey } from '../registry/api-keys.ts';
import { writeAudit } from '../registry/audit-events.ts';
import { organizationOfSlug } from '../registry/organizations.ts';
import { basicCredentials, verifyBridge } from './bridge-proof.ts';

export const linkAmqp = createMiddleware<AppContext>(async (c, next) => {
  const now = Date.now();
  const proof = verifyBridge(c.req.raw, c.env.BRIDGE_SECRET, now);
  // Without a proof the path does not exist: the request falls through to what answers every unknown one.
  if (!proof || c.req.header('upgrade') !== 'websocket') return await next();

  // A key that is unknown, revoked or expired is none; what D1 does not know yet, the key's own object refuses below.
  const credentials = basicCredentials(c.req.raw.headers);
  const apiKey = credentials && (await findApiKey(c.env.DB, credentials.password, now));
  if (!apiKey || apiKey.slug !== credentials.username) {
    const username = credentials?.username ?? '';
    const organizationId = apiKey?.organizationId ?? (await organizationOf(c, username));
    await auditRefusal(c, proof, { username, organizationId }, 'bad key', now);
    return refusalResponse('UNAUTHORIZED', 'Invalid API key');
  }
  if (!mayConnect(apiKey.scopes)) {
    await auditRefusal(
      c,
      proof,
      { username: apiKey.slug, organizationId: apiKey.organizationId },
      'missing scope',
      now,
    );
    return refusalResponse('FORBIDDEN', 'The API key lacks the scope vcp:connect');
  }
  if (!isAllowedAddress(proof.address, apiKey.allowedIps)) {
    await auditRefusal(
      c,
      proof,
      { username: apiKey.slug, organizationId: apiKey.organizationId },
      'address',
      now,
    );
    return refusalResponse('FORBIDDEN', 'The client address is not allowed for this API key');
  }

  const dial: ClientDial = {
    keyId: apiKey.id,
    connection: proof.connection,
    bridge: proof.bridge,
    boot: proof.boot,
    address: proof.address,
  };
  const stub = c.env.VHOST.get(c.env.VHOST.idFromName(apiKey.id));
  const headers = { upgrade: 'websocket', [DIAL_HEADER]: JSON.stringify(dial) };
  const response = await stub.fetch(new Request('https://vhost/link', { headers }));
  if (response.status === 404) return await next();
  if (response.status !== 101) {
    const who = { username: apiKey.slug, organizationId: apiKey.organizationId };
    await auditRefusal(c, proof, who, response.status === 409 ? 'connection limit' : 'key ended', now);
    return response;
  }
  c.executionCtx.waitUntil(
    Promise.all([
      markUsed(c.env.DB, apiKey, now),
      writeAudit(
        c.env.DB,
        {
          cause: `partner.connected|${apiKey.id}`,
          organizationId: apiKey.organizationId,
          event: 'partner.connected',
          actor: apiKey.prefix,
          address: proof.address,
          target: apiKey.id,
          outcome: 'success',
        },
        now,
      ),
    ]),
  );
  return response;
});

/** Whose attempt it was: the organization of that slug, or of the key whose id was given for a user name. */
async function organizationOf(c: Context<AppContext>, username: string): Promise<string | undefined> {
  return (await organizationOfSlug(c.env.DB, username)) ?? (await organizationOfKey(c.env.DB, username));
}

/** At most one row per connection: a replayed refusal writes nothing. Nobody's attempt is nobody's row. */
async function auditRefusal(
  c: Context<AppContext>,
  proof: BridgeProof,
  who: { username: string; organizationId: string | undefined },
  reason: string,
  now: number,
): Promise<void> {
  if (!who.organizationId) return;
  await writeAudit(
    c.env.DB,
    {
      cause: `partner.connection_refused|${proof.connection}`,
      organizationId: who.organizationId,
      event: 'partner.connection_refused',
      actor: who.username,
      address: proof.address,
      target: null,
      outcome: 'refused',
      details: { reason },
    },
    now,
  );
}
