/**
 * The AMQP part of the AsyncAPI document: a channel for each routing key that partners publish to, and for each
 * queue that they consume (spec: Broker queues).
 */
import { LIMIT } from '../../../protocol/limits.ts';
import {
  type CommandFamily,
  commandRoutingKey,
  EVENT_QUEUES,
  type EventKind,
  EXCHANGE,
  eventRoutingKey,
  FAMILY_RULES,
  fullQueueName,
  type QueueName,
} from '../../../protocol/routing-keys.ts';
import { PUBLISH_OPERATIONS, PUBLISHES } from './commands.ts';
import { EVENTS } from './examples.ts';
import { capitalized, type Json, refTo, type SchemaName, withPayload } from './schema.ts';

const SLUG = '{slug}';
const BINDING = { bindingVersion: '0.3.0' };
const SERVERS = [{ $ref: '#/servers/amqp' }];
/** The fields that `signature` covers, joined by `|` [C-7.2]. */
const SIGNED = 'version|messageId|correlationId|timestamp|source|siteId|routingKey|compact(payload)';

interface Read {
  kind: EventKind;
  summary: string;
  payload: SchemaName;
  examples: (keyof typeof EVENTS)[];
}

/** The events, by the name of their message. */
export const READS: Record<string, Read> = {
  acknowledgement: {
    kind: 'ack',
    summary: 'Acknowledgement of a published command, one for each message',
    payload: 'Acknowledgement',
    examples: ['Accepted', 'Partial', 'Rejected'],
  },
  execution: {
    kind: 'execution',
    summary: 'Execution status of a command that was not rejected',
    payload: 'Execution',
    examples: ['Executing', 'Deviated', 'Failed'],
  },
  alarm: {
    kind: 'alarm',
    summary: 'Alarm of a plant, raised or cleared',
    payload: 'Alarm',
    examples: ['Violation', 'Alert'],
  },
  telemetry: {
    kind: 'telemetry',
    summary: 'Latest telemetry of a plant; newer values replace values that were not sent yet',
    payload: 'Telemetry',
    examples: ['Telemetry'],
  },
};

const DEAD_LETTER =
  'Your malformed publishes, and messages that you rejected without requeue or requeued 20 times';

export const AMQP_SERVERS: Json = {
  amqp: {
    host: '{amqpHost}:5671',
    protocol: 'amqps',
    protocolVersion: '0.9.1',
    pathname: '/partner-{keyId}',
    description: 'Each API key has its own vhost.',
    variables: {
      amqpHost: { description: "Host of the listener: amqps.host of the key's connection bundle" },
      keyId: { description: 'The id of the API key' },
    },
    security: [{ $ref: '#/components/securitySchemes/apiKey' }],
  },
};

export const AMQP_SECURITY: Json = {
  apiKey: {
    type: 'userPassword',
    description: "User name: the organization's slug. Password: the API key.",
  },
};

export function amqpChannels(): Json {
  const commands = Object.entries(PUBLISH_OPERATIONS).map(([name, { family, word, summary }]) => [
    name,
    {
      address: routingKeyOf(family, word),
      title: summary,
      servers: SERVERS,
      parameters: { slug: refToSlug() },
      messages: { [name]: { $ref: `#/components/messages/${name}` } },
      bindings: { amqp: { is: 'routingKey', exchange: exchange(), ...BINDING } },
    },
  ]);
  const reads = Object.entries(READS).map(([name, { kind, summary }]) => [
    name,
    {
      ...queueChannel(name, summary, EVENT_QUEUES[kind]),
      'x-routing-key': eventRoutingKey(SLUG, kind),
    },
  ]);
  const deadLetter = queueChannel('deadLetter', DEAD_LETTER, 'dead-letter');
  return { ...Object.fromEntries([...commands, ...reads]), deadLetter };
}

function queueChannel(name: string, title: string, queue: QueueName): Json {
  const address = fullQueueName(SLUG, queue);
  return {
    address,
    title,
    servers: SERVERS,
    parameters: { slug: refToSlug() },
    messages: { [name]: { $ref: `#/components/messages/${name}` } },
    bindings: {
      amqp: { is: 'queue', queue: { name: address, ...DURABLE, exclusive: false }, ...BINDING },
    },
  };
}

export function amqpOperations(): Json {
  const receives = Object.entries(PUBLISH_OPERATIONS).map(([name, { family, summary }]) => {
    const { scope, signed } = FAMILY_RULES[family];
    return [
      `take${capitalized(name)}`,
      {
        action: 'receive',
        channel: { $ref: `#/channels/${name}` },
        summary,
        messages: [{ $ref: `#/channels/${name}/messages/${name}` }],
        reply: {
          channel: { $ref: '#/channels/acknowledgement' },
          messages: [{ $ref: '#/channels/acknowledgement/messages/acknowledgement' }],
        },
        'x-required-scope': scope ?? 'any vcp:write:*',
        'x-signature': { required: signed, covers: SIGNED, toleranceMs: LIMIT.timestampToleranceMs },
        'x-confirm-within-ms': LIMIT.confirmMs,
      },
    ];
  });
  const summaries = Object.entries(READS).map(([name, { summary }]) => [name, summary] as const);
  const sends = [...summaries, ['deadLetter', DEAD_LETTER] as const].map(([name, summary]) => [
    `send${capitalized(name)}`,
    {
      action: 'send',
      channel: { $ref: `#/channels/${name}` },
      summary,
      messages: [{ $ref: `#/channels/${name}/messages/${name}` }],
      bindings: { amqp: { ack: true, ...BINDING } },
    },
  ]);
  return Object.fromEntries([...receives, ...sends]);
}

export function amqpMessages(): Json {
  const commands = Object.entries(PUBLISH_OPERATIONS).map(
    ([name, { family, summary, payload, examples = [payload] }]) => {
      const schema = withPayload('Envelope', refTo(payload));
      const required = schema.required as string[];
      return [
        name,
        messageOf(name, summary, {
          payload: FAMILY_RULES[family].signed ? { ...schema, required: [...required, 'signature'] } : schema,
          examples: examples.map((one) => ({ name: one, payload: PUBLISHES[one].message })),
        }),
      ];
    },
  );
  const events = Object.entries(READS).map(([name, { summary, payload, examples }]) => [
    name,
    messageOf(name, summary, {
      payload: withPayload('Event', refTo(payload)),
      examples: examples.map((one) => ({ name: one, payload: EVENTS[one].message })),
    }),
  ]);
  const deadLetter = {
    name: 'deadLetter',
    summary: DEAD_LETTER,
    headers: {
      type: 'object',
      properties: { 'x-death-reason': { type: 'string', description: 'Why the message was dead-lettered' } },
    },
    payload: {},
    examples: [{ name: 'NotJson', headers: { 'x-death-reason': 'not JSON' }, payload: 'nonsense' }],
  };
  return { ...Object.fromEntries([...commands, ...events]), deadLetter };
}

function messageOf(name: string, summary: string, content: { payload: Json; examples: Json[] }): Json {
  return {
    name,
    summary,
    contentType: 'application/json',
    correlationId: { location: '$message.payload#/correlationId' },
    ...content,
  };
}

const DURABLE = { durable: true, autoDelete: false };

function exchange(): Json {
  return { name: EXCHANGE, type: 'topic', ...DURABLE };
}

function refToSlug(): Json {
  return { $ref: '#/components/parameters/slug' };
}

function routingKeyOf(family: CommandFamily, word: string | undefined): string {
  const usual = commandRoutingKey(SLUG, family);
  return word === undefined ? usual : usual.replace(/[^.]+$/, word);
}
