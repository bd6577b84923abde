/** Frames between the bridge and the Vhost of a partner's client. */
import { z } from 'zod';
import { utf8Length } from '../utf8.ts';
import { goodbye, seq, stored, wait } from './frame.ts';

const channel = z.int().min(1).max(65_535);
const shortString = z.string().max(255);
/** Arguments of one declaration. */
export const MAX_ARGUMENTS = 64;

/** An argument of a declaration as it was received; `value` is null where its type is none of these. */
export const typedArgument = z.object({
  name: shortString,
  /** RabbitMQ's word for its type: `signedint`, `longstr`, `bool`. */
  type: z.string().max(20),
  value: z.union([z.string().max(1_024), z.number(), z.boolean(), z.null()]),
});
export type TypedArgument = z.infer<typeof typedArgument>;

/** Why and when a message was dead-lettered, as RabbitMQ's `x-death` says it. */
export const death = z.object({
  reason: z.enum(['rejected', 'delivery_limit']),
  queue: z.string(),
  exchange: z.string(),
  routingKeys: z.array(z.string()),
  atMs: z.number(),
  count: z.int(),
});
export type Death = z.infer<typeof death>;

/** The AMQP properties of a message: those of our events by name, or a publisher's own bytes untouched. */
export const messageProperties = z.object({
  contentType: z.string().optional(),
  messageId: z.string().optional(),
  correlationId: z.string().optional(),
  timestampMs: z.number().optional(),
  /** Base64 of the flags and fields of a content header, as it was received. */
  raw: z.string().optional(),
  /** Added to the message's headers table. */
  headers: z.record(z.string(), z.union([z.string(), z.number()])).optional(),
  /** Added to it as `x-death` and what goes with that. */
  death: death.optional(),
});
export type MessageProperties = z.infer<typeof messageProperties>;

/** A body travels as text when it is UTF-8, else as base64. */
const encoding = z.enum(['utf8', 'base64']);
export type BodyEncoding = z.infer<typeof encoding>;

export const vhostLinkUp = z.discriminatedUnion('kind', [
  /** The vhost that the client named in connection.open: only with the right one has the connection begun. */
  z.object({ kind: z.literal('open'), vhost: shortString }),
  z.object({
    kind: z.literal('publish'),
    seq,
    exchange: shortString,
    routingKey: shortString,
    properties: z.string().max(32 * 1024),
    body: z.string().max(512 * 1024),
    encoding,
  }),
  z.object({
    kind: z.literal('consume'),
    seq,
    channel,
    tag: shortString,
    queue: shortString,
    noAck: z.boolean(),
    exclusive: z.boolean(),
    /** Unacknowledged deliveries that this consumer may hold; 0 = no limit. */
    prefetch: z.int().min(0).max(65_535),
    /** Who may take one and has the highest gets it; 0 when nothing is said. */
    priority: z.int().optional(),
  }),
  z.object({ kind: z.literal('cancel'), seq, channel, tag: shortString }),
  z.object({ kind: z.literal('get'), seq, channel, queue: shortString, noAck: z.boolean() }),
  z.object({
    kind: z.literal('settle'),
    outcome: z.enum(['ack', 'requeue', 'discard']),
    leases: z.array(z.int()).max(10_000),
  }),
  /** Shared limit of a channel (basic.qos global=true); 0 = none. */
  z.object({ kind: z.literal('qos'), channel, prefetch: z.int().min(0).max(65_535) }),
  z.object({ kind: z.literal('recover'), seq, channel }),
  z.object({ kind: z.literal('close-channel'), channel }),
  /** Bytes of deliveries that the client's socket has taken since the link opened. */
  z.object({ kind: z.literal('credit'), drainedBytes: z.int().min(0) }),
  z.object({
    kind: z.literal('declare'),
    seq,
    queue: shortString,
    passive: z.boolean(),
    durable: z.boolean(),
    exclusive: z.boolean(),
    autoDelete: z.boolean(),
    /** Names of the arguments, for an edge of before. */
    argumentNames: z.array(z.string()).max(64).optional(),
    arguments: z.array(typedArgument).max(MAX_ARGUMENTS).optional(),
  }),
  /** Binds a queue of the partner's own to our exchange, or unbinds it. */
  z.object({ kind: z.literal('bind'), seq, queue: shortString, pattern: shortString }),
  z.object({ kind: z.literal('unbind'), seq, queue: shortString, pattern: shortString }),
  z.object({ kind: z.literal('purge'), seq, queue: shortString }),
  z.object({
    kind: z.literal('delete'),
    seq,
    queue: shortString,
    ifUnused: z.boolean(),
    ifEmpty: z.boolean(),
  }),
]);
export type VhostLinkUp = z.infer<typeof vhostLinkUp>;
export type PublishFrame = Extract<VhostLinkUp, { kind: 'publish' }>;

const delivery = z.object({
  lease: z.int(),
  redelivered: z.boolean(),
  routingKey: z.string(),
  properties: messageProperties,
  body: z.string(),
  encoding,
  /** What it counts as in its connection's window; absent from an object of before. */
  bytes: z.int().optional(),
});
export type Delivery = z.infer<typeof delivery>;

export const vhostLinkDown = z.discriminatedUnion('kind', [
  stored,
  /** Not recorded, for no fault of the publisher's: it may send again (basic.nack). */
  z.object({ kind: z.literal('unstored'), seqs: z.array(seq) }),
  /** `severity` channel or connection: which one the AMQP reply code closes. */
  z.object({
    kind: z.literal('refused'),
    seq,
    severity: z.enum(['channel', 'connection']),
    code: z.int(),
    text: z.string(),
  }),
  z.object({
    kind: z.literal('ok'),
    seq,
    /** The name of a queue that was declared without one. */
    queue: z.string().optional(),
    messageCount: z.int().optional(),
    consumerCount: z.int().optional(),
  }),
  z.object({ kind: z.literal('deliver'), channel, tag: z.string(), delivery }),
  /** A consumer has ended, for its queue is gone. */
  z.object({ kind: z.literal('cancelled'), channel, tag: z.string() }),
  z.object({ kind: z.literal('got'), seq, messageCount: z.int(), delivery: delivery.nullable() }),
  wait,
  goodbye,
]);
export type VhostLinkDown = z.infer<typeof vhostLinkDown>;

/** What a message counts as, in windows, queues and pumps: what travels of it, and what frames add. */
export function messageBytes(message: {
  body: string;
  routingKey: string;
  properties: MessageProperties;
}): number {
  return utf8Length(message.body) + message.routingKey.length + propertiesBytes(message.properties) + 64;
}

/** What a delivery counts as in a window that a bridge of before reckons, or an object of before has filled. */
export function plainDeliveryBytes(message: { body: string; routingKey: string }): number {
  return message.body.length + message.routingKey.length + 64;
}

function propertiesBytes({ headers, death: died, ...fields }: MessageProperties): number {
  const deaths = died ? [JSON.stringify(died)] : [];
  const texts = [...Object.values(fields), ...Object.entries(headers ?? {}).flat(), ...deaths];
  return texts.reduce<number>((sum, value) => sum + utf8Length(String(value)), 0);
}

/** Delivered bytes that may be under way to one client without having drained. */
export const DELIVERY_WINDOW_BYTES = 1024 * 1024;
