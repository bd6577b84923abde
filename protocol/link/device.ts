/** Frames between the bridge and the Site of a device. */
import { z } from 'zod';
import { DEVICE_PUBLISH_TOPICS } from '../topics.ts';
import { goodbye, seq, stored, wait } from './frame.ts';

export const deviceLinkUp = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('publish'), seq, topic: z.enum(DEVICE_PUBLISH_TOPICS), payload: z.string() }),
  /** Whether the client listens on its commands topic now; commands wait until it does. */
  z.object({ kind: z.literal('subscribed'), commands: z.boolean() }),
  /** Not a byte came from the client for `CLIENT_QUIET_MS`, not even a ping; or one came again [C-3.10]. */
  z.object({ kind: z.literal('quiet'), quiet: z.boolean() }),
  /** The client has published nothing for `LULL_MS`, told as often as that is so; since version 4. */
  z.object({ kind: z.literal('lull') }),
  /** The client tried a topic that is not its own; since version 3. */
  z.object({
    kind: z.literal('strayed'),
    topic: z.string().max(1_024),
    act: z.enum(['publish', 'subscribe']),
  }),
]);
export type DeviceLinkUp = z.infer<typeof deviceLinkUp>;

export const deviceLinkDown = z.discriminatedUnion('kind', [
  stored,
  z.object({ kind: z.literal('refused'), seq, reason: z.string() }),
  z.object({ kind: z.literal('command'), payload: z.string() }),
  wait,
  goodbye,
]);
export type DeviceLinkDown = z.infer<typeof deviceLinkDown>;
