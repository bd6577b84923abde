/** The upgrade of an AMQP client: bridge proof, then the key as in any connect, then the key's own object. */
import { eq } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import type { Context } from 'hono';
import { DIAL_HEADER, notFoundResponse, refusalResponse } from '../../durable-objects/refusal-response.ts';
import type { ClientDial } from '../../durable-objects/vhost/client-sockets.ts';
import { organizations } from '../../migrations/schema.ts';
import type { BridgeProof } from '../../protocol/link.ts';
import { mayConnect } from '../../protocol/scopes.ts';
import { writeAudit } from '../audit.ts';
import { isAllowedAddress } from '../auth/address.ts';
import { findApiKey, markUsed } from '../auth/api-key.ts';
import { basicCredentials, verifyBridge } from '../auth/bridge-proof.ts';
import type { AppContext } from '../env.ts';

export async function linkAmqp(c: Context<AppContext>): Promise<Response> {
  const now = Date.now();
  const proof = verifyBridge(c.req.raw, c.env.BRIDGE_SECRET, now);
  if (!proof || c.req.header('upgrade') !== 'websocket') return notFoundResponse();

  const credentials = basicCredentials(c.req.raw.headers);
  const apiKey = credentials && (await findApiKey(c.env.DB, credentials.password, now));
  if (!apiKey || apiKey.slug !== credentials.username) {
    // The organization that the name belongs to, if any, sees the attempt.
    await auditRefusal(c, proof, credentials?.username ?? '', 'bad key', now);
    return refusalResponse('UNAUTHORIZED', 'Invalid API key');
  }
  if (!mayConnect(apiKey.scopes)) {
    await auditRefusal(c, proof, apiKey.slug, 'missing scope', now);
    return refusalResponse('FORBIDDEN', 'The API key lacks the scope vcp:connect');
  }
  if (!isAllowedAddress(proof.address, apiKey.allowedIps)) {
    await auditRefusal(c, proof, apiKey.slug, 'address', now);
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
  if (response.status !== 101) return response;
  c.executionCtx.waitUntil(
    Promise.all([
      markUsed(c.env.DB, apiKey.id, now),
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
}

/** At most one row per connection: a replayed refusal writes nothing. */
async function auditRefusal(
  c: Context<AppContext>,
  proof: BridgeProof,
  username: string,
  reason: string,
  now: number,
): Promise<void> {
  const [organization] = await drizzle(c.env.DB)
    .select({ id: organizations.id })
    .from(organizations)
    .where(eq(organizations.slug, username));
  if (!organization) return;
  await writeAudit(
    c.env.DB,
    {
      cause: `partner.connection_refused|${proof.connection}`,
      organizationId: organization.id,
      event: 'partner.connection_refused',
      actor: username,
      address: proof.address,
      target: null,
      outcome: 'refused',
      details: { reason },
    },
    now,
  );
}
