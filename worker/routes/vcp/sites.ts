/** The sites of an API key, and a site's configuration (spec: Partner read surface; [C-4.1] to [C-4.4]). */
import { z } from 'zod';
import { EAN } from '../../../protocol/ids.ts';
import { JsonText } from '../../../protocol/json-text.ts';
import { plantSummary, supportedCommands } from '../../../protocol/plant.ts';
import { siteConfigSnapshot } from '../../../protocol/site-config.ts';
import { maySee, requireSite } from '../../auth/site-access.ts';
import { noParameters } from '../../http/query.ts';
import { listPlants, listSubDevices } from '../../registry/plants.ts';
import { route } from '../../route.ts';
import { siteParameters, VCP_READ } from './parameters.ts';

export const listSites = route({
  method: 'GET',
  path: '/api/v1/vcp/sites',
  summary: 'List sites with their sub-devices',
  who: VCP_READ,
  params: noParameters,
  query: z.object({ ean: z.string().regex(EAN, 'must be 18 digits').optional() }),
  answer: {
    status: 200,
    description: 'The sites that the API key may see; with `ean`, only the site with that metering point',
    body: z.strictObject({ plants: z.array(plantSummary) }),
  },
  errors: [],
  handler: async (c, { query }) => {
    const apiKey = c.get('apiKey');
    const [rows, subDevices] = await Promise.all([
      listPlants(c.env.DB, apiKey.organizationId, query.ean),
      listSubDevices(c.env.DB, apiKey.organizationId, query.ean),
    ]);
    const visible = rows.filter((plant) => maySee(apiKey, plant.id));
    const byPlant = Map.groupBy(subDevices, (subDevice) => subDevice.plantId);
    return {
      plants: visible.map(({ id, name, status, externalPlantId, eanCons, eanProd }) => {
        const own = byPlant.get(id) ?? [];
        return {
          id,
          name,
          status,
          externalPlantId,
          eanCons,
          eanProd,
          subDevices: own.map((one) => ({
            deviceId: one.externalId,
            assetType: one.assetType,
            name: one.name,
            status: one.status,
          })),
          supportedCommands: supportedCommands(own.map((one) => one.assetType)),
        };
      }),
    };
  },
});

export const readSiteConfig = route({
  method: 'GET',
  path: '/api/v1/vcp/sites/{siteId}/config',
  summary: 'Get the configuration of a site',
  who: VCP_READ,
  params: siteParameters,
  query: noParameters,
  answer: {
    status: 200,
    description: 'Configuration, operating mode, active schedule and pending commands',
    body: siteConfigSnapshot,
  },
  errors: ['SITE_NOT_FOUND'],
  handler: async (c, { params }) => {
    const site = await requireSite(c, params.siteId);
    return new JsonText(await site.readConfig(params.siteId));
  },
});
