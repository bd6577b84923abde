/**
 * The sites of an API key, and a site's configuration, commands and schedules (spec: Partner read surface,
 * Command-log page; [C-4.1] to [C-4.4]).
 */
import * as z from 'zod';
import { supportedCommands } from '../../../protocol/asset.ts';
import { commandLogEntry } from '../../../protocol/command-log.ts';
import { EAN } from '../../../protocol/ids.ts';
import { JsonText, jsonObject } from '../../../protocol/json-text.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { plantSummary } from '../../../protocol/plant.ts';
import { scheduleSummary } from '../../../protocol/schedule.ts';
import { siteConfigSnapshot } from '../../../protocol/site-config.ts';
import { listSites } from '../../../registry/plants.ts';
import { maySee, requireSite } from '../../auth/access.ts';
import { jsonList } from '../../http/json-stream.ts';
import { instantParameter, integerParameter, requireRange } from '../../http/query.ts';
import { route } from '../../route.ts';
import { askerOf, siteRead } from './site-read.ts';
import { siteParameters, VCP_READ } from './vcp-read.ts';

export const siteRoutes = [
  route('GET /api/v1/vcp/sites', {
    summary: 'List sites with their sub-devices',
    who: VCP_READ,
    query: z.object({ ean: z.string().regex(EAN, 'must be 18 digits').optional() }),
    answer: {
      description: 'The sites that the API key may see; with `ean`, only the site with that metering point',
      body: z.strictObject({ plants: z.array(plantSummary) }),
    },
    handler: async (c, { query }) => {
      const apiKey = c.get('apiKey');
      const { plants, subDevices } = await listSites(c.env.DB, apiKey.organizationId, query.ean);
      const visible = plants.filter((plant) => maySee(apiKey, plant.id));
      const byPlant = Map.groupBy(subDevices, (subDevice) => subDevice.plantId);
      return {
        plants: visible.map((plant) => {
          const own = byPlant.get(plant.id) ?? [];
          return {
            ...plant,
            subDevices: own.map(({ plantId, ...shown }) => shown),
            supportedCommands: supportedCommands(own.map((one) => one.assetType)),
          };
        }),
      };
    },
  }),
  route('GET /api/v1/vcp/sites/{siteId}/config', {
    summary: 'Get the configuration of a site',
    who: VCP_READ,
    params: siteParameters,
    answer: {
      description: 'Configuration, operating mode, active schedule and pending commands',
      body: siteConfigSnapshot,
    },
    errors: ['SITE_NOT_FOUND'],
    handler: async (c, { params }) => {
      const site = await requireSite(c, params.siteId);
      return new JsonText(await site.readConfig(params.siteId, askerOf(c)));
    },
  }),
  ...siteRead('commands', {
    summary: 'List the command log of a site',
    query: z.object({
      page: integerParameter(1, LIMIT.commandsPage, 1),
      pageSize: integerParameter(1, LIMIT.commandsPageSize, LIMIT.commandsPageSizeDefault),
      at: instantParameter.optional(),
    }),
    answer: {
      description:
        'A page of the command log, newest first; with `at`, only commands that were recorded at this time or before, as they are now. `total` counts the rows of all pages. A key reads the commands of its partner and of the people of the organization; with `sees: ORGANIZATION` those of all partners',
      body: z.strictObject({
        items: z.array(commandLogEntry),
        page: z.int().min(1),
        pageSize: z.int().min(1).max(LIMIT.commandsPageSize),
        total: z.int().min(0),
      }),
    },
    read: async (site, siteId, { page, pageSize, at }, { asker }) => {
      const { items, total } = await site.readCommands(siteId, page, pageSize, asker, at);
      return jsonObject({ items: new JsonText(items), page, pageSize, total });
    },
  }),
  ...siteRead('schedules', {
    summary: 'List the schedules of a site',
    query: z.object({ from: instantParameter.optional(), to: instantParameter.optional() }),
    answer: {
      description:
        'Schedules whose window overlaps [from, to), by start; by default from 7 days ago to 7 days ahead',
      body: z.strictObject({ schedules: z.array(scheduleSummary) }),
    },
    check: (query) => {
      const { fromMs, toMs } = scheduleRange(query);
      requireRange(fromMs, toMs);
    },
    read: async (site, siteId, query, { asker }) => {
      const range = scheduleRange(query);
      return await jsonList('schedules', null, (after) =>
        site.readSchedules(siteId, { ...range, after }, asker),
      );
    },
  }),
];

function scheduleRange({ from, to }: { from?: number | undefined; to?: number | undefined }) {
  const now = Date.now();
  return { fromMs: from ?? now - LIMIT.schedulesWindowMs, toMs: to ?? now + LIMIT.schedulesWindowMs };
}
