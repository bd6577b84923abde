/** Checks every answer of the Worker in the tests against the OpenAPI document. */
import { Validator } from '@cfworker/json-schema';
import { EVENT_STREAM } from '../../../protocol/event-journal.ts';
import { EXPORT_TYPE } from '../../../protocol/export.ts';
import { READY_PATH } from '../../../protocol/link/proof.ts';
import { openApiDocument } from '../../../tools/reference/openapi/document.ts';
import { ROUTES } from '../../../worker/app.ts';
import { METRICS_PATH } from '../../../worker/metrics/metrics.ts';
import type { AnyRoute } from '../../../worker/route.ts';

interface AnyResponse {
  content: { 'application/json': { schema: object } };
}

interface Operation {
  responses: Record<string, AnyResponse | { $ref: string }>;
}

const document = openApiDocument(ROUTES, { calls: {}, errors: {} }) as {
  paths: Record<string, Record<string, Operation>>;
  components: { responses: Record<string, AnyResponse> };
};
const ERROR = { $ref: '#/components/schemas/Error' };

/** Throws if the document does not have the answer. An answer of no route must be an error envelope. */
export async function checkAnswer(request: Request, response: Response): Promise<void> {
  const { pathname } = new URL(request.url);
  // Answers to bridges are not in the document: a socket, or the 204 to a valid proof.
  if (response.webSocket || request.method === 'HEAD') return;
  if (pathname === READY_PATH && response.status === 204) return;
  // The metrics have their own format.
  if (pathname === METRICS_PATH && response.status === 200) return;
  // The page of the console, and its files.
  const [, folder] = pathname.split('/');
  if (response.ok && folder !== 'api' && /^text\//.test(response.headers.get('content-type') ?? '')) return;
  // An event stream does not end.
  // A replay checks the lines of an export.
  if ([EVENT_STREAM, EXPORT_TYPE].includes(response.headers.get('content-type') ?? '')) return;
  if (response.status === 304 && request.headers.has('if-none-match')) return;
  const route = ROUTES.find((one) => isOf(one, request.method, pathname));
  const schema = route ? promised(route, response.status) : ERROR;
  const { valid, errors } = new Validator(
    { ...schema, components: document.components },
    '2020-12',
    false,
  ).validate(await response.clone().json());
  if (valid) return;
  const what = errors.map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`).join('; ');
  throw new Error(
    `${request.method} ${pathname} answered ${response.status} with what is not promised: ${what}`,
  );
}

function promised(route: AnyRoute, status: number): object {
  const operation = document.paths[route.path]?.[route.method.toLowerCase()];
  const named = operation?.responses[status];
  const found =
    named && '$ref' in named
      ? document.components.responses[named.$ref.replace('#/components/responses/', '')]
      : named;
  if (!found) throw new Error(`${route.method} ${route.path} promises no ${status}`);
  return found.content['application/json'].schema;
}

function isOf(route: AnyRoute, method: string, pathname: string): boolean {
  const pattern = new RegExp(`^${route.path.replace(/\{\w+\}/g, '[^/]+')}$`);
  return route.method === method && pattern.test(pathname);
}
