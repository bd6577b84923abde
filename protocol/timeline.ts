/** The life of a command as steps with their times [C-13.2]. */
import * as z from 'zod';
import { commandLogEntry } from './command-log.ts';
import { instant } from './ids.ts';

export const TIMELINE_STEPS = [
  'PUBLISHED',
  'RECORDED',
  'JUDGED',
  'ACKNOWLEDGED',
  'PLANNED',
  'DISPATCHED',
  'DEVICE_RECEIVED',
  'DEVICE_STARTED',
  'DISPLACED',
  'RESUMED',
  'MEASURED',
  'ENDED',
] as const;

export const timelineStep = z.strictObject({
  at: instant,
  step: z.enum(TIMELINE_STEPS),
  /** What the step decided or found. */
  reason: z.string().optional(),
  /** The device, for steps of the plant. */
  by: z.string().optional(),
  /** How often the command was sent so far. */
  attempt: z.int().optional(),
  /** Milliseconds since the step before. */
  tookMs: z.int(),
});
export type TimelineStep = z.infer<typeof timelineStep>;

export const timeline = z.strictObject({ command: commandLogEntry, steps: z.array(timelineStep) });
