/**
 * The link between the bridge and the object that owns a client: one union of frames each way (`device.ts`,
 * `vhost.ts`). One WebSocket message is a JSON array of frames. Sequences are the sender's own; an answer names them, never a watermark.
 * Both sides of a deploy run for a while: a frame may gain optional fields, never lose or re-mean one.
 */
import type { z } from 'zod';
import { firstIssue } from '../issue.ts';
import { ok, type Result, refuse } from '../result.ts';

/** A message is closed at either; a single frame larger than that travels alone. */
export const MAX_BATCH_FRAMES = 256;
export const MAX_BATCH_CHARS = 256 * 1024;
/** Nothing longer is read: one 256 KiB body in JSON's worst escaping. */
export const MAX_MESSAGE_CHARS = 2 * 1024 * 1024;

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
