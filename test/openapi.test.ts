/** The OpenAPI document: valid by the standard's own schema, and complete. Answers are held against it in every test. */
import { Validator } from '@seriousme/openapi-schema-validator';
import { describe, expect, it } from 'vitest';

interface Operation {
  operationId: string;
  summary: string;
  security: object[];
  parameters: { name: string; in: string; required: boolean; schema: Record<string, unknown> }[];
  responses: Record<string, { description: string }>;
}

interface Document {
  openapi: string;
  info: { version: string };
  paths: Record<string, Record<string, Operation>>;
}

/** The Worker is written for another runtime's types: here its list of routes is all that counts. */
const WORKER = new URL('../worker/', import.meta.url);
const { ROUTES } = await import(new URL('app.ts', WORKER).href);
const { openApiDocument } = await import(new URL('openapi.ts', WORKER).href);
const document = openApiDocument(ROUTES) as Document;
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
);

describe('the OpenAPI document', () => {
  it('is valid OpenAPI 3.1 of the partner read API 1.0 (spec: Versioning)', async () => {
    const { valid, errors } = await new Validator().validate(
      structuredClone(document) as unknown as Record<string, unknown>,
    );
    expect(errors).toBeUndefined();
    expect(valid).toBe(true);
    expect([document.openapi, document.info.version]).toEqual(['3.1.0', '1.0']);
  });

  it('has the routes of the partner read surface that exist, and itself', () => {
    expect(operations.map(({ method, path }) => `${method} ${path}`)).toEqual([
      'get /healthz',
      'get /api/v1/openapi.json',
      'get /api/v1/vcp/sites',
      'get /api/v1/vcp/sites/{siteId}/config',
      'get /api/v1/vcp/sites/{siteId}/commands',
      'get /api/v1/vcp/sites/{siteId}/telemetry/latest',
    ]);
  });

  it('names each operation once, and describes it', () => {
    const ids = operations.map(({ operation }) => operation.operationId);
    expect(new Set(ids).size).toBe(ids.length);
    for (const { operation } of operations) expect(operation.summary).toMatch(/\S/);
  });

  it('declares every parameter of a path, as required', () => {
    for (const { path, operation } of operations) {
      const inPath = operation.parameters.filter((parameter) => parameter.in === 'path');
      expect(inPath.map(({ name }) => `{${name}}`)).toEqual(path.match(/\{\w+\}/g) ?? []);
      for (const { required } of inPath) expect(required).toBe(true);
    }
  });

  it('tells bounds and defaults of the page and its size (spec: Limits)', () => {
    const commands = document.paths['/api/v1/vcp/sites/{siteId}/commands']?.get;
    const schemas = commands?.parameters.map(({ name, schema }) => [name, schema]);
    expect(Object.fromEntries(schemas ?? [])).toMatchObject({
      page: { type: 'integer', minimum: 1, default: 1 },
      pageSize: { type: 'integer', minimum: 1, maximum: 500, default: 50 },
    });
  });

  it('says of each partner route what may go wrong (spec: Responses declared on the partner read endpoints)', () => {
    const partner = operations.filter(({ path }) => path.startsWith('/api/v1/vcp/'));
    expect(partner).toHaveLength(4);
    for (const { path, operation } of partner) {
      expect(operation.security).toEqual([{ apiKey: [] }]);
      const codes = Object.fromEntries(
        Object.entries(operation.responses).map(([status, { description }]) => [status, description]),
      );
      expect(codes).toMatchObject({
        400: 'VALIDATION_ERROR',
        401: 'UNAUTHORIZED',
        403: 'FORBIDDEN',
        500: 'INTERNAL_SERVER_ERROR',
      });
      expect('404' in codes).toBe(path !== '/api/v1/vcp/sites');
    }
  });
});
