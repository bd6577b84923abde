/** The OpenAPI 3.1 document, generated from the list of routes so that it matches what the Worker serves. */
import * as z from 'zod';
import { ERROR_STATUS, errorBody, errorEnvelope } from '../protocol/errors.ts';
import type { Who } from './auth/door.ts';
import { type AnyRoute, errorsOf } from './route.ts';

type Json = Record<string, unknown>;

export function openApiDocument(routes: readonly AnyRoute[]): Json {
  const paths: Record<string, Json> = {};
  for (const one of routes) {
    const operations = paths[one.path] ?? {};
    operations[one.method.toLowerCase()] = operationOf(one);
    paths[one.path] = operations;
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sitewire',
      version: '1.0',
      description:
        'REST API for energy sites: partners read sites, admins manage them. Commands and events use AMQP.',
    },
    servers: [{ url: '/' }],
    paths,
    components: {
      schemas: { Error: schemaOf(errorEnvelope, 'output') },
      securitySchemes: {
        apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
        cookie: { type: 'apiKey', in: 'cookie', name: 'access_token' },
        bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
      },
    },
  };
}

function operationOf(one: AnyRoute): Json {
  return {
    operationId: operationId(one),
    summary: one.summary,
    security: securityOf(one.who),
    ...('scope' in one.who && one.who.scope ? { 'x-required-scope': one.who.scope } : {}),
    ...('role' in one.who ? { 'x-required-role': one.who.role } : {}),
    parameters: [
      ...parametersOf(one.params, 'path'),
      ...parametersOf(one.query, 'query'),
      ...organizationParameter(one.who),
      ...matchParameter(one),
    ],
    ...(one.body ? { requestBody: requestBodyOf(one.body, one) } : {}),
    responses: {
      [one.answer.status]: {
        description: one.answer.description,
        ...(one.hasTag ? { headers: { ETag: { required: true, schema: { type: 'string' } } } } : {}),
        content: {
          'application/json': {
            schema: schemaOf(one.answer.body, 'output'),
            ...(one.examples?.answer === undefined ? {} : { example: one.examples.answer }),
          },
        },
      },
      ...(one.hasTag && one.method === 'GET'
        ? { 304: { description: 'The client has the current answer' } }
        : {}),
      ...errorResponses(one),
    },
  };
}

function requestBodyOf(schema: z.ZodType, { examples, isBodyOptional }: AnyRoute): Json {
  const example = examples?.body;
  const content = { schema: schemaOf(schema, 'input'), ...(example === undefined ? {} : { example }) };
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

function securityOf(who: Who): Json[] {
  const users = [{ cookie: [] }, { bearer: [] }];
  switch (who.door) {
    case 'public':
      return [];
    case 'api-key':
      return [{ apiKey: [] }];
    case 'member':
      return who.scope ? [...users, { apiKey: [] }] : users;
    default:
      return users;
  }
}

/** The header x-org-id, which names the organization [C-1.3]. */
function organizationParameter(who: Who): Json[] {
  if (who.door !== 'member') return [];
  const required = who.isHeaderNeeded ?? false;
  return [{ name: 'x-org-id', in: 'header', required, schema: { type: 'string', format: 'uuid' } }];
}

function parametersOf(schema: z.ZodObject<z.ZodRawShape>, place: 'path' | 'query'): Json[] {
  const { properties = {}, required = [] } = schemaOf(schema, 'input') as {
    properties?: Record<string, Json>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, property]) => ({
    name,
    in: place,
    required: required.includes(name),
    schema: property,
  }));
}

function matchParameter({ hasTag, method }: AnyRoute): Json[] {
  if (!hasTag) return [];
  const name = method === 'GET' ? 'If-None-Match' : 'If-Match';
  return [{ name, in: 'header', required: false, schema: { type: 'string' } }];
}

/** Returns one response per status; its description lists the error codes with that status. */
function errorResponses(one: AnyRoute): Json {
  const byStatus = Map.groupBy(errorsOf(one), (code) => one.errorStatuses?.[code] ?? ERROR_STATUS[code]);
  return Object.fromEntries(
    [...byStatus].map(([status, codes]): [number, Json] => [
      status,
      {
        description: codes.join(', '),
        content: {
          'application/json': {
            schema: { $ref: '#/components/schemas/Error' },
            example: errorBody(codes[0] ?? 'INTERNAL_SERVER_ERROR', 'What is wrong', undefined, status),
          },
        },
      },
    ]),
  );
}

/** Converts a zod schema to JSON Schema 2020-12, the dialect of OpenAPI 3.1. */
function schemaOf(schema: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, {
    target: 'draft-2020-12',
    io,
    // zod sees a query parameter as a string; `parameter` documents its real type, for example an integer.
    override: ({ jsonSchema }) => {
      const { parameter } = jsonSchema;
      if (!parameter) return;
      for (const name of Object.keys(jsonSchema)) delete jsonSchema[name];
      Object.assign(jsonSchema, parameter);
    },
  });
  return rest;
}
