/** REST reads of the baseline: the same paths and answers as the product's, for one API key. */
import Fastify from 'fastify';
import { sha256Hex } from '../../../durable-objects/secrets/hmac.ts';
import type { Readings } from './readings.ts';
import type { Database } from './statements.ts';

const SITES = `
  SELECT id, name, 'ACTIVE' AS status, NULL AS "externalPlantId", ean_cons AS "eanCons", ean_prod AS "eanProd",
    (SELECT json_agg(json_build_object(
      'deviceId', external_id, 'assetType', asset_type, 'name', sub_device.name, 'status', 'ACTIVE'))
      FROM sub_device WHERE site_id = site.id) AS "subDevices"
  FROM site ORDER BY name, id`;

const CONFIG = `
  SELECT id AS "siteId", config,
    (SELECT coalesce(json_agg(command), '[]') FROM command WHERE site_id = site.id AND status = 'PENDING')
      AS "pendingCommands"
  FROM site WHERE id = $1`;

/** Skips the rows of earlier pages in the index, and reads only those of the page. */
const COMMANDS = `
  SELECT id, message_id AS "messageId", correlation_id AS "correlationId", site_id AS "siteId",
    type AS "commandType", routing_key AS "routingKey", status, payload, message, source, created_at AS "createdAt",
    ended_at AS "endedAt"
  FROM command JOIN (
    SELECT id FROM command WHERE site_id = $1 ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3
  ) AS page USING (id)
  ORDER BY created_at DESC, id DESC`;

const HISTORY = `
  SELECT ts, data -> $4::text AS value FROM reading
  WHERE device_id = (SELECT id FROM device WHERE site_id = $1) AND ts >= $2 AND ts < $3
    AND data -> $4::text IS NOT NULL
  ORDER BY ts`;

interface OfSite {
  Params: { siteId: string };
}

/** `port`: 0 for any. Resolves to the port. */
export async function listenRest(database: Database, port: number, readings: Readings): Promise<number> {
  const app = Fastify({ logger: false });
  const rows = async <Row extends object>(name: string, text: string, values: unknown[] = []) =>
    (await database.pool.query<Row>({ name, text, values })).rows;

  app.addHook('onRequest', async (request, reply) => {
    const text = 'SELECT 1 FROM api_key WHERE hash = $1 AND revoked_at IS NULL';
    const known = await rows('api-key', text, [sha256Hex(String(request.headers['x-api-key']))]);
    if (known.length === 0) await reply.code(401).send();
  });
  app.get('/api/v1/vcp/sites', async () => ({ plants: await rows('sites', SITES) }));
  app.get<OfSite>('/api/v1/vcp/sites/:siteId/config', async ({ params: { siteId } }, reply) => {
    const [site] = await rows('config', CONFIG, [siteId]);
    return site ?? reply.code(404).send();
  });
  app.get<OfSite & { Querystring: { page?: string; pageSize?: string } }>(
    '/api/v1/vcp/sites/:siteId/commands',
    async ({ params: { siteId }, query }) => {
      const [page, pageSize] = [Number(query.page ?? 1), Number(query.pageSize ?? 50)];
      const total = 'SELECT count(*)::int AS total FROM command WHERE site_id = $1';
      const [items, [counted]] = await Promise.all([
        rows('commands', COMMANDS, [siteId, pageSize, (page - 1) * pageSize]),
        rows<{ total: number }>('count', total, [siteId]),
      ]);
      return { items, page, pageSize, total: counted?.total ?? 0 };
    },
  );
  app.get<OfSite & { Querystring: { metric: string; from: string; to: string } }>(
    '/api/v1/vcp/sites/:siteId/telemetry',
    async ({ params: { siteId }, query: { metric, from, to } }) => {
      const values = [siteId, Date.parse(from), Date.parse(to), metric];
      const points = await rows<{ ts: string; value: number }>('history', HISTORY, values);
      return {
        readings: points.map(({ ts, value }) => ({ timestamp: new Date(Number(ts)).toISOString(), value })),
      };
    },
  );
  // For the benchmark: what is stored can be read.
  app.get('/bench/readings', async () => {
    const [counted] = await rows<{ stored: number }>('stored', 'SELECT count(*)::int AS stored FROM reading');
    return { ...counted, dropped: readings.dropped };
  });
  const url = await app.listen({ port, host: '127.0.0.1' });
  return Number(new URL(url).port);
}
