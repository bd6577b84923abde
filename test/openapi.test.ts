/**
 * The OpenAPI document is valid by the standard's own schema, and complete. Every other test validates REST
 * responses against it.
 */
import { Validator as JsonValidator, type Schema } from '@cfworker/json-schema';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { Validator } from '@seriousme/openapi-schema-validator';
import { describe, expect, it } from 'vitest';
import examples from '../tools/reference/openapi/examples.json' with { type: 'json' };
import { FIELDS } from '../tools/reference/openapi/fields.ts';
import { OWN_FIELDS } from '../tools/reference/openapi/own-fields.ts';

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
  responses: Record<string, AnyResponse>;
}

interface AnyResponse extends Content {
  description: string;
  'x-error-codes'?: string[];
}

interface Document {
  openapi: string;
  info: { version: string };
  paths: Record<string, Record<string, Operation>>;
  components: {
    schemas: Record<string, Schema>;
    responses: Record<string, AnyResponse>;
    examples: Record<string, { value: Record<string, unknown> }>;
  };
}

/** The Worker is written for another runtime's types; only its list of routes matters here. */
const WORKER = new URL('../worker/', import.meta.url);
const { ROUTES } = await import(new URL('app.ts', WORKER).href);
const REFERENCE = new URL('../tools/reference/', import.meta.url);
const { openApiDocument } = await import(new URL('openapi/document.ts', REFERENCE).href);
const document = openApiDocument(ROUTES, examples) as Document;
/** Each operation, with its error responses in place of the references to them. */
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, raw]) => {
    const responses = Object.entries(raw.responses).map(([status, one]) => [status, resolved(one)]);
    return { path, method, operation: { ...raw, responses: Object.fromEntries(responses) } as Operation };
  }),
);

function resolved(response: AnyResponse & { $ref?: string }): AnyResponse {
  const name = response.$ref?.replace('#/components/responses/', '');
  return (name === undefined ? response : document.components.responses[name]) as AnyResponse;
}

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
  'get /api/v1/auth/email-change': 'user',
  'post /api/v1/auth/email-change': 'user',
  'post /api/v1/auth/email-change/confirm': 'user',
  'delete /api/v1/auth/email-change': 'user',
  'get /api/v1/auth/sessions': 'user',
  'delete /api/v1/auth/sessions': 'user',
  'delete /api/v1/auth/sessions/{id}': 'user',
  'post /api/v1/platform/organizations': 'user',
  'post /api/v1/platform/organizations/{id}/invitations': 'user',
  'get /api/v1/platform/check': 'user',
  'get /api/v1/platform/organizations/{id}/limits': 'user',
  'patch /api/v1/platform/organizations/{id}/limits': 'user',
  'get /api/v1/platform/data-keys': 'user',
  'post /api/v1/platform/backups/fence': 'user',
  'post /api/v1/platform/backups/read': 'user',
  'post /api/v1/platform/backups/stage': 'user',
  'post /api/v1/platform/backups/restore': 'user',
  'post /api/v1/platform/backups/end': 'user',
  'get /api/v1/platform/audit-events': 'user',
  'post /api/v1/platform/after-restore': 'user',
  'get /api/v1/platform/organizations': 'user',
  'post /api/v1/platform/organizations/{id}/suspend': 'user',
  'post /api/v1/platform/organizations/{id}/reactivate': 'user',
  'delete /api/v1/platform/organizations/{id}': 'user',
  'post /api/v1/platform/organizations/{id}/support': 'user',
  'post /api/v1/platform/users/delete': 'user',
  'post /api/v1/platform/users/release': 'user',
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
  'post /api/v1/plants/{id}/sub-devices/{subDeviceId}/meter-exchange': 'ADMIN',
  'get /api/v1/plants/{id}/commands': 'VIEWER',
  'get /api/v1/plants/{id}/commands/{commandId}/timeline': 'VIEWER',
  'get /api/v1/plants/{id}/explain': 'VIEWER',
  'get /api/v1/plants/{id}/export': 'ADMIN',
  'post /api/v1/plants/{id}/commands': 'OPERATOR',
  'post /api/v1/plants/{id}/commands/dry-run': 'OPERATOR',
  'get /api/v1/plants/{id}/schedules': 'VIEWER',
  'get /api/v1/plants/{id}/telemetry': 'VIEWER',
  'get /api/v1/plants/{id}/telemetry/latest': 'VIEWER',
  'get /api/v1/plants/{id}/stream': 'VIEWER',
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
  'get /api/v1/partner/api-keys/{id}/status': 'ORG_ADMIN with x-org-id',
  'get /api/v1/partner/api-keys/{id}': 'ORG_ADMIN with x-org-id',
  'delete /api/v1/partner/api-keys/{id}': 'ORG_ADMIN with x-org-id',
  'patch /api/v1/partner/api-keys/{id}': 'ORG_ADMIN with x-org-id',
  'post /api/v1/partner/api-keys/{id}/test-connection': 'ORG_ADMIN with x-org-id',
  'post /api/v1/partner/api-keys/{id}/acknowledge-bundle': 'ORG_ADMIN with x-org-id',
  'post /api/v1/partner/webhooks': 'ORG_ADMIN with x-org-id',
  'get /api/v1/partner/webhooks': 'ORG_ADMIN with x-org-id',
  'get /api/v1/partner/webhooks/{id}': 'ORG_ADMIN with x-org-id',
  'patch /api/v1/partner/webhooks/{id}': 'ORG_ADMIN with x-org-id',
  'delete /api/v1/partner/webhooks/{id}': 'ORG_ADMIN with x-org-id',
  'post /api/v1/partner/webhooks/{id}/test': 'ORG_ADMIN with x-org-id',
  'get /api/v1/partner/webhooks/{id}/attempts': 'ORG_ADMIN with x-org-id',
  'post /api/v1/partner/webhooks/{id}/recover': 'ORG_ADMIN with x-org-id',
  'post /api/v1/partner/webhooks/{id}/resend': 'ORG_ADMIN with x-org-id',
  'post /api/v1/partner/webhooks/{id}/rotate-secret': 'ORG_ADMIN with x-org-id',
  'post /api/v1/partner/webhooks/{id}/enable': 'ORG_ADMIN with x-org-id',
  'get /api/v1/audit-events': 'ADMIN',
  'delete /api/v1/vcp/dead-letters/{id}': 'ADMIN, key with vcp:read',
  'get /api/v1/vcp/dead-letters': 'ADMIN, key with vcp:read',
  'post /api/v1/vcp/dead-letters/{id}/requeue': 'ADMIN, key with vcp:read',
  'get /api/v1/vcp/events': 'key with vcp:read',
  'get /api/v1/vcp/events/stream': 'key with vcp:read',
  'get /api/v1/vcp/sites': 'key with vcp:read',
  'get /api/v1/vcp/sites/{siteId}/config': 'key with vcp:read',
  'get /api/v1/vcp/sites/{siteId}/commands': 'key with vcp:read',
  'get /api/v1/vcp/sites/{siteId}/commands/{commandId}/timeline': 'key with vcp:read',
  'get /api/v1/vcp/sites/{siteId}/explain': 'key with vcp:read',
  'post /api/v1/vcp/sites/{siteId}/commands': 'key with vcp:connect',
  'post /api/v1/vcp/sites/{siteId}/commands/dry-run': 'OPERATOR, key',
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
  ...['rotate-secret', 'test', 'enable'].map((action) => `post /api/v1/partner/webhooks/{id}/${action}`),
  'post /api/v1/platform/organizations/{id}/reactivate',
  'post /api/v1/vcp/dead-letters/{id}/requeue',
];
/** Requests that may omit their body, which then counts as `{}`. */
const BODY_OPTIONAL = [
  ...['provision', 'certificate', 'mqtt-token', 'rotate-secret', 'suspend', 'reactivate', 'revoke'].map(
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
  const scope = operation['x-required-scope'];
  const key = scope ? `key with ${scope}` : 'key';
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

  it('passes every recommended rule of a linter, and those for descriptions, without a warning', async () => {
    const rules = { 'operation-tag-defined': 'error', 'operation-description': 'error' } as const;
    const config = await createConfig({
      extends: ['recommended-strict'],
      rules: { ...rules, 'parameter-description': 'error' },
    });
    const source = JSON.stringify(document);
    const problems = await lintFromString({ source, absoluteRef: 'openapi.json', config });
    expect(problems.map(({ ruleId, message, location }) => [ruleId, message, location[0]?.pointer])).toEqual(
      [],
    );
  });

  it('describes every field of every schema', () => {
    const bare: string[] = [];
    let described = 0;
    const look = (schema: unknown, at: string) => {
      if (typeof schema !== 'object' || schema === null) return;
      const { properties = {}, ...rest } = schema as {
        properties?: Record<string, { description?: string }>;
      };
      for (const [name, field] of Object.entries(properties)) {
        if (/^[A-Z`].*\.$/.test(field.description ?? '')) described += 1;
        else bare.push(`${at}.${name}`);
        look(field, `${at}.${name}`);
      }
      for (const [key, inner] of Object.entries(rest))
        if (!/^examples?$/.test(key)) look(inner, `${at}.${key}`);
    };
    look(document.paths, 'paths');
    look(document.components.schemas, 'schemas');
    expect(bare).toEqual([]);
    expect(described).toBeGreaterThan(600);
  });

  it('has no description that no field uses', () => {
    const text = JSON.stringify(document);
    const isUsed = (description: string) => text.includes(JSON.stringify(description));
    const unused = Object.entries<string>({ ...FIELDS, ...OWN_FIELDS }).filter(([, one]) => !isUsed(one));
    expect(unused.map(([name]) => name)).toEqual([]);
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
      const { schema: given } = one.operation.requestBody?.content['application/json'] ?? { schema: {} };
      const name = given.$ref?.replace('#/components/schemas/', '');
      const schema = name === undefined ? given : (document.components.schemas[name] ?? {});
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

  it('declares one success response for each operation, and its errors with their codes (spec: Errors, Envelope)', () => {
    for (const one of operations) {
      const { 304: _unchanged, ...responses } = one.operation.responses;
      const [good, ...errors] = Object.entries(responses);
      expect([nameOf(one), good?.[0]]).toEqual([nameOf(one), expect.stringMatching(/^20[0-2]$/)]);
      expect([nameOf(one), errors.map(([status]) => status)]).toEqual([
        nameOf(one),
        expect.arrayContaining(one.operation.security.length > 0 ? ['401', '429', '500', '503'] : ['500']),
      ]);
      for (const [status, { description, content, 'x-error-codes': codes = [] }] of errors) {
        const { schema } = content['application/json'];
        for (const code of codes) expect(description).toContain(`**${code}**: `);
        expect([nameOf(one), status, schema.$ref]).toEqual([
          nameOf(one),
          status,
          '#/components/schemas/Error',
        ]);
      }
    }
  });

  it('declares 412, not 409, for a PUT of a configuration with an outdated ETag [C-10]', () => {
    const { operation } = operations.find((one) => nameOf(one) === 'put /api/v1/plants/{id}/config') ?? {};
    const responses = operation?.responses;
    expect([responses?.['412']?.['x-error-codes'], responses?.['409']]).toEqual([['CONFLICT'], undefined]);
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
    const reads = operations.filter(({ method }) => method === 'get');
    const partner = reads.filter(({ path }) => /^\/api\/v1\/vcp\/(?!dead-letters)/.test(path));
    expect(partner).toHaveLength(12);
    for (const { path, operation } of partner) {
      expect(operation.security).toEqual([{ apiKey: [] }]);
      const codes = Object.fromEntries(
        Object.entries(operation.responses).map(([status, one]) => [status, one['x-error-codes']]),
      );
      expect(codes).toMatchObject({
        400: ['VALIDATION_ERROR'],
        401: ['UNAUTHORIZED'],
        403: ['FORBIDDEN'],
        500: ['INTERNAL_SERVER_ERROR'],
      });
      expect('404' in codes).toBe(path !== '/api/v1/vcp/sites');
    }
  });
});
