/** Meter registers of a site: current and at each quarter hour (spec: Meter state; [C-4.1], [C-4.6]). */
import { z } from 'zod';
import { EAN } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { meterReading, meterState } from '../../../protocol/meter.ts';
import { maySee, requireSite } from '../../auth/site-access.ts';
import { ApiError } from '../../http/error-response.ts';
import { jsonList } from '../../http/json-stream.ts';
import { instantParameter, noParameters, requireRange, requireSpan } from '../../http/query.ts';
import { siteById } from '../../lifecycle/device-site.ts';
import { listPlants } from '../../registry/plants.ts';
import { route } from '../../route.ts';
import { siteParameters, VCP_READ } from './parameters.ts';

export const readMeterState = route({
  method: 'GET',
  path: '/api/v1/vcp/meter-state',
  summary: 'Get the meter state of the site with a metering point',
  who: VCP_READ,
  params: noParameters,
  query: z.object({ ean: z.string().regex(EAN, 'must be 18 digits') }),
  answer: {
    status: 200,
    description: 'The current registers; `reading` is null when no register is younger than 15 minutes',
    body: meterState,
  },
  errors: ['SITE_NOT_FOUND'],
  handler: async (c, { query: { ean } }) => {
    const apiKey = c.get('apiKey');
    const [plant] = await listPlants(c.env.DB, apiKey.organizationId, ean);
    if (!plant || !maySee(apiKey, plant.id)) throw new ApiError('SITE_NOT_FOUND', 'Site not found');
    const { id: siteId, eanCons, eanProd } = plant;
    return { siteId, eanCons, eanProd, reading: await siteById(c.env, siteId).readMeterState(siteId) };
  },
});

export const listMeterReadings = route({
  method: 'GET',
  path: '/api/v1/vcp/sites/{siteId}/meter-readings',
  summary: 'List the meter readings of a site',
  who: VCP_READ,
  params: siteParameters,
  query: z.object({ from: instantParameter.optional(), to: instantParameter.optional() }),
  answer: {
    status: 200,
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
});
