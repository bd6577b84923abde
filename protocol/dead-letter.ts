/** Dead letters over REST: publishes that were malformed, and events that no client took [C-12.5]. */
import * as z from 'zod';

/** The place of a dead letter in its queue, and its time. */
export const DEAD_LETTER_ID = /^(\d{1,15})-(\d{1,9})-(\d{1,15})$/;

export const deadLetter = z.strictObject({
  id: z.string(),
  reason: z.string(),
  deadLetteredAt: z.string(),
  /** The queue from which it was dead-lettered. */
  queue: z.string(),
  routingKey: z.string(),
  body: z.string(),
  encoding: z.enum(['utf8', 'base64']),
  /** A client of the dead-letter queue has it and has not settled it. */
  isHeld: z.boolean(),
});
export type DeadLetter = z.infer<typeof deadLetter>;

export const REQUEUE_OUTCOMES = ['QUEUED', 'RECORDED', 'DEAD_LETTERED'] as const;

/** What became of a dead letter that was published again; `reason`: why it is one again. */
export const requeued = z.strictObject({
  requeuedFrom: z.string(),
  outcome: z.enum(REQUEUE_OUTCOMES),
  reason: z.string().optional(),
});
export type Requeued = z.infer<typeof requeued>;

/** Why a dead letter was not read or changed. `held`: a client has it. */
export interface DeadLetterRefusal {
  refused: 'ended' | 'absent' | 'held' | 'forbidden' | 'unstored';
  /** For `forbidden`: why the key may not publish it. */
  text?: string;
}
