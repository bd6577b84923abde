/** What frames of both kinds of link have in common. */
import { z } from 'zod';

export const seq = z.int().min(0);

/** The sequences of frames that are recorded for good. */
export const stored = z.object({ kind: z.literal('stored'), seqs: z.array(seq) });
