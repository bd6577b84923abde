/** Frames and fields that both kinds of link share. */
import * as z from 'zod';

export const seq = z.int().min(0);

/**
 * The sequence numbers of publishes whose outcome is durable: stored, dead-lettered, rejected, or dropped as a
 * message of a device. The bridge acknowledges them.
 */
export const stored = z.object({ kind: z.literal('stored'), seqs: z.array(seq) });

/**
 * The object has not accepted messages that are over the rate limit. The bridge holds them and every `ms` sends
 * `count` of them again, oldest first, until none is left.
 */
export const wait = z.object({
  kind: z.literal('wait'),
  seqs: z.array(seq),
  ms: z.int().min(1),
  count: z.int().min(1),
});
export type Wait = z.infer<typeof wait>;

/** The object ends the link. The bridge acts on this frame, because the WebSocket close may arrive much later. */
export const goodbye = z.object({ kind: z.literal('goodbye'), code: z.int(), reason: z.string() });
