/**
 * A route is data: method, path, who may call it, input, response and errors. The HTTP surface, the OpenAPI
 * document and the security matrix of the tests are all built from the same list of routes.
 */
import type { Context, Hono } from 'hono';
import { etag } from 'hono/etag';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import * as z from 'zod';
import type { ApiErrorCode } from '../protocol/errors.ts';
import { JsonText } from '../protocol/json-text.ts';
import { doorOf, errorsOfDoor, type Who } from './auth/door.ts';
import type { AppContext } from './env.ts';
import { ApiError } from './http/error-response.ts';
import { readBody, readPath, readQuery } from './http/query.ts';

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
type Parameters<Values> = z.ZodObject<z.ZodRawShape> & z.ZodType<Values>;

/** The definition of one method of one path, as a route file passes it to `route`. */
interface Definition<Path, Query, Body, Answer> {
  summary: string;
  who: Who;
  /** Who may call it, where `who` says it only in part: a sentence for the OpenAPI document. */
  callers?: string;
  /** A wrong path parameter is 400: VALIDATION_ERROR on partner and public routes, else INVALID_UUID [C-10]. */
  params?: Parameters<Path>;
  query?: Parameters<Query>;
  body?: z.ZodType<Body>;
  /** Codes that replace VALIDATION_ERROR if a fault of the body is in this field. */
  fieldCodes?: Readonly<Record<string, ApiErrorCode>>;
  /** A request without a body is handled as if its body were `{}`. */
  isBodyOptional?: true;
  /** The size of the body, if it differs from the size that the door allows. */
  bodyBytes?: number;
  /** Example bodies for the OpenAPI document. */
  examples?: { body?: unknown; answer?: unknown };
  /** The status is 200 unless it is given. */
  answer: {
    status?: ContentfulStatusCode;
    description: string;
    body: z.ZodType<Answer>;
    /** JSON unless it is given; then the handler returns a whole response. */
    contentType?: string;
  };
  /** Error codes that do not follow from `who`, `params`, `query` and `body`; see `errorsOf`. */
  errors?: readonly ApiErrorCode[];
  /** The response has an ETag. A GET route then accepts If-None-Match, a writing route If-Match. */
  hasTag?: true;
  /** Statuses that differ from the usual status of a code, for example 412 for If-Match [C-10]. */
  errorStatuses?: Partial<Record<ApiErrorCode, number>>;
  /**
   * Returns the response body, or a whole response. `JsonText`, bytes and streams are sent as they are, other values as
   * JSON.
   */
  handler(
    c: Context<AppContext>,
    input: { params: Path; query: Query; body: Body },
  ): Promise<Answer | WrittenJson> | Answer | WrittenJson;
}

type WrittenJson = JsonText | ArrayBuffer | ReadableStream<Uint8Array> | Response;

/** A complete route, without type parameters, so that different routes fit into one list. */
export interface AnyRoute extends Definition<never, never, never, unknown> {
  method: Method;
  /** The full path, with path parameters in braces. */
  path: `/${string}`;
  params: Parameters<never>;
  query: Parameters<never>;
  answer: { status: ContentfulStatusCode; description: string; body: z.ZodType; contentType?: string };
  errors: readonly ApiErrorCode[];
}

const noParameters = z.object({});

/** Makes the compiler check that schemas and handler of a route fit together. `line`: method and path. */
export function route<Path, Query, Body, Answer>(
  line: `${Method} /${string}`,
  definition: Definition<Path, Query, Body, Answer>,
): AnyRoute {
  const [method, path] = line.split(' ');
  const defaults = { method, path, params: noParameters, query: noParameters, errors: [] };
  return { ...defaults, ...definition, answer: { status: 200, ...definition.answer } } as unknown as AnyRoute;
}

/**
 * Returns the error codes that the OpenAPI document lists for a route. A route without query parameters may
 * also answer VALIDATION_ERROR to one, and a route without a body BAD_REQUEST or PAYLOAD_TOO_LARGE to one.
 */
export function errorsOf({ who, params, query, body, fieldCodes = {}, errors }: AnyRoute): ApiErrorCode[] {
  const hasPath = Object.keys(params.shape).length > 0;
  const hasQuery = Object.keys(query.shape).length > 0;
  return [
    ...new Set<ApiErrorCode>([
      ...(hasPath ? [pathCode(who)] : []),
      ...(hasQuery || body ? (['VALIDATION_ERROR'] as const) : []),
      ...(body ? (['BAD_REQUEST', 'PAYLOAD_TOO_LARGE'] as const) : []),
      ...Object.values(fieldCodes),
      ...errorsOfDoor(who),
      ...errors,
      'INTERNAL_SERVER_ERROR',
    ]),
  ];
}

function pathCode({ door }: Who): 'VALIDATION_ERROR' | 'INVALID_UUID' {
  return ['api-key', 'key-or-member', 'public'].includes(door) ? 'VALIDATION_ERROR' : 'INVALID_UUID';
}

/** Registers the routes. A known path answers 405 to other methods, after its access check. */
export function mount(app: Hono<AppContext>, routes: readonly AnyRoute[]): void {
  for (const one of routes) {
    // Answers 304 if the client's If-None-Match shows that it already has the current answer.
    const compare = one.hasTag && one.method === 'GET' ? [etag()] : [];
    app.on(one.method, honoPath(one.path), doorOf(one.who, one.bodyBytes), ...compare, async (c) => {
      const query = readQuery(c, one.query) as never;
      const params = readPath(c, one.params, pathCode(one.who)) as never;
      const body = (one.body ? readBody(c, one.body, one) : undefined) as never;
      const answer = await one.handler(c, { params, query, body });
      if (answer instanceof Response) return answer;
      const written = answer instanceof JsonText ? answer.text : answer;
      const isWritten =
        typeof written === 'string' || written instanceof ArrayBuffer || written instanceof ReadableStream;
      if (!isWritten) return c.json(answer as object, one.answer.status);
      return c.body(written, one.answer.status, { 'Content-Type': 'application/json' });
    });
  }
  for (const [path, own] of Map.groupBy(routes, (one) => one.path)) {
    const [first] = own;
    if (!first) continue;
    app.all(honoPath(path), doorOf(first.who), (c) => {
      const headers = { Allow: allowed(own).join(', ') };
      const message = `The method ${c.req.method} is not allowed on this path: use ${headers.Allow}`;
      throw new ApiError('BAD_REQUEST', message, { status: 405, headers });
    });
  }
}

/** Hono answers HEAD wherever a GET route exists. */
function allowed(routes: readonly AnyRoute[]): string[] {
  return routes.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]));
}

function honoPath(path: string): string {
  return path.replace(/\{(\w+)\}/g, ':$1');
}
