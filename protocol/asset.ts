/**
 * The table of asset types: for each its commands with their parameters and limits, what its meter measures,
 * and the signals that it reports (spec: Command payloads; [C-2.2], [C-3.13], [C-7.4]).
 */
import {
  type AssetType,
  DEVICE_COMMAND_TYPES,
  type DeviceCommandType,
  type MeterRole,
  type OperatingMode,
} from './enums.ts';
import type { Constraints } from './site-config.ts';
import type { SiteSignal } from './telemetry.ts';

export type BatteryLimit = Extract<keyof Constraints, 'maxChargeKw' | 'maxDischargeKw'>;

/** The required parameter and the limit of a device command. */
interface DeviceCommandRule {
  /** The parameter that must be present. */
  required?: 'percent' | 'powerKw';
  /** The limit that applies to its power. */
  limit?: BatteryLimit;
  /** It stops its asset. */
  isStop?: true;
}

export type PowerSum = Extract<SiteSignal, 'fvePowerKw' | 'batteryPowerKw'>;

interface AssetKind {
  /** Empty: the interface has no command for this asset type. */
  commands: Partial<Record<DeviceCommandType, DeviceCommandRule>>;
  /** The default of `meterRole` for sub-devices of this type: what their meter measures. */
  meterRole: MeterRole | null;
  /**
   * The site-level signal to which the power of this asset type is added if the gateway does not send that
   * signal.
   */
  sumsTo: PowerSum | null;
  /**
   * How its power counts for a setpoint without the site's consumption: 1 = it takes power from the grid, -1 = it
   * gives power to the grid, null = it does not count [C-7.8].
   */
  controllableSign: 1 | -1 | null;
  signals: readonly SubDeviceSignal[];
}

const REGISTERS_OF = {
  battery: ['chargeRegisterKwh', 'dischargeRegisterKwh'],
  grid: ['importRegisterKwh', 'exportRegisterKwh'],
  production: ['productionRegisterKwh'],
  consumption: ['consumptionRegisterKwh'],
} as const;

/** All registers, in the order of a meter entry (spec: Meter state). */
export const REGISTERS = Object.values(REGISTERS_OF).flat().sort();
export type RegisterName = (typeof REGISTERS)[number];

/** Signals of a sub-device that the platform interprets. Other signals are stored and answered unchanged. */
export const SUB_DEVICE_SIGNALS = [
  'powerKw',
  'availableCapacityKwh',
  'regulationPercent',
  'socPercent',
  'temperatureCelsius',
  'fault',
  ...Object.values(REGISTERS_OF).flat(),
] as const;
type SubDeviceSignal = (typeof SUB_DEVICE_SIGNALS)[number];

const CONSUMER: AssetKind = {
  commands: {},
  meterRole: 'CONSUMPTION',
  sumsTo: null,
  controllableSign: 1,
  signals: ['powerKw', 'regulationPercent', 'temperatureCelsius', 'fault', ...REGISTERS_OF.consumption],
};

/** An inverter measures what its PV modules produce, so it counts as a PV system does. */
const PRODUCER: AssetKind = {
  commands: {},
  meterRole: 'FVE',
  sumsTo: 'fvePowerKw',
  controllableSign: -1,
  signals: ['powerKw', 'regulationPercent', 'temperatureCelsius', 'fault', ...REGISTERS_OF.production],
};

export const ASSETS: Record<AssetType, AssetKind> = {
  BESS: {
    commands: {
      BESS_CHARGE: { limit: 'maxChargeKw' },
      BESS_DISCHARGE: { limit: 'maxDischargeKw' },
      BESS_STOP: { isStop: true },
      BESS_CHARGE_ONLY: { limit: 'maxChargeKw' },
      BESS_DISCHARGE_ONLY: { limit: 'maxDischargeKw' },
      BESS_CONTINUOUS_CHARGE: { limit: 'maxChargeKw' },
    },
    meterRole: 'BESS',
    sumsTo: 'batteryPowerKw',
    controllableSign: 1,
    signals: [
      'powerKw',
      'socPercent',
      'availableCapacityKwh',
      'temperatureCelsius',
      'fault',
      ...REGISTERS_OF.battery,
    ],
  },
  FVE: {
    ...PRODUCER,
    commands: {
      FVE_PRODUCE_MAX: {},
      FVE_REDUCE_PERCENT: { required: 'percent' },
      FVE_REDUCE_POWER: { required: 'powerKw' },
      FVE_STOP: { isStop: true },
    },
  },
  METER: {
    commands: {},
    meterRole: 'GRID',
    sumsTo: null,
    controllableSign: null,
    signals: ['powerKw', 'fault', ...REGISTERS_OF.grid, ...REGISTERS_OF.consumption],
  },
  HEAT_PUMP: CONSUMER,
  EV_CHARGER: CONSUMER,
  // The power of a thermostat does not count for a setpoint [C-7.8].
  THERMOSTAT: { ...CONSUMER, controllableSign: null },
  INVERTER: PRODUCER,
  GENERIC: {
    commands: {},
    meterRole: null,
    sumsTo: null,
    controllableSign: null,
    signals: SUB_DEVICE_SIGNALS,
  },
};

/** The asset type that a device command is for. Each command belongs to exactly one type. */
export function assetTypeOf(command: DeviceCommandType): AssetType {
  const kind = (Object.keys(ASSETS) as AssetType[]).find((type) => ASSETS[type].commands[command]);
  if (!kind) throw new Error(`no asset type has the command ${command}`);
  return kind;
}

export function deviceCommandRule(command: DeviceCommandType): DeviceCommandRule {
  return ASSETS[assetTypeOf(command)].commands[command] ?? {};
}

/** The device commands that a plant with these asset types supports, in the spec's order (spec: Plant summary). */
export function supportedDeviceCommands(assetTypes: readonly AssetType[]): DeviceCommandType[] {
  return DEVICE_COMMAND_TYPES.filter((command) => assetTypes.includes(assetTypeOf(command)));
}

/** The commands that every plant supports. */
export const SITE_COMMANDS = ['SITE_SETPOINT', 'MODE_CHANGE', 'EMERGENCY'] as const;

/** spec: Plant summary, supportedCommands. */
export function supportedCommands(assetTypes: readonly AssetType[]) {
  return [...SITE_COMMANDS, ...supportedDeviceCommands(assetTypes)];
}

/** Asset types that can feed power into the grid. A plant needs one of them for an EXPORT [C-7.4]. */
export const EXPORTING: readonly AssetType[] = ['FVE', 'INVERTER', 'BESS'];

/** Modes that need an asset of one of these types. A plant without such an asset cannot follow the mode [C-7.4]. */
export const MODE_NEEDS: Partial<Record<OperatingMode, readonly AssetType[]>> = {
  MAX_EXPORT: EXPORTING,
  ZERO_EXPORT: EXPORTING,
  PEAK_SHAVING: ['BESS'],
  GRID_TARGET: ['BESS'],
  LDS_SUPPORT: ['BESS'],
};
