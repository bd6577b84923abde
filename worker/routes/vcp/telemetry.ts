/** Telemetry of a site: latest values and history (spec: Telemetry point; [C-4.1], [C-4.5]). */
import { z } from 'zod';
import { GRANULARITIES, type Granularity } from '../../../protocol/enums.ts';
import { SOURCE, VCP_VERSION } from '../../../protocol/envelope.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { latestTelemetry, telemetryPoint } from '../../../protocol/telemetry.ts';
import { requireSite } from '../../auth/site-access.ts';
import { jsonList } from '../../http/json-stream.ts';
import { instantParameter, noParameters, requireRange, requireSpan } from '../../http/query.ts';
import { route } from '../../route.ts';
import { siteParameters, VCP_READ } from './parameters.ts';

export const readLatestTelemetry = route({
  method: 'GET',
  path: '/api/v1/vcp/sites/{siteId}/telemetry/latest',
  summary: 'Get the latest telemetry of a site',
  who: VCP_READ,
  params: siteParameters,
  query: noParameters,
  answer: {
    status: 200,
    description: 'The canonical payload; without data all numbers are null and `dataQuality` is MISSING',
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

/** [C-4.5] The longest range of one request for each granularity, and what to use for a longer range. */
const SPANS: Partial<Record<Granularity, { spanMs: number; fits: string }>> = {
  raw: { spanMs: LIMIT.rawSpanMs, fits: 'use granularity 5m (up to 92 days), 1h (up to 732) or 1d' },
  '5m': { spanMs: LIMIT.fiveMinuteSpanMs, fits: 'use granularity 1h (up to 732 days) or 1d' },
  '1h': { spanMs: LIMIT.hourSpanMs, fits: 'use granularity 1d' },
};

export const readTelemetry = route({
  method: 'GET',
  path: '/api/v1/vcp/sites/{siteId}/telemetry',
  summary: 'Get the history of one metric of a site',
  who: VCP_READ,
  params: siteParameters,
  query: z.object({
    metric: z.string().min(1).max(LIMIT.metricCharacters),
    from: instantParameter,
    to: instantParameter,
    granularity: z.enum(GRANULARITIES).default('raw'),
  }),
  answer: {
    status: 200,
    description:
      'Readings, or buckets that begin in [from, to). A bucket has the mean, for a register the last value',
    body: z.strictObject({ readings: z.array(telemetryPoint) }),
  },
  errors: ['SITE_NOT_FOUND'],
  handler: async (c, { params: { siteId }, query: { metric, from, to, granularity } }) => {
    requireRange(from, to);
    const most = SPANS[granularity];
    if (most) requireSpan(from, to, most);
    const site = await requireSite(c, siteId);
    return await jsonList('readings', from, (fromMs) =>
      site.readHistory(siteId, { kind: 'telemetry', metric, fromMs, toMs: to, granularity }),
    );
  },
});
