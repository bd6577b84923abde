/** The OpenAPI 3.1 document, generated from the list of routes so that it matches what the Worker serves. */
import type * as z from 'zod';
import { type ApiErrorCode, ERROR_STATUS, errorEnvelope } from '../../../protocol/errors.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { Who } from '../../../worker/auth/door.ts';
import { type AnyRoute, errorsOf } from '../../../worker/route.ts';
import { ERROR_TEXTS } from './errors.ts';
import { descriptionOf, type Json, SchemaCollection } from './schema.ts';
import { TAGS, tagOf } from './tags.ts';

/** A recorded call of a route: its request body and its answer, both as JSON values. */
export interface Example {
  body?: unknown;
  answer?: unknown;
}

/** What was recorded, by route (`GET /api/v1/plants`), and an error answer of each code. */
export interface Examples {
  calls: Readonly<Record<string, Example>>;
  errors: Readonly<Partial<Record<ApiErrorCode, unknown>>>;
}

const DESCRIPTION = `Partners read sites, admins manage organizations, plants, devices and keys. Commands and events use AMQP, devices use MQTT: see \`/api/v1/asyncapi.json\`.

**Credentials.** A partner sends its API key as \`X-API-Key\`. A user logs in (\`POST /api/v1/auth/login\`) and sends the access token as \`Authorization: Bearer\`; \`x-org-id\` names the organization.

**Limits.** A key or user may send ${LIMIT.requestsPerMinute} requests a minute (the organization's \`restRatePerMinute\`), a client address ${LIMIT.addressRequestsPerMinute}. Answers have \`RateLimit-Limit\`, \`RateLimit-Remaining\` and \`RateLimit-Reset\`; above the limit you get 429 with \`Retry-After\`. A body has at most 1 MiB, and 64 KiB where no credential is needed.

**Errors.** Every error has the form of \`Error\`. \`code\` is stable: use it in programs.

**Pages.** Lists take \`page\` and \`limit\`. Long ones end at ${LIMIT.listTotal} rows that way: send \`meta.next\` as \`before\` to go on. Only the command log has \`pageSize\` and \`items\`, as the specification of the partner API says.`;

export function openApiDocument(routes: readonly AnyRoute[], examples: Examples): Json {
  const schemas = new SchemaCollection();
  schemas.schemaOf(errorEnvelope, 'output', '');
  const responses: Record<string, Json> = {};
  const paths: Record<string, Json> = {};
  for (const one of routes) {
    const operations = paths[one.path] ?? {};
    operations[one.method.toLowerCase()] = operationOf(one, { schemas, responses, examples });
    paths[one.path] = operations;
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sitewire',
      version: '1.0',
      summary: 'REST API for energy sites.',
      description: DESCRIPTION,
      license: { name: 'All rights reserved', identifier: 'LicenseRef-Sitewire' },
    },
    servers: [{ url: '/', description: 'This deployment' }],
    tags: TAGS.map(({ name, description }) => ({ name, description })),
    paths,
    components: {
      schemas: schemas.components,
      responses,
      examples: Object.fromEntries(
        Object.entries(examples.errors).map(([code, value]) => [code, { summary: code, value }]),
      ),
      headers: HEADERS,
      securitySchemes: {
        apiKey: {
          type: 'apiKey',
          in: 'header',
          name: 'X-API-Key',
          description: 'The API key of a partner, as `POST /api/v1/partner/api-keys` returned it.',
        },
        cookie: {
          type: 'apiKey',
          in: 'cookie',
          name: 'access_token',
          description: 'The access token as the cookie that the login sets, for pages of the same origin.',
        },
        bearer: {
          type: 'http',
          scheme: 'bearer',
          bearerFormat: 'JWT',
          description: 'The access token of a login.',
        },
      },
    },
  };
}

const HEADERS = {
  ETag: { required: true, description: 'The version of the answer.', schema: { type: 'string' } },
  RetryAfter: {
    required: true,
    description: 'After how many seconds you may try again.',
    schema: { type: 'integer', format: 'int32', minimum: 0, maximum: 86_400 },
  },
};

/** What the operations of one document share. `responses`: the error responses by name. */
interface Shared {
  schemas: SchemaCollection;
  responses: Record<string, Json>;
  examples: Examples;
}

function operationOf(one: AnyRoute, shared: Shared): Json {
  const { schemas, examples } = shared;
  const recorded = examples.calls[`${one.method} ${one.path}`];
  const answer = recorded?.answer;
  return {
    operationId: operationId(one),
    tags: [tagOf(one.path)],
    summary: one.summary,
    description: `${one.callers ?? callersOf(one.who)} Answers: ${one.answer.description}.`,
    security: securityOf(one.who),
    ...('scope' in one.who && one.who.scope ? { 'x-required-scope': one.who.scope } : {}),
    ...('role' in one.who ? { 'x-required-role': one.who.role } : {}),
    parameters: [
      ...parametersOf(one, 'path', schemas),
      ...parametersOf(one, 'query', schemas),
      ...organizationParameter(one.who),
      ...matchParameter(one),
    ],
    ...(one.body ? { requestBody: requestBodyOf(one.body, one, schemas, recorded) } : {}),
    responses: {
      [one.answer.status]: {
        description: one.answer.description,
        ...(one.hasTag ? { headers: { ETag: { $ref: '#/components/headers/ETag' } } } : {}),
        content: {
          [one.answer.contentType ?? 'application/json']: {
            schema: schemas.schemaOf(one.answer.body, 'output', operationId(one)),
            ...(answer === undefined ? {} : { example: answer }),
          },
        },
      },
      ...(one.hasTag && one.method === 'GET'
        ? { 304: { description: 'The client has the current answer' } }
        : {}),
      ...errorResponses(one, shared),
    },
  };
}

function requestBodyOf(
  schema: z.ZodType,
  one: AnyRoute,
  schemas: SchemaCollection,
  recorded: Example | undefined,
): Json {
  const { examples, isBodyOptional } = one;
  const example = recorded?.body ?? examples?.body;
  const content = {
    schema: schemas.schemaOf(schema, 'input', operationId(one)),
    ...(example === undefined ? {} : { example }),
  };
  return { required: isBodyOptional !== true, content: { 'application/json': content } };
}

/**
 * Returns for example `getVcpSitesConfig` for `GET /api/v1/vcp/sites/{siteId}/config`, and `getPlantsById`
 * for `GET /api/v1/plants/{id}`.
 */
function operationId({ method, path }: AnyRoute): string {
  const words = path
    .replace(/^\/api\/v1/, '')
    .replace(/\/\{(\w+)\}$/, '/by/$1')
    .replace(/\{\w+\}/g, '')
    .split(/[^A-Za-z0-9]+/)
    .filter((word) => word !== '');
  return method.toLowerCase() + words.map((word) => (word[0] ?? '').toUpperCase() + word.slice(1)).join('');
}

/** Who may call a route, in a sentence. */
export function callersOf(who: Who): string {
  switch (who.door) {
    case 'public':
      return 'Anybody may call it.';
    case 'api-key':
      return `Needs an API key with the scope \`${who.scope}\`; a login is not accepted.`;
    case 'account':
      return 'Needs a login.';
    case 'user':
      return 'Needs a login of a user who has proved the e-mail address.';
    case 'operator':
      return 'Needs the token of the operator, or a login of a SUPER_ADMIN.';
    case 'organization':
      return `Needs a login of a member of the organization in the path with the role ${who.role} or higher${who.orSelf ? '; everybody may do it for themselves' : ''}.`;
    case 'key-or-member':
      return `Needs an API key, or a login of a member with the role ${who.role} or higher.`;
    case 'member':
      return `Needs a login of a member with the role ${who.role} or higher${who.scope ? `, or an API key with the scope \`${who.scope}\`` : ''}.`;
  }
}

function securityOf(who: Who): Json[] {
  const users = [{ cookie: [] }, { bearer: [] }];
  switch (who.door) {
    case 'public':
      return [];
    case 'api-key':
      return [{ apiKey: [] }];
    case 'key-or-member':
      return [...users, { apiKey: [] }];
    case 'member':
      return who.scope ? [...users, { apiKey: [] }] : users;
    default:
      return users;
  }
}

/** The header x-org-id, which names the organization [C-1.3]. */
function organizationParameter(who: Who): Json[] {
  if (who.door !== 'member' && who.door !== 'key-or-member') return [];
  const required = (who.door === 'member' && who.isHeaderNeeded) || false;
  const parameter = headerParameter('x-org-id', required, { type: 'string', format: 'uuid' });
  return required ? [{ ...parameter, description: 'The id of the organization.' }] : [parameter];
}

function parametersOf(one: AnyRoute, place: 'path' | 'query', schemas: SchemaCollection): Json[] {
  const schema: z.ZodType = place === 'path' ? one.params : one.query;
  const { properties = {}, required = [] } = schemas.schemaOf(schema, 'input', operationId(one)) as {
    properties?: Record<string, Json>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, { description, ...property }]) => ({
    name,
    in: place,
    required: required.includes(name),
    description,
    schema: property,
  }));
}

function matchParameter({ hasTag, method }: AnyRoute): Json[] {
  if (!hasTag) return [];
  return [headerParameter(method === 'GET' ? 'If-None-Match' : 'If-Match', false, { type: 'string' })];
}

function headerParameter(name: string, required: boolean, schema: Json): Json {
  return { name, in: 'header', required, description: descriptionOf(name, name), schema };
}

/** A reference to a response for each status of the route's errors. */
function errorResponses(one: AnyRoute, { responses, examples }: Shared): Json {
  const byStatus = Map.groupBy(errorsOf(one), (code) => one.errorStatuses?.[code] ?? ERROR_STATUS[code]);
  return Object.fromEntries(
    [...byStatus].map(([status, codes]): [number, Json] => {
      const name = `${status}.${codes.join('.')}`;
      responses[name] ??= errorResponse(status, codes, examples);
      return [status, { $ref: `#/components/responses/${name}` }];
    }),
  );
}

/** Its description lists the codes, and when each is answered. */
function errorResponse(status: number, codes: readonly ApiErrorCode[], { errors }: Examples): Json {
  const shown = codes.filter((code) => errors[code] !== undefined && ERROR_STATUS[code] === status);
  const examples = shown.map((code) => [code, { $ref: `#/components/examples/${code}` }]);
  return {
    description: codes.map(sentenceOf).join('\n\n'),
    'x-error-codes': codes,
    ...([423, 429, 503].includes(status)
      ? { headers: { 'Retry-After': { $ref: '#/components/headers/RetryAfter' } } }
      : {}),
    content: {
      'application/json': {
        schema: { $ref: '#/components/schemas/Error' },
        ...(shown.length > 0 ? { examples: Object.fromEntries(examples) } : {}),
      },
    },
  };
}

function sentenceOf(code: ApiErrorCode): string {
  const text = ERROR_TEXTS[code];
  // A test asks for the text of each code that a route declares.
  return text ? `**${code}**: ${text.when} ${text.remedy}` : `**${code}**`;
}
