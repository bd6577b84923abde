/** What frames of both kinds of link have in common. */
import { z } from 'zod';

export const seq = z.int().min(0);

/** The sequences of frames that are recorded for good. */
export const stored = z.object({ kind: z.literal('stored'), seqs: z.array(seq) });

/**
 * Publishes that are over a rate and not taken: the bridge keeps them, and sends `count` of them again, the oldest
 * first, each `ms` until none is left.
 */
export const wait = z.object({
  kind: z.literal('wait'),
  seqs: z.array(seq),
  ms: z.int().min(1),
  count: z.int().min(1),
});
export type Wait = z.infer<typeof wait>;

/** The object ends the link, and why: acted on at once, the WebSocket's own close may take long to arrive. */
export const goodbye = z.object({ kind: z.literal('goodbye'), code: z.int(), reason: z.string() });
