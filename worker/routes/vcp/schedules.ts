/** Schedules of a site (spec: Partner read surface; [C-4.4]). */
import { z } from 'zod';
import { LIMIT } from '../../../protocol/limits.ts';
import { scheduleSummary } from '../../../protocol/schedule.ts';
import { requireSite } from '../../auth/site-access.ts';
import { jsonList } from '../../http/json-stream.ts';
import { instantParameter, requireRange } from '../../http/query.ts';
import { route } from '../../route.ts';
import { siteParameters, VCP_READ } from './parameters.ts';

export const listSchedules = route({
  method: 'GET',
  path: '/api/v1/vcp/sites/{siteId}/schedules',
  summary: 'List the schedules of a site',
  who: VCP_READ,
  params: siteParameters,
  query: z.object({ from: instantParameter.optional(), to: instantParameter.optional() }),
  answer: {
    status: 200,
    description:
      'Schedules whose window overlaps [from, to), by start; by default from 7 days ago to 7 days ahead',
    body: z.strictObject({ schedules: z.array(scheduleSummary) }),
  },
  errors: ['SITE_NOT_FOUND'],
  handler: async (c, { params: { siteId }, query }) => {
    const now = Date.now();
    const fromMs = query.from ?? now - LIMIT.schedulesWindowMs;
    const toMs = query.to ?? now + LIMIT.schedulesWindowMs;
    requireRange(fromMs, toMs);
    const site = await requireSite(c, siteId);
    return await jsonList('schedules', null, (after) =>
      site.readHistory(siteId, { kind: 'schedules', fromMs, toMs, after }),
    );
  },
});
