/**
 * Messages of the link between the bridge and the object of a client (Site or Vhost). Each WebSocket message is
 * a batch, a JSON array of frames; each direction has its own union of frames (`device.ts`, `vhost.ts`). The
 * bridge numbers the frames that need an answer. An answer lists the sequence number of every frame that it
 * answers; it does not include lower numbers. A frame may get new optional fields; any other change needs a new
 * `LINK_VERSION`, because bridges are updated after the edge.
 */
import type * as z from 'zod';
import { firstIssue } from '../issue.ts';
import { ok, type Result, refuse } from '../result.ts';

/** Limits of a batch. A frame that alone exceeds them is sent in a separate batch. */
export const MAX_BATCH_FRAMES = 256;
export const MAX_BATCH_CHARS = 256 * 1024;
/** Longer messages are rejected. Enough for one 256 KiB body with the worst JSON escaping. */
export const MAX_MESSAGE_CHARS = 2 * 1024 * 1024;

/**
 * Parses one link message. Frames are hostile input: validated, and limited in number and length. `usual` recognises
 * frequent frames without the schema: it returns what the schema would, or undefined for every frame in doubt.
 */
export function parseFrames<Frame>(
  schema: z.ZodType<Frame>,
  message: unknown,
  usual?: (value: unknown) => Frame | undefined,
): Result<Frame[], string> {
  if (typeof message !== 'string') return refuse('not text');
  if (message.length > MAX_MESSAGE_CHARS) return refuse('too long');
  let values: unknown;
  try {
    values = JSON.parse(message);
  } catch {
    return refuse('not JSON');
  }
  if (!Array.isArray(values) || values.length > MAX_BATCH_FRAMES)
    return refuse(`not a batch of at most ${MAX_BATCH_FRAMES} frames`);
  const frames: Frame[] = [];
  for (const value of values) {
    const known = usual?.(value);
    if (known) {
      frames.push(known);
      continue;
    }
    const parsed = schema.safeParse(value);
    if (!parsed.success) return refuse(firstIssue(parsed.error));
    frames.push(parsed.data);
  }
  return ok(frames);
}

/** Packs frames into as few messages as the limits allow. */
export function packFrames(frames: readonly unknown[]): string[] {
  const messages: string[] = [];
  for (let start = 0; start < frames.length; ) {
    const { message, count } = packFirst(frames, start);
    messages.push(message);
    start += count;
  }
  return messages;
}

/** One message with as many frames from `start` on as the limits allow, at least one, and how many those are. */
export function packFirst(frames: readonly unknown[], start = 0): { message: string; count: number } {
  const parts: string[] = [];
  let chars = 0;
  for (let index = start; index < frames.length && parts.length < MAX_BATCH_FRAMES; index++) {
    const text = JSON.stringify(frames[index]);
    if (parts.length > 0 && chars + text.length > MAX_BATCH_CHARS) break;
    parts.push(text);
    chars += text.length + 1;
  }
  return { message: `[${parts.join(',')}]`, count: parts.length };
}
