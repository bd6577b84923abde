/** `GET /metrics`: the edge's metrics. The path only exists if METRICS_TOKEN is set, which protects it. */
import { createMiddleware } from 'hono/factory';
import { CONTENT_TYPE } from '../../durable-objects/metrics/expose.ts';
import { metricsOf } from '../../durable-objects/metrics/report.ts';
import { equalText, sha256Hex } from '../../durable-objects/secrets/hmac.ts';
import type { AppContext } from '../env.ts';
import { ApiError } from '../http/error-response.ts';
import { reportCounts } from './counts.ts';

export const METRICS_PATH = '/metrics';
const MIN_TOKEN_CHARACTERS = 32;

export const getMetrics = createMiddleware<AppContext>(async (c, next) => {
  const tokens = tokensOf(c.env.METRICS_TOKEN);
  if (tokens.length === 0) return await next();
  if (!isOneOf(tokens, bearerOf(c.req.raw.headers))) {
    throw new ApiError('UNAUTHORIZED', 'Send one of METRICS_TOKEN as bearer token', {
      headers: { 'www-authenticate': 'Bearer' },
    });
  }
  await reportCounts(c.env);
  const text = await metricsOf(c.env).expose(c.env.VERSION?.id ?? '');
  return c.body(text, 200, { 'content-type': CONTENT_TYPE, 'cache-control': 'no-store' });
});

/** The configured tokens. Throws if one of them is too short. */
function tokensOf(setting = ''): string[] {
  if (setting.trim() === '') return [];
  const tokens = setting.split(',').map((token) => token.trim());
  if (tokens.some((token) => token.length < MIN_TOKEN_CHARACTERS))
    throw new Error(`METRICS_TOKEN must have at least ${MIN_TOKEN_CHARACTERS} characters`);
  return tokens;
}

function bearerOf(headers: Headers): string {
  return /^Bearer +(\S+) *$/i.exec(headers.get('authorization') ?? '')?.[1] ?? '';
}

/** Compares the digests of all tokens, so that the time reveals nothing about them. */
function isOneOf(tokens: readonly string[], shown: string): boolean {
  const digest = sha256Hex(shown);
  return tokens.map((token) => equalText(sha256Hex(token), digest)).includes(true);
}
