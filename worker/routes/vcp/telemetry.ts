/**
 * Telemetry and meter registers of a site: latest values and history (spec: Telemetry point, Meter state;
 * [C-4.1], [C-4.5], [C-4.6]).
 */
import * as z from 'zod';
import type { SiteStub } from '../../../durable-objects/env.ts';
import { SOURCE, VCP_VERSION } from '../../../protocol/envelope.ts';
import { EAN } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { meterReading, meterState } from '../../../protocol/meter.ts';
import {
  GRANULARITIES,
  type Granularity,
  type LatestTelemetry,
  latestTelemetry,
  SPAN_MS,
  telemetryPoint,
} from '../../../protocol/telemetry.ts';
import { listPlants } from '../../../registry/plants.ts';
import { maySee, requireSite } from '../../auth/access.ts';
import { ApiError } from '../../http/error-response.ts';
import { jsonList } from '../../http/json-stream.ts';
import { instantParameter, invalidParameter, requireRange, requireSpan } from '../../http/query.ts';
import { siteById } from '../../lifecycle/device-site.ts';
import { route } from '../../route.ts';
import { siteRead } from './site-read.ts';
import { siteParameters, VCP_READ } from './vcp-read.ts';

const DAY = 24 * 60 * 60_000;

export const telemetryRoutes = [
  ...siteRead('telemetry/latest', {
    summary: 'Get the latest telemetry of a site',
    query: z.object({ at: instantParameter.optional() }),
    answer: {
      description:
        'The canonical payload; without data all numbers are null and `dataQuality` is MISSING. With `at`: what it was at that time, from the single readings of the five minutes before it',
      body: latestTelemetry,
    },
    read: async (site, siteId, { at }) => {
      const { timestamp, payload } =
        at === undefined ? await site.readLatestTelemetry(siteId) : await readPast(site, siteId, at);
      const messageId = crypto.randomUUID();
      return { version: VCP_VERSION, messageId, timestamp, source: SOURCE, siteId, payload };
    },
  }),
  ...siteRead('telemetry', {
    summary: 'Get the history of one metric of a site',
    query: z.object({
      metric: z.string().min(1).max(LIMIT.metricCharacters),
      from: instantParameter,
      to: instantParameter,
      granularity: z.enum(GRANULARITIES).default('raw'),
    }),
    answer: {
      description:
        'Readings, or buckets that begin in [from, to). A bucket has the mean, for a register the last value',
      body: z.strictObject({ readings: z.array(telemetryPoint) }),
    },
    check: ({ from, to, granularity }) => {
      requireRange(from, to);
      requireGranularity(granularity, from, to);
    },
    read: async (site, siteId, { metric, from, to, granularity }) =>
      await jsonList('readings', from, (fromMs) =>
        site.readHistory(siteId, { kind: 'telemetry', metric, fromMs, toMs: to, granularity }),
      ),
  }),
  route('GET /api/v1/vcp/meter-state', {
    summary: 'Get the meter state of the site with a metering point',
    who: VCP_READ,
    // Declared optional, yet required (spec: Endpoints).
    query: z.object({ ean: z.string().regex(EAN, 'must be 18 digits').optional() }),
    answer: {
      description: 'The current registers; `reading` is null when no register is younger than 15 minutes',
      body: meterState,
    },
    errors: ['SITE_NOT_FOUND'],
    handler: async (c, { query: { ean } }) => {
      if (ean === undefined) throw invalidParameter('ean: is required: 18 digits');
      const apiKey = c.get('apiKey');
      const [plant] = await listPlants(c.env.DB, apiKey.organizationId, ean);
      if (!plant || !maySee(apiKey, plant.id))
        throw new ApiError(
          'SITE_NOT_FOUND',
          'No site with this ean is visible to the API key: list its sites',
        );
      const { id: siteId, eanCons, eanProd } = plant;
      return { siteId, eanCons, eanProd, reading: await siteById(c.env, siteId).readMeterState(siteId) };
    },
  }),
  route('GET /api/v1/vcp/sites/{siteId}/meter-readings', {
    summary: 'List the meter readings of a site',
    who: VCP_READ,
    params: siteParameters,
    query: z.object({ from: instantParameter.optional(), to: instantParameter.optional() }),
    answer: {
      description: 'A reading for each quarter of an hour, oldest first; the last 24 hours by default',
      body: z.strictObject({ readings: z.array(meterReading) }),
    },
    errors: ['SITE_NOT_FOUND'],
    handler: async (c, { params: { siteId }, query }) => {
      const to = query.to ?? Date.now();
      const from = query.from ?? to - LIMIT.meterReadingsDefaultMs;
      requireRange(from, to);
      requireSpan(from, to, { spanMs: LIMIT.fiveMinuteSpanMs, fits: 'request a shorter range' });
      const site = await requireSite(c, siteId);
      return await jsonList('readings', from, (fromMs) =>
        site.readHistory(siteId, { kind: 'meter-readings', fromMs, toMs: to }),
      );
    },
  }),
];

async function readPast(site: SiteStub, siteId: string, atMs: number) {
  const text = await site.ask({ kind: 'telemetry', siteId, atMs });
  return JSON.parse(text ?? '') as Pick<LatestTelemetry, 'timestamp' | 'payload'>;
}

/**
 * Throws if the range is too long for the granularity; the error lists the wider granularities that allow it.
 * The widest allows any range [C-4.5].
 */
function requireGranularity(granularity: Granularity, from: number, to: number): void {
  const [widest, ...wider] = GRANULARITIES.slice(GRANULARITIES.indexOf(granularity) + 1).reverse();
  if (widest === undefined) return;
  const limited = wider.reverse().map((one) => `${one} (up to ${SPAN_MS[one].one / DAY} days)`);
  const fits = `use granularity ${[...limited, widest].join(' or ')}`;
  requireSpan(from, to, { spanMs: SPAN_MS[granularity].one, fits });
}
