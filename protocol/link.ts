/**
 * The link: every frame between the bridge and the object that owns a client, one union each way. One WebSocket
 * message is a JSON array of frames. Sequences are the sender's own; an answer names them, never a watermark.
 * Both sides of a deploy run for a while: a frame may gain optional fields, never lose or re-mean one.
 */
import { z } from 'zod';
import { firstIssue } from './issue.ts';
import { ok, type Result, refuse } from './result.ts';
import { DEVICE_PUBLISH_TOPICS } from './topics.ts';

/** A message is closed at either; a single frame larger than that travels alone. */
export const MAX_BATCH_FRAMES = 256;
export const MAX_BATCH_CHARS = 256 * 1024;
/** Nothing longer is read: one 256 KiB body in JSON's worst escaping. */
export const MAX_MESSAGE_CHARS = 2 * 1024 * 1024;
/** The bridge pings this often; a socket without a sign of life for the longer time is dead. */
export const PING_INTERVAL_MS = 20_000;
export const SIGN_OF_LIFE_MS = 60_000;
/** A batch that stays unanswered this long means that the link is lost. */
export const ANSWER_TIMEOUT_MS = 10_000;
export const PING = 'ping';
export const PONG = 'pong';

/** Why an object closes a link. The bridge turns each into its client's protocol. */
export const CLOSE_CODES = {
  /** Another session of the same device took over. */
  takenOver: 4001,
  /** The credential was revoked, suspended or decommissioned: do not come back with it. */
  revoked: 4003,
  /** The credential's own time is over. */
  expired: 4008,
  /** The peer broke the link's rules. */
  protocolError: 4400,
} as const;

const seq = z.int().min(0);
const channel = z.int().min(1).max(65_535);
const shortString = z.string().max(255);

export const deviceLinkUp = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('publish'), seq, topic: z.enum(DEVICE_PUBLISH_TOPICS), payload: z.string() }),
  /** Whether the client listens on its commands topic now; commands wait until it does. */
  z.object({ kind: z.literal('subscribed'), commands: z.boolean() }),
]);
export type DeviceLinkUp = z.infer<typeof deviceLinkUp>;

const stored = z.object({ kind: z.literal('stored'), seqs: z.array(seq) });

export const deviceLinkDown = z.discriminatedUnion('kind', [
  stored,
  z.object({ kind: z.literal('refused'), seq, reason: z.string() }),
  z.object({ kind: z.literal('command'), payload: z.string() }),
]);
export type DeviceLinkDown = z.infer<typeof deviceLinkDown>;

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
});
export type MessageProperties = z.infer<typeof messageProperties>;

/** A body travels as text when it is UTF-8, else as base64. */
const encoding = z.enum(['utf8', 'base64']);
export type BodyEncoding = z.infer<typeof encoding>;

export const vhostLinkUp = z.discriminatedUnion('kind', [
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
    /** Names of the optional arguments: our queues have none, so any makes the declaration unequal. */
    argumentNames: z.array(z.string()).max(64),
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
    messageCount: z.int().optional(),
    consumerCount: z.int().optional(),
  }),
  z.object({ kind: z.literal('deliver'), channel, tag: z.string(), delivery }),
  z.object({ kind: z.literal('got'), seq, messageCount: z.int(), delivery: delivery.nullable() }),
]);
export type VhostLinkDown = z.infer<typeof vhostLinkDown>;

/** What a delivery counts as in its connection's window: both ends reckon the same. */
export function deliveryBytes(message: { body: string; routingKey: string }): number {
  return message.body.length + message.routingKey.length + 64;
}

/** Delivered bytes that may be under way to one client without having drained. */
export const DELIVERY_WINDOW_BYTES = 1024 * 1024;

/** Reads one link message. Frames are hostile input: each is checked, their number and length bounded. */
export function parseFrames<Frame>(schema: z.ZodType<Frame>, message: unknown): Result<Frame[], string> {
  if (typeof message !== 'string') return refuse('not text');
  if (message.length > MAX_MESSAGE_CHARS) return refuse('too long');
  let values: unknown;
  try {
    values = JSON.parse(message);
  } catch {
    return refuse('not JSON');
  }
  if (!Array.isArray(values) || values.length > MAX_BATCH_FRAMES) return refuse('not a batch');
  const frames: Frame[] = [];
  for (const value of values) {
    const parsed = schema.safeParse(value);
    if (!parsed.success) return refuse(firstIssue(parsed.error));
    frames.push(parsed.data);
  }
  return ok(frames);
}

/** Packs frames into as few messages as the caps allow. */
export function packFrames(frames: readonly unknown[]): string[] {
  const messages: string[] = [];
  let parts: string[] = [];
  let chars = 0;
  for (const frame of frames) {
    const text = JSON.stringify(frame);
    if (parts.length === MAX_BATCH_FRAMES || (parts.length > 0 && chars + text.length > MAX_BATCH_CHARS)) {
      messages.push(`[${parts.join(',')}]`);
      parts = [];
      chars = 0;
    }
    parts.push(text);
    chars += text.length + 1;
  }
  if (parts.length > 0) messages.push(`[${parts.join(',')}]`);
  return messages;
}

/** Headers of the upgrade. */
export const LINK_PATHS = { amqp: '/link/amqp', mqtt: '/link/mqtt' } as const;
export const PROOF_HEADER = 'sitewire-bridge';
/** What an accepted AMQP upgrade answers: the vhost and slug of the credential. */
export const VHOST_HEADER = 'sitewire-vhost';
export const PROOF_TOLERANCE_MS = 60_000;

/** What a bridge says of a client's connection when it dials (rule 1). */
export const bridgeProof = z.strictObject({
  bridge: z.string().regex(/^[A-Za-z0-9._-]{1,64}$/),
  boot: z.string().regex(/^[A-Za-z0-9-]{1,64}$/),
  connection: z.string().regex(/^[A-Za-z0-9-]{1,64}$/),
  address: z.string().regex(/^[0-9a-fA-F:.]{2,45}$/),
  /** SHA-256 of the client certificate in hex; empty without one. */
  fingerprint: z.string().regex(/^([0-9a-f]{64})?$/),
  timeMs: z.int().positive(),
});
export type BridgeProof = z.infer<typeof bridgeProof>;

/** What the bridge's MAC covers: path and credential too, so a proof opens nothing but what it was made for. */
export function proofSigningString(proof: BridgeProof, path: string, authorization: string): string {
  const { bridge, boot, connection, address, fingerprint, timeMs } = proof;
  return [
    'sitewire-bridge',
    bridge,
    boot,
    connection,
    address,
    fingerprint,
    timeMs,
    path,
    authorization,
  ].join('\n');
}

/** `proof` as a header value, its MAC last. */
export function formatProof(proof: BridgeProof, mac: string): string {
  const { bridge, boot, connection, address, fingerprint, timeMs } = proof;
  return [bridge, boot, connection, address, fingerprint, timeMs, mac].join(';');
}

export function parseProof(header: string): { proof: BridgeProof; mac: string } | undefined {
  const [bridge, boot, connection, address, fingerprint, timeMs, mac, ...rest] = header.split(';');
  if (!mac || !/^[0-9a-f]{64}$/.test(mac) || rest.length > 0) return undefined;
  if (!timeMs || !/^[1-9]\d{0,14}$/.test(timeMs)) return undefined;
  const parsed = bridgeProof.safeParse({
    bridge,
    boot,
    connection,
    address,
    fingerprint,
    timeMs: Number(timeMs),
  });
  return parsed.success ? { proof: parsed.data, mac } : undefined;
}
