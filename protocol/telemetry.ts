/** The canonical telemetry payload and its signals (spec: Latest telemetry snapshot; [C-3.13]). */
import * as z from 'zod';
import { ASSET_TYPES, DATA_QUALITIES, OPERATING_MODES } from './enums.ts';
import { SOURCE, VCP_VERSION } from './envelope.ts';
import { LIMIT } from './limits.ts';

/** Signals of the whole site, which its gateway sends under these names without a sub-device prefix. */
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
  ...(Object.fromEntries(SITE_SIGNALS.map((name) => [name, reading])) as Record<SiteSignal, typeof reading>),
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
export type LatestTelemetry = z.infer<typeof latestTelemetry>;

/** Whether the metric is a cumulative energy counter in kWh. A bucket of a register has its last value [C-4.5]. */
export function isRegister(metric: string): boolean {
  return metric.endsWith('RegisterKwh');
}

/** The levels that a site stores (spec: VcpTelemetryGranularity), finest first. */
export const GRANULARITIES = ['raw', '5m', '1h', '1d'] as const;
export type Granularity = (typeof GRANULARITIES)[number];
/** The levels, and the widths that a site computes from them [C-3.5]. */
export const BUCKETS = ['raw', '1m', '5m', '15m', '1h', '1d'] as const;
export type BucketName = (typeof BUCKETS)[number];
export const AGGREGATES = ['avg', 'min', 'max', 'sum', 'count', 'last'] as const;
export type Aggregate = (typeof AGGREGATES)[number];

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** 0: no buckets, single readings. */
export const BUCKET_MS: Readonly<Record<BucketName, number>> = {
  raw: 0,
  '1m': MINUTE,
  '5m': 5 * MINUTE,
  '15m': 15 * MINUTE,
  '1h': 60 * MINUTE,
  '1d': DAY,
};

/** The longest range of one request in ms: for one metric [C-4.5], and for all metrics of a device [C-3.5]. */
export const SPAN_MS: Readonly<Record<BucketName, { one: number; all: number }>> = {
  raw: { one: LIMIT.rawSpanMs, all: DAY },
  '1m': { one: LIMIT.rawSpanMs, all: DAY },
  '5m': { one: LIMIT.fiveMinuteSpanMs, all: 7 * DAY },
  '15m': { one: LIMIT.fiveMinuteSpanMs, all: 7 * DAY },
  '1h': { one: LIMIT.hourSpanMs, all: LIMIT.fiveMinuteSpanMs },
  '1d': { one: 10 * 366 * DAY, all: LIMIT.hourSpanMs },
};

/** spec: Telemetry point. `count`: number of readings in the bucket; absent for raw. */
export const telemetryPoint = z.strictObject({
  timestamp: z.string(),
  value: z.number(),
  count: z.int().min(1).optional(),
});

/** [C-3.5] */
export const deviceTelemetryPoint = z.strictObject({
  timestamp: z.string(),
  metric: z.string(),
  value: z.number(),
  count: z.int().min(1).optional(),
});
