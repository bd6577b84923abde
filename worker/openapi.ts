/** The OpenAPI 3.1 document, made from the list of routes: what is answered here is what the routes say of themselves. */
import { z } from 'zod';
import { ERROR_STATUS, errorEnvelope } from '../protocol/errors.ts';
import { type AnyRoute, errorsOf, route, type Who } from './route.ts';

type Json = Record<string, unknown>;

/** `GET /api/v1/openapi.json`; the list is read when it is asked for, this route included. */
export function openApiRoute(routes: () => readonly AnyRoute[]): AnyRoute {
  return route({
    method: 'GET',
    path: '/api/v1/openapi.json',
    summary: 'This document',
    who: { door: 'public' },
    params: z.object({}),
    query: z.object({}),
    answer: { status: 200, description: 'OpenAPI 3.1', body: z.record(z.string(), z.unknown()) },
    errors: [],
    handler: () => openApiDocument(routes()),
  });
}

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
      description: 'Partners read energy sites here; commands and events go over AMQP.',
    },
    servers: [{ url: '/' }],
    paths,
    components: {
      schemas: { Error: schemaOf(errorEnvelope, 'output') },
      securitySchemes: { apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' } },
    },
  };
}

function operationOf(one: AnyRoute): Json {
  return {
    operationId: operationId(one),
    summary: one.summary,
    security: securityOf(one.who),
    ...('scope' in one.who ? { 'x-required-scope': one.who.scope } : {}),
    parameters: [...parametersOf(one.params, 'path'), ...parametersOf(one.query, 'query')],
    responses: {
      [one.answer.status]: {
        description: one.answer.description,
        content: { 'application/json': { schema: schemaOf(one.answer.body, 'output') } },
      },
      ...errorResponses(one),
    },
  };
}

/** `GET /api/v1/vcp/sites/{siteId}/config` is `getVcpSitesConfig`. */
function operationId({ method, path }: AnyRoute): string {
  const words = path
    .replace(/^\/api\/v1/, '')
    .replace(/\{\w+\}/g, '')
    .split(/[^A-Za-z0-9]+/)
    .filter((word) => word !== '');
  return method.toLowerCase() + words.map((word) => (word[0] ?? '').toUpperCase() + word.slice(1)).join('');
}

function securityOf(who: Who): Json[] {
  return who.door === 'public' ? [] : [{ apiKey: [] }];
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

/** One response per status; its description lists the codes that come with it. */
function errorResponses(one: AnyRoute): Json {
  const byStatus = Map.groupBy(errorsOf(one), (code) => ERROR_STATUS[code]);
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => [
      status,
      {
        description: codes.join(', '),
        content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
      },
    ]),
  );
}

/** A schema as JSON Schema 2020-12, which OpenAPI 3.1 is made of. */
function schemaOf(schema: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, {
    target: 'draft-2020-12',
    io,
    // A number in a query string is text to its parser, and an integer to its reader.
    override: ({ jsonSchema }) => {
      const { parameter } = jsonSchema;
      if (!parameter) return;
      for (const name of Object.keys(jsonSchema)) delete jsonSchema[name];
      Object.assign(jsonSchema, parameter);
    },
  });
  return rest;
}
