/** Why a site does what it does: the plan at a moment, and its changes [C-13.3]. */
import * as z from 'zod';
import { PLAN_LEVELS } from './dry-run.ts';
import { OPERATING_MODES } from './enums.ts';
import { instant } from './ids.ts';
import { constraints } from './site-config.ts';

/**
 * What changed. COMMAND: a command was recorded; COMMAND_ENDED: one ended, for `reason`; WINDOW_OPENED, WINDOW_ENDED: the
 * window of a setpoint or slot; EMERGENCY_RELEASED: a mode ended an emergency; MODE: the mode in force; SCHEDULE: what
 * waits below the target has another end; CONFIGURATION: the limits; SENT: the target was sent to the plant; ACKNOWLEDGED:
 * the plant acknowledged it; UNANSWERED: it answered FAILED, or did not answer; GATEWAY_CONNECTED, GATEWAY_AWAY: the
 * session of the gateway; FALLBACK_ENGAGED, FALLBACK_ENDED; BEGINNING: the first entry.
 */
export const PLAN_CAUSES = [
  'COMMAND',
  'COMMAND_ENDED',
  'WINDOW_OPENED',
  'WINDOW_ENDED',
  'EMERGENCY_RELEASED',
  'MODE',
  'SCHEDULE',
  'CONFIGURATION',
  'SENT',
  'ACKNOWLEDGED',
  'UNANSWERED',
  'GATEWAY_CONNECTED',
  'GATEWAY_AWAY',
  'FALLBACK_ENGAGED',
  'FALLBACK_ENDED',
  'BEGINNING',
] as const;
export type PlanCauseKind = (typeof PLAN_CAUSES)[number];

export const planCause = z.strictObject({
  cause: z.enum(PLAN_CAUSES),
  /** Null: no command caused it, or another key's. */
  commandId: z.string().nullable(),
  reason: z.string().nullable(),
});
export type PlanCause = z.infer<typeof planCause>;

/** What has a place in the plan: a setpoint, a slot, an emergency, or the mode in force. */
export const planPlace = z.strictObject({
  level: z.enum(PLAN_LEVELS),
  /** Null: the mode in force, or another key's command. */
  commandId: z.string().nullable(),
  /** Signed grid power, + = import; null: it asks for none. */
  kw: z.number().nullable(),
  mode: z.enum(OPERATING_MODES).nullable(),
  slot: z.int().nullable(),
  until: instant.nullable(),
});
export type PlanPlace = z.infer<typeof planPlace>;

const SESSIONS = ['CONNECTED', 'AWAY', 'NONE'] as const;

/** A moment. Fields are null if the journal does not reach back to it. */
export const explanation = z.strictObject({
  at: instant,
  sentence: z.string(),
  target: planPlace.nullable(),
  /** Since when it is the target, and why. */
  since: instant.nullable(),
  by: planCause.nullable(),
  /** Highest first; `why`: what it waits below. */
  waiting: z.array(planPlace.extend({ why: z.string() })),
  /** The limits in force, the stricter of the site's and the hard ones. */
  limits: constraints.nullable(),
  emergency: z.enum(['STOP', 'HOLD']).nullable(),
  mode: z.enum(OPERATING_MODES).nullable(),
  session: z.enum(SESSIONS).nullable(),
  /** Whether the plant probably ran its fallback. */
  fallback: z.boolean().nullable(),
  configVersion: z.string().nullable(),
  /** When the plant was sent the target, and when it acknowledged it; null: it was not. */
  sent: z.strictObject({ at: instant, acknowledgedAt: instant.nullable() }).nullable(),
  measured: z
    .strictObject({
      kw: z.number().nullable(),
      expectedKw: z.number().nullable(),
      /** Null: no power is expected. COMPLETED, DEVIATED: the verdict on the command, which has ended. */
      verdict: z.enum(['FOLLOWS', 'DEVIATES', 'SETTLING', 'UNMEASURED', 'COMPLETED', 'DEVIATED']).nullable(),
    })
    .nullable(),
});
export type Explanation = z.infer<typeof explanation>;

/** One entry of the plan history. */
export const planChange = planCause.extend({
  at: instant,
  target: planPlace,
  waiting: z.array(planPlace),
  session: z.enum(SESSIONS),
});
export type PlanChange = z.infer<typeof planChange>;

/** `next`: the `from` of the next request; null: that was the last change before `to`. */
export const planChanges = z.strictObject({ changes: z.array(planChange), next: instant.nullable() });

/** Answers of one route: with `at`, or without parameters, a moment; with `from` and `to` the changes. */
export const explainAnswer = z.union([explanation, planChanges]);
