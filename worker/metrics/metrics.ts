/** `GET /metrics`: the edge's metrics. The path only exists if METRICS_TOKEN is set, which protects it. */
import { createMiddleware } from 'hono/factory';
import { CONTENT_TYPE, familyText } from '../../durable-objects/metrics/expose.ts';
import { DATABASE } from '../../durable-objects/metrics/families.ts';
import { exposeMetrics } from '../../durable-objects/metrics/report.ts';
import { reasonOf } from '../../durable-objects/object/reason.ts';
import { requireToken, tokensOf } from '../auth/operator.ts';
import type { AppContext } from '../env.ts';
import { reportCounts } from './counts.ts';

export const METRICS_PATH = '/metrics';

/** The size that D1 says with any answer; undefined if it does not answer. */
async function databaseBytes(database: D1Database): Promise<number | undefined> {
  try {
    const { meta } = await database.prepare('SELECT 1').run();
    return meta.size_after;
  } catch (error) {
    console.warn('the size of D1 is not known, the metrics have no sitewire_edge_database_bytes', {
      reason: reasonOf(error),
    });
    return undefined;
  }
}

export const getMetrics = createMiddleware<AppContext>(async (c, next) => {
  const tokens = tokensOf('METRICS_TOKEN', c.env.METRICS_TOKEN);
  if (tokens.length === 0) return await next();
  requireToken(tokens, c.req.raw.headers, 'METRICS_TOKEN');
  await reportCounts(c.env);
  const [text, bytes] = await Promise.all([
    exposeMetrics(c.env, c.env.VERSION?.id ?? ''),
    databaseBytes(c.env.DB),
  ]);
  const size = bytes === undefined ? '' : familyText(DATABASE, [{ values: [], value: bytes }]);
  return c.body(text + size, 200, { 'content-type': CONTENT_TYPE, 'cache-control': 'no-store' });
});
