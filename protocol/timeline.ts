/** The life of a command as steps with their times [C-13.2]. */
import * as z from 'zod';
import { commandLogEntry } from './command-log.ts';
import { formatInstant, instant } from './ids.ts';
import { SIGNATURE_VERDICTS } from './signing.ts';

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
  'EVENT_STORED',
  'EVENT_DELIVERED',
] as const;

export const timelineStep = z.strictObject({
  at: instant,
  step: z.enum(TIMELINE_STEPS),
  /** What the step decided or found. */
  reason: z.string().optional(),
  /** The device, for steps of the plant; the queue or the webhook, for EVENT_DELIVERED. */
  by: z.string().optional(),
  /** How often the command was sent so far. */
  attempt: z.int().optional(),
  /** Milliseconds since the step before. */
  tookMs: z.int(),
});
export type TimelineStep = z.infer<typeof timelineStep>;
/** A step that has no place among the others yet. */
export type UntimedStep = Omit<TimelineStep, 'at' | 'tookMs'> & { atMs: number };

/** A message for a device of the plant. */
export const plantMessage = z.strictObject({
  deviceId: z.string(),
  /** Null: the platform does not keep the message any more, and has planned it again. */
  cmdId: z.string().nullable(),
  action: z.string(),
  payload: z.record(z.string(), z.unknown()),
});
export type PlantMessage = z.infer<typeof plantMessage>;

export const timeline = z.strictObject({
  command: commandLogEntry,
  steps: z.array(timelineStep),
  /** The result of the check of the signature, and the timestamp of the message; null: not recorded. */
  signature: z.enum(SIGNATURE_VERDICTS).nullable(),
  timestamp: instant.nullable(),
  /** The messages to devices that the command leads to. */
  messages: z.array(plantMessage),
});

/** In the order of their times; steps of the same time stay in their order. */
export function timedSteps(steps: readonly UntimedStep[]): TimelineStep[] {
  const sorted = [...steps].sort((one, other) => one.atMs - other.atMs);
  return sorted.map(({ atMs, ...step }, index) => ({
    ...{ at: formatInstant(atMs), ...step },
    tookMs: atMs - (sorted[index - 1]?.atMs ?? atMs),
  }));
}
