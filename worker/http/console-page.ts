/**
 * The console, a page of this Worker: its files, and the page itself for each address that a browser opens and that is
 * none of the API. The same code answers on Cloudflare and locally, so both behave alike.
 */
import type { Context, MiddlewareHandler } from 'hono';
import type { AppContext } from '../env.ts';
import { asset, findAsset } from './document.ts';
import { handleNotFound } from './error-response.ts';

/** The files of the console; their names have a hash of their content. */
export const CONSOLE_FILES = '/console/:file{console-[A-Za-z0-9_-]+\\.(js|css)}';
/** Paths that are never a page. */
const OTHER = /^\/(api|link|console)(\/|$)|^\/(healthz|readyz|metrics)$/;

const POLICY = [
  "default-src 'self'",
  "img-src 'self' data:",
  "object-src 'none'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
  'report-uri /api/v1/csp-report',
].join('; ');

/** Sets the page's own policy, in place of the one that the middleware after it sets for all answers. */
export const consolePolicy: MiddlewareHandler<AppContext> = async (c, next) => {
  await next();
  const isPage = c.res.headers.get('content-type')?.startsWith('text/html') ?? false;
  if (isPage) c.header('content-security-policy', POLICY);
};

export async function getConsoleFile(c: Context<AppContext>): Promise<Response> {
  // A page that was opened before a deploy may ask for a part that is no longer there.
  const { ok, body } = await findAsset(c, c.req.param('file') ?? '');
  if (!ok || !body) return handleNotFound(c);
  c.header('content-type', `text/${c.req.path.endsWith('.js') ? 'javascript' : 'css'}; charset=utf-8`);
  // The name changes with the content.
  c.header('cache-control', 'public, max-age=31536000, immutable');
  return c.body(body);
}

/** Answers a browser that opens a page; every other request gets 404. */
export async function getConsole(c: Context<AppContext>): Promise<Response> {
  const { method, path } = c.req;
  const isPage = (method === 'GET' || method === 'HEAD') && !OTHER.test(path);
  const wantsPage = c.req.header('accept')?.includes('text/html') ?? false;
  if (!isPage || !wantsPage) return handleNotFound(c);
  const { body, status, headers } = await asset(c, 'console.html', c.req.raw.headers);
  c.header('content-type', 'text/html; charset=utf-8');
  c.header('cache-control', 'no-cache');
  c.header('etag', headers.get('etag') ?? undefined);
  return body === null ? c.body(null, status as 304) : c.body(body);
}
