/** `GET /metrics`: the edge's metrics. The path only exists if METRICS_TOKEN is set, which protects it. */
import { createMiddleware } from 'hono/factory';
import { CONTENT_TYPE } from '../../durable-objects/metrics/expose.ts';
import { exposeMetrics } from '../../durable-objects/metrics/report.ts';
import { requireToken, tokensOf } from '../auth/operator.ts';
import type { AppContext } from '../env.ts';
import { reportCounts } from './counts.ts';

export const METRICS_PATH = '/metrics';

export const getMetrics = createMiddleware<AppContext>(async (c, next) => {
  const tokens = tokensOf('METRICS_TOKEN', c.env.METRICS_TOKEN);
  if (tokens.length === 0) return await next();
  requireToken(tokens, c.req.raw.headers, 'METRICS_TOKEN');
  await reportCounts(c.env);
  const text = await exposeMetrics(c.env, c.env.VERSION?.id ?? '');
  return c.body(text, 200, { 'content-type': CONTENT_TYPE, 'cache-control': 'no-store' });
});
