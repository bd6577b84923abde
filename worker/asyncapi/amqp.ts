/** The AMQP side: a channel for each routing key that partners publish to, and for each queue that they read (spec: Broker queues). */
import { LIMIT } from '../../protocol/limits.ts';
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
} from '../../protocol/routing-keys.ts';
import { EVENTS, PUBLISHES } from './examples.ts';
import { type Json, refTo, type SchemaName, withPayload } from './schema.ts';

const SLUG = '{slug}';
const BINDING = { bindingVersion: '0.3.0' };
const SERVERS = [{ $ref: '#/servers/amqp' }];
/** What a `signature` covers, joined by `|` [C-7.2]. */
const SIGNED = 'version|messageId|correlationId|timestamp|source|siteId|routingKey|compact(payload)';

interface Publish {
  family: CommandFamily;
  /** In the place of the last word of the family's key. */
  word?: string;
  summary: string;
  payload: SchemaName;
  examples: (keyof typeof PUBLISHES)[];
}

const COMMANDS: Record<string, Publish> = {
  siteSetpoint: {
    family: 'site-setpoint',
    summary: 'Hold this power at the grid, or move this energy',
    payload: 'SiteSetpoint',
    examples: ['SiteSetpoint', 'EnergySetpoint'],
  },
  deviceCommand: {
    family: 'device',
    summary: 'A batch of commands to sub-devices; the key may have one more word',
    payload: 'DeviceCommand',
    examples: ['DeviceCommand'],
  },
  emergency: {
    family: 'emergency',
    summary: 'Stop everything, or hold what is done, until a mode change',
    payload: 'Emergency',
    examples: ['Emergency'],
  },
  modeChange: {
    family: 'mode',
    summary: 'What the plant does where no setpoint stands',
    payload: 'ModeChange',
    examples: ['ModeChange'],
  },
  scheduleSet: {
    family: 'schedule',
    summary: 'A plan of slots',
    payload: 'ScheduleSet',
    examples: ['ScheduleSet'],
  },
  scheduleCancel: {
    family: 'schedule',
    word: 'cancel',
    summary: 'The end of a plan before its time',
    payload: 'ScheduleCancel',
    examples: ['ScheduleCancel'],
  },
  configSet: {
    family: 'config',
    summary: 'A merge patch (RFC 7396) of limits, fallback and operating mode',
    payload: 'ConfigPatch',
    examples: ['ConfigPatch'],
  },
};

interface Read {
  kind: EventKind;
  summary: string;
  payload: SchemaName;
  examples: (keyof typeof EVENTS)[];
}

const READS: Record<string, Read> = {
  acknowledgement: {
    kind: 'ack',
    summary: 'What was made of a publish, once for each',
    payload: 'Acknowledgement',
    examples: ['Accepted', 'Partial', 'Rejected'],
  },
  execution: {
    kind: 'execution',
    summary: 'What became of a command that was not rejected',
    payload: 'Execution',
    examples: ['Executing', 'Deviated', 'Failed'],
  },
  alarm: {
    kind: 'alarm',
    summary: 'What went wrong at a plant, and when that is over',
    payload: 'Alarm',
    examples: ['Violation'],
  },
  telemetry: {
    kind: 'telemetry',
    summary: 'The latest values of a plant: coalesced, the latest wins',
    payload: 'Telemetry',
    examples: ['Telemetry'],
  },
};

const DEAD_LETTER = 'What you published malformed, rejected without requeue, or requeued twenty times';

export const AMQP_SERVERS: Json = {
  amqp: {
    host: '{amqpHost}:5671',
    protocol: 'amqps',
    protocolVersion: '0.9.1',
    pathname: '/partner-{keyId}',
    description: 'A vhost for each API key.',
    variables: {
      amqpHost: { description: 'The listener, as the connection bundle of the key names it' },
      keyId: { description: "The key's id" },
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
  const commands = Object.entries(COMMANDS).map(([name, { family, word, summary }]) => [
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
  const receives = Object.entries(COMMANDS).map(([name, { family, summary }]) => {
    const { scope, signed } = FAMILY_RULES[family];
    return [
      `take${name[0]?.toUpperCase()}${name.slice(1)}`,
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
    `send${name[0]?.toUpperCase()}${name.slice(1)}`,
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
  const commands = Object.entries(COMMANDS).map(([name, { family, summary, payload, examples }]) => {
    const schema = withPayload('Envelope', refTo(payload));
    const required = schema.required as string[];
    return [
      name,
      messageOf(name, summary, {
        payload: FAMILY_RULES[family].signed ? { ...schema, required: [...required, 'signature'] } : schema,
        examples: examples.map((one) => ({ name: one, payload: PUBLISHES[one].message })),
      }),
    ];
  });
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
      properties: { 'x-death-reason': { type: 'string', description: 'What is wrong, in words' } },
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
