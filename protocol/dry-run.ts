/** Dry runs: what a command would be answered, and what would happen, without anything happening [C-13.1]. */
import * as z from 'zod';
import { acknowledgement } from './event.ts';
import { instant } from './ids.ts';
import { ACROSS_FIELDS } from './issue.ts';
import { LIMIT } from './limits.ts';
import { publishRequest } from './rest-publish.ts';

/** One command: the text that would be published. `ignoreSignature`: judge it as if no signature were needed. */
export const dryRunCommand = publishRequest.extend({ ignoreSignature: z.boolean().optional() });
export type DryRunCommand = z.infer<typeof dryRunCommand>;

/** One command, or several; of several each is judged after those before it. */
export const dryRunRequest = dryRunCommand
  .partial()
  .extend({ commands: z.array(dryRunCommand).min(1).max(LIMIT.dryRunCommands).optional() })
  .superRefine(({ commands, ...single }, context) => {
    const given = Object.entries(single).filter(([, value]) => value !== undefined);
    const say = (field: string, message: string) =>
      context.addIssue({ code: 'custom', path: [field], message });
    if (commands && given.length > 0)
      say(
        'commands',
        'send either commands, or routingKey and message; with commands, ignoreSignature belongs to each entry',
      );
    if (commands) return;
    for (const field of ['routingKey', 'message'] as const)
      if (single[field] === undefined) say(field, 'required without commands');
  }, ACROSS_FIELDS);

/** The checks of a command in their order, and `plan` or `dispatch` for what follows an accepted one [C-7.4]. */
export const STAGES = [
  'signature',
  'repeat',
  'freshness',
  'payload',
  'window',
  'target',
  'constraint',
  'asset',
  'topology',
  'fault',
] as const;

/**
 * The places of the plan stack, highest first. STOP and HOLD: an active emergency; SLOT: a slot of a schedule; MODE: the
 * operating mode, while nothing else is active.
 */
export const PLAN_LEVELS = ['EMERGENCY', 'STOP', 'HOLD', 'HIGH', 'SLOT', 'NORMAL', 'MODE'] as const;
export type PlanLevel = (typeof PLAN_LEVELS)[number];
const level = z.enum(PLAN_LEVELS);

export const admissible = z.strictObject({
  field: z.string(),
  unit: z.enum(['kW', 'kWh', '%']),
  min: z.number().optional(),
  max: z.number().optional(),
});
export type Admissible = z.infer<typeof admissible>;

/**
 * One check. `skipped`: an earlier check decided, or there was nothing to check. A batch has an entry for each refused
 * item, a schedule for each refused slot.
 */
export const dryRunStage = z.strictObject({
  stage: z.enum(STAGES),
  outcome: z.enum(['ok', 'refused', 'skipped']),
  message: z.string().optional(),
  /** The sub-device of a refused item. */
  deviceId: z.string().optional(),
  /** The number of a refused slot. */
  slot: z.int().optional(),
  constraint: z.string().optional(),
  limit: z.number().optional(),
  value: z.number().optional(),
  unit: z.enum(['kW', '%']).optional(),
  /** The nearest value of a field that is accepted; absent if no value of that field is. */
  admissible: admissible.optional(),
});
export type DryRunStage = z.infer<typeof dryRunStage>;

/** An MQTT command that the plant would get. `from` null: when the device is connected again. */
export const plantCommand = z.strictObject({
  deviceId: z.string(),
  action: z.string(),
  payload: z.record(z.string(), z.unknown()),
  from: instant.nullable(),
  until: instant.nullable(),
});

/** What would happen. A command of another key has no id here. */
export const dryRunPlan = z.strictObject({
  /** Whether the command is what the plant does from now on; null: the command has no place in the plan. */
  onTop: z.boolean().nullable(),
  /** The commands that it ends, or that wait below it from now on. */
  displaces: z.array(
    z.strictObject({
      commandId: z.string().nullable(),
      /** Null: the command has no place in the plan. */
      level: level.nullable(),
      /** The reason with which it ends; null: it waits. */
      ends: z.string().nullable(),
    }),
  ),
  waitsBelow: z.strictObject({ level, commandId: z.string().nullable() }).nullable(),
  plantCommand: plantCommand.nullable(),
  /** The MQTT commands of a batch or an emergency after the first one. */
  alsoSent: z.array(plantCommand).optional(),
  /** When the command above it ends; null: it waits below none, or that one has no end. */
  resumesAfter: instant.nullable(),
});

export const dryRunAnswer = z.strictObject({
  acknowledgement,
  /** The messageId was used by this command before: publishing it again has no effect. */
  repeated: z.literal(true).optional(),
  decidedBy: z.enum([...STAGES, 'plan', 'dispatch']),
  stages: z.array(dryRunStage),
  /** Null: the command has no effect. */
  plan: dryRunPlan.nullable(),
  /** What the answer is true for: while `sequence` is the same, only the time can make another answer differ. */
  asOf: z.strictObject({
    sequence: z.int(),
    configVersion: z.string(),
    telemetryAt: instant.nullable(),
    gateway: z.enum(['CONNECTED', 'AWAY', 'NONE']),
  }),
});
export type DryRunAnswer = z.infer<typeof dryRunAnswer>;

export const dryRunAnswers = z.union([dryRunAnswer, z.strictObject({ results: z.array(dryRunAnswer) })]);
