/** The command payloads that partners publish (spec: Command payloads; [C-7.4], [C-7.6]). */
import { z } from 'zod';
import {
  ASSET_TYPES,
  DEVICE_COMMAND_TYPES,
  DIRECTIONS,
  EMERGENCY_TYPES,
  OPERATING_MODES,
  PRIORITIES,
  SETPOINT_TYPES,
} from './enums.ts';
import { firstIssue } from './envelope.ts';
import { instant } from './ids.ts';
import { ok, type Result, refuse } from './result.ts';
import type { CommandFamily } from './routing-keys.ts';

/** No number of a command is larger than this [C-7.4]. -0 is read as 0. */
const MAX_MAGNITUDE = 1e9;
const quantity = z
  .number()
  .min(-MAX_MAGNITUDE)
  .max(MAX_MAGNITUDE)
  .transform((value) => value + 0);
const positiveQuantity = z
  .number()
  .min(0)
  .max(MAX_MAGNITUDE)
  .transform((value) => value + 0);
/** Characters, not UTF-16 units. */
const reason = z.string().refine((text) => [...text].length <= 500, 'at most 500 characters');
/** One week: an energy quantum over longer is a schedule. */
const MAX_INTERVAL_MINUTES = 10_080;

export const siteSetpoint = z
  .strictObject({
    type: z.enum(SETPOINT_TYPES),
    targetValueKw: positiveQuantity.optional(),
    targetValueKwh: positiveQuantity.optional(),
    intervalMinutes: z.number().min(1).max(MAX_INTERVAL_MINUTES).optional(),
    direction: z.enum(DIRECTIONS),
    includeConsumption: z.boolean(),
    priority: z.enum(PRIORITIES),
    validFrom: instant,
    validUntil: instant.optional(),
  })
  .superRefine((setpoint, context) => {
    const required =
      setpoint.type === 'POWER'
        ? (['targetValueKw'] as const)
        : (['targetValueKwh', 'intervalMinutes'] as const);
    for (const field of required) {
      if (setpoint[field] !== undefined) continue;
      context.addIssue({ code: 'custom', path: [field], message: `required when type is ${setpoint.type}` });
    }
  });
export type SiteSetpoint = z.infer<typeof siteSetpoint>;

/** The grid power that a setpoint asks for, kW, + = import. An energy quantum counts as its mean power [C-7.8]. */
export function targetSignedKw(setpoint: SiteSetpoint): number {
  const magnitude =
    setpoint.type === 'POWER'
      ? (setpoint.targetValueKw ?? 0)
      : ((setpoint.targetValueKwh ?? 0) * 60) / (setpoint.intervalMinutes ?? 60);
  return setpoint.direction === 'EXPORT' ? 0 - magnitude : magnitude;
}

export const deviceCommandItem = z.strictObject({
  deviceId: z.string().min(1).max(64),
  assetType: z.enum(ASSET_TYPES),
  command: z.enum(DEVICE_COMMAND_TYPES),
  params: z
    .strictObject({
      powerKw: positiveQuantity.optional(),
      percent: quantity.pipe(z.number().min(0).max(100)).optional(),
      respectLimits: z.boolean().optional(),
    })
    .optional(),
});
export type DeviceCommandItem = z.infer<typeof deviceCommandItem>;

export const MAX_COMMANDS_PER_BATCH = 32;

export const deviceCommand = z
  .strictObject({ commands: z.array(deviceCommandItem).min(1).max(MAX_COMMANDS_PER_BATCH) })
  .superRefine((batch, context) => {
    batch.commands.forEach((item, index) => {
      const field = REQUIRED_PARAM[item.command];
      if (!field || item.params?.[field] !== undefined) return;
      context.addIssue({
        code: 'custom',
        path: ['commands', index, 'params', field],
        message: `required for ${item.command}`,
      });
    });
  });
export type DeviceCommand = z.infer<typeof deviceCommand>;

/** [C-7.4] */
const REQUIRED_PARAM: Partial<Record<DeviceCommandItem['command'], 'percent' | 'powerKw'>> = {
  FVE_REDUCE_PERCENT: 'percent',
  FVE_REDUCE_POWER: 'powerKw',
};

export const emergency = z.strictObject({ type: z.enum(EMERGENCY_TYPES), reason: reason.optional() });
export type Emergency = z.infer<typeof emergency>;

export const modeChange = z.strictObject({
  mode: z.enum(OPERATING_MODES),
  reason: reason.optional(),
  validUntil: instant.optional(),
});
export type ModeChange = z.infer<typeof modeChange>;

export type Command =
  | { commandType: 'SITE_SETPOINT'; payload: SiteSetpoint }
  | { commandType: 'DEVICE_COMMAND'; payload: DeviceCommand }
  | { commandType: 'EMERGENCY'; payload: Emergency }
  | { commandType: 'MODE_CHANGE'; payload: ModeChange };

/** Reads the payload of a command family. The refusal says which field is wrong and how. */
export function parseCommand(family: CommandFamily, payloadText: string): Result<Command, string> {
  const value: unknown = JSON.parse(payloadText);
  switch (family) {
    case 'site-setpoint':
      return read('SITE_SETPOINT', siteSetpoint.safeParse(value));
    case 'device':
      return read('DEVICE_COMMAND', deviceCommand.safeParse(value));
    case 'emergency':
      return read('EMERGENCY', emergency.safeParse(value));
    case 'mode':
      return read('MODE_CHANGE', modeChange.safeParse(value));
  }
}

function read<CommandType extends Command['commandType'], Payload>(
  commandType: CommandType,
  parsed: z.ZodSafeParseResult<Payload>,
): Result<{ commandType: CommandType; payload: Payload }, string> {
  return parsed.success ? ok({ commandType, payload: parsed.data }) : refuse(firstIssue(parsed.error));
}
