/**
 * A route is data: what it is called by, who may, what it takes, what it answers. The HTTP surface, the OpenAPI
 * document and the checks of the tests are all made from the same list.
 */
import type { Context, Hono } from 'hono';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import type { z } from 'zod';
import type { ApiErrorCode } from '../protocol/errors.ts';
import { JsonText } from '../protocol/json-text.ts';
import { doorOf, errorsOfDoor, type Who } from './auth/door.ts';
import type { AppContext } from './env.ts';
import { ApiError } from './http/error-response.ts';
import { readBody, readPath, readQuery } from './http/query.ts';

export interface Route<Path, Query, Body, Answer> {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** From the root, path parameters in braces. */
  path: `/${string}`;
  summary: string;
  who: Who;
  /** Path parameters. A wrong one is 400: VALIDATION_ERROR on the partner surface, INVALID_UUID elsewhere [C-10]. */
  params: z.ZodObject<z.ZodRawShape> & z.ZodType<Path>;
  query: z.ZodObject<z.ZodRawShape> & z.ZodType<Query>;
  body?: z.ZodType<Body>;
  /** Without one it is `{}`. */
  isBodyOptional?: true;
  /** Bodies as the document shows them. */
  examples?: { body?: unknown; answer?: unknown };
  answer: { status: ContentfulStatusCode; description: string; body: z.ZodType<Answer> };
  /** Beside what `who`, `params`, `query` and `body` bring by themselves. */
  errors: readonly ApiErrorCode[];
  /** Its answer has an ETag; what writes takes If-Match, too. */
  hasTag?: true;
  /** Where a code comes with another status than its own: 412 for If-Match [C-10]. */
  errorStatuses?: Partial<Record<ApiErrorCode, number>>;
  /** `JsonText` is the answer as it goes out, a stream its bytes. */
  handler(
    c: Context<AppContext>,
    input: { params: Path; query: Query; body: Body },
  ): Promise<Answer | WrittenJson> | Answer | WrittenJson;
}

type WrittenJson = JsonText | ReadableStream<Uint8Array>;

/** A route of any shape, as lists hold it. */
export type AnyRoute = Route<never, never, never, unknown>;

/** Ties the types of a route's parts together. */
export function route<Path, Query, Body, Answer>(definition: Route<Path, Query, Body, Answer>): AnyRoute {
  return definition as unknown as AnyRoute;
}

/** Every code that a route may answer with. */
export function errorsOf({ who, params, query, body, errors }: AnyRoute): ApiErrorCode[] {
  const hasPath = Object.keys(params.shape).length > 0;
  const hasQuery = Object.keys(query.shape).length > 0;
  return [
    ...new Set<ApiErrorCode>([
      ...(hasPath ? [pathCode(who)] : []),
      ...(hasQuery || body ? (['VALIDATION_ERROR'] as const) : []),
      ...(body ? (['BAD_REQUEST', 'PAYLOAD_TOO_LARGE'] as const) : []),
      ...errorsOfDoor(who),
      ...errors,
      'INTERNAL_SERVER_ERROR',
    ]),
  ];
}

function pathCode({ door }: Who): 'VALIDATION_ERROR' | 'INVALID_UUID' {
  return door === 'api-key' || door === 'public' ? 'VALIDATION_ERROR' : 'INVALID_UUID';
}

/** Puts routes on an app. A path that exists answers 405 to every other method, to who may call it. */
export function mount(app: Hono<AppContext>, routes: readonly AnyRoute[]): void {
  for (const one of routes) {
    app.on(one.method, honoPath(one.path), doorOf(one.who), async (c) => {
      const query = readQuery(c, one.query) as never;
      const params = readPath(c, one.params, pathCode(one.who)) as never;
      const body = (
        one.body ? readBody(c, one.body, one.isBodyOptional ? {} : undefined) : undefined
      ) as never;
      const answer = await one.handler(c, { params, query, body });
      const written = answer instanceof JsonText ? answer.text : answer;
      const isWritten = typeof written === 'string' || written instanceof ReadableStream;
      if (!isWritten) return c.json(answer as object, one.answer.status);
      return c.body(written, one.answer.status, { 'Content-Type': 'application/json' });
    });
  }
  for (const [path, own] of Map.groupBy(routes, (one) => one.path)) {
    const [first] = own;
    if (!first) continue;
    app.all(honoPath(path), doorOf(first.who), () => {
      const headers = { Allow: allowed(own).join(', ') };
      throw new ApiError('BAD_REQUEST', 'Method not allowed', { status: 405, headers });
    });
  }
}

/** HEAD is GET without its body. */
function allowed(routes: readonly AnyRoute[]): string[] {
  return routes.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]));
}

function honoPath(path: string): string {
  return path.replace(/\{(\w+)\}/g, ':$1');
}
