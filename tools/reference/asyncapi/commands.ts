/**
 * What the AsyncAPI document contains for each command: its operation and payload for partners, its form and
 * payload for devices, and an example of each. A new command kind is added here and nowhere else in this
 * folder.
 */
import { ACTION_PAYLOADS } from '../../../protocol/action.ts';
import { deviceCommand, emergency, modeChange, siteSetpoint } from '../../../protocol/command.ts';
import { DEVICE_COMMAND_TYPES } from '../../../protocol/enums.ts';
import type { CommandFamily } from '../../../protocol/routing-keys.ts';
import { scheduleCancel, scheduleSet } from '../../../protocol/schedule.ts';
import { configPatch } from '../../../protocol/site-config.ts';
import { command, publish, SCHEDULE_ID } from './examples.ts';

/**
 * The payloads by the names of their schemas: those that partners publish and, where they differ, those that
 * devices receive.
 */
export const PAYLOADS = {
  SiteSetpoint: siteSetpoint,
  DeviceCommand: deviceCommand,
  Emergency: emergency,
  ModeChange: modeChange,
  ScheduleSet: scheduleSet,
  ScheduleCancel: scheduleCancel,
  ConfigPatch: configPatch,
  SetpointPayload: ACTION_PAYLOADS.SITE_SETPOINT,
  ModePayload: ACTION_PAYLOADS.MODE_CHANGE,
  SchedulePayload: ACTION_PAYLOADS.SCHEDULE_SET,
  ConfigPayload: ACTION_PAYLOADS.CONFIG_SET,
  TargetsPayload: ACTION_PAYLOADS[DEVICE_COMMAND_TYPES[0]],
  TokenPayload: ACTION_PAYLOADS.TOKEN_REFRESH,
};
type PayloadName = keyof typeof PAYLOADS;

export const PUBLISHES = {
  SiteSetpoint: publish('command.site-setpoint', {
    type: 'POWER',
    targetValueKw: 42.5,
    direction: 'IMPORT',
    includeConsumption: true,
    priority: 'HIGH',
    validFrom: '2026-01-15T10:00:00Z',
    validUntil: '2026-01-15T10:15:00Z',
  }),
  EnergySetpoint: publish('command.site-setpoint', {
    type: 'ENERGY',
    targetValueKwh: 10,
    intervalMinutes: 15,
    direction: 'EXPORT',
    includeConsumption: true,
    priority: 'NORMAL',
    validFrom: '2026-01-15T10:00:00Z',
  }),
  DeviceCommand: publish('command.device', {
    commands: [
      { deviceId: 'BESS-1', assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw: 12.5 } },
      { deviceId: 'FVE-1', assetType: 'FVE', command: 'FVE_REDUCE_PERCENT', params: { percent: 60 } },
    ],
  }),
  Emergency: publish('command.emergency', { type: 'STOP', reason: 'grid operator asked for it' }),
  ModeChange: publish('command.mode', { mode: 'PEAK_SHAVING', validUntil: '2026-01-15T18:00:00Z' }),
  ScheduleSet: publish('schedule.set', {
    scheduleId: SCHEDULE_ID,
    startTime: '2026-01-16T00:00:00Z',
    slotDurationMinutes: 15,
    slots: [
      { slotIndex: 0, mode: 'STANDARD', setpoint: { value: 40 } },
      { slotIndex: 1, mode: 'PEAK_SHAVING' },
    ],
  }),
  ScheduleCancel: publish('schedule.cancel', { scheduleId: SCHEDULE_ID, reason: 'price changed' }),
  ConfigPatch: publish('config.set', {
    constraints: { maxImportKw: 100, maxChargeKw: null },
    fallback: { mode: 'STANDARD', afterSeconds: 600, action: 'HOLD' },
  }),
};

interface Publish {
  family: CommandFamily;
  /** Replaces the last word of the family's routing key; absent: the routing key is used as it is. */
  word?: string;
  summary: string;
  payload: PayloadName & keyof typeof PUBLISHES;
  /** Names of examples. Absent: one example, which has the name of the payload. */
  examples?: (keyof typeof PUBLISHES)[];
}

export const PUBLISH_OPERATIONS: Record<string, Publish> = {
  siteSetpoint: {
    family: 'site-setpoint',
    summary: 'Set a power or energy target for a site',
    payload: 'SiteSetpoint',
    examples: ['SiteSetpoint', 'EnergySetpoint'],
  },
  deviceCommand: {
    family: 'device',
    summary: 'Send a batch of commands to sub-devices; the routing key may have one more word',
    payload: 'DeviceCommand',
  },
  emergency: {
    family: 'emergency',
    summary: 'Stop all assets, or freeze their output, until a mode change',
    payload: 'Emergency',
  },
  modeChange: {
    family: 'mode',
    summary: 'Set the operating mode, which applies while no setpoint is active',
    payload: 'ModeChange',
  },
  scheduleSet: {
    family: 'schedule',
    summary: 'Set a schedule',
    payload: 'ScheduleSet',
  },
  scheduleCancel: {
    family: 'schedule',
    word: 'cancel',
    summary: 'Cancel a schedule',
    payload: 'ScheduleCancel',
  },
  configSet: {
    family: 'config',
    summary: 'Change limits, fallback and operating mode with a merge patch (RFC 7396)',
    payload: 'ConfigPatch',
  },
};

export const COMMAND_EXAMPLES = {
  BESS_CHARGE: command('BESS_CHARGE', {
    targets: [{ deviceId: 'BESS-1', assetType: 'BESS', params: { powerKw: 12.5, respectLimits: true } }],
    validUntil: null,
  }),
  SITE_SETPOINT: command('SITE_SETPOINT', {
    ...PUBLISHES.SiteSetpoint.message.payload,
    targetSignedKw: 42.5,
    maxRampKwPerMinute: 30,
  }),
  SLOT_SETPOINT: command('SITE_SETPOINT', {
    scheduleId: SCHEDULE_ID,
    slotIndex: 0,
    mode: 'STANDARD',
    targetSignedKw: 40,
    validUntil: '2026-01-16T00:15:00.000Z',
  }),
  MODE_CHANGE: command('MODE_CHANGE', { mode: 'PEAK_SHAVING', validUntil: '2026-01-15T18:00:00Z' }),
  SLOT_MODE: command('MODE_CHANGE', {
    scheduleId: SCHEDULE_ID,
    slotIndex: 1,
    mode: 'PEAK_SHAVING',
    validUntil: '2026-01-16T00:30:00.000Z',
  }),
  EMERGENCY_STOP: command('EMERGENCY_STOP', { type: 'STOP' }),
  EMERGENCY_HOLD: command('EMERGENCY_HOLD', { type: 'HOLD' }),
  SCHEDULE_SET: command('SCHEDULE_SET', {
    scheduleId: SCHEDULE_ID,
    sequence: 6,
    startTime: '2026-01-16T00:00:00.000Z',
    endTime: '2026-01-16T00:30:00.000Z',
    slotDurationMinutes: 15,
    slots: [
      { slotIndex: 0, mode: 'STANDARD', setpoint: { value: 40 } },
      { slotIndex: 1, mode: 'PEAK_SHAVING', setpoint: null },
    ],
  }),
  SCHEDULE_CANCEL: command('SCHEDULE_CANCEL', { scheduleId: SCHEDULE_ID }),
  CONFIG_SET: command('CONFIG_SET', {
    constraints: {
      maxImportKw: 100,
      maxExportKw: 90,
      maxChargeKw: null,
      maxDischargeKw: 50,
      minSocPercent: 10,
      maxSocPercent: 95,
      maxRampKwPerMinute: null,
    },
    fallback: { mode: 'STANDARD', afterSeconds: 600, action: 'HOLD', setpointKw: null },
    operatingMode: 'STANDARD',
  }),
  TOKEN_REFRESH: command('TOKEN_REFRESH', {
    token: 'eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiIzZjJiIn0.c2lnbmF0dXJl',
    expiresAt: '2026-01-15T11:00:00.000Z',
  }),
  REBOOT: command('REBOOT', { delaySeconds: 5 }),
};

interface CommandForm {
  /** The actions that share this form. Absent: the form is for all actions that no other form lists. */
  action?: readonly string[];
  summary: string;
  /** Absent: the payload may be any object. */
  payload?: PayloadName;
  /** Names of examples. Absent: one example for each action. */
  examples?: (keyof typeof COMMAND_EXAMPLES)[];
}

export const COMMAND_FORMS: Record<string, CommandForm> = {
  setpointCommand: {
    action: ['SITE_SETPOINT'],
    summary: 'Hold this power until `validUntil` or another action replaces it',
    payload: 'SetpointPayload',
    examples: ['SITE_SETPOINT', 'SLOT_SETPOINT'],
  },
  modeCommand: {
    action: ['MODE_CHANGE'],
    summary: 'Run in this operating mode',
    payload: 'ModePayload',
    examples: ['MODE_CHANGE', 'SLOT_MODE'],
  },
  emergencyCommand: {
    action: ['EMERGENCY_STOP', 'EMERGENCY_HOLD'],
    summary: 'Stop all assets, or freeze their output, until a mode change',
    payload: 'Emergency',
  },
  scheduleCommand: {
    action: ['SCHEDULE_SET'],
    summary: 'Store this schedule and follow it while the platform is unreachable',
    payload: 'SchedulePayload',
  },
  cancelCommand: {
    action: ['SCHEDULE_CANCEL'],
    summary: 'Delete a stored schedule',
    payload: 'ScheduleCancel',
  },
  configCommand: {
    action: ['CONFIG_SET'],
    summary: 'Replace the stored limits, fallback and operating mode',
    payload: 'ConfigPayload',
  },
  tokenCommand: {
    action: ['TOKEN_REFRESH'],
    summary: 'Store this token for the next connect',
    payload: 'TokenPayload',
  },
  targetsCommand: {
    action: DEVICE_COMMAND_TYPES,
    summary: 'Execute the action on each of these sub-devices',
    payload: 'TargetsPayload',
    examples: ['BESS_CHARGE'],
  },
  restCommand: {
    summary: 'Execute a command that was sent over REST; its meaning is agreed between sender and device',
    examples: ['REBOOT'],
  },
};
