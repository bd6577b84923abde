/** Events as the journal of a key returns them over HTTPS [C-12.2]. */
import * as z from 'zod';

/** The content type of a stream of events. */
export const EVENT_STREAM = 'text/event-stream';

export const journalEvent = z.strictObject({
  /** Grows by one and is never used twice. */
  sequence: z.int().min(1),
  routingKey: z.string(),
  /** The signed JSON text, byte for byte as AMQP delivers it. */
  event: z.string(),
});

export const eventPage = z.strictObject({
  events: z.array(journalEvent),
  /** The sequence to continue after. */
  next: z.int().min(0),
  /** The sequence of the first event that is still kept. */
  firstKept: z.int().min(0),
  /** Events between `after` and `firstKept` are no longer kept. */
  gap: z.literal(true).optional(),
});
