/**
 * The AsyncAPI document is self-contained and complete, and its examples are valid. Every other test
 * validates the messages that it sees against this document.
 */
import { createHmac } from 'node:crypto';
import { type Schema, Validator } from '@cfworker/json-schema';
import { describe, expect, it } from 'vitest';
import { ACTION_PAYLOADS } from '../protocol/action.ts';
import { compact, sliceMembers } from '../protocol/compact-json.ts';
import { parseDeviceMessage } from '../protocol/device-message.ts';
import { parseEnvelope } from '../protocol/envelope.ts';
import {
  COMMAND_FAMILIES,
  commandFamily,
  EVENT_KINDS,
  eventRoutingKey,
  fullQueueName,
  QUEUE_NAMES,
} from '../protocol/routing-keys.ts';
import { commandSigningString, envelopeSigningString } from '../protocol/signing.ts';
import { DEVICE_PUBLISH_TOPICS, deviceTopic } from '../protocol/topics.ts';
import { asyncApiDocument } from '../tools/reference/asyncapi/document.ts';

interface Ref {
  $ref: string;
}
interface Message {
  name: string;
  payload: Schema & { properties?: { action?: { enum?: string[] } } };
  examples: { name: string; payload: Record<string, unknown> }[];
}
interface Channel {
  address: string;
  servers: Ref[];
  parameters: Record<string, Ref>;
  messages: Record<string, Ref>;
  'x-routing-key'?: string;
}
interface Operation {
  action: string;
  channel: Ref;
  messages: Ref[];
  reply?: { channel: Ref; messages: Ref[] };
}
interface Document {
  asyncapi: string;
  info: { version: string };
  servers: Record<string, { host: string; pathname?: string; variables: object; security: Ref[] }>;
  channels: Record<string, Channel>;
  operations: Record<string, Operation>;
  components: { messages: Record<string, Message>; schemas: Record<string, Schema>; parameters: object };
}

const document = asyncApiDocument() as unknown as Document;
const KEY = '00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff';
const DEVICE = '3f2b8c1e-5d47-4a90-9b1a-6c0f2d7e4a11';

const messages = Object.values(document.components.messages);
const examples = messages
  // A dead-lettered message may have any content.
  .filter(({ name }) => name !== 'deadLetter')
  .flatMap((message) => message.examples.map((example) => ({ message, ...example })));
/** The channels that carry a message, by message name. */
const channelOf = (message: Message) =>
  Object.values(document.channels).find((channel) => message.name in channel.messages);

function refsIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(refsIn);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) =>
    name === '$ref' ? [String(member)] : refsIn(member),
  );
}

/** Resolves a reference; returns undefined when its target does not exist. */
function resolve(ref: string): unknown {
  const found = ref
    .replace(/^#\//, '')
    .split('/')
    .reduce<unknown>((at, name) => (at as Record<string, unknown> | undefined)?.[name], document);
  const next = (found as Ref | undefined)?.$ref;
  return next === undefined ? found : resolve(next);
}

function misfits({ payload }: Message, value: unknown): string[] {
  const schema = { ...payload, components: document.components } as unknown as Schema;
  return new Validator(schema, '7', false).validate(value).errors.map(({ error }) => error);
}

function sign(text: string | undefined): string {
  return createHmac('sha256', KEY)
    .update(text ?? '')
    .digest('hex');
}

describe('the AsyncAPI document', () => {
  it('is plain JSON, in AsyncAPI 3.0.0, of version 1.1 of the VCP message protocol (spec: Versioning)', () => {
    expect([document.asyncapi, document.info.version]).toEqual(['3.0.0', '1.1']);
    expect(JSON.parse(JSON.stringify(document))).toEqual(document);
  });

  it('has a target for each of its references', () => {
    const refs = refsIn(document);
    expect(refs.filter((ref) => resolve(ref) === undefined)).toEqual([]);
    expect(refs.length).toBeGreaterThan(100);
  });

  it('has one operation for each channel, which uses only messages of that channel', () => {
    for (const { action, channel, messages: own, reply } of Object.values(document.operations)) {
      expect(['send', 'receive']).toContain(action);
      for (const { $ref } of own) expect($ref.startsWith(`${channel.$ref}/messages/`)).toBe(true);
      for (const { $ref } of reply?.messages ?? [])
        expect($ref.startsWith(`${reply?.channel.$ref}/messages/`)).toBe(true);
    }
    const led = Object.values(document.operations).map(({ channel }) => channel.$ref);
    expect(led.sort()).toEqual(
      Object.keys(document.channels)
        .map((name) => `#/channels/${name}`)
        .sort(),
    );
  });

  it('declares each parameter that an address names in braces, and no other', () => {
    const named = (text: string) => text.match(/(?<=\{)\w+(?=\})/g) ?? [];
    for (const { address, parameters } of Object.values(document.channels))
      expect(named(address)).toEqual(Object.keys(parameters));
    for (const { host, pathname = '', variables, security } of Object.values(document.servers)) {
      expect(named(host + pathname)).toEqual(Object.keys(variables));
      expect(security).toHaveLength(1);
    }
  });

  it('has a reference to each message, and to each schema except Envelope, Event and Command', () => {
    const refs = new Set(refsIn(document));
    const unused = (kind: 'messages' | 'schemas') =>
      Object.keys(document.components[kind]).filter((name) => !refs.has(`#/components/${kind}/${name}`));
    // Forms of messages that every message refers to.
    expect([unused('messages'), unused('schemas')]).toEqual([[], ['Envelope', 'Event', 'Command']]);
  });

  it('has every command family, event and topic (spec: Broker operations, Events, Device MQTT messages)', () => {
    const channels = Object.values(document.channels);
    const families = channels.flatMap(({ address }) => {
      const family = commandFamily('acme', address.replace('{slug}', 'acme'));
      return family.ok ? [family.value] : [];
    });
    expect(new Set(families)).toEqual(new Set(COMMAND_FAMILIES));
    const keys = channels.flatMap((channel) => channel['x-routing-key'] ?? []);
    expect(keys.sort()).toEqual(EVENT_KINDS.map((kind) => eventRoutingKey('{slug}', kind)).sort());
    const queues = channels.map(({ address }) => address).filter((address) => address.startsWith('vcp.'));
    expect(queues.sort()).toEqual(QUEUE_NAMES.map((queue) => fullQueueName('{slug}', queue)).sort());
    const topics = channels.map(({ address }) => address).filter((address) => address.startsWith('cpi/'));
    const all = [...DEVICE_PUBLISH_TOPICS, 'commands' as const].map((name) =>
      deviceTopic('{deviceId}', name),
    );
    expect(topics.sort()).toEqual(all.sort());
  });

  it('has one message for each action, and one for actions of other vendors [C-7.10]', () => {
    const actions = messages.flatMap(({ payload }) => payload.properties?.action?.enum ?? []);
    expect(actions.sort()).toEqual(Object.keys(ACTION_PAYLOADS).sort());
    expect(document.components.messages.restCommand?.payload.properties?.action).toEqual({ type: 'string' });
  });

  it.each(examples)('$message.name: its example $name matches the schema', ({ message, payload }) => {
    expect(misfits(message, payload)).toEqual([]);
    expect(misfits(message, { ...payload, version: 2, ts: 'now' })).not.toEqual([]);
  });

  it.each(examples.filter(({ payload }) => 'signature' in payload))(
    '$message.name: its example $name has a valid signature for its routing key [C-7.2]',
    ({ message, payload }) => {
      const { address = '', 'x-routing-key': event } = channelOf(message) ?? {};
      const routingKey = (event ?? address).replace('{slug}', 'acme');
      const envelope = parseEnvelope(JSON.stringify(payload, null, 2));
      if (!envelope.ok) throw new Error(envelope.refusal);
      const text = envelopeSigningString(envelope.value, routingKey, envelope.value.payloadText);
      expect(payload.signature).toBe(sign(text));
    },
  );

  it.each(examples.filter(({ payload }) => 'action' in payload))(
    '$message.name: a device accepts the signature of its example $name [C-3.7]',
    ({ payload }) => {
      const members = sliceMembers(JSON.stringify(payload, null, 2));
      const text = members.ok ? compact(members.value.get('payload') ?? '') : '';
      const { cmdId, ts, action, sig } = payload as {
        cmdId: string;
        ts: number;
        action: string;
        sig: string;
      };
      expect(sig).toBe(sign(commandSigningString(DEVICE, cmdId, ts, action, text)));
    },
  );

  it.each(DEVICE_PUBLISH_TOPICS)(
    '%s of a device: the platform accepts its example and the signature',
    (topic) => {
      const name = `device${topic[0]?.toUpperCase()}${topic.slice(1)}`;
      const [example] = document.components.messages[name]?.examples ?? [];
      const parsed = parseDeviceMessage(DEVICE, topic, JSON.stringify(example?.payload));
      if (!parsed.ok) throw new Error(parsed.refusal);
      expect(parsed.value.sig).toBe(sign(parsed.value.signingString));
    },
  );
});
