/**
 * The AsyncAPI 3 document of AMQP, event streams, webhooks and MQTT, generated from the schemas that the platform itself
 * uses. The actions `send` and `receive` are those of the platform: a client sends the messages that the
 * platform receives, and receives the messages that the platform sends.
 */
import { VCP_VERSION } from '../../../protocol/envelope.ts';
import { SLUG } from '../../../protocol/ids.ts';
import { AMQP_SECURITY, AMQP_SERVERS, amqpChannels, amqpMessages, amqpOperations } from './amqp.ts';
import { EXAMPLE_KEY } from './examples.ts';
import { MQTT_SECURITY, MQTT_SERVERS, mqttChannels, mqttMessages, mqttOperations } from './mqtt.ts';
import { type Json, SCHEMAS } from './schema.ts';
import { STREAM_SECURITY, STREAM_SERVERS, streamChannels, streamOperations } from './stream.ts';
import {
  WEBHOOK_SECURITY,
  WEBHOOK_SERVERS,
  webhookChannels,
  webhookMessages,
  webhookOperations,
} from './webhook.ts';

export function asyncApiDocument(): Json {
  return {
    asyncapi: '3.0.0',
    info: {
      title: 'Sitewire messages',
      version: VCP_VERSION,
      description: [
        "Partners use AMQP 0-9-1 and, for events, Server-Sent Events or webhooks; devices use MQTT 3.1.1. Actions are the platform's: you send what it receives.",
        `All examples are signed with the key ${EXAMPLE_KEY}.`,
      ].join(' '),
    },
    defaultContentType: 'application/json',
    servers: { ...AMQP_SERVERS, ...STREAM_SERVERS, ...WEBHOOK_SERVERS, ...MQTT_SERVERS },
    channels: { ...amqpChannels(), ...streamChannels(), ...webhookChannels(), ...mqttChannels() },
    operations: { ...amqpOperations(), ...streamOperations(), ...webhookOperations(), ...mqttOperations() },
    components: {
      schemas: SCHEMAS,
      messages: { ...amqpMessages(), ...webhookMessages(), ...mqttMessages() },
      parameters: {
        slug: { description: `The organization's slug: ${SLUG.source}` },
        deviceId: { description: "The device's id, a UUID" },
      },
      securitySchemes: { ...AMQP_SECURITY, ...STREAM_SECURITY, ...WEBHOOK_SECURITY, ...MQTT_SECURITY },
    },
  };
}
