/** API keys (spec: API key management; [C-5.1] to [C-5.6]), managed by an ORG_ADMIN who sends x-org-id. */
import type { Context } from 'hono';
import * as z from 'zod';
import { isRange } from '../../protocol/address-range.ts';
import {
  type ApiKeyRequest,
  apiKeyRecord,
  apiKeyRequest,
  connectionTest,
  createdApiKey,
} from '../../protocol/api-key-record.ts';
import { ceilingsOf } from '../../protocol/ceilings.ts';
import { formatInstant, parseInstant } from '../../protocol/ids.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { nearest } from '../../protocol/nearest.ts';
import { pageOf, pageSchema } from '../../protocol/page.ts';
import {
  API_KEY_SCOPES,
  type ApiKeyScope,
  effectiveScopes,
  hasVhost,
  isBrokerScope,
  mayConnect,
} from '../../protocol/scopes.ts';
import {
  acknowledgeBundle,
  apiKeyRecordOf,
  isKey,
  type KeyWithCreator,
  pageApiKeys,
} from '../../registry/api-keys.ts';
import { writeAudit } from '../../registry/audit.ts';
import { listPlants } from '../../registry/plants.ts';
import { someSubDevices } from '../../registry/sub-devices.ts';
import { maySee } from '../auth/access.ts';
import { auditEntry } from '../auth/audit-entry.ts';
import type { Who } from '../auth/door.ts';
import type { AppContext } from '../env.ts';
import { ApiError, invalidBody, limitReached } from '../http/error-response.ts';
import { idParameter, pageParameters } from '../http/query.ts';
import { requireShare } from '../http/rate.ts';
import { amqpPort, createApiKey, probeKey, revokeApiKey } from '../lifecycle/api-key.ts';
import { connectionBundle, restOrigin } from '../lifecycle/connection-bundle.ts';
import { announceLater } from '../lifecycle/registry-change.ts';
import { route } from '../route.ts';
import { ORG_ADMIN, requireKeyOf } from './api-key-status.ts';

/** For routes that call `requireKeyTest`. */
const TESTING_ADMIN: Who = { ...ORG_ADMIN, isRated: true };

export const apiKeyRoutes = [
  route('POST /api/v1/partner/api-keys', {
    summary: 'Create an API key',
    who: TESTING_ADMIN,
    body: apiKeyRequest,
    examples: {
      body: {
        name: 'Trading desk',
        partnerId: 'acme-trader',
        scopes: ['vcp:connect', 'vcp:read', 'vcp:write:setpoint', 'vcp:write:device-command'],
      },
    },
    answer: {
      status: 201,
      description: 'The API key and its secrets, shown only once. A key with a named vhost has been tested',
      body: createdApiKey,
    },
    errors: [
      'API_KEY_SCOPES_EMPTY',
      'API_KEY_SCOPE_INVALID',
      'API_KEY_CIDR_NOT_IMPLEMENTED',
      'API_KEY_VCP_SCOPES_NOT_SUPPORTED',
      'CONFLICT',
    ],
    handler: async (c, { body }) => {
      const now = Date.now();
      const tenant = c.get('tenant');
      const { row: user } = c.get('user');
      const scopes = requireScopes(body.scopes);
      requireAddresses(c, body.allowedIps ?? [], scopes);
      if (hasVhost(scopes) && !c.env.AMQP_HOST)
        throw new ApiError(
          'API_KEY_VCP_SCOPES_NOT_SUPPORTED',
          'This deployment has no AMQP listener: omit vcp:connect and vcp:write:*, or set AMQP_HOST',
        );
      const expiresAtMs = requireExpiry(body.expiresAt, now);
      const plants = await listPlants(c.env.DB, tenant.organizationId);
      requirePlants(body.allowedPlantIds, plants);
      await requireKeyTest(c);
      const created = await createApiKey(
        c.env,
        {
          organizationId: tenant.organizationId,
          slug: tenant.slug,
          name: body.name,
          partnerId: body.partnerId,
          sees: body.sees,
          scopes,
          allowedPlantIds: body.allowedPlantIds ?? null,
          allowedIps: body.allowedIps ?? [],
          expiresAtMs,
          createdBy: user.id,
        },
        (keyId, details, outcome) => {
          const target = keyId === null ? null : { type: 'API_KEY', id: keyId };
          const event = outcome === 'SUCCESS' ? 'api_key.created' : 'api_key.creation_failed';
          return auditEntry(c, event, target, details, outcome);
        },
        now,
      );
      if (created === 'full')
        throw limitReached('organization', LIMIT.keysPerOrganization, 'API keys: revoke one first');
      if (!created.ok) {
        console.error('creation of an API key failed, the admin gets 500', {
          organizationId: tenant.organizationId,
          reason: created.error,
        });
        throw new ApiError(
          'INTERNAL_SERVER_ERROR',
          'The API key was not created: its setup, test or activation failed. See the audit event api_key.creation_failed',
        );
      }
      announceLater(c, created.change);
      const { row, key, signingKey } = created;
      const creator = { id: user.id, name: user.name, email: user.email };
      const sites = plants.filter(({ id }) => maySee(row, id));
      return {
        key,
        signingKey,
        apiKey: apiKeyRecordOf({ row, creator }, now),
        connectionBundle:
          row.vhost === null
            ? null
            : connectionBundle({
                host: c.env.AMQP_HOST ?? '',
                port: amqpPort(c.env),
                slug: tenant.slug,
                vhost: row.vhost,
                key,
                signingKey,
                scopes,
                sites,
                assets: await someSubDevices(c.env.DB, sites[0]?.id, LIMIT.bundleSites),
                caCertificate: c.env.AMQP_CA,
                origin: restOrigin(c.env, c.req.raw),
              }),
      };
    },
  }),
  route('GET /api/v1/partner/api-keys', {
    summary: 'List the API keys of the organization, without their secrets',
    who: ORG_ADMIN,
    query: z.object(pageParameters),
    answer: { description: 'A page of API keys, newest first', body: pageSchema(apiKeyRecord) },
    handler: async (c, { query }) => {
      const keys = await pageApiKeys(c.env.DB, c.get('tenant').organizationId, query);
      const now = Date.now();
      return pageOf(keys, query, (row) => apiKeyRecordOf(row, now));
    },
  }),
  route('GET /api/v1/partner/api-keys/{id}', {
    summary: 'Get an API key',
    who: ORG_ADMIN,
    params: idParameter,
    answer: { description: 'The API key', body: apiKeyRecord },
    errors: ['API_KEY_NOT_FOUND'],
    handler: async (c, { params }) => apiKeyRecordOf(await requireKeyOf(c, params.id), Date.now()),
  }),
  route('DELETE /api/v1/partner/api-keys/{id}', {
    summary: 'Revoke an API key',
    who: ORG_ADMIN,
    params: idParameter,
    answer: {
      description: 'Revoked (idempotent). The key is rejected everywhere and its connections are closed',
      body: z.strictObject({ id: z.string(), isActive: z.literal(false), revokedAt: z.string() }),
    },
    errors: ['API_KEY_NOT_FOUND'],
    handler: async (c, { params: { id } }) => {
      const { row } = await requireKeyOf(c, id);
      // A key that is already revoked is revoked again, because an earlier request may have failed between
      // its steps.
      const audit = auditEntry(c, 'api_key.revoked', { type: 'API_KEY', id }, { keyPrefix: row.keyPrefix });
      const change = await revokeApiKey(c.env, row, audit, Date.now());
      if (change) announceLater(c, change);
      const { row: revoked } = await requireKeyOf(c, id);
      const revokedAt = formatInstant(revoked.revokedAtMs ?? Date.now());
      return { id, isActive: false as const, revokedAt };
    },
  }),
  route('POST /api/v1/partner/api-keys/{id}/test-connection', {
    summary: 'Test an API key with a real connection through the public listener',
    who: TESTING_ADMIN,
    params: idParameter,
    body: z.strictObject({ key: z.string().max(200) }),
    examples: { body: { key: 'sw_…' } },
    answer: { description: 'Connection test result', body: connectionTest },
    errors: ['API_KEY_NOT_FOUND', 'TOO_MANY_REQUESTS'],
    handler: async (c, { params: { id }, body }) => {
      await requireKeyTest(c);
      const { row } = await requireKeyOf(c, id);
      const { slug } = c.get('tenant');
      const why = untestable(row, body.key);
      if (why !== undefined) return { ok: false, durationMs: 0, error: why };
      // A key whose only broker scope is trading:connect connects to the legacy vhost.
      const test = await probeKey(c.env, { id: row.id, slug, vhost: row.vhost ?? '/', key: body.key });
      const outcome = test.ok ? 'SUCCESS' : 'FAILURE';
      const details = { keyPrefix: row.keyPrefix, ...test };
      const audit = auditEntry(c, 'api_key.test_connection', { type: 'API_KEY', id }, details, outcome);
      await writeAudit(c.env.DB, audit, Date.now());
      return test;
    },
  }),
  route('POST /api/v1/partner/api-keys/{id}/acknowledge-bundle', {
    summary: "Confirm that you stored the new key's secrets",
    who: ORG_ADMIN,
    params: idParameter,
    answer: { description: 'The API key', body: apiKeyRecord },
    errors: ['API_KEY_NOT_FOUND'],
    handler: async (c, { params: { id } }) => {
      const { row } = await requireKeyOf(c, id);
      const details = { keyPrefix: row.keyPrefix };
      const audit = auditEntry(c, 'api_key.bundle_acknowledged', { type: 'API_KEY', id }, details);
      await acknowledgeBundle(c.env.DB, row, audit, Date.now());
      return apiKeyRecordOf(await requireKeyOf(c, id), Date.now());
    },
  }),
];

/** Why the key cannot be tested; undefined if it can. */
function untestable(row: KeyWithCreator['row'], key: string): string | undefined {
  if (!isKey(row, key)) return 'key: the text is no API key, or that of another key';
  if (row.vhost === null && !mayConnect(effectiveScopes(row.scopes as ApiKeyScope[])))
    return 'the key has no broker scopes (vcp:connect, vcp:write:* or trading:connect)';
  const hasEnded = row.revokedAtMs !== null || (row.expiresAtMs !== null && row.expiresAtMs <= Date.now());
  return hasEnded ? 'the key is revoked or has expired' : undefined;
}

function requireScopes(given: readonly string[]): ApiKeyScope[] {
  if (given.length === 0)
    throw new ApiError('API_KEY_SCOPES_EMPTY', 'scopes: at least one is required, for example "vcp:read"');
  const isScope = (text: string): text is ApiKeyScope => (API_KEY_SCOPES as readonly string[]).includes(text);
  const unknown = given.filter((text) => !isScope(text));
  if (unknown.length > 0) {
    const named = unknown.slice(0, 10).map((text) => text.slice(0, 100));
    const suggestion = nearest(named[0] ?? '', API_KEY_SCOPES);
    const message = `Unknown scope "${named[0]}".${suggestion ? ` Did you mean "${suggestion}"?` : ''}`;
    throw new ApiError('API_KEY_SCOPE_INVALID', message, { details: { unknown: named } });
  }
  return [...new Set(given.filter(isScope))];
}

/** The bridge knows the address of every client; the REST surface only knows it behind the platform [C-4.2]. */
function requireAddresses(
  c: Context<AppContext>,
  ranges: readonly string[],
  scopes: readonly ApiKeyScope[],
): void {
  const wrong = ranges.flatMap((range, index) =>
    isRange(range) ? [] : [`allowedIps.${index}: "${range}" must be a CIDR range, for example 192.0.2.0/24`],
  );
  if (wrong.length > 0) throw invalidBody(...wrong);
  const ofRest = scopes.filter((scope) => !isBrokerScope(scope));
  if (ranges.length > 0 && ofRest.length > 0 && c.env.CLIENT_ADDRESS !== 'platform')
    throw new ApiError(
      'API_KEY_CIDR_NOT_IMPLEMENTED',
      `allowedIps: this deployment knows no client addresses of REST requests: omit it, or the scope "${ofRest[0]}"`,
    );
}

function requireExpiry(expiresAt: string | undefined, now: number): number | null {
  if (expiresAt === undefined) return null;
  const atMs = parseInstant(expiresAt) ?? 0;
  if (atMs > now) return atMs;
  throw invalidBody(`expiresAt: ${expiresAt} must be in the future`);
}

function requirePlants(ids: ApiKeyRequest['allowedPlantIds'], plants: readonly { id: string }[]): void {
  const known = new Set(plants.map(({ id }) => id));
  const wrong = (ids ?? []).flatMap((id, index) =>
    known.has(id) ? [] : [`allowedPlantIds.${index}: the organization has no plant with this id`],
  );
  if (wrong.length > 0) throw invalidBody(...wrong);
}

/** Counts creations and tests: most open a connection to the listener, which all organizations share [C-14.2]. */
async function requireKeyTest(c: Context<AppContext>): Promise<void> {
  const { organizationId, ceilings } = c.get('tenant');
  const most = ceilingsOf(ceilings).keyTestsPerMinute;
  const what = 'key creations and connection tests of the organization';
  await requireShare(c, `key-tests:${organizationId}`, most, what);
}
