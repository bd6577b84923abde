/** Telemetry of one device [C-3.5]. */
import { z } from 'zod';
import { uuid } from '../../../protocol/ids.ts';
import { JsonText, jsonObject } from '../../../protocol/json-text.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { pageOf, pageSchema } from '../../../protocol/page.ts';
import { AGGREGATES, BUCKETS, type BucketName, deviceTelemetryPoint } from '../../../protocol/telemetry.ts';
import { requireDevice } from '../../auth/device-access.ts';
import { instantParameter, integerParameter, requireRange, requireSpan } from '../../http/query.ts';
import { siteOf } from '../../lifecycle/device-site.ts';
import { route } from '../../route.ts';

const DAY = 24 * 60 * 60_000;

/** The longest range of one request in ms, for `one` metric and for `all` metrics of the device. */
const SPANS: Record<BucketName, { one: number; all: number }> = {
  raw: { one: LIMIT.rawSpanMs, all: DAY },
  '1m': { one: LIMIT.rawSpanMs, all: DAY },
  '5m': { one: LIMIT.fiveMinuteSpanMs, all: 7 * DAY },
  '15m': { one: LIMIT.fiveMinuteSpanMs, all: 7 * DAY },
  '1h': { one: LIMIT.hourSpanMs, all: LIMIT.fiveMinuteSpanMs },
  '1d': { one: 10 * 366 * DAY, all: LIMIT.hourSpanMs },
};

export const getDeviceTelemetry = route({
  method: 'GET',
  path: '/api/v1/telemetry/{deviceId}',
  summary: 'Get the telemetry of a device',
  who: { door: 'member', role: 'VIEWER', scope: 'telemetry:read' },
  params: z.object({ deviceId: uuid }),
  query: z.object({
    metric: z.string().min(1).max(LIMIT.metricCharacters).optional(),
    from: instantParameter.optional(),
    to: instantParameter.optional(),
    bucket: z.enum(BUCKETS).default('raw'),
    agg: z.enum(AGGREGATES).optional(),
    page: integerParameter(1, LIMIT.listPage, 1),
    limit: integerParameter(1, LIMIT.deviceTelemetryRows, LIMIT.listRowsDefault),
  }),
  answer: {
    status: 200,
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
    const span = SPANS[bucket];
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
    const { meta } = pageOf([], found.total, { page, limit });
    return jsonObject({ data: new JsonText(`[${found.items}]`), meta });
  },
});
