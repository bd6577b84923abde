/** The events of one plant as a stream, for the people of its organization [C-12.3]. */
import type { Context } from 'hono';
import * as z from 'zod';
import { EVENT_STREAM } from '../../../protocol/event-journal.ts';
import { EVENT_KINDS } from '../../../protocol/routing-keys.ts';
import { requirePlant } from '../../auth/access.ts';
import { requireUser } from '../../auth/authenticate.ts';
import type { Who } from '../../auth/door.ts';
import { supportTenant } from '../../auth/support.ts';
import type { AppContext } from '../../env.ts';
import { afterParameter, lastEventId } from '../../http/after-parameter.ts';
import { ApiError } from '../../http/error-response.ts';
import { openEventStream } from '../../http/event-stream.ts';
import { idParameter } from '../../http/query.ts';
import { route } from '../../route.ts';

const VIEWER: Who = { door: 'member', role: 'VIEWER' };

export const plantStreamRoutes = [
  route('GET /api/v1/plants/{id}/stream', {
    summary: 'Stream the events of a plant',
    who: VIEWER,
    params: idParameter,
    query: z.object({ after: afterParameter.optional(), type: z.enum(EVENT_KINDS).optional() }),
    answer: {
      description:
        'Server-Sent Events of all keys together, as `GET /api/v1/vcp/events/stream` sends them, but without a signature. `event: gap` says that events before are not kept',
      body: z.string(),
      contentType: EVENT_STREAM,
    },
    errors: ['PLANT_NOT_FOUND', 'CONFLICT'],
    handler: async (c, { params: { id }, query: { after, type } }) => {
      const begin = lastEventId(c) ?? after;
      await requirePlant(c, id);
      if (c.req.method === 'HEAD') return new Response(null, { headers: { 'content-type': EVENT_STREAM } });
      const site = c.env.SITE.get(c.env.SITE.idFromName(id));
      const filter = type ? { kinds: [type] } : {};
      const isAllowed = () => maySeeStill(c, id);
      return await openEventStream(site, { filter, after: begin, signal: c.req.raw.signal, isAllowed });
    },
  }),
];

/** Whether the session lives, its user is a member, and the organization has the plant. */
async function maySeeStill(c: Context<AppContext>, plantId: string): Promise<boolean> {
  const { organizationId } = c.get('tenant');
  try {
    const support = await supportTenant(c);
    if (support) return support.organizationId === organizationId;
    const { memberships } = await requireUser(c);
    const membership = memberships.find((one) => one.organizationId === organizationId);
    if (!membership || membership.suspendedAtMs !== null) return false;
    await requirePlant(c, plantId);
    return true;
  } catch (error) {
    if (error instanceof ApiError) return false;
    throw error;
  }
}
