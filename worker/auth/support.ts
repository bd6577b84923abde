/**
 * The operator's support session as the caller of a request. It can read everything that an ORG_ADMIN of the
 * organization can read, and change nothing. The organization's audit log gets one event for each minute with
 * a request.
 */
import type { Context } from 'hono';
import { reasonOf } from '../../durable-objects/object/reason.ts';
import { SUPPORT_TOKEN_PREFIX } from '../../protocol/support.ts';
import { writeAudit } from '../../registry/audit.ts';
import { findSupport } from '../../registry/support-sessions.ts';
import type { AppContext, Tenant } from '../env.ts';
import { forbidden, unauthorized } from '../http/error-response.ts';
import { addressOf } from './address.ts';
import { SAFE_METHODS } from './authenticate.ts';
import { bearerOf } from './operator.ts';

/** How the id of an actor begins that is a support session. */
export const SUPPORT_ACTOR = 'support-';

/** Undefined if the request has no support token. Throws 401 for one that has ended, and 403 if it would change something. */
export async function supportTenant(c: Context<AppContext>): Promise<Tenant | undefined> {
  const token = bearerOf(c.req.raw.headers);
  if (!token.startsWith(SUPPORT_TOKEN_PREFIX)) return undefined;
  const session = await findSupport(c.env.DB, token, Date.now());
  if (!session) throw unauthorized('The token is of no open support session: start another one');
  if (!SAFE_METHODS.includes(c.req.method))
    throw forbidden(`A support session only reads: ${c.req.method} is refused`);
  const { id, organizationId, slug } = session;
  const tenant: Tenant = {
    organizationId,
    slug,
    actor: { type: 'SYSTEM', id: `${SUPPORT_ACTOR}${id}`, name: 'The operator (support)' },
    role: 'ORG_ADMIN',
    allowedPlantIds: null,
    ceilings: {},
  };
  noteRead(c, tenant, id);
  return tenant;
}

function noteRead(c: Context<AppContext>, { organizationId, actor }: Tenant, id: string): void {
  const written = writeAudit(
    c.env.DB,
    {
      organizationId,
      event: 'support.read',
      actor,
      target: { type: 'SUPPORT_SESSION', id },
      address: addressOf(c),
      outcome: 'SUCCESS',
      details: { path: c.req.path + new URL(c.req.url).search },
    },
    Date.now(),
  );
  c.executionCtx.waitUntil(
    written.catch((error: unknown) => {
      console.error('audit event of a read in a support session not written, the read is not affected', {
        id,
        reason: reasonOf(error),
      });
    }),
  );
}
