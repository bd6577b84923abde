/**
 * The link of an event stream between the Worker, which serves the client, and the Vhost or Site, which has the events.
 * The Worker asks for events after a sequence, and for how much of them; the object sends a page as soon as it has
 * something, and is silent until then. So a slow client holds up only its own stream.
 */
import * as z from 'zod';
import { EVENT_KINDS } from '../routing-keys.ts';

/** The header in which the Worker passes the filter of a new stream, as JSON of `streamFilter`. */
export const STREAM_HEADER = 'sitewire-stream';

export const streamFilter = z.object({
  kinds: z.array(z.enum(EVENT_KINDS)).optional(),
  siteIds: z.array(z.string()).optional(),
});
export type StreamFilter = z.infer<typeof streamFilter>;

/** The header in which a Site answers the sequence of its last event to the Worker that opens a stream. */
export const STREAM_LAST_HEADER = 'sitewire-stream-last';

/**
 * Up: the Worker wants events after this sequence, on pages with together this many characters, and the page with which
 * they have them.
 */
export const streamUp = z.object({ after: z.int().min(0), chars: z.int().min(1) });
/** How many characters a Worker asks for: so much of a slow client's stream may wait in the Worker. */
export const STREAM_CHARS = 256 * 1_024;

/** Down: one page. */
export const streamDown = z.object({
  events: z.array(z.object({ sequence: z.int(), kind: z.enum(EVENT_KINDS), body: z.string() })),
  /** The sequence to continue after. */
  next: z.int(),
  /** Set if events before this sequence are no longer kept, and the client has not had them. */
  firstKept: z.int().optional(),
  /** How many of the characters are left that the Worker has asked for; absent: none. */
  left: z.int().optional(),
});
export type StreamDown = z.infer<typeof streamDown>;
