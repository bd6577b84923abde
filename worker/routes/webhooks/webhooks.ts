/** Webhooks [C-12.4], managed by an ORG_ADMIN who sends x-org-id. The Vhost of the key posts the events. */

import type { Context } from 'hono';
import * as z from 'zod';
import { formatInstant, uuid } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { pageOf, pageSchema } from '../../../protocol/page.ts';
import { deletion } from '../../../protocol/plant-record.ts';
import { type ApiKeyScope, getsEvents } from '../../../protocol/scopes.ts';
import {
  createdWebhook,
  rotatedWebhook,
  type WebhookRecord,
  webhookChange,
  webhookRecord,
  webhookRequest,
} from '../../../protocol/webhook.ts';
import { type ApiKeyRow, findKeyOf } from '../../../registry/api-keys.ts';
import { listPlants } from '../../../registry/plants.ts';
import { webhookUrlFaultIn } from '../../../registry/webhook-url.ts';
import {
  changeWebhook,
  createWebhook,
  deleteWebhook,
  pageWebhooks,
  webhookRecordOf,
} from '../../../registry/webhooks.ts';
import { maySee } from '../../auth/access.ts';
import type { AppContext } from '../../env.ts';
import { ApiError, conflict, invalidBody, limitReached } from '../../http/error-response.ts';
import { idParameter, pageParameters } from '../../http/query.ts';
import { announce, announceLater } from '../../lifecycle/registry-change.ts';
import { newSecret, sealSecret } from '../../lifecycle/webhook.ts';
import { route } from '../../route.ts';
import {
  entryOf,
  keyEnded,
  ORG_ADMIN,
  POSTING_ADMIN,
  requirePostRate,
  requireWebhook,
  urlTaken,
  webhookNotFound,
} from './webhook-of.ts';

export const webhookRoutes = [
  route('POST /api/v1/partner/webhooks', {
    summary: 'Create a webhook',
    who: POSTING_ADMIN,
    body: webhookRequest,
    examples: {
      body: {
        url: 'https://hooks.example.com/sitewire',
        keyId: 'a1b2c3d4-0000-4000-8000-000000000001',
        types: ['ack', 'execution', 'alarm'],
        description: 'Trading desk',
      },
    },
    answer: {
      status: 201,
      description:
        'The webhook and its secret, shown only once. It gets the events from now on, as soon as its receiver has answered webhook.verify with 2xx and the challenge of the message',
      body: createdWebhook,
    },
    errors: ['API_KEY_NOT_FOUND', 'CONFLICT'],
    handler: async (c, { body }) => {
      const { organizationId } = c.get('tenant');
      requireUrl(c, body.url);
      await requirePostRate(c);
      const key = await requireKeyWithEvents(c, body.keyId);
      await requireSites(c, key, body.siteIds);
      const now = Date.now();
      const secret = newSecret();
      const { keyId, url, types } = body;
      const audit = (id: string) => entryOf(c, 'webhook.created', id, { keyId, url: originOf(url), types });
      const seal = (id: string) => sealSecret(c.env, id, secret);
      const made = await createWebhook(c.env.DB, organizationId, body, seal, audit, now);
      if (made === 'full') throw limitReached('API key', LIMIT.webhooksPerKey, 'webhooks: delete one first');
      if (typeof made === 'string') throw urlTaken(made);
      announceLater(c, made.change);
      const { revokedAtMs, expiresAtMs } = key;
      return { webhook: webhookRecordOf({ row: made.row, revokedAtMs, expiresAtMs }, now), secret };
    },
  }),
  route('GET /api/v1/partner/webhooks', {
    summary: 'List webhooks',
    who: ORG_ADMIN,
    query: z.object({ ...pageParameters, keyId: uuid.optional() }),
    answer: {
      description: 'A page of webhooks, newest first',
      body: pageSchema<WebhookRecord>(webhookRecord),
    },
    handler: async (c, { query }) => {
      const { organizationId } = c.get('tenant');
      const found = await pageWebhooks(c.env.DB, organizationId, query.keyId, query);
      return pageOf(found, query, (one) => webhookRecordOf(one, Date.now()));
    },
  }),
  route('PATCH /api/v1/partner/webhooks/{id}', {
    summary: 'Update a webhook',
    who: ORG_ADMIN,
    params: idParameter,
    body: webhookChange,
    examples: { body: { types: ['ack', 'execution'], description: 'Trading desk, acknowledgements' } },
    answer: {
      description:
        'The webhook. With another `url` it is PENDING until the receiver has answered webhook.verify with its challenge',
      body: webhookRecord,
    },
    errors: ['NOT_FOUND', 'CONFLICT'],
    handler: async (c, { params: { id }, body }) => {
      const found = await requireWebhook(c, id);
      if (body.url !== undefined) {
        requireUrl(c, body.url);
        await requirePostRate(c);
      }
      const key = await requireKeyWithEvents(c, found.row.keyId);
      await requireSites(c, key, body.siteIds ?? null);
      const now = Date.now();
      const audit = entryOf(c, 'webhook.updated', id, {
        ...body,
        ...(body.url === undefined ? {} : { url: originOf(body.url) }),
      });
      const changed = await changeWebhook(c.env.DB, found.row, body, audit, now);
      if (changed === 'gone') throw webhookNotFound();
      if (changed === 'changed') throw changedMeanwhile();
      if (typeof changed === 'string') throw urlTaken(changed);
      await announce(c, changed.change);
      return webhookRecordOf({ ...found, row: changed.row }, now);
    },
  }),
  route('DELETE /api/v1/partner/webhooks/{id}', {
    summary: 'Delete a webhook',
    who: ORG_ADMIN,
    params: idParameter,
    answer: { description: 'Deleted. No further attempt begins', body: deletion },
    errors: ['NOT_FOUND'],
    handler: async (c, { params: { id } }) => {
      const { row } = await requireWebhook(c, id);
      const audit = entryOf(c, 'webhook.deleted', id, { keyId: row.keyId, url: originOf(row.url) });
      const change = await deleteWebhook(c.env.DB, row, audit, Date.now());
      if (change === 'gone') throw webhookNotFound();
      await announce(c, change);
      return { id, deleted: true as const };
    },
  }),
  route('POST /api/v1/partner/webhooks/{id}/rotate-secret', {
    summary: 'Rotate the secret of a webhook',
    who: ORG_ADMIN,
    params: idParameter,
    answer: {
      description: 'The new secret, shown only once. For 24 hours the previous secret signs, too',
      body: rotatedWebhook,
    },
    errors: ['NOT_FOUND', 'CONFLICT'],
    handler: async (c, { params: { id } }) => {
      const { row } = await requireWebhook(c, id);
      await requireKeyWithEvents(c, row.keyId);
      const now = Date.now();
      const secret = newSecret();
      const previousUntilMs = now + LIMIT.webhookSecretGraceMs;
      const columns = {
        secretSealed: sealSecret(c.env, id, secret),
        previousSealed: row.secretSealed,
        previousUntilMs,
      };
      const audit = entryOf(c, 'webhook.secret_rotated', id, {});
      const changed = await changeWebhook(c.env.DB, row, columns, audit, now);
      if (typeof changed === 'string') throw changedMeanwhile();
      announceLater(c, changed.change);
      return { secret, previousSecretUntil: formatInstant(previousUntilMs) };
    },
  }),
];

function changedMeanwhile(): ApiError {
  return conflict('Another request has changed the webhook: try again');
}

/** The URL for audit events: its path and query may be secret, and more members read audit events than webhooks. */
function originOf(url: string): string {
  return new URL(url).origin;
}

function requireUrl(c: Context<AppContext>, url: string): void {
  const fault = webhookUrlFaultIn(c.env, url);
  if (fault !== undefined) throw invalidBody(`url: ${fault}`);
}

async function requireKeyWithEvents(c: Context<AppContext>, keyId: string): Promise<ApiKeyRow> {
  const found = await findKeyOf(c.env.DB, c.get('tenant').organizationId, keyId);
  if (!found)
    throw new ApiError(
      'API_KEY_NOT_FOUND',
      'The organization has no API key with this id: list its API keys',
    );
  const { row } = found;
  const hasEnded = row.revokedAtMs !== null || (row.expiresAtMs !== null && row.expiresAtMs <= Date.now());
  if (hasEnded) throw keyEnded();
  if (!getsEvents(new Set(row.scopes as ApiKeyScope[])))
    throw conflict('The API key gets no events: its scopes need vcp:read, vcp:connect or trading:connect');
  return row;
}

async function requireSites(
  c: Context<AppContext>,
  key: ApiKeyRow,
  siteIds: readonly string[] | null,
): Promise<void> {
  if (siteIds === null) return;
  const plants = await listPlants(c.env.DB, c.get('tenant').organizationId);
  const visible = new Set(plants.map(({ id }) => id).filter((id) => maySee(key, id)));
  const wrong = siteIds.flatMap((id, index) =>
    visible.has(id) ? [] : [`siteIds.${index}: the API key sees no site with this id`],
  );
  if (wrong.length > 0) throw invalidBody(...wrong);
}
