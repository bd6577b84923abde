/** Telemetry of one device [C-3.5]. */
import * as z from 'zod';
import { uuid } from '../../../protocol/ids.ts';
import { JsonText, jsonObject } from '../../../protocol/json-text.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { pageOf, pageSchema } from '../../../protocol/page.ts';
import { AGGREGATES, BUCKETS, deviceTelemetryPoint, SPAN_MS } from '../../../protocol/telemetry.ts';
import { requireDevice } from '../../auth/access.ts';
import { instantParameter, integerParameter, requireRange, requireSpan } from '../../http/query.ts';
import { siteOf } from '../../lifecycle/device-site.ts';
import { route } from '../../route.ts';

export const deviceTelemetryRoutes = [
  route('GET /api/v1/telemetry/{deviceId}', {
    summary: 'Get the telemetry of a device',
    who: { door: 'member', role: 'VIEWER', scope: 'telemetry:read' },
    params: z.object({ deviceId: uuid }),
    query: z.object({
      metric: z.string().min(1).max(LIMIT.metricCharacters).optional(),
      from: instantParameter.optional(),
      to: instantParameter.optional(),
      bucket: z.enum(BUCKETS).default('raw'),
      agg: z.enum(AGGREGATES).optional(),
      page: integerParameter(1, LIMIT.deviceTelemetryPage, 1),
      limit: integerParameter(1, LIMIT.deviceTelemetryRows, LIMIT.listRowsDefault),
    }),
    answer: {
      description:
        'Readings, or buckets that begin in [from, to), by time and metric; the last 24 hours by default',
      body: pageSchema(deviceTelemetryPoint, LIMIT.deviceTelemetryRows),
    },
    errors: ['NOT_FOUND'],
    handler: async (c, { params: { deviceId }, query }) => {
      const { metric, bucket, agg: aggregate, page, limit } = query;
      const toMs = query.to ?? Date.now();
      const fromMs = query.from ?? toMs - LIMIT.deviceTelemetryDefaultMs;
      requireRange(fromMs, toMs);
      const span = SPAN_MS[bucket];
      const fits = metric === undefined ? 'name a metric, or use a wider bucket' : 'use a wider bucket';
      requireSpan(fromMs, toMs, { spanMs: metric === undefined ? span.all : span.one, fits });
      const device = await requireDevice(c, deviceId);
      const found = await siteOf(c.env, device).readDeviceTelemetry(deviceId, {
        metric,
        fromMs,
        toMs,
        bucket,
        aggregate,
        page,
        limit,
      });
      const { meta } = pageOf({ rows: [], total: found.total }, query, String);
      return jsonObject({ data: new JsonText(`[${found.items}]`), meta });
    },
  }),
];
