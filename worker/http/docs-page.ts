/** The page that shows the OpenAPI document, and its two scripts. It loads nothing from another origin. */
import type { Context, MiddlewareHandler } from 'hono';
import * as z from 'zod';
import type { AppContext } from '../env.ts';
import { asset } from './document.ts';
import { ApiError } from './error-response.ts';
import { readQuery } from './query.ts';

export const DOCS_PATH = '/api/v1/docs';
const SCRIPTS = ['redoc.js', 'start.js'];

/** Redoc sets styles itself, and searches in a worker that it makes from a blob. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  'img-src data:',
  "connect-src 'self'",
  'worker-src blob:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Sets the page's own policy, in place of the one that the middleware after it sets for all answers. */
export const docsPolicy: MiddlewareHandler<AppContext> = async (c, next) => {
  await next();
  c.header('content-security-policy', POLICY);
};

export async function getDocs(c: Context<AppContext>): Promise<Response> {
  const file = c.req.param('file');
  if (file !== undefined && !SCRIPTS.includes(file))
    throw new ApiError('NOT_FOUND', `No such path: the page is ${DOCS_PATH}`);
  const { method } = c.req;
  if (method !== 'GET' && method !== 'HEAD')
    throw new ApiError('BAD_REQUEST', `The method ${method} is not allowed on this path: use GET`, {
      status: 405,
      headers: { Allow: 'GET, HEAD' },
    });
  readQuery(c, z.object({}));
  const { body, status, headers } = await asset(c, file ?? 'docs.html', c.req.raw.headers);
  const type = file === undefined ? 'text/html' : 'text/javascript';
  c.header('content-type', `${type}; charset=utf-8`);
  c.header('cache-control', 'no-cache');
  c.header('etag', headers.get('etag') ?? undefined);
  return body === null ? c.body(null, status as 304) : c.body(body, status as 200);
}
