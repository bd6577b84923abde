/** The event stream in the AsyncAPI document: the same events as the queues, over HTTPS [C-12.3]. */
import { READS } from './amqp.ts';
import type { Json } from './schema.ts';

const NAMES = Object.keys(READS);
const SUMMARY = 'All events of a key as Server-Sent Events; Last-Event-ID resumes';

export const STREAM_SERVERS: Json = {
  stream: {
    host: '{host}',
    protocol: 'sse',
    pathname: '/api/v1/vcp',
    description: 'The HTTP API. `id` is the sequence of the event, `event` its type, `data` its signed text.',
    variables: { host: { description: 'Host of the REST API' } },
    security: [{ $ref: '#/components/securitySchemes/streamApiKey' }],
  },
};

export const STREAM_SECURITY: Json = {
  streamApiKey: {
    type: 'httpApiKey',
    name: 'X-API-Key',
    in: 'header',
    description: 'The API key, with the scope vcp:read.',
  },
};

export function streamChannels(): Json {
  return {
    events: {
      address: '/events/stream',
      title: SUMMARY,
      servers: [{ $ref: '#/servers/stream' }],
      parameters: {},
      messages: Object.fromEntries(NAMES.map((name) => [name, { $ref: `#/components/messages/${name}` }])),
    },
  };
}

export function streamOperations(): Json {
  return {
    streamEvents: {
      action: 'send',
      channel: { $ref: '#/channels/events' },
      summary: SUMMARY,
      messages: NAMES.map((name) => ({ $ref: `#/channels/events/messages/${name}` })),
      'x-required-scope': 'vcp:read',
    },
  };
}
