/** The command log of a site (spec: Command-log page; [C-4.3]). */
import { z } from 'zod';
import { commandLogEntry } from '../../../protocol/command-log.ts';
import { JsonText, jsonObject } from '../../../protocol/json-text.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { requireSite } from '../../auth/site-access.ts';
import { integerParameter } from '../../http/query.ts';
import { route } from '../../route.ts';
import { siteParameters, VCP_READ } from './parameters.ts';

export const listCommands = route({
  method: 'GET',
  path: '/api/v1/vcp/sites/{siteId}/commands',
  summary: 'List the command log of a site',
  who: VCP_READ,
  params: siteParameters,
  query: z.object({
    page: integerParameter(1, LIMIT.commandsPage, 1),
    pageSize: integerParameter(1, LIMIT.commandsPageSize, LIMIT.commandsPageSizeDefault),
  }),
  answer: {
    status: 200,
    description: 'A page of the command log, newest first; `total` counts the rows of all pages',
    body: z.strictObject({
      items: z.array(commandLogEntry),
      page: z.int().min(1),
      pageSize: z.int().min(1).max(LIMIT.commandsPageSize),
      total: z.int().min(0),
    }),
  },
  errors: ['SITE_NOT_FOUND'],
  handler: async (c, { params, query: { page, pageSize } }) => {
    const site = await requireSite(c, params.siteId);
    const { items, total } = await site.readCommands(params.siteId, page, pageSize);
    return jsonObject({ items: new JsonText(items), page, pageSize, total });
  },
});
