/** Webhooks in the AsyncAPI document: the same events, posted to a URL of the organization [C-12.4]. */
import { LIMIT } from '../../../protocol/limits.ts';
import { TEST_TYPE, VERIFY_TYPE } from '../../../protocol/webhook.ts';
import { READS } from './amqp.ts';
import { EVENTS } from './examples.ts';
import { capitalized, type Json, refTo, withPayload } from './schema.ts';

const SUMMARY = 'Events of a key, posted to the receiver of a webhook';
const WEBHOOK_ID = '3f2b8c1e-5d47-4a90-9b1a-6c0f2d7e4a12';
const instant = { type: 'string', format: 'date-time' };

const HEADERS: Json = {
  type: 'object',
  required: ['webhook-id', 'webhook-timestamp', 'webhook-signature'],
  properties: {
    'webhook-id': { type: 'string', description: 'The messageId of the event; the same at each attempt' },
    'webhook-timestamp': { type: 'string', description: 'Time of the attempt in seconds since 1970' },
    'webhook-signature': {
      type: 'string',
      description:
        '`v1,` and HMAC-SHA256 in base64 of webhook-id, webhook-timestamp and body, joined by a dot; two of them, separated by a space, after a rotation',
    },
  },
};

export const WEBHOOK_SERVERS: Json = {
  webhook: {
    host: '{receiver}',
    protocol: 'https',
    description: `Your receiver. It answers 2xx within ${LIMIT.webhookAnswerMs / 1_000} s; its URL is in the webhook.`,
    variables: { receiver: { description: 'Host and path of the URL of the webhook' } },
    security: [{ $ref: '#/components/securitySchemes/webhookSecret' }],
  },
};

export const WEBHOOK_SECURITY: Json = {
  webhookSecret: {
    type: 'symmetricEncryption',
    description: 'The secret of the webhook signs each message, as Standard Webhooks 1.0.0 says.',
  },
};

const MESSAGES = {
  ...Object.fromEntries(
    Object.entries(READS).map(([name, { kind, summary, payload, examples }]) => [
      `webhook${capitalized(name)}`,
      {
        summary: `${summary}, as a webhook`,
        type: kind,
        data: withPayload('Event', refTo(payload)),
        examples: examples.map((one) => ({
          name: one,
          timestamp: String(EVENTS[one].message.timestamp),
          data: EVENTS[one].message,
        })),
      },
    ]),
  ),
  ...Object.fromEntries(
    [VERIFY_TYPE, TEST_TYPE].map((type) => [
      type === VERIFY_TYPE ? 'webhookVerify' : 'webhookTest',
      {
        summary:
          type === VERIFY_TYPE
            ? 'Asks a new receiver whether it wants the events: 2xx says so'
            : 'A test message that an ORG_ADMIN has asked for',
        type,
        data: {
          type: 'object',
          properties: { webhookId: { type: 'string' } },
          required: ['webhookId'],
          additionalProperties: false,
        },
        examples: [
          { name: 'Message', timestamp: '2026-01-15T10:00:00.000Z', data: { webhookId: WEBHOOK_ID } },
        ],
      },
    ]),
  ),
};

export function webhookChannels(): Json {
  return {
    webhook: {
      address: '/',
      title: SUMMARY,
      servers: [{ $ref: '#/servers/webhook' }],
      parameters: {},
      messages: Object.fromEntries(
        Object.keys(MESSAGES).map((name) => [name, { $ref: `#/components/messages/${name}` }]),
      ),
      bindings: { http: { bindingVersion: '0.3.0' } },
    },
  };
}

export function webhookOperations(): Json {
  return {
    postWebhook: {
      action: 'send',
      channel: { $ref: '#/channels/webhook' },
      summary: SUMMARY,
      messages: Object.keys(MESSAGES).map((name) => ({ $ref: `#/channels/webhook/messages/${name}` })),
      bindings: { http: { method: 'POST', bindingVersion: '0.3.0' } },
    },
  };
}

export function webhookMessages(): Json {
  return Object.fromEntries(
    Object.entries(MESSAGES).map(([name, { summary, type, data, examples }]) => [
      name,
      {
        name,
        summary,
        contentType: 'application/json',
        headers: HEADERS,
        payload: {
          type: 'object',
          properties: { type: { const: type }, timestamp: instant, data },
          required: ['type', 'timestamp', 'data'],
          additionalProperties: false,
        },
        examples: examples.map(({ name: one, ...rest }) => ({ name: one, payload: { type, ...rest } })),
      },
    ]),
  );
}
