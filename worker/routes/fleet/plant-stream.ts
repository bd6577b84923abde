/** The events of one plant as a stream, for the people of its organization [C-12.3]. */

import type { Context } from 'hono';
import * as z from 'zod';
import { objectNamed } from '../../../durable-objects/object-id.ts';
import { WATCHER_HEADER, type Watcher, watchesName } from '../../../durable-objects/watches-rpc.ts';
import { EVENT_STREAM } from '../../../protocol/event-journal.ts';
import { EVENT_KINDS } from '../../../protocol/routing-keys.ts';
import { requirePlant } from '../../auth/access.ts';
import { requireUser } from '../../auth/authenticate.ts';
import type { Who } from '../../auth/door.ts';
import { SUPPORT_ACTOR, supportTenant } from '../../auth/support.ts';
import type { AppContext } from '../../env.ts';
import { afterParameter, lastEventId } from '../../http/after-parameter.ts';
import { ApiError } from '../../http/error-response.ts';
import { openEventStream, requireStreamRate } from '../../http/event-stream.ts';
import { idParameter } from '../../http/query.ts';
import { route } from '../../route.ts';

const VIEWER: Who = { door: 'member', role: 'VIEWER', isRated: true };

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
      const resumed = lastEventId(c);
      const begin = resumed ?? after;
      await requireStreamRate(c);
      await requirePlant(c, id);
      if (c.req.method === 'HEAD') return new Response(null, { headers: { 'content-type': EVENT_STREAM } });
      const site = objectNamed(c.env, 'SITE', id);
      const filter = { siteIds: [id], ...(type ? { kinds: [type] } : {}) };
      const guard = { open: () => openWatch(c, id), isAllowed: () => maySeeStill(c, id) };
      const afterName = resumed === undefined ? ('after' as const) : ('Last-Event-ID' as const);
      const { signal } = c.req.raw;
      return await openEventStream(site, { filter, after: begin, afterName, signal, guard });
    },
  }),
];

/** Takes one of the places that the person has for streams, whose socket closes when the session ends. */
async function openWatch(c: Context<AppContext>, plantId: string): Promise<Response> {
  const { organizationId, actor } = c.get('tenant');
  const supportId = actor.id.slice(SUPPORT_ACTOR.length);
  const user = c.get('user') as AppContext['Variables']['user'] | undefined;
  const watcher: Watcher = user
    ? { kind: 'user', id: user.row.id, sessionId: user.sessionId, organizationId, plantId }
    : { kind: 'support', id: supportId, sessionId: supportId, organizationId, plantId };
  const headers = { upgrade: 'websocket', [WATCHER_HEADER]: JSON.stringify(watcher) };
  const watches = objectNamed(c.env, 'WATCHES', watchesName(watcher));
  return await watches.fetch(new Request('https://object/watch', { headers }));
}

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
