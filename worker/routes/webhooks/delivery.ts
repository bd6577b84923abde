/** How the events of a webhook are delivered: their progress, attempts, tests and repeats [C-12.4]. */
import type { Context } from 'hono';
import * as z from 'zod';
import { formatInstant, parseInstant } from '../../../protocol/ids.ts';
import {
  type WebhookAnswer,
  type WebhookAttempt,
  type WebhookQuestion,
  webhookAttempt,
  webhookAttempts,
  webhookItem,
} from '../../../protocol/webhook.ts';
import { writeAudit } from '../../../registry/audit.ts';
import { releaseUrl, reserveUrl } from '../../../registry/webhook-urls.ts';
import { markEnabled, type OwnedWebhook, webhookRecordOf } from '../../../registry/webhooks.ts';
import type { AppContext } from '../../env.ts';
import { ApiError, conflict, invalidBody } from '../../http/error-response.ts';
import { idParameter } from '../../http/query.ts';
import { tooMany } from '../../http/rate.ts';
import { askVhost } from '../../lifecycle/webhook.ts';
import { route } from '../../route.ts';
import {
  entryOf,
  keyEnded,
  ORG_ADMIN,
  POSTING_ADMIN,
  requirePostRate,
  requireWebhook,
  urlTaken,
  type WebhookEvent,
  webhookNotFound,
} from './webhook-of.ts';

export const webhookDeliveryRoutes = [
  route('GET /api/v1/partner/webhooks/{id}', {
    summary: 'Get a webhook',
    who: ORG_ADMIN,
    params: idParameter,
    answer: { description: 'The webhook, and how far its events are delivered', body: webhookItem },
    errors: ['NOT_FOUND'],
    handler: async (c, { params: { id } }) => {
      const found = await requireWebhook(c, id);
      const now = Date.now();
      const answer = await askVhost(c.env, found.row, { kind: 'state' });
      return 'refused' in answer
        ? { ...webhookRecordOf(found, now), delivery: null }
        : itemOf(found, answer, now);
    },
  }),
  route('POST /api/v1/partner/webhooks/{id}/test', {
    summary: 'Post a test message to the receiver of a webhook',
    who: POSTING_ADMIN,
    params: idParameter,
    answer: {
      description: 'The attempt. It changes nothing else, whatever the receiver answers',
      body: webhookAttempt,
    },
    errors: ['NOT_FOUND', 'CONFLICT', 'TOO_MANY_REQUESTS'],
    handler: async (c, { params: { id } }) => {
      const { row } = await requireWebhook(c, id);
      await requirePostRate(c);
      const attempt = attemptOf(await ask(c, row, { kind: 'test' }));
      const { isDelivered, status } = attempt;
      await note(c, 'webhook.tested', id, { isDelivered, status });
      return attempt;
    },
  }),
  route('GET /api/v1/partner/webhooks/{id}/attempts', {
    summary: 'List the last attempts of a webhook',
    who: ORG_ADMIN,
    params: idParameter,
    answer: {
      description: 'The last 200 attempts, newest first, and whether posts wait for the next minute',
      body: webhookAttempts,
    },
    errors: ['NOT_FOUND', 'CONFLICT'],
    handler: async (c, { params: { id } }) => {
      const { row } = await requireWebhook(c, id);
      const { attempts, delivery } = await ask(c, row, { kind: 'attempts' });
      return { attempts: attempts.toReversed(), held: delivery.held };
    },
  }),
  route('POST /api/v1/partner/webhooks/{id}/recover', {
    summary: 'Deliver events again',
    who: POSTING_ADMIN,
    params: idParameter,
    body: z.strictObject({ since: z.string() }),
    examples: { body: { since: '2026-01-15T10:00:00Z' } },
    answer: {
      description:
        'How far the events are delivered now: all events since then that are still kept follow again, in order and with the same ids',
      body: webhookItem,
    },
    errors: ['NOT_FOUND', 'CONFLICT', 'TOO_MANY_REQUESTS'],
    handler: async (c, { params: { id }, body }) => {
      const found = await requireWebhook(c, id);
      const now = Date.now();
      const sinceMs = requirePast(body.since, now);
      await requirePostRate(c);
      const answer = await ask(c, found.row, { kind: 'recover', sinceMs });
      await note(c, 'webhook.recovered', id, { since: formatInstant(sinceMs) });
      return itemOf(found, answer, now);
    },
  }),
  route('POST /api/v1/partner/webhooks/{id}/resend', {
    summary: 'Deliver one event again',
    who: POSTING_ADMIN,
    params: idParameter,
    body: z.strictObject({ sequence: z.int().min(1) }),
    examples: { body: { sequence: 1_767_225_600_001 } },
    answer: {
      description:
        'The attempt: the event is posted once more with the same id, without waiting for the events that are not delivered yet. The status of the webhook and the order of its events stay as they are, whatever the receiver answers. 409 unless the webhook is ENABLED',
      body: webhookAttempt,
    },
    errors: ['NOT_FOUND', 'CONFLICT', 'TOO_MANY_REQUESTS'],
    handler: async (c, { params: { id }, body: { sequence } }) => {
      const { row } = await requireWebhook(c, id);
      await requirePostRate(c);
      const attempt = attemptOf(await ask(c, row, { kind: 'resend', sequence }));
      const { messageId, isDelivered, status } = attempt;
      await note(c, 'webhook.resent', id, { messageId, isDelivered, status });
      return attempt;
    },
  }),
  route('POST /api/v1/partner/webhooks/{id}/enable', {
    summary: 'Enable a webhook that was disabled, or try again at once',
    who: POSTING_ADMIN,
    params: idParameter,
    answer: {
      description: 'The webhook. Its events follow from where it stopped, as far as they are still kept',
      body: webhookItem,
    },
    errors: ['NOT_FOUND', 'CONFLICT', 'TOO_MANY_REQUESTS'],
    handler: async (c, { params: { id } }) => {
      const found = await requireWebhook(c, id);
      const now = Date.now();
      await requirePostRate(c);
      const reserved = await reserveUrl(c.env.DB, found.row, now);
      if (reserved !== 'free') throw urlTaken(reserved);
      const answer = await ask(c, found.row, { kind: 'enable' }).catch(async (error: unknown) => {
        await releaseUrl(c.env.DB, found.row);
        throw error;
      });
      await markEnabled(c.env.DB, found.row, answer, entryOf(c, 'webhook.enabled', id, {}), now);
      return itemOf(found, answer, now);
    },
  }),
];

function requirePast(since: string, now: number): number {
  const sinceMs = parseInstant(since);
  if (sinceMs === undefined)
    throw invalidBody(
      'since: must be an ISO 8601 instant with a time zone, for example 2026-01-15T10:00:00Z',
    );
  if (sinceMs > now) throw invalidBody(`since: ${since} must be in the past`);
  return sinceMs;
}

async function ask(c: Context<AppContext>, row: OwnedWebhook['row'], question: WebhookQuestion) {
  const answer = await askVhost(c.env, row, question);
  if (!('refused' in answer)) return answer;
  switch (answer.refused) {
    case 'ended':
      throw keyEnded();
    case 'held': {
      const { by, perMinute, until } = answer.held;
      const whose =
        by === 'ORGANIZATION' ? 'of all webhooks of the organization' : 'to the host name of the URL';
      const seconds = Math.max(1, Math.ceil((Date.parse(until) - Date.now()) / 1_000));
      throw tooMany(`More than ${perMinute} posts in a minute ${whose}`, seconds);
    }
    case 'recovered':
      throw tooMany(
        'The webhook may recover events once a minute',
        Math.max(1, Math.ceil(answer.waitMs / 1_000)),
      );
    case 'busy':
      throw conflict('A test or a resend of this webhook is under way: wait for its answer');
    case 'not-enabled':
      throw conflict('The webhook is not enabled, so its receiver gets no event: enable it first');
    case 'event':
      throw new ApiError(
        'NOT_FOUND',
        'No event that this webhook gets has this sequence, or it is no longer kept: list the attempts, or the events of the key',
      );
    case 'absent':
      throw webhookNotFound();
  }
}

/** The attempt of a post that was asked for. */
function attemptOf({ attempts: [attempt] }: { attempts: WebhookAttempt[] }): WebhookAttempt {
  if (!attempt) throw new Error('the Vhost posted an event to a webhook, but its answer has no attempt');
  return attempt;
}

/** A webhook with the status that its Vhost knows, which may be newer than the one in D1. */
function itemOf(
  found: OwnedWebhook,
  { status, reason, statusAtMs, delivery }: Extract<WebhookAnswer, { delivery: unknown }>,
  now: number,
) {
  const ofVhost = { status, statusReason: reason, statusAt: formatInstant(statusAtMs) };
  return { ...webhookRecordOf(found, now), ...ofVhost, delivery };
}

async function note(
  c: Context<AppContext>,
  event: WebhookEvent,
  id: string,
  details: Record<string, unknown>,
): Promise<void> {
  await writeAudit(c.env.DB, entryOf(c, event, id, details), Date.now());
}
