/** Events: their envelope and payloads (spec: Events; [C-7.5], [C-8.3]). */
import * as z from 'zod';
import { RULE_ALERT_TYPES } from './alert.ts';
import {
  ACKNOWLEDGEMENT_STATUSES,
  DEVICE_COMMAND_TYPES,
  EXECUTION_STATUSES,
  REJECTION_CODES,
} from './enums.ts';
import { SOURCE, VCP_VERSION } from './envelope.ts';
import { instant } from './ids.ts';
import { COMMAND_TYPES, type EventKind } from './routing-keys.ts';
import { SIGNATURE } from './signing.ts';
import { canonicalTelemetry } from './telemetry.ts';

export const commandResult = z.strictObject({
  index: z.int().min(0),
  deviceId: z.string(),
  command: z.enum(DEVICE_COMMAND_TYPES),
  status: z.enum(['ACCEPTED', 'REJECTED', 'QUEUED']),
  rejectionCode: z.enum(REJECTION_CODES).optional(),
  message: z.string().optional(),
});
export type CommandResult = z.infer<typeof commandResult>;

export const acknowledgement = z.strictObject({
  status: z.enum(ACKNOWLEDGEMENT_STATUSES),
  commandType: z.enum(COMMAND_TYPES),
  message: z.string().optional(),
  rejectionCode: z.enum(REJECTION_CODES).optional(),
  results: z.array(commandResult).optional(),
});
export type Acknowledgement = z.infer<typeof acknowledgement>;

export const execution = z.strictObject({
  commandType: z.enum(COMMAND_TYPES),
  status: z.enum(EXECUTION_STATUSES),
  actualValueKw: z.number().optional(),
  targetValueKw: z.number().optional(),
  deviationKw: z.number().optional(),
  // ENERGY setpoints only [C-7.8].
  actualValueKwh: z.number().optional(),
  targetValueKwh: z.number().optional(),
  deviationKwh: z.number().optional(),
  reason: z.string().optional(),
});
export type Execution = z.infer<typeof execution>;

export const ALARM_TYPES = [
  'CONSTRAINT_VIOLATION',
  'SETPOINT_DEVIATION',
  'DEVICE_OFFLINE',
  'DEVICE_FAULT',
  'SITE_OFFLINE',
  'FALLBACK_ENGAGED',
  'COMMAND_EXPIRED',
  'METER_STALE',
  'DEVICE_SUSPENDED',
] as const;

export const alarm = z.strictObject({
  alarmId: z.string(),
  /** ALERT: an alert rule of the organization caused it [C-9]; absent: the platform did. */
  kind: z.literal('ALERT').optional(),
  type: z.enum([...ALARM_TYPES, ...RULE_ALERT_TYPES]),
  severity: z.enum(['INFO', 'WARNING', 'CRITICAL']),
  status: z.enum(['RAISED', 'CLEARED']),
  message: z.string(),
  deviceId: z.string().optional(),
  commandType: z.enum(COMMAND_TYPES).optional(),
  constraint: z.string().optional(),
  limit: z.number().optional(),
  value: z.number().optional(),
  unit: z.string().optional(),
  ruleId: z.string().optional(),
  metric: z.string().optional(),
  raisedAt: instant,
  clearedAt: instant.optional(),
});
export type Alarm = z.infer<typeof alarm>;

export const EVENT_PAYLOADS = {
  telemetry: canonicalTelemetry,
  alarm,
  ack: acknowledgement,
  execution,
} satisfies Record<EventKind, z.ZodType>;

/** An event as a partner receives it; its kind determines the payload. */
export const eventEnvelope = z.strictObject({
  version: z.literal(VCP_VERSION),
  messageId: z.string().meta({ format: 'uuid' }),
  correlationId: z.string().optional(),
  timestamp: instant,
  source: z.literal(SOURCE),
  /** The site's id. If the key may use no such site: the `siteId` of the command. */
  siteId: z.string(),
  payload: z.record(z.string(), z.unknown()),
  /** Absent if the correlationId contains `|`, the separator of the signed text. */
  signature: z.string().regex(SIGNATURE).optional(),
});
