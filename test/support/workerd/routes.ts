/** Routes as generated tests call them: ids in the place of path parameters, by the noun in front of each. */
import type { AnyRoute } from '../../../worker/route.ts';
import { restRequest, settle } from './rest.ts';

const PARAMETER = /([\w-]+)\/\{\w+\}/g;
/** In nobody's table. */
const ABSENT = 'ffffffff-ffff-4fff-8fff-ffffffffffff';

/** `GET /api/v1/plants/{id}`. */
export function nameOf({ method, path }: AnyRoute): string {
  return `${method} ${path}`;
}

/** What the parameters of a path name, in order: `plants`, `sub-devices`. */
export function nounsOf({ path }: AnyRoute): string[] {
  return [...path.matchAll(PARAMETER)].map(([, noun = '']) => noun);
}

/** What routes ask for in their query. */
const QUERIES: Record<string, (ids: Readonly<Record<string, string>>) => string> = {
  '/api/v1/vcp/sites/{siteId}/telemetry': () =>
    '?metric=gridPowerKw&from=2026-01-15T10:00:00Z&to=2026-01-15T11:00:00Z',
  '/api/v1/vcp/meter-state': ({ ean = '000000000000000000' }) => `?ean=${ean}`,
};

/** The path with an id for each noun; of a noun without one there is nothing. */
export function pathWith({ path }: AnyRoute, ids: Readonly<Record<string, string>>): string {
  const query = QUERIES[path]?.(ids) ?? '';
  return path.replace(PARAMETER, (_all, noun: string) => `${noun}/${ids[noun] ?? ABSENT}`) + query;
}

/**
 * Bodies go with the methods that may have one. Straight to the Worker: through its exports each request takes longer
 * than the one before, which is felt in thousands.
 */
export function callRoute(
  { method }: { method: string },
  path: string,
  headers: Record<string, string>,
  body: unknown = {},
): Promise<Response> {
  if (method === 'GET' || method === 'HEAD' || method === 'DELETE')
    return settle(restRequest(path, { method, headers }));
  const json = { ...headers, 'content-type': 'application/json' };
  return settle(restRequest(path, { method, headers: json, body: JSON.stringify(body) }));
}
