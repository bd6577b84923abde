/** What the calls and the reference need to know about routes, from the OpenAPI document. */
import type { ApiErrorCode } from '../../../protocol/errors.ts';
import type { RouteFacts } from './call.ts';

interface Response {
  $ref?: string;
  description: string;
  'x-error-codes'?: ApiErrorCode[];
}

interface Operation {
  summary: string;
  description: string;
  security: Record<string, unknown>[];
  parameters: { name: string }[];
  responses: Record<string, Response>;
}

export interface DocumentedRoute extends Operation {
  /** `GET /api/v1/plants`. */
  route: string;
  /** Of its good answer. */
  status: string;
  answer: string;
  codes: ApiErrorCode[];
}

/** The routes by method and path. */
export async function documentedRoutes(): Promise<Map<string, DocumentedRoute>> {
  // The routes have the types of another runtime; only the document matters here.
  const worker = new URL('../../../worker/', import.meta.url);
  const { ROUTES } = await import(new URL('app.ts', worker).href);
  const { openApiDocument } = await import(new URL('../openapi/document.ts', import.meta.url).href);
  const { paths, components } = openApiDocument(ROUTES, { calls: {}, errors: {} }) as {
    paths: Record<string, Record<string, Operation>>;
    components: { responses: Record<string, Response> };
  };
  const routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): [string, DocumentedRoute] => {
      const route = `${method.toUpperCase()} ${path}`;
      const [good, ...errors] = Object.entries(operation.responses);
      const named = errors.map(([, { $ref = '' }]) => components.responses[$ref.replace(/^.*\//, '')]);
      const codes = named.flatMap((response) => response?.['x-error-codes'] ?? []);
      const [status = '', answer = { description: '' }] = good ?? [];
      return [route, { ...operation, route, status, answer: answer.description, codes }];
    }),
  );
  return new Map(routes);
}

export function factsOf({ security, parameters }: DocumentedRoute): RouteFacts {
  return { security, hasOrganization: parameters.some(({ name }) => name === 'x-org-id') };
}

/** The facts of a route by its method and path; of an unknown one, those of a route for members. */
export async function routeFacts(): Promise<(route: string) => RouteFacts> {
  const routes = await documentedRoutes();
  return (route) => {
    const known = routes.get(route);
    return known ? factsOf(known) : { security: [{ bearer: [] }], hasOrganization: true };
  };
}
