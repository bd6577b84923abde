/** Frames between the bridge and the Site of a device. */
import * as z from 'zod';
import { DEVICE_PUBLISH_TOPICS } from '../topics.ts';
import { goodbye, seq, stored, wait } from './frame.ts';

export const deviceLinkUp = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('publish'), seq, topic: z.enum(DEVICE_PUBLISH_TOPICS), payload: z.string() }),
  /** A publish whose payload is not UTF-8, from this byte on [C-15.8]. */
  z.object({
    kind: z.literal('not-utf8'),
    seq,
    topic: z.enum(DEVICE_PUBLISH_TOPICS),
    at: z.int().min(0),
    bytes: z.int().min(0),
  }),
  /** Whether the client is subscribed to its commands topic. The Site sends no commands before it is. */
  z.object({ kind: z.literal('subscribed'), commands: z.boolean() }),
  /**
   * true: the client has sent no byte, not even a ping, for `CLIENT_QUIET_MS`; false: the client sends again
   * [C-3.10].
   */
  z.object({ kind: z.literal('quiet'), quiet: z.boolean() }),
  /** The client has published nothing for `NO_PUBLISH_MS`; repeated after each further `NO_PUBLISH_MS`. */
  z.object({ kind: z.literal('no-publish') }),
  /** The client sent a packet over the limit, which the bridge did not read; it closes the client. */
  z.object({ kind: z.literal('oversized'), bytes: z.int().min(1) }),
  /** The client tried to use a topic that is not its own; the bridge reports the first ten times of a session. */
  z.object({
    kind: z.literal('foreign-topic'),
    topic: z.string().max(1_024),
    act: z.enum(['publish', 'subscribe']),
  }),
]);
export type DeviceLinkUp = z.infer<typeof deviceLinkUp>;

/** A publish of telemetry, recognised without the schema; undefined for any other frame (see `parseFrames`). */
export function usualPublish(value: unknown): DeviceLinkUp | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { kind, seq: number, topic, payload } = value as Record<string, unknown>;
  if (kind !== 'publish' || topic !== 'telemetry' || typeof payload !== 'string') return undefined;
  if (typeof number !== 'number' || !Number.isSafeInteger(number) || number < 0) return undefined;
  return { kind, seq: number, topic, payload };
}

export const deviceLinkDown = z.discriminatedUnion('kind', [
  stored,
  z.object({ kind: z.literal('refused'), seq, reason: z.string() }),
  z.object({ kind: z.literal('command'), payload: z.string() }),
  wait,
  goodbye,
]);
export type DeviceLinkDown = z.infer<typeof deviceLinkDown>;
