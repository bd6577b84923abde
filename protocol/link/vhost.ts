/** Frames between the bridge and the Vhost of a partner's client. */
import * as z from 'zod';
import { utf8Length } from '../utf8.ts';
import { goodbye, seq, stored, wait } from './frame.ts';

const channel = z.int().min(1).max(65_535);
const shortString = z.string().max(255);
/** Maximum number of arguments of one queue declaration. */
export const MAX_ARGUMENTS = 64;

/** An argument of a queue declaration as received. `value` is null if it is of any other type. */
export const typedArgument = z.object({
  name: shortString,
  /** RabbitMQ's name of its type: `signedint`, `longstr`, `bool`. */
  type: z.string().max(20),
  value: z.union([z.string().max(1_024), z.number(), z.boolean(), z.null()]),
});
export type TypedArgument = z.infer<typeof typedArgument>;

/** Why and when a message was dead-lettered, in the terms of RabbitMQ's `x-death` header. */
export const death = z.object({
  reason: z.enum(['rejected', 'delivery_limit']),
  queue: z.string(),
  exchange: z.string(),
  routingKeys: z.array(z.string()),
  atMs: z.number(),
  count: z.int(),
});
export type Death = z.infer<typeof death>;

/** The AMQP properties of a message: fields for our events, `raw` bytes for a publisher's message. */
export const messageProperties = z.object({
  contentType: z.string().optional(),
  messageId: z.string().optional(),
  correlationId: z.string().optional(),
  timestampMs: z.number().optional(),
  /** Base64 of the flags and fields of the content header as received. */
  raw: z.string().optional(),
  /** Added to the message's headers table. */
  headers: z.record(z.string(), z.union([z.string(), z.number()])).optional(),
  /** Added to the headers table as `x-death` and `x-first-death-*`. */
  death: death.optional(),
});
export type MessageProperties = z.infer<typeof messageProperties>;

/** A body is sent as text if it is valid UTF-8, else as base64; so is a dead letter that would be too long as JSON. */
const encoding = z.enum(['utf8', 'base64']);
export type BodyEncoding = z.infer<typeof encoding>;

export const vhostLinkUp = z.discriminatedUnion('kind', [
  /** The vhost of connection.open. The connection counts as open only if it is the right vhost. */
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
    /** Maximum number of unacknowledged deliveries of this consumer; 0 = no limit. */
    prefetch: z.int().min(0).max(65_535),
    /** A message goes to the consumer with the highest priority that has room in its prefetch. */
    priority: z.int(),
  }),
  z.object({ kind: z.literal('cancel'), seq, channel, tag: shortString }),
  z.object({ kind: z.literal('get'), seq, channel, queue: shortString, noAck: z.boolean() }),
  z.object({
    kind: z.literal('settle'),
    outcome: z.enum(['ack', 'requeue', 'discard']),
    leases: z.array(z.int()).max(10_000),
  }),
  /** Prefetch limit shared by the consumers of a channel (basic.qos global=true); 0 = no limit. */
  z.object({ kind: z.literal('qos'), channel, prefetch: z.int().min(0).max(65_535) }),
  z.object({ kind: z.literal('recover'), seq, channel }),
  z.object({ kind: z.literal('close-channel'), channel }),
  /** Bytes of deliveries that were written to the client's socket since the link opened. */
  z.object({ kind: z.literal('credit'), drainedBytes: z.int().min(0) }),
  z.object({
    kind: z.literal('declare'),
    seq,
    queue: shortString,
    passive: z.boolean(),
    durable: z.boolean(),
    exclusive: z.boolean(),
    autoDelete: z.boolean(),
    arguments: z.array(typedArgument).max(MAX_ARGUMENTS),
  }),
  /** Binds a partner queue to the exchange `vcp`, or unbinds it. */
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
  /** Size of the delivery in the connection's delivery window. */
  bytes: z.int(),
});
export type Delivery = z.infer<typeof delivery>;

export const vhostLinkDown = z.discriminatedUnion('kind', [
  stored,
  /**
   * Not confirmed as stored because of a temporary failure; the publisher may send it again (basic.nack), and
   * its messageId prevents a second command.
   */
  z.object({ kind: z.literal('unstored'), seqs: z.array(seq) }),
  /** `severity`: whether the AMQP reply code closes the channel or the connection. */
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
    /** The name of a queue that the declaration created; generated if it was declared without a name. */
    queue: z.string().optional(),
    messageCount: z.int().optional(),
    consumerCount: z.int().optional(),
  }),
  z.object({ kind: z.literal('deliver'), channel, tag: z.string(), delivery }),
  /** A consumer has ended because its queue was deleted. */
  z.object({ kind: z.literal('cancelled'), channel, tag: z.string() }),
  z.object({ kind: z.literal('got'), seq, messageCount: z.int(), delivery: delivery.nullable() }),
  wait,
  goodbye,
]);
export type VhostLinkDown = z.infer<typeof vhostLinkDown>;

/** The size of a message in delivery windows and queue limits, including overhead of its frame. */
export function messageBytes(message: {
  body: string;
  routingKey: string;
  properties: MessageProperties;
}): number {
  return utf8Length(message.body) + message.routingKey.length + propertiesBytes(message.properties) + 64;
}

function propertiesBytes({ headers, death: died, ...fields }: MessageProperties): number {
  const deaths = died ? [JSON.stringify(died)] : [];
  const texts = [...Object.values(fields), ...Object.entries(headers ?? {}).flat(), ...deaths];
  return texts.reduce<number>((sum, value) => sum + utf8Length(String(value)), 0);
}

/**
 * While this many delivered bytes to one client are not reported as drained (see `credit`), its consumers get
 * nothing. The last delivery may exceed it; basic.get does not count.
 */
export const DELIVERY_WINDOW_BYTES = 1024 * 1024;
