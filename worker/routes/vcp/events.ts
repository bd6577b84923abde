/** The events of an API key over HTTPS: pages of its journal, and the same as a stream [C-12.2], [C-12.3]. */

import type { Context } from 'hono';
import * as z from 'zod';
import { objectNamed } from '../../../durable-objects/object-id.ts';
import { EVENT_STREAM, eventPage } from '../../../protocol/event-journal.ts';
import { uuid } from '../../../protocol/ids.ts';
import { JsonText, jsonObject } from '../../../protocol/json-text.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { EVENT_KINDS } from '../../../protocol/routing-keys.ts';
import { requireSite } from '../../auth/access.ts';
import type { AppContext } from '../../env.ts';
import { afterParameter, lastEventId } from '../../http/after-parameter.ts';
import { conflict, unauthorized } from '../../http/error-response.ts';
import { openEventStream, requireStreamRate } from '../../http/event-stream.ts';
import { integerParameter, invalidParameter } from '../../http/query.ts';
import { route } from '../../route.ts';
import { VCP_READ } from './vcp-read.ts';

const filterParameters = {
  type: z.enum(EVENT_KINDS).optional(),
  siteId: uuid.optional(),
};

export const eventRoutes = [
  route('GET /api/v1/vcp/events', {
    summary: 'List events',
    who: VCP_READ,
    query: z.object({
      after: afterParameter.default(0),
      limit: integerParameter(1, LIMIT.eventsPerPage, LIMIT.eventsPerPageDefault),
      ...filterParameters,
    }),
    answer: {
      description:
        'Events after a sequence, oldest first. A page may have fewer events than `limit`, with a filter even none: continue while `next` grows',
      body: eventPage,
    },
    errors: ['SITE_NOT_FOUND', 'CONFLICT'],
    handler: async (c, { query: { after, limit, ...filter } }) => {
      const query = { after, limit, ...(await readFilter(c, filter)) };
      const answer = await vhostOf(c).readJournal(query);
      if ('refused' in answer) throw refused(answer.refused);
      const { items, next, firstKept, last, gap } = answer;
      requireNotAhead('after', after, last);
      const events = new JsonText(`[${items}]`);
      return jsonObject({ events, next, firstKept, ...(gap ? { gap: true } : {}) });
    },
  }),
  route('GET /api/v1/vcp/events/stream', {
    summary: 'Stream events',
    who: { ...VCP_READ, isRated: true },
    query: z.object({ after: afterParameter.optional(), ...filterParameters }),
    answer: {
      description:
        'Server-Sent Events: `id` is the sequence, `event` the type, `data` the signed JSON text of the event. The header `Last-Event-ID`, or `after`, resumes. `event: gap` says that events are no longer kept. The stream ends after 15 minutes; the client resumes',
      body: z.string(),
      contentType: EVENT_STREAM,
    },
    errors: ['SITE_NOT_FOUND', 'CONFLICT'],
    handler: async (c, { query: { after: given, ...parameters } }) => {
      const resumed = lastEventId(c);
      const after = resumed ?? given;
      await requireStreamRate(c);
      const filter = await readFilter(c, parameters);
      const vhost = vhostOf(c);
      // One read before the stream: its refusals are answers with a status.
      const answer = await vhost.readJournal({ after: after ?? 0, limit: 0, ...filter });
      if ('refused' in answer) throw refused(answer.refused);
      requireNotAhead(resumed === undefined ? 'after' : 'Last-Event-ID', after ?? 0, answer.last);
      if (c.req.method === 'HEAD') return new Response(null, { headers: { 'content-type': EVENT_STREAM } });
      // Without a sequence the stream begins with the next event.
      const request = { filter, after: after ?? answer.last, signal: c.req.raw.signal };
      return await openEventStream(vhost, request);
    },
  }),
];

function vhostOf(c: Context<AppContext>) {
  return objectNamed(c.env, 'VHOST', c.get('apiKey').id);
}

/** Throws SITE_NOT_FOUND if the key may not see the site. */
async function readFilter(
  c: Context<AppContext>,
  { type, siteId }: { type?: (typeof EVENT_KINDS)[number] | undefined; siteId?: string | undefined },
) {
  if (siteId !== undefined) await requireSite(c, siteId);
  return { ...(type ? { kinds: [type] } : {}), ...(siteId ? { siteIds: [siteId] } : {}) };
}

function requireNotAhead(name: string, after: number, last: number): void {
  if (after > last) throw invalidParameter(`${name}: ${after} is after the last event, ${last}`);
}

function refused(why: 'ended' | 'none') {
  if (why === 'ended') return unauthorized('The API key was revoked or has expired: use another one');
  return conflict('The API key is older than event journals and has none: create a new key');
}
