/**
 * The MQTT part of the AsyncAPI document: the three topics that a device publishes to, and the topic that it
 * subscribes to, with a message for each form of command.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import { DEVICE_PUBLISH_TOPICS, type DevicePublishTopic, deviceTopic } from '../../../protocol/topics.ts';
import { COMMAND_EXAMPLES, COMMAND_FORMS } from './commands.ts';
import { SAYS } from './examples.ts';
import { capitalized, type Json, refTo, type SchemaName, withPayload } from './schema.ts';

const SERVERS = [{ $ref: '#/servers/mqttToken' }, { $ref: '#/servers/mqttMtls' }];
const BINDING = { bindingVersion: '0.2.0' };
/** The platform sends PUBACK after it has stored a message, or has dropped and counted it [C-3.8]. */
const QOS = { mqtt: { qos: 1, retain: false, ...BINDING } };

const SAYS_ON: Record<DevicePublishTopic, { summary: string; schema: SchemaName; signed: string }> = {
  telemetry: {
    summary: 'Telemetry: signals that the device measured',
    schema: 'DeviceTelemetry',
    signed: 'deviceId|ts|nonce|compact(data)',
  },
  status: {
    summary: 'Status of the device, as reported by itself',
    schema: 'DeviceStatus',
    signed: 'deviceId|ts|nonce|{"status":"…"}',
  },
  ack: {
    summary: 'Acknowledgement of a command: received, in progress, completed or failed',
    schema: 'DeviceAck',
    signed: 'deviceId|cmdId|ts|status',
  },
};

/** An ack has the `cmdId` of its command. */
const BY_CMD_ID = { correlationId: { location: '$message.payload#/cmdId' } };

export const MQTT_SERVERS: Json = {
  mqttToken: {
    ...server('8885', 'Devices with authMethod TOKEN.'),
    security: [{ $ref: '#/components/securitySchemes/deviceToken' }],
  },
  mqttMtls: {
    ...server('8883', 'Devices with authMethod MTLS.'),
    security: [{ $ref: '#/components/securitySchemes/deviceCertificate' }],
  },
};

export const MQTT_SECURITY: Json = {
  deviceToken: {
    type: 'userPassword',
    description: "User name: the device's id. Password: its MQTT token, a JWT.",
  },
  deviceCertificate: {
    type: 'X509',
    description:
      "A client certificate whose common name is the device's id. The user name is absent or that id.",
  },
};

function server(port: string, description: string): Json {
  return {
    host: `{mqttHost}:${port}`,
    protocol: 'secure-mqtt',
    protocolVersion: '3.1.1',
    description,
    variables: { mqttHost: { description: 'Host of the listener: mqtt.broker of the provisioning package' } },
    bindings: { mqtt: { cleanSession: true, keepAlive: 60, ...BINDING } },
  };
}

export function mqttChannels(): Json {
  const says = DEVICE_PUBLISH_TOPICS.map((topic) => [channelOf(topic), channel(topic, [channelOf(topic)])]);
  return { ...Object.fromEntries(says), commands: channel('commands', Object.keys(COMMAND_FORMS)) };
}

function channel(topic: DevicePublishTopic | 'commands', names: readonly string[]): Json {
  const messages = names.map((name) => [name, { $ref: `#/components/messages/${name}` }]);
  return {
    address: deviceTopic('{deviceId}', topic),
    servers: SERVERS,
    parameters: { deviceId: { $ref: '#/components/parameters/deviceId' } },
    messages: Object.fromEntries(messages),
  };
}

export function mqttOperations(): Json {
  const receives = DEVICE_PUBLISH_TOPICS.map((topic) => [
    `take${capitalized(channelOf(topic))}`,
    {
      action: 'receive',
      channel: { $ref: `#/channels/${channelOf(topic)}` },
      summary: SAYS_ON[topic].summary,
      messages: [{ $ref: `#/channels/${channelOf(topic)}/messages/${channelOf(topic)}` }],
      bindings: QOS,
      'x-signature': {
        required: true,
        covers: SAYS_ON[topic].signed,
        toleranceMs: LIMIT.timestampToleranceMs,
      },
    },
  ]);
  const sendCommand = {
    action: 'send',
    channel: { $ref: '#/channels/commands' },
    summary: 'Send a command; it is sent again with a new `ts` if the device does not acknowledge it',
    messages: Object.keys(COMMAND_FORMS).map((name) => ({ $ref: `#/channels/commands/messages/${name}` })),
    reply: {
      channel: { $ref: '#/channels/deviceAck' },
      messages: [{ $ref: '#/channels/deviceAck/messages/deviceAck' }],
    },
    bindings: QOS,
    'x-signature': { required: true, covers: 'deviceId|cmdId|ts|action|compact(payload)' },
    'x-ack-within-ms': LIMIT.ackTimeoutMs,
    'x-tries': LIMIT.dispatchTries,
  };
  return { ...Object.fromEntries(receives), sendCommand };
}

export function mqttMessages(): Json {
  const shown = { telemetry: SAYS.DeviceTelemetry, status: SAYS.DeviceStatus, ack: SAYS.DeviceAck };
  const says = DEVICE_PUBLISH_TOPICS.map((topic) => {
    const { summary, schema } = SAYS_ON[topic];
    const examples = [{ name: schema, payload: shown[topic] }];
    const said = message(channelOf(topic), summary, refTo(schema), examples);
    return [channelOf(topic), topic === 'ack' ? { ...said, ...BY_CMD_ID } : said];
  });
  const commands = Object.entries(COMMAND_FORMS).map(([name, { action, summary, payload, examples }]) => {
    const schema = withPayload(
      'Command',
      payload ? refTo(payload) : { type: 'object' },
      action ? { action: { enum: action } } : {},
    );
    const names = examples ?? (action as (keyof typeof COMMAND_EXAMPLES)[]);
    const shown = names.map((one) => ({ name: one, payload: COMMAND_EXAMPLES[one] }));
    return [name, { ...message(name, summary, schema, shown), ...BY_CMD_ID }];
  });
  return Object.fromEntries([...says, ...commands]);
}

function message(name: string, summary: string, payload: Json, examples: Json[]): Json {
  return { name, summary, contentType: 'application/json', payload, examples };
}

/**
 * Returns for example `deviceTelemetry`. The prefix is needed because `telemetry` is the name of the channel
 * that partners consume.
 */
function channelOf(topic: DevicePublishTopic): string {
  return `device${capitalized(topic)}`;
}
