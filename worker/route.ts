/**
 * A route is data: what it is called by, who may, what it takes, what it answers. The HTTP surface, the OpenAPI
 * document and the checks of the tests are all made from the same list.
 */
import type { Context, Hono, MiddlewareHandler } from 'hono';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import type { z } from 'zod';
import type { ApiErrorCode } from '../protocol/errors.ts';
import { JsonText } from '../protocol/json-text.ts';
import type { ApiKeyScope } from '../protocol/scopes.ts';
import { requireApiKey } from './auth/api-key.ts';
import type { AppContext } from './env.ts';
import { ApiError } from './http/error-response.ts';
import { readPath, readQuery } from './http/query.ts';

/** Who may call it. */
export type Who = { door: 'public' } | { door: 'api-key'; scope: ApiKeyScope };

export interface Route<Path, Query, Answer> {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** From the root, path parameters in braces. */
  path: `/${string}`;
  summary: string;
  who: Who;
  /** Path parameters. A wrong one is 400 VALIDATION_ERROR. */
  params: z.ZodObject<z.ZodRawShape> & z.ZodType<Path>;
  query: z.ZodObject<z.ZodRawShape> & z.ZodType<Query>;
  answer: { status: ContentfulStatusCode; description: string; body: z.ZodType<Answer> };
  /** Beside what `who`, `params` and `query` bring by themselves. */
  errors: readonly ApiErrorCode[];
  /** `JsonText` is the answer as it goes out. */
  handler(
    c: Context<AppContext>,
    input: { params: Path; query: Query },
  ): Promise<Answer | JsonText> | Answer | JsonText;
}

/** A route of any shape, as lists hold it. */
export type AnyRoute = Route<never, never, unknown>;

/** Ties the types of a route's parts together. */
export function route<Path, Query, Answer>(definition: Route<Path, Query, Answer>): AnyRoute {
  return definition as unknown as AnyRoute;
}

/** Every code that a route may answer with. */
export function errorsOf({ who, params, query, errors }: AnyRoute): ApiErrorCode[] {
  const takesInput = Object.keys(params.shape).length + Object.keys(query.shape).length > 0;
  return [
    ...(takesInput ? (['VALIDATION_ERROR'] as const) : []),
    ...(who.door === 'api-key' ? (['UNAUTHORIZED', 'FORBIDDEN', 'SERVICE_UNAVAILABLE'] as const) : []),
    ...errors,
    'INTERNAL_SERVER_ERROR',
  ];
}

/** The middleware that lets in who may. */
export function doorOf(who: Who): MiddlewareHandler<AppContext> {
  switch (who.door) {
    case 'public':
      return async (_c, next) => await next();
    case 'api-key':
      return requireApiKey(who.scope);
  }
}

/** Puts routes on an app. A path that exists answers 405 to every other method, to who may call it. */
export function mount(app: Hono<AppContext>, routes: readonly AnyRoute[]): void {
  for (const one of routes) {
    app.on(one.method, honoPath(one.path), doorOf(one.who), async (c) => {
      const query = readQuery(c, one.query) as never;
      const input = { params: readPath(c, one.params) as never, query };
      const body = await one.handler(c, input);
      if (!(body instanceof JsonText)) return c.json(body as object, one.answer.status);
      return c.body(body.text, one.answer.status, { 'Content-Type': 'application/json' });
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
