/** Calls of routes by generated tests: each path parameter gets an id, by the noun before it in the path. */
import type { AnyRoute } from '../../../worker/route.ts';
import { restRequest, sendRequest } from './rest.ts';

const PARAMETER = /([\w-]+)\/\{\w+\}/g;
/** An id that is in no table. */
const ABSENT = 'ffffffff-ffff-4fff-8fff-ffffffffffff';

/** `GET /api/v1/plants/{id}`. */
export function nameOf({ method, path }: AnyRoute): string {
  return `${method} ${path}`;
}

/** The nouns of a path's parameters, in order: `plants`, `sub-devices`. */
export function nounsOf({ path }: AnyRoute): string[] {
  return [...path.matchAll(PARAMETER)].map(([, noun = '']) => noun);
}

/** The queries that routes require. */
const QUERIES: Record<string, (ids: Readonly<Record<string, string>>) => string> = {
  '/api/v1/vcp/sites/{siteId}/telemetry': () =>
    '?metric=gridPowerKw&from=2026-01-15T10:00:00Z&to=2026-01-15T11:00:00Z',
  '/api/v1/plants/{id}/telemetry': () =>
    '?metric=gridPowerKw&from=2026-01-15T10:00:00Z&to=2026-01-15T11:00:00Z',
  '/api/v1/plants/{id}/export': () => '?from=2026-01-15T10:00:00Z&to=2026-01-15T11:00:00Z',
  '/api/v1/vcp/dead-letters': ofKey,
  '/api/v1/vcp/dead-letters/{id}': ofKey,
  '/api/v1/vcp/dead-letters/{id}/requeue': ofKey,
  '/api/v1/vcp/meter-state': ({ ean = '000000000000000000' }) => `?ean=${ean}`,
};

function ofKey({ 'api-keys': key = ABSENT }: Readonly<Record<string, string>>): string {
  return key === '' ? '' : `?keyId=${key}`;
}

/** The path with an id for each noun; a noun without one gets an absent id. */
export function pathWith({ path }: AnyRoute, ids: Readonly<Record<string, string>>): string {
  const query = QUERIES[path]?.(ids) ?? '';
  return path.replace(PARAMETER, (_all, noun: string) => `${noun}/${ids[noun] ?? ABSENT}`) + query;
}

/**
 * Sends a body with the methods that may have one. Calls the Worker directly: through its exports each request takes
 * longer than the previous one, which adds up over thousands of requests.
 */
export function callRoute(
  { method }: { method: string },
  path: string,
  headers: Record<string, string>,
  body: unknown = {},
): Promise<Response> {
  if (method === 'GET' || method === 'HEAD' || method === 'DELETE')
    return sendRequest(restRequest(path, { method, headers }));
  const json = { ...headers, 'content-type': 'application/json' };
  return sendRequest(restRequest(path, { method, headers: json, body: JSON.stringify(body) }));
}
