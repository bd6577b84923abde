/** The partner's read surface over sites (spec: Partner read surface; [C-4]). */
import { and, asc, eq, inArray, or } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import type { Context } from 'hono';
import { z } from 'zod';
import { plants, subDevices } from '../../migrations/schema.ts';
import { DEVICE_COMMAND_TYPES } from '../../protocol/enums.ts';
import { SOURCE, VCP_VERSION } from '../../protocol/envelope.ts';
import { EAN } from '../../protocol/ids.ts';
import type { ApiKey } from '../auth/api-key.ts';
import type { AppContext } from '../env.ts';
import { ApiError } from '../error-response.ts';
import { integerParameter, readQuery, uuidParameter } from '../query.ts';

const listQuery = z.object({ ean: z.string().regex(EAN, 'must be 18 digits').optional() });
const commandsQuery = z.object({
  page: integerParameter(1, 1_000_000, 1),
  pageSize: integerParameter(1, 500, 50),
});

const ALWAYS_SUPPORTED = ['SITE_SETPOINT', 'MODE_CHANGE', 'EMERGENCY'];

/** GET /vcp/sites */
export async function listSites(c: Context<AppContext>): Promise<Response> {
  const { ean } = readQuery(c, listQuery);
  const apiKey = c.get('apiKey');
  const db = drizzle(c.env.DB);
  const rows = await db
    .select()
    .from(plants)
    .where(
      and(
        eq(plants.organizationId, apiKey.organizationId),
        ean ? or(eq(plants.eanCons, ean), eq(plants.eanProd, ean)) : undefined,
      ),
    )
    .orderBy(asc(plants.name), asc(plants.id));
  const visible = rows.filter((plant) => maySee(apiKey, plant.id));
  const assets = await readAssets(
    c,
    visible.map((plant) => plant.id),
  );
  const byPlant = Map.groupBy(assets, (asset) => asset.plantId);
  return c.json({
    plants: visible.map((plant) => {
      const own = byPlant.get(plant.id) ?? [];
      return {
        id: plant.id,
        name: plant.name,
        status: plant.status,
        externalPlantId: plant.externalPlantId,
        eanCons: plant.eanCons,
        eanProd: plant.eanProd,
        subDevices: own.map(({ externalId, assetType, name, status }) => ({
          deviceId: externalId,
          assetType,
          name,
          status,
        })),
        supportedCommands: supportedCommands(own.map((asset) => asset.assetType)),
      };
    }),
  });
}

/** A hundred bound parameters is D1's limit: ids go in slices. */
const IDS_PER_QUERY = 90;

async function readAssets(c: Context<AppContext>, plantIds: readonly string[]) {
  const db = drizzle(c.env.DB);
  const slices: string[][] = [];
  for (let start = 0; start < plantIds.length; start += IDS_PER_QUERY) {
    slices.push(plantIds.slice(start, start + IDS_PER_QUERY));
  }
  const found = await Promise.all(
    slices.map((ids) =>
      db
        .select()
        .from(subDevices)
        .where(inArray(subDevices.plantId, ids))
        .orderBy(asc(subDevices.externalId)),
    ),
  );
  return found.flat();
}

/** spec: Plant summary, supportedCommands. */
function supportedCommands(assetTypes: readonly string[]): string[] {
  const added = DEVICE_COMMAND_TYPES.filter((command) =>
    assetTypes.includes(command.startsWith('BESS_') ? 'BESS' : 'FVE'),
  );
  return [...ALWAYS_SUPPORTED, ...added];
}

/** GET /vcp/sites/{siteId}/config */
export async function readSiteConfig(c: Context<AppContext>): Promise<Response> {
  const siteId = await requireSite(c);
  return c.json(await siteStub(c, siteId).readConfig(siteId));
}

/** GET /vcp/sites/{siteId}/commands */
export async function listCommands(c: Context<AppContext>): Promise<Response> {
  const { page, pageSize } = readQuery(c, commandsQuery);
  const siteId = await requireSite(c);
  const { items, total } = await siteStub(c, siteId).readCommands(siteId, page, pageSize);
  return c.json({ items, page, pageSize, total });
}

/** GET /vcp/sites/{siteId}/telemetry/latest */
export async function readLatestTelemetry(c: Context<AppContext>): Promise<Response> {
  const siteId = await requireSite(c);
  const { timestamp, payload } = await siteStub(c, siteId).readLatestTelemetry(siteId);
  const messageId = crypto.randomUUID();
  return c.json({ version: VCP_VERSION, messageId, timestamp, source: SOURCE, siteId, payload });
}

/** The site of the path; a foreign one and one outside allowedPlantIds answer as an absent one [C-4.2]. */
async function requireSite(c: Context<AppContext>): Promise<string> {
  const siteId = uuidParameter(c, 'siteId');
  const apiKey = c.get('apiKey');
  const [plant] = await drizzle(c.env.DB)
    .select({ id: plants.id })
    .from(plants)
    .where(and(eq(plants.id, siteId), eq(plants.organizationId, apiKey.organizationId)));
  if (!plant || !maySee(apiKey, siteId)) throw new ApiError('SITE_NOT_FOUND', 'Site not found');
  return siteId;
}

function maySee(apiKey: ApiKey, plantId: string): boolean {
  return apiKey.allowedPlantIds?.includes(plantId) ?? true;
}

function siteStub(c: Context<AppContext>, siteId: string) {
  return c.env.SITE.get(c.env.SITE.idFromName(siteId));
}
