/** The latest values of a site (spec: Latest telemetry snapshot; [C-4.1]). */
import { SOURCE, VCP_VERSION } from '../../../protocol/envelope.ts';
import { latestTelemetry } from '../../../protocol/telemetry.ts';
import { requireSite } from '../../auth/site-access.ts';
import { noParameters } from '../../http/query.ts';
import { route } from '../../route.ts';
import { siteParameters, VCP_READ } from './parameters.ts';

export const readLatestTelemetry = route({
  method: 'GET',
  path: '/api/v1/vcp/sites/{siteId}/telemetry/latest',
  summary: 'Latest values of a site',
  who: VCP_READ,
  params: siteParameters,
  query: noParameters,
  answer: {
    status: 200,
    description: 'The canonical payload; without data its numbers are null and `dataQuality` is MISSING',
    body: latestTelemetry,
  },
  errors: ['SITE_NOT_FOUND'],
  handler: async (c, { params: { siteId } }) => {
    const site = await requireSite(c, siteId);
    const { timestamp, payload } = await site.readLatestTelemetry(siteId);
    const messageId = crypto.randomUUID();
    return { version: VCP_VERSION, messageId, timestamp, source: SOURCE, siteId, payload };
  },
});
