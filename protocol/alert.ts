/**
 * Alerts [C-9]: an organization's rules about its telemetry, and the alerts that these rules opened. Both
 * have the same REST path and differ by `kind`.
 */
import * as z from 'zod';
import { uuid } from './ids.ts';
import { ACROSS_FIELDS } from './issue.ts';
import { LIMIT } from './limits.ts';
import { plainText } from './text.ts';
import { displayName } from './user.ts';

export const ALERT_KINDS = ['ALERT', 'RULE'] as const;
export const ALERT_SEVERITIES = ['INFO', 'WARNING', 'CRITICAL'] as const;
export type AlertSeverity = (typeof ALERT_SEVERITIES)[number];
/** `ABSENT`: the metric was not received for `forSeconds`. */
export const ALERT_OPERATORS = ['GT', 'GTE', 'LT', 'LTE', 'EQ', 'NE', 'ABSENT'] as const;
export type AlertOperator = (typeof ALERT_OPERATORS)[number];
export const ALERT_STATUSES = ['ACTIVE', 'ACKNOWLEDGED', 'RESOLVED'] as const;
export type AlertStatus = (typeof ALERT_STATUSES)[number];
/** The types of the alerts that rules open: their alarms are events of partners, too. */
export const RULE_ALERT_TYPES = ['THRESHOLD', 'ABSENT'] as const;
export type RuleAlertType = (typeof RULE_ALERT_TYPES)[number];
/** `WEBHOOK`: a webhook was disabled [C-12.4]. */
export const ALERT_TYPES = [...RULE_ALERT_TYPES, 'WEBHOOK'] as const;
export type AlertType = (typeof ALERT_TYPES)[number];

const seconds = z.int().min(0).max(LIMIT.alertSecondsMax);
const threshold = z.number().min(-LIMIT.signalMagnitude).max(LIMIT.signalMagnitude);
const note = plainText.max(LIMIT.alertNoteCharacters);

/** The fields of a rule that may be changed. The target (plant or device) is fixed. */
const RULE = {
  name: displayName,
  severity: z.enum(ALERT_SEVERITIES),
  metric: plainText.min(1).max(LIMIT.metricCharacters),
  operator: z.enum(ALERT_OPERATORS),
  threshold: threshold.nullable(),
  forSeconds: seconds,
  cooldownSeconds: seconds.min(LIMIT.alertCooldownSecondsMin),
  enabled: z.boolean(),
  /** The members who get a mail when an alert begins and when it ends. */
  mailTo: z
    .array(uuid)
    .max(LIMIT.alertRecipients)
    .refine((ids) => new Set(ids).size === ids.length, 'must not contain a member twice'),
};

/**
 * Target: a plant; or a device, whose metric names are those that it sends; or, with neither, every plant of
 * the organization.
 */
export const alertRuleRequest = z
  .strictObject({
    ...RULE,
    plantId: uuid.nullable().optional(),
    deviceId: uuid.nullable().optional(),
    threshold: RULE.threshold.optional(),
    forSeconds: seconds.optional(),
    cooldownSeconds: RULE.cooldownSeconds.default(LIMIT.alertCooldownSeconds),
    enabled: z.boolean().default(true),
    mailTo: RULE.mailTo.default([]),
  })
  .refine(({ plantId, deviceId }) => !(plantId && deviceId), {
    message: 'plantId, deviceId: at most one of them is allowed: omit the other',
    ...ACROSS_FIELDS,
  })
  .refine(isWhole, {
    path: ['threshold'],
    message: 'required unless operator is ABSENT',
    ...ACROSS_FIELDS,
  })
  .refine(waitsForAbsence, {
    path: ['forSeconds'],
    message: 'must be at least 1 when operator is ABSENT',
    ...ACROSS_FIELDS,
  });
export type AlertRuleRequest = z.infer<typeof alertRuleRequest>;

/** A PATCH of a rule (its fields) or of an alert (`severity` and `note`). Omitted fields stay unchanged. */
export const alertChange = z.strictObject({ ...RULE, note: note.nullable() }).partial();
export type AlertChange = z.infer<typeof alertChange>;

export const alertAction = z.strictObject({ note: note.optional() });

/** The fields of a rule that depend on each other. */
interface Condition {
  operator: AlertOperator;
  threshold?: number | null | undefined;
  forSeconds?: number | undefined;
}

/** Whether the rule has a threshold if its operator needs one. */
export function isWhole({ operator, threshold: against }: Condition): boolean {
  return operator === 'ABSENT' || (against !== undefined && against !== null);
}

/** Whether an ABSENT rule has a waiting time. Without one it would fire all the time. */
export function waitsForAbsence({ operator, forSeconds }: Condition): boolean {
  return operator !== 'ABSENT' || forSeconds !== 0;
}

/**
 * The value of `forSeconds`, or its default. The default for ABSENT is not 0, because a device that sends
 * once a minute is silent in between.
 */
export function forSecondsOf({ operator, forSeconds }: Condition): number {
  return forSeconds ?? (operator === 'ABSENT' ? LIMIT.alertAbsentSeconds : 0);
}

export const alertRuleRecord = z.strictObject({
  id: z.string(),
  kind: z.literal('RULE'),
  ...RULE,
  mailTo: z.array(z.string()),
  plantId: z.string().nullable(),
  deviceId: z.string().nullable(),
  createdAt: z.string(),
  updatedAt: z.string(),
});
export type AlertRuleRecord = z.infer<typeof alertRuleRecord>;

export const alertRecord = z.strictObject({
  id: z.string(),
  kind: z.literal('ALERT'),
  ruleId: z.string().nullable(),
  type: z.enum(ALERT_TYPES),
  severity: z.enum(ALERT_SEVERITIES),
  status: z.enum(ALERT_STATUSES),
  plantId: z.string().nullable(),
  deviceId: z.string().nullable(),
  message: z.string(),
  value: z.number().nullable(),
  threshold: z.number().nullable(),
  firstSeenAt: z.string(),
  lastSeenAt: z.string(),
  /** How often the condition began while the alert was open. */
  count: z.int().min(1),
  note: z.string().nullable(),
  acknowledgedBy: z.string().nullable(),
  acknowledgedAt: z.string().nullable(),
  /** Null while the alert is open, and if it resolved itself. */
  resolvedBy: z.string().nullable(),
  resolvedAt: z.string().nullable(),
});
export type AlertRecord = z.infer<typeof alertRecord>;
