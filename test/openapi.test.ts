/**
 * The OpenAPI document is valid by the standard's own schema, and complete. Every other test validates REST
 * responses against it.
 */
import { Validator as JsonValidator, type Schema } from '@cfworker/json-schema';
import { Validator } from '@seriousme/openapi-schema-validator';
import { describe, expect, it } from 'vitest';

interface Content {
  content: { 'application/json': { schema: Schema; example?: unknown } };
}

interface Operation {
  operationId: string;
  summary: string;
  security: Record<string, string[]>[];
  'x-required-role'?: string;
  'x-required-scope'?: string;
  parameters: { name: string; in: string; required: boolean; schema: Record<string, unknown> }[];
  requestBody?: Content & { required: boolean };
  responses: Record<string, Content & { description: string }>;
}

interface Document {
  openapi: string;
  info: { version: string };
  paths: Record<string, Record<string, Operation>>;
  components: object;
}

/** The Worker is written for another runtime's types; only its list of routes matters here. */
const WORKER = new URL('../worker/', import.meta.url);
const { ROUTES } = await import(new URL('app.ts', WORKER).href);
const { openApiDocument } = await import(new URL('openapi.ts', WORKER).href);
const document = openApiDocument(ROUTES) as Document;
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
);

/**
 * Every route and its permitted callers, from the spec and the contract. The security matrix is generated
 * from this list.
 */
const WHO_MAY: Record<string, string> = {
  'get /healthz': 'anybody',
  'get /readyz': 'anybody',
  'get /api/v1/openapi.json': 'anybody',
  'get /api/v1/asyncapi.json': 'anybody',
  'post /api/v1/csp-report': 'anybody',
  'post /api/v1/auth/register': 'anybody',
  'post /api/v1/auth/login': 'anybody',
  'post /api/v1/auth/refresh': 'anybody',
  'post /api/v1/auth/logout': 'user',
  'get /api/v1/auth/me': 'user',
  'post /api/v1/auth/change-password': 'user',
  'post /api/v1/auth/verify-email': 'anybody',
  'post /api/v1/auth/verify-email/resend': 'user',
  'post /api/v1/auth/password-reset': 'anybody',
  'post /api/v1/auth/password-reset/confirm': 'anybody',
  'post /api/v1/auth/email-change': 'user',
  'post /api/v1/auth/email-change/confirm': 'user',
  'delete /api/v1/auth/email-change': 'user',
  'get /api/v1/auth/sessions': 'user',
  'delete /api/v1/auth/sessions': 'user',
  'delete /api/v1/auth/sessions/{id}': 'user',
  'post /api/v1/platform/organizations': 'user',
  'post /api/v1/platform/organizations/{id}/invitations': 'user',
  'get /api/v1/platform/organizations/{id}/limits': 'user',
  'patch /api/v1/platform/organizations/{id}/limits': 'user',
  'get /api/v1/platform/data-keys': 'user',
  'get /api/v1/platform/organizations': 'user',
  'post /api/v1/platform/organizations/{id}/suspend': 'user',
  'post /api/v1/platform/organizations/{id}/reactivate': 'user',
  'delete /api/v1/platform/organizations/{id}': 'user',
  'post /api/v1/platform/organizations/{id}/support': 'user',
  'post /api/v1/platform/users/delete': 'user',
  'get /api/v1/organizations/{id}/support-sessions': 'ADMIN there',
  'delete /api/v1/organizations/{id}/support-sessions/{sessionId}': 'ORG_ADMIN there',
  'post /api/v1/organizations': 'user',
  'get /api/v1/organizations': 'user',
  'get /api/v1/organizations/{id}': 'VIEWER there',
  'patch /api/v1/organizations/{id}': 'ORG_ADMIN there',
  'get /api/v1/organizations/{id}/members': 'VIEWER there',
  'post /api/v1/organizations/{id}/members': 'ADMIN there',
  'patch /api/v1/organizations/{id}/members/{userId}': 'ADMIN there',
  'delete /api/v1/organizations/{id}/members/{userId}': 'ADMIN there',
  'post /api/v1/organizations/{id}/invitations': 'ADMIN there',
  'get /api/v1/organizations/{id}/invitations': 'ADMIN there',
  'delete /api/v1/organizations/{id}/invitations/{invitationId}': 'ADMIN there',
  'post /api/v1/organizations/{id}/invitations/{invitationId}/resend': 'ADMIN there',
  'post /api/v1/invitations/verify': 'anybody',
  'post /api/v1/invitations/accept': 'anybody',
  'get /api/v1/users': 'ADMIN',
  'patch /api/v1/users/{id}': 'ADMIN',
  'post /api/v1/plants': 'OPERATOR, key with plants:write',
  'get /api/v1/plants': 'VIEWER, key with plants:read',
  'get /api/v1/plants/{id}': 'VIEWER, key with plants:read',
  'patch /api/v1/plants/{id}': 'OPERATOR, key with plants:write',
  'delete /api/v1/plants/{id}': 'OPERATOR, key with plants:write',
  'post /api/v1/plants/{id}/sub-devices': 'OPERATOR, key with plants:write',
  'get /api/v1/plants/{id}/sub-devices': 'VIEWER, key with plants:read',
  'get /api/v1/plants/{id}/sub-devices/{subDeviceId}': 'VIEWER, key with plants:read',
  'patch /api/v1/plants/{id}/sub-devices/{subDeviceId}': 'OPERATOR, key with plants:write',
  'delete /api/v1/plants/{id}/sub-devices/{subDeviceId}': 'OPERATOR, key with plants:write',
  'get /api/v1/plants/{id}/commands': 'VIEWER',
  'get /api/v1/plants/{id}/schedules': 'VIEWER',
  'get /api/v1/plants/{id}/telemetry': 'VIEWER',
  'get /api/v1/plants/{id}/telemetry/latest': 'VIEWER',
  'get /api/v1/plants/{id}/config': 'VIEWER, key with config:read',
  'put /api/v1/plants/{id}/config': 'ADMIN, key with config:write',
  'post /api/v1/devices': 'OPERATOR, key with plants:write',
  'get /api/v1/devices': 'VIEWER, key with plants:read',
  'get /api/v1/devices/{id}': 'VIEWER, key with plants:read',
  'patch /api/v1/devices/{id}': 'OPERATOR, key with plants:write',
  'delete /api/v1/devices/{id}': 'ADMIN, key with plants:write',
  'get /api/v1/device-templates': 'VIEWER, key with plants:read',
  'post /api/v1/device-templates': 'ADMIN',
  'get /api/v1/device-templates/{id}': 'VIEWER, key with plants:read',
  'patch /api/v1/device-templates/{id}': 'ADMIN',
  'delete /api/v1/device-templates/{id}': 'ADMIN',
  'post /api/v1/devices/{id}/provision': 'ADMIN',
  'post /api/v1/devices/{id}/certificate': 'ADMIN',
  'post /api/v1/devices/{id}/mqtt-token': 'ADMIN',
  'post /api/v1/devices/{id}/mqtt-token/renew': 'anybody',
  'post /api/v1/devices/{id}/rotate-secret': 'ADMIN',
  'post /api/v1/devices/{id}/suspend': 'ADMIN',
  'post /api/v1/devices/{id}/reactivate': 'ADMIN',
  'post /api/v1/devices/{id}/revoke': 'ADMIN',
  'get /api/v1/devices/{id}/diagnostics': 'OPERATOR, key with plants:read',
  'post /api/v1/devices/{id}/commands': 'OPERATOR, key with commands:execute',
  'get /api/v1/devices/{id}/commands': 'VIEWER, key with commands:read',
  'get /api/v1/devices/{id}/commands/{cmdId}': 'VIEWER, key with commands:read',
  'post /api/v1/partner/api-keys': 'ORG_ADMIN with x-org-id',
  'get /api/v1/partner/api-keys': 'ORG_ADMIN with x-org-id',
  'get /api/v1/partner/api-keys/{id}': 'ORG_ADMIN with x-org-id',
  'delete /api/v1/partner/api-keys/{id}': 'ORG_ADMIN with x-org-id',
  'post /api/v1/partner/api-keys/{id}/test-connection': 'ORG_ADMIN with x-org-id',
  'post /api/v1/partner/api-keys/{id}/acknowledge-bundle': 'ORG_ADMIN with x-org-id',
  'get /api/v1/audit-events': 'ADMIN',
  'get /api/v1/vcp/sites': 'key with vcp:read',
  'get /api/v1/vcp/sites/{siteId}/config': 'key with vcp:read',
  'get /api/v1/vcp/sites/{siteId}/commands': 'key with vcp:read',
  'get /api/v1/vcp/sites/{siteId}/telemetry/latest': 'key with vcp:read',
  'get /api/v1/vcp/sites/{siteId}/telemetry': 'key with vcp:read',
  'get /api/v1/vcp/sites/{siteId}/meter-readings': 'key with vcp:read',
  'get /api/v1/vcp/sites/{siteId}/schedules': 'key with vcp:read',
  'get /api/v1/vcp/meter-state': 'key with vcp:read',
  'get /api/v1/alerts': 'VIEWER, key with telemetry:read',
  'post /api/v1/alerts': 'OPERATOR, key with telemetry:write',
  'patch /api/v1/alerts/{id}': 'VIEWER, key with telemetry:write',
  'post /api/v1/alerts/{id}/acknowledge': 'VIEWER, key with telemetry:write',
  'post /api/v1/alerts/{id}/resolve': 'VIEWER, key with telemetry:write',
  'get /api/v1/telemetry/{deviceId}': 'VIEWER, key with telemetry:read',
};
const WITHOUT_BODY = [
  'post /api/v1/auth/logout',
  'post /api/v1/auth/verify-email/resend',
  'post /api/v1/organizations/{id}/invitations/{invitationId}/resend',
  'post /api/v1/partner/api-keys/{id}/acknowledge-bundle',
  'post /api/v1/devices/{id}/rotate-secret',
  'post /api/v1/platform/organizations/{id}/reactivate',
];
/** Requests that may omit their body, which then counts as `{}`. */
const BODY_OPTIONAL = [
  ...['provision', 'certificate', 'mqtt-token', 'suspend', 'reactivate', 'revoke'].map(
    (operation) => `post /api/v1/devices/{id}/${operation}`,
  ),
  'post /api/v1/alerts/{id}/acknowledge',
  'post /api/v1/alerts/{id}/resolve',
];

function nameOf({ method, path }: { method: string; path: string }): string {
  return `${method} ${path}`;
}

/** The permitted callers according to the document. */
function whoMay(operation: Operation): string {
  const ways = operation.security.flatMap((way) => Object.keys(way));
  const role = operation['x-required-role'];
  const key = `key with ${operation['x-required-scope']}`;
  if (ways.length === 0) return 'anybody';
  if (ways.join() === 'apiKey') return key;
  expect(ways.slice(0, 2)).toEqual(['cookie', 'bearer']);
  const context = operation.parameters.find(({ name }) => name === 'x-org-id');
  if (!role) return 'user';
  if (!context) return `${role} there`;
  return `${role}${context.required ? ' with x-org-id' : ''}${ways.includes('apiKey') ? `, ${key}` : ''}`;
}

/** The fields of a value that its schema does not have; empty when the value matches. */
function misfits(schema: Schema, value: unknown): string[] {
  const whole = { ...schema, components: document.components } as Schema;
  return new JsonValidator(whole, '2020-12', false).validate(value).errors.map(({ error }) => error);
}

describe('the OpenAPI document', () => {
  it('is valid OpenAPI 3.1 of the partner read API 1.0 (spec: Versioning)', async () => {
    const { valid, errors } = await new Validator().validate(
      structuredClone(document) as unknown as Record<string, unknown>,
    );
    expect(errors).toBeUndefined();
    expect(valid).toBe(true);
    expect([document.openapi, document.info.version]).toEqual(['3.1.0', '1.0']);
  });

  it('has every route with its permitted callers, and no other (spec: Endpoints)', () => {
    const said = operations.map((one) => [nameOf(one), whoMay(one.operation)]);
    expect(Object.fromEntries(said)).toEqual(WHO_MAY);
    expect(operations).toHaveLength(ROUTES.length);
  });

  it('names each operation once, and describes it', () => {
    const ids = operations.map(({ operation }) => operation.operationId);
    expect(ids.filter((id, index) => ids.indexOf(id) !== index)).toEqual([]);
    for (const { operation } of operations) expect(operation.summary).toMatch(/\S/);
  });

  it('declares every parameter of a path, as required', () => {
    for (const { path, operation } of operations) {
      const inPath = operation.parameters.filter((parameter) => parameter.in === 'path');
      expect(inPath.map(({ name }) => `{${name}}`)).toEqual(path.match(/\{\w+\}/g) ?? []);
      for (const { required } of inPath) expect(required).toBe(true);
    }
  });

  it('declares the `ean` of meter-state as optional, as the specification does', () => {
    const { operation } = operations.find(({ path }) => path.endsWith('/meter-state')) ?? {};
    expect(operation?.parameters.find(({ name }) => name === 'ean')).toMatchObject({ required: false });
  });

  it('accepts ids in upper and lower case', () => {
    const schemas = operations.flatMap(({ operation }) =>
      operation.parameters.filter(({ schema }) => schema.format === 'uuid').map(({ schema }) => schema),
    );
    expect(schemas.length).toBeGreaterThan(20);
    const id = '0B7a3c52-3F5B-4b8e-9A55-2a9c4b1d7e10';
    expect(schemas.flatMap((schema) => misfits(schema, id))).toEqual([]);
  });

  it('has a body without unknown fields for each POST, PUT and PATCH, except those listed (style: Types and data)', () => {
    const sending = operations.filter(({ method }) => ['post', 'put', 'patch'].includes(method)).map(nameOf);
    const withBody = operations.filter(({ operation }) => operation.requestBody);
    expect(withBody.map(nameOf)).toEqual(sending.filter((name) => !WITHOUT_BODY.includes(name)));
    for (const one of withBody.filter(({ path }) => path !== '/api/v1/csp-report')) {
      const { schema } = one.operation.requestBody?.content['application/json'] ?? { schema: {} };
      const isRequired = !BODY_OPTIONAL.includes(nameOf(one));
      expect([nameOf(one), one.operation.requestBody?.required]).toEqual([nameOf(one), isRequired]);
      expect([nameOf(one), schema.type, schema.additionalProperties]).toEqual([nameOf(one), 'object', false]);
    }
  });

  it('shows request and response examples that match their own schemas', () => {
    const shown = operations.flatMap((one) =>
      [one.operation.requestBody, ...Object.values(one.operation.responses)].flatMap((part) => {
        const { schema, example } = part?.content?.['application/json'] ?? {};
        return schema && example !== undefined
          ? [{ name: nameOf(one), wrong: misfits(schema, example) }]
          : [];
      }),
    );
    expect(shown.filter(({ wrong }) => wrong.length > 0)).toEqual([]);
    expect(shown.length).toBeGreaterThan(operations.length);
  });

  it('declares one success response for each operation, and errors with an example of each (spec: Errors, Envelope)', () => {
    for (const one of operations) {
      const { 304: _unchanged, ...responses } = one.operation.responses;
      const [good, ...errors] = Object.entries(responses);
      expect([nameOf(one), good?.[0]]).toEqual([nameOf(one), expect.stringMatching(/^20[0-2]$/)]);
      expect([nameOf(one), errors.map(([status]) => status)]).toEqual([
        nameOf(one),
        expect.arrayContaining(one.operation.security.length > 0 ? ['401', '429', '500', '503'] : ['500']),
      ]);
      for (const [status, { description, content }] of errors) {
        const { schema, example } = content['application/json'];
        expect([nameOf(one), status, schema.$ref]).toEqual([
          nameOf(one),
          status,
          '#/components/schemas/Error',
        ]);
        expect(example).toMatchObject({ statusCode: Number(status), code: description.split(', ')[0] });
      }
    }
  });

  it('declares 412, not 409, for a PUT of a configuration with an outdated ETag [C-10]', () => {
    const responses = document.paths['/api/v1/plants/{id}/config']?.put?.responses;
    expect([responses?.['412']?.description, responses?.['409']]).toEqual(['CONFLICT', undefined]);
  });

  const LONG_PAGES: Record<string, number> = { '/api/v1/telemetry/{deviceId}': 1_000 };

  it('states the bounds and defaults of page and page size (spec: Limits)', () => {
    const pages = operations.filter(({ operation }) =>
      operation.parameters.some(({ name }) => name === 'page'),
    );
    expect(pages.length).toBeGreaterThan(6);
    for (const { path, operation } of pages) {
      const schemas = Object.fromEntries(operation.parameters.map(({ name, schema }) => [name, schema]));
      const size = /^\/api\/v1\/(vcp\/|plants\/\{id\}\/commands)/.test(path)
        ? { pageSize: { type: 'integer', minimum: 1, maximum: 500, default: 50 } }
        : { limit: { type: 'integer', minimum: 1, maximum: LONG_PAGES[path] ?? 100, default: 20 } };
      expect(schemas).toMatchObject({ page: { type: 'integer', minimum: 1, default: 1 }, ...size });
    }
  });

  it('lists the possible errors of each partner route (spec: Responses declared on the partner read endpoints)', () => {
    const partner = operations.filter(({ path }) => path.startsWith('/api/v1/vcp/'));
    expect(partner).toHaveLength(8);
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
