/**
 * The canonical payload: a site's latest values in the spec's nine fields [C-3.13]. A sum or balance with a
 * missing part is null. A stale site-level value is replaced by the sum of its parts when those are fresh.
 * The quality is that of the signals that were used. Pure.
 */
import { ASSETS, type PowerSum } from '../../../protocol/asset.ts';
import {
  ASSET_TYPES,
  type AssetType,
  type DataQuality,
  type MeterRole,
  type OperatingMode,
} from '../../../protocol/enums.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { CanonicalTelemetry, DeviceSample, SiteSignal } from '../../../protocol/telemetry.ts';
import type { SubDevice } from '../../../registry/plant-copy.ts';
import type { Snapshot } from './snapshot.ts';

/** Signals that a device sample contains in addition to its power (spec: Device sample). */
const SAMPLE_SIGNALS = [
  'availableCapacityKwh',
  'regulationPercent',
  'socPercent',
  'temperatureCelsius',
] as const;

/**
 * Returns the canonical payload (spec: Canonical telemetry payload): site-level values if they were sent and
 * are fresh, else sums by asset type.
 */
export function canonicalTelemetry(
  snapshot: Snapshot,
  subDevices: readonly SubDevice[],
  mode: OperatingMode,
  now: number,
): CanonicalTelemetry {
  const signals = new Signals(snapshot, now);
  const ofKind = (signal: 'fvePowerKw' | 'batteryPowerKw') =>
    subDevices.filter((subDevice) => ASSETS[subDevice.assetType].sumsTo === signal);
  const plants = ofKind('fvePowerKw');
  const batteries = ofKind('batteryPowerKw');

  const grid = gridOf(signals, subDevices);
  const houses = metersOf(subDevices, 'CONSUMPTION');
  const fve = signals.prefer('fvePowerKw', (parts) => parts.sum(plants, 'powerKw'));
  const battery = signals.prefer('batteryPowerKw', (parts) => parts.sum(batteries, 'powerKw'));
  const metered = signals.prefer('consumptionPowerKw', (parts) => parts.sum(houses, 'powerKw'));
  // A site without PV or without batteries counts them as 0 in its balance.
  const balanced = balance(
    grid,
    fve ?? (plants.length === 0 ? 0 : null),
    battery ?? (batteries.length === 0 ? 0 : null),
  );
  const devices = subDevices.flatMap((subDevice) => deviceSample(signals, subDevice));

  return {
    gridPowerKw: grid,
    fvePowerKw: fve,
    batteryPowerKw: battery,
    consumptionPowerKw: metered ?? balanced,
    socPercent: signals.prefer('socPercent', (parts) => stateOfCharge(parts, batteries)),
    availableBatteryEnergyKwh: signals.prefer('availableBatteryEnergyKwh', (parts) =>
      parts.sum(batteries, 'availableCapacityKwh'),
    ),
    batteryTemperatureCelsius: signals.prefer('batteryTemperatureCelsius', (parts) =>
      highest(parts, batteries),
    ),
    currentOperatingMode: mode,
    dataQuality: signals.quality(metered === null && balanced !== null),
    ...(devices.length > 0 ? { devices } : {}),
  };
}

/** Power that the site takes from the grid, kW; negative = export. Null while a part of it is unknown. */
export function gridPower(snapshot: Snapshot, subDevices: readonly SubDevice[], now: number): number | null {
  return gridOf(new Signals(snapshot, now), subDevices);
}

/**
 * Power that only the controllable assets take from the grid, kW; what they produce counts as negative
 * [C-7.8].
 */
export function controllablePower(
  snapshot: Snapshot,
  subDevices: readonly SubDevice[],
  now: number,
): number | null {
  const signals = new Signals(snapshot, now);
  let total: number | null = null;
  for (const { assetTypes, sign, sumsTo } of CONTROLLABLE) {
    const assets = subDevices.filter(({ assetType }) => assetTypes.includes(assetType));
    if (assets.length === 0) continue;
    const power = signals.sum(assets, 'powerKw') ?? (sumsTo ? signals.site(sumsTo) : null);
    if (power === null) return null;
    total = (total ?? 0) + sign * power;
  }
  return total;
}

/** The sums of the grid meters' registers, kWh; null while one is missing. */
export function gridRegisters(
  snapshot: Snapshot,
  subDevices: readonly SubDevice[],
): { imported: number | null; exported: number | null } {
  const signals = new Signals(snapshot, 0);
  const meters = metersOf(subDevices, 'GRID');
  return {
    imported: signals.sum(meters, 'importRegisterKwh'),
    exported: signals.sum(meters, 'exportRegisterKwh'),
  };
}

/** The asset types that count for a setpoint without the site's consumption, those with one site value together. */
const CONTROLLABLE: readonly { assetTypes: AssetType[]; sign: 1 | -1; sumsTo: PowerSum | null }[] =
  Object.values(
    Object.groupBy(
      ASSET_TYPES.filter((assetType) => ASSETS[assetType].controllableSign !== null),
      (assetType) => ASSETS[assetType].sumsTo ?? assetType,
    ),
  ).map((assetTypes = []) => {
    const { controllableSign, sumsTo } = ASSETS[assetTypes[0] as AssetType];
    return { assetTypes, sign: controllableSign as 1 | -1, sumsTo };
  });

function gridOf(signals: Signals, subDevices: readonly SubDevice[]): number | null {
  return signals.prefer('gridPowerKw', (parts) => parts.sum(metersOf(subDevices, 'GRID'), 'powerKw'));
}

function metersOf(subDevices: readonly SubDevice[], role: MeterRole): SubDevice[] {
  return subDevices.filter(({ assetType, meterRole }) => assetType === 'METER' && meterRole === role);
}

/**
 * Reads the latest values, and remembers the time of the oldest value that was read, which decides the
 * quality.
 */
class Signals {
  readonly #snapshot: Snapshot;
  readonly #now: number;
  #oldestMs: number | undefined;
  /** Whether some, but not all, parts of a sum were known. */
  #isPartial = false;

  constructor(snapshot: Snapshot, now: number) {
    this.#snapshot = snapshot;
    this.#now = now;
  }

  /**
   * The site's own value if it is fresh; else the value from its parts, unless that is null or stale as well.
   */
  prefer(signal: SiteSignal, ofParts: (parts: Signals) => number | null): number | null {
    const own = this.#snapshot.get(signal);
    if (own && this.#now - own.atMs < LIMIT.signalStaleMs) return this.site(signal);
    const parts = new Signals(this.#snapshot, this.#now);
    const value = ofParts(parts);
    if (own && (value === null || parts.#isStale)) return this.site(signal);
    this.#isPartial ||= parts.#isPartial;
    if (parts.#oldestMs !== undefined) this.#use(parts.#oldestMs);
    return value;
  }

  site(signal: SiteSignal): number | null {
    return this.#values([signal])?.[0] ?? null;
  }

  of(subDevice: SubDevice, signal: string): number | null {
    return this.#values([`${subDevice.externalId}/${signal}`])?.[0] ?? null;
  }

  /** The signal's value for each sub-device, in order; null when one is missing or the list is empty. */
  all(subDevices: readonly SubDevice[], signal: string): number[] | null {
    return this.#values(subDevices.map(({ externalId }) => `${externalId}/${signal}`));
  }

  sum(subDevices: readonly SubDevice[], signal: string): number | null {
    const values = this.all(subDevices, signal);
    return values && round(values.reduce((total, value) => total + value, 0));
  }

  /** [C-4.5] */
  quality(isInterpolated: boolean): DataQuality {
    if (this.#oldestMs === undefined) return 'MISSING';
    if (this.#isStale || this.#isPartial) return 'STALE';
    return isInterpolated ? 'INTERPOLATED' : 'GOOD';
  }

  get #isStale(): boolean {
    return this.#oldestMs !== undefined && this.#now - this.#oldestMs >= LIMIT.signalStaleMs;
  }

  #values(metrics: readonly string[]): number[] | null {
    const samples = metrics.flatMap((metric) => this.#snapshot.get(metric) ?? []);
    this.#isPartial ||= samples.length > 0 && samples.length < metrics.length;
    if (samples.length === 0 || samples.length < metrics.length) return null;
    for (const { atMs } of samples) this.#use(atMs);
    return samples.map((sample) => sample.value);
  }

  #use(atMs: number): void {
    this.#oldestMs = Math.min(atMs, this.#oldestMs ?? atMs);
  }
}

function highest(signals: Signals, batteries: readonly SubDevice[]): number | null {
  const known = batteries.flatMap((battery) => signals.of(battery, 'temperatureCelsius') ?? []);
  return known.length === 0 ? null : Math.max(...known);
}

/** grid = consumption + battery − pv */
function balance(grid: number | null, fve: number | null, battery: number | null): number | null {
  return grid === null || fve === null || battery === null ? null : round(grid + fve - battery);
}

/** The mean weighted by capacity; unweighted when a capacity is unknown [C-4.5]. */
function stateOfCharge(signals: Signals, batteries: readonly SubDevice[]): number | null {
  const values = signals.all(batteries, 'socPercent');
  if (!values) return null;
  const isAnyUnknown = batteries.some(({ capacityKwh }) => capacityKwh === null);
  const weights = batteries.map(({ capacityKwh }) => (isAnyUnknown ? 1 : (capacityKwh ?? 1)));
  const weight = weights.reduce((sum, one) => sum + one, 0);
  const total = values.reduce((sum, value, index) => sum + value * (weights[index] ?? 0), 0);
  return weight === 0 ? null : round(total / weight);
}

function deviceSample(signals: Signals, subDevice: SubDevice): DeviceSample[] {
  const powerKw = signals.of(subDevice, 'powerKw');
  if (powerKw === null) return [];
  const sample: DeviceSample = { deviceId: subDevice.externalId, assetType: subDevice.assetType, powerKw };
  for (const signal of SAMPLE_SIGNALS) {
    const reading = signals.of(subDevice, signal);
    if (reading !== null) sample[signal] = reading;
  }
  return [sample];
}

function round(number: number): number {
  return Math.round(number * 1e6) / 1e6;
}
