/**
 * Commands to devices (spec: Device MQTT messages; [C-7.10]): the actions that the platform defines, with the
 * payload of each. An admin may send any other action over REST [C-3.4]; its meaning is up to the admin and
 * the device.
 */
import * as z from 'zod';
import { deviceCommandItem, emergency, modeChange, siteSetpoint } from './command.ts';
import { DEVICE_COMMAND_TYPES, type DeviceCommandType, OPERATING_MODES } from './enums.ts';
import { instant } from './ids.ts';
import { scheduleCancel } from './schedule.ts';
import { SIGNATURE } from './signing.ts';
import { constraints, fallback } from './site-config.ts';

/** Power at the grid connection in kW, + = import. */
const signedKw = z.number();
const ramp = { maxRampKwPerMinute: z.number().optional() };

/** The payload of a partner's setpoint. */
const setpointCommand = z.strictObject({ ...siteSetpoint.shape, targetSignedKw: signedKw, ...ramp });

/** The payload of a schedule slot at its start. A slot without a setpoint is sent as MODE_CHANGE. */
const slotCommand = z.strictObject({
  scheduleId: z.string(),
  slotIndex: z.int(),
  mode: z.enum(OPERATING_MODES),
  validUntil: instant,
});

const scheduleCommand = z.strictObject({
  scheduleId: z.string(),
  /** If two schedules cover the same time, the one with the higher sequence wins. */
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

/** A device does not get the `reason` of a partner, see `toDevices`. */
const NO_REASON = { reason: true } as const;

/** The complete active configuration; each limit is the stricter of `constraints` and `hardLimits`. */
const configCommand = z.strictObject({
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

const targetsCommand = z.strictObject({
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
    setpointCommand,
    z.strictObject({ ...slotCommand.shape, targetSignedKw: signedKw, ...ramp }),
  ]),
  MODE_CHANGE: z.union([modeChange.omit(NO_REASON), slotCommand]),
  EMERGENCY_STOP: emergency.omit(NO_REASON),
  EMERGENCY_HOLD: emergency.omit(NO_REASON),
  SCHEDULE_SET: scheduleCommand,
  SCHEDULE_CANCEL: scheduleCancel.omit(NO_REASON),
  CONFIG_SET: configCommand,
  TOKEN_REFRESH: z.strictObject({ token: z.string(), expiresAt: instant }),
  ...(Object.fromEntries(DEVICE_COMMAND_TYPES.map((command) => [command, targetsCommand])) as Record<
    DeviceCommandType,
    typeof targetsCommand
  >),
} satisfies Record<string, z.ZodType>;

export type Action = keyof typeof ACTION_PAYLOADS;
/** Actions that are rejected over REST [C-3.4]: only the site's command pipeline checks their limits. */
export const SITE_ACTIONS: readonly string[] = Object.keys(ACTION_PAYLOADS);

/** A command as a device receives it; `action` determines the payload. */
export const mqttCommand = z.strictObject({
  cmdId: z.string(),
  ts: z.int(),
  action: z.string(),
  payload: z.record(z.string(), z.unknown()),
  sig: z.string().regex(SIGNATURE),
});
