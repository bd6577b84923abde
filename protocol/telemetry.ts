/** The canonical telemetry payload and the signals that it is made from (spec: Latest telemetry snapshot; [C-3.13]). */
import { z } from 'zod';
import { ASSET_TYPES, DATA_QUALITIES, OPERATING_MODES } from './enums.ts';
import { SOURCE, VCP_VERSION } from './envelope.ts';

const reading = z.number().nullable();

export const deviceSample = z.strictObject({
  deviceId: z.string().min(1),
  assetType: z.enum(ASSET_TYPES),
  powerKw: z.number(),
  availableCapacityKwh: z.number().optional(),
  regulationPercent: z.number().optional(),
  socPercent: z.number().optional(),
  temperatureCelsius: z.number().optional(),
});
export type DeviceSample = z.infer<typeof deviceSample>;

export const canonicalTelemetry = z.strictObject({
  gridPowerKw: reading,
  fvePowerKw: reading,
  batteryPowerKw: reading,
  consumptionPowerKw: reading,
  socPercent: reading,
  availableBatteryEnergyKwh: reading,
  batteryTemperatureCelsius: reading,
  currentOperatingMode: z.enum(OPERATING_MODES),
  dataQuality: z.enum(DATA_QUALITIES),
  devices: z.array(deviceSample).optional(),
});
export type CanonicalTelemetry = z.infer<typeof canonicalTelemetry>;

/** spec: Latest telemetry snapshot. */
export const latestTelemetry = z.strictObject({
  version: z.literal(VCP_VERSION),
  messageId: z.string(),
  timestamp: z.string(),
  source: z.literal(SOURCE),
  siteId: z.string(),
  payload: canonicalTelemetry,
});

/** Signals of the whole site, sent by its gateway under these bare names. */
export const SITE_SIGNALS = [
  'gridPowerKw',
  'fvePowerKw',
  'batteryPowerKw',
  'consumptionPowerKw',
  'socPercent',
  'availableBatteryEnergyKwh',
  'batteryTemperatureCelsius',
] as const;
export type SiteSignal = (typeof SITE_SIGNALS)[number];
