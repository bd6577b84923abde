/**
 * What a device is told (spec: Device MQTT messages; [C-7.10]): the actions of the platform's own and the payload of each.
 * Any other action is between a device and whoever sends it over REST [C-3.4].
 */
import { z } from 'zod';
import { deviceCommandItem, emergency, modeChange, siteSetpoint } from './command.ts';
import { DEVICE_COMMAND_TYPES, type DeviceCommandType, OPERATING_MODES } from './enums.ts';
import { instant } from './ids.ts';
import { scheduleCancel } from './schedule.ts';
import { SIGNATURE } from './signing.ts';
import { constraints, fallback } from './site-config.ts';

/** kW at the grid, + = import. */
const signedKw = z.number();
const ramp = { maxRampKwPerMinute: z.number().optional() };

/** A partner's setpoint. */
const toldSetpoint = z.strictObject({ ...siteSetpoint.shape, targetSignedKw: signedKw, ...ramp });

/** A slot of a schedule whose time has come; one without a power is a MODE_CHANGE. */
const toldSlot = z.strictObject({
  scheduleId: z.string(),
  slotIndex: z.int(),
  mode: z.enum(OPERATING_MODES),
  validUntil: instant,
});

const toldSchedule = z.strictObject({
  scheduleId: z.string(),
  /** Of two for one moment the higher counts. */
  sequence: z.int(),
  startTime: instant,
  endTime: instant,
  slotDurationMinutes: z.number(),
  slots: z.array(
    z.strictObject({
      slotIndex: z.int(),
      mode: z.enum(OPERATING_MODES),
      setpoint: z.strictObject({ value: signedKw }).nullable(),
    }),
  ),
});

/** All that is in force, the stricter of both kinds of limits. */
const toldConfig = z.strictObject({
  constraints: constraints.nullable(),
  fallback: z
    .strictObject({
      ...fallback.shape,
      afterSeconds: fallback.shape.afterSeconds.unwrap(),
      setpointKw: fallback.shape.setpointKw.unwrap(),
    })
    .nullable(),
  operatingMode: z.enum(OPERATING_MODES),
});

const toldTargets = z.strictObject({
  targets: z
    .array(
      z.strictObject({
        deviceId: deviceCommandItem.shape.deviceId,
        assetType: deviceCommandItem.shape.assetType,
        params: z.strictObject({
          ...deviceCommandItem.shape.params.unwrap().shape,
          respectLimits: z.boolean(),
        }),
      }),
    )
    .min(1),
  validUntil: z.null(),
});

export const ACTION_PAYLOADS = {
  SITE_SETPOINT: z.union([
    toldSetpoint,
    z.strictObject({ ...toldSlot.shape, targetSignedKw: signedKw, ...ramp }),
  ]),
  MODE_CHANGE: z.union([modeChange, toldSlot]),
  EMERGENCY_STOP: emergency,
  EMERGENCY_HOLD: emergency,
  SCHEDULE_SET: toldSchedule,
  SCHEDULE_CANCEL: scheduleCancel,
  CONFIG_SET: toldConfig,
  TOKEN_REFRESH: z.strictObject({ token: z.string(), expiresAt: instant }),
  ...(Object.fromEntries(DEVICE_COMMAND_TYPES.map((command) => [command, toldTargets])) as Record<
    DeviceCommandType,
    typeof toldTargets
  >),
} satisfies Record<string, z.ZodType>;

export type Action = keyof typeof ACTION_PAYLOADS;
/** They have limits of their own that only a site's pipeline checks: nobody sends them over REST [C-3.4]. */
export const SITE_ACTIONS: readonly string[] = Object.keys(ACTION_PAYLOADS);

/** A command as a device gets it; `payload` by its action. */
export const toldCommand = z.strictObject({
  cmdId: z.string(),
  ts: z.int(),
  action: z.string(),
  payload: z.record(z.string(), z.unknown()),
  sig: z.string().regex(SIGNATURE),
});
