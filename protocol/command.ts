/** The command payloads that partners publish (spec: Command payloads; [C-7.4], [C-7.6]). */
import * as z from 'zod';
import { deviceCommandRule } from './asset.ts';
import {
  ASSET_TYPES,
  DEVICE_COMMAND_TYPES,
  DIRECTIONS,
  EMERGENCY_TYPES,
  OPERATING_MODES,
  PRIORITIES,
  SETPOINT_TYPES,
} from './enums.ts';
import { instant, parseInstant } from './ids.ts';
import { ACROSS_FIELDS, allIssues } from './issue.ts';
import { LIMIT } from './limits.ts';
import { percentage, positiveQuantity, reason } from './payload-fields.ts';
import { ok, type Result, refuse } from './result.ts';
import { type CommandFamily, type CommandType, FAMILY_RULES } from './routing-keys.ts';
import { scheduleCancel, scheduleSet } from './schedule.ts';
import { configPatch } from './site-config.ts';

export const siteSetpoint = z
  .strictObject({
    type: z.enum(SETPOINT_TYPES),
    targetValueKw: positiveQuantity.optional(),
    targetValueKwh: positiveQuantity.optional(),
    intervalMinutes: z.number().min(1).max(LIMIT.commandIntervalMinutes).optional(),
    direction: z.enum(DIRECTIONS),
    includeConsumption: z.boolean(),
    priority: z.enum(PRIORITIES),
    validFrom: instant,
    validUntil: instant.optional(),
  })
  .superRefine((setpoint, context) => {
    for (const field of requiredFor(setpoint.type)) {
      if (setpoint[field] !== undefined) continue;
      context.addIssue({ code: 'custom', path: [field], message: `required when type is ${setpoint.type}` });
    }
  }, ACROSS_FIELDS);
export type SiteSetpoint = z.infer<typeof siteSetpoint>;

function requiredFor(type: SiteSetpoint['type']) {
  if (type === 'POWER') return ['targetValueKw'] as const;
  return type === 'ENERGY' ? (['targetValueKwh', 'intervalMinutes'] as const) : [];
}

/** The requested grid power in kW, + = import. An energy quantum counts as its mean power [C-7.8]. */
export function targetSignedKw(setpoint: SiteSetpoint): number {
  const magnitude =
    setpoint.type === 'POWER'
      ? (setpoint.targetValueKw ?? 0)
      : ((setpoint.targetValueKwh ?? 0) * 60) / (setpoint.intervalMinutes ?? 60);
  return setpoint.direction === 'EXPORT' ? 0 - magnitude : magnitude;
}

export const deviceCommandItem = z
  .strictObject({
    deviceId: z.string().min(1).max(64),
    assetType: z.enum(ASSET_TYPES),
    command: z.enum(DEVICE_COMMAND_TYPES),
    params: z
      .strictObject({
        powerKw: positiveQuantity.optional(),
        percent: percentage.optional(),
        respectLimits: z.boolean().optional(),
      })
      .optional(),
  })
  .superRefine(({ command, params }, context) => {
    const field = DEVICE_COMMAND_TYPES.includes(command) ? deviceCommandRule(command).required : undefined;
    if (!field || params?.[field] !== undefined) return;
    context.addIssue({ code: 'custom', path: ['params', field], message: `required for ${command}` });
  }, ACROSS_FIELDS);
export type DeviceCommandItem = z.infer<typeof deviceCommandItem>;

export const deviceCommand = z.strictObject({
  commands: z.array(deviceCommandItem).min(1).max(LIMIT.commandsPerBatch),
});
export type DeviceCommand = z.infer<typeof deviceCommand>;

export const emergency = z.strictObject({ type: z.enum(EMERGENCY_TYPES), reason: reason.optional() });
export type Emergency = z.infer<typeof emergency>;

export const modeChange = z.strictObject({
  mode: z.enum(OPERATING_MODES),
  reason: reason.optional(),
  validUntil: instant.optional(),
});
export type ModeChange = z.infer<typeof modeChange>;

/** The payload schema of each command type. */
export const COMMAND_PAYLOADS = {
  SITE_SETPOINT: siteSetpoint,
  DEVICE_COMMAND: deviceCommand,
  EMERGENCY: emergency,
  MODE_CHANGE: modeChange,
  SCHEDULE: z.union([scheduleSet, scheduleCancel]),
  CONFIG: configPatch,
} satisfies Record<CommandType, z.ZodType>;

export type CommandPayload<T extends CommandType> = z.infer<(typeof COMMAND_PAYLOADS)[T]>;
export type CommandOf<T extends CommandType> = { commandType: T; payload: CommandPayload<T> };
export type Command = { [T in CommandType]: CommandOf<T> }[CommandType];

/** Families whose routing keys end in a verb: the payload schema of each verb [C-7.9]. */
const WORDS: Partial<Record<CommandFamily, Readonly<Record<string, z.ZodType>>>> = {
  schedule: { set: scheduleSet, cancel: scheduleCancel },
  config: { set: configPatch },
};

/** Parses a payload that was published with a routing key of a family. The refusal lists every invalid field. */
export function parsePublish(
  family: CommandFamily,
  routingKey: string,
  payloadText: string,
): Result<Command, string[]> {
  const { commandType } = FAMILY_RULES[family];
  const words = WORDS[family];
  if (!words) return parseCommand(commandType, payloadText);
  const word = routingKey.slice(routingKey.lastIndexOf('.') + 1);
  const schema = Object.hasOwn(words, word) ? words[word] : undefined;
  if (schema) return parseCommand(commandType, payloadText, schema);
  const known = Object.keys(words).map((name) => `${family}.${name}`);
  const those = `use ${known.join(' or ')}`;
  return refuse([`Unknown routing key ${family}.${word}; ${those}`]);
}

/** Parses the payload of a command. Null counts as absent [C-7.1]; in a merge patch it deletes a value. */
export function parseCommand(
  commandType: CommandType,
  payloadText: string,
  schema: z.ZodType = COMMAND_PAYLOADS[commandType],
): Result<Command, string[]> {
  const value: unknown = JSON.parse(payloadText);
  const parsed = schema.safeParse(commandType === 'CONFIG' ? value : withoutNulls(value));
  if (!parsed.success) return refuse(allIssues(parsed.error));
  return ok({ commandType, payload: parsed.data } as Command);
}

/** The time window of a rejected payload, in epoch milliseconds, as far as its times can be parsed. */
export function statedWindow(
  commandType: CommandType,
  payloadText: string,
): { fromMs?: number | undefined; untilMs?: number | undefined } {
  const fields = JSON.parse(payloadText) as Record<string, unknown>;
  const at = (field: unknown) => (typeof field === 'string' ? parseInstant(field) : undefined);
  const untilMs = at(fields.validUntil);
  if (commandType === 'SITE_SETPOINT') return { fromMs: at(fields.validFrom), untilMs };
  // The end of a schedule follows from its slots, which may be invalid. Other command types have no window.
  return commandType === 'MODE_CHANGE' ? { untilMs } : {};
}

/**
 * Maximum depth at which nulls are removed: payload, commands or slots, item, and the item's params or
 * setpoint.
 */
const LEVELS = 4;

function withoutNulls(value: unknown, levels = LEVELS): unknown {
  if (levels === 0 || typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => withoutNulls(item, levels - 1));
  const fields = Object.entries(value).filter(([, field]) => field !== null);
  return Object.fromEntries(fields.map(([name, field]) => [name, withoutNulls(field, levels - 1)]));
}
