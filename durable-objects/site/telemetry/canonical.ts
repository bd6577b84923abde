/** The canonical payload: what a site's latest values say, in the spec's nine fields [C-3.13]. Pure. */
import { ASSETS } from '../../../protocol/asset.ts';
import type { DataQuality, OperatingMode } from '../../../protocol/enums.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { CanonicalTelemetry, DeviceSample, SiteSignal } from '../../../protocol/telemetry.ts';
import type { SubDevice } from '../../registry/plant-copy.ts';
import type { Snapshot } from './snapshot.ts';

/** Signals that a device sample shows beside its power (spec: Device sample). */
const SAMPLE_SIGNALS = [
  'availableCapacityKwh',
  'regulationPercent',
  'socPercent',
  'temperatureCelsius',
] as const;

/** spec: Canonical telemetry payload. Site-level values when sent, else sums by asset type. */
export function canonicalTelemetry(
  snapshot: Snapshot,
  subDevices: readonly SubDevice[],
  mode: OperatingMode,
  now: number,
): CanonicalTelemetry {
  const site = (signal: SiteSignal) => snapshot.get(signal)?.value;
  const ofKind = (signal: 'fvePowerKw' | 'batteryPowerKw') =>
    subDevices.filter((subDevice) => ASSETS[subDevice.assetType].sumsTo === signal);
  const meters = (role: 'GRID' | 'CONSUMPTION') =>
    subDevices.filter(({ assetType, meterRole }) => assetType === 'METER' && meterRole === role);
  const powerOf = (some: readonly SubDevice[]) =>
    sum(some.map((subDevice) => value(snapshot, subDevice, 'powerKw')));
  const batteries = ofKind('batteryPowerKw');

  const grid = site('gridPowerKw') ?? powerOf(meters('GRID'));
  const fve = site('fvePowerKw') ?? powerOf(ofKind('fvePowerKw'));
  const battery = site('batteryPowerKw') ?? powerOf(batteries);
  const metered = powerOf(meters('CONSUMPTION'));
  const consumption = site('consumptionPowerKw') ?? metered ?? balance(grid, fve, battery);
  const devices = subDevices.flatMap((subDevice) => deviceSample(snapshot, subDevice));

  return {
    gridPowerKw: grid ?? null,
    fvePowerKw: fve ?? null,
    batteryPowerKw: battery ?? null,
    consumptionPowerKw: consumption ?? null,
    socPercent: site('socPercent') ?? stateOfCharge(snapshot, batteries) ?? null,
    availableBatteryEnergyKwh:
      site('availableBatteryEnergyKwh') ??
      sum(batteries.map((subDevice) => value(snapshot, subDevice, 'availableCapacityKwh'))) ??
      null,
    batteryTemperatureCelsius:
      site('batteryTemperatureCelsius') ??
      highest(batteries.map((subDevice) => value(snapshot, subDevice, 'temperatureCelsius'))) ??
      null,
    currentOperatingMode: mode,
    dataQuality: quality(snapshot.latestAtMs(), now),
    ...(devices.length > 0 ? { devices } : {}),
  };
}

function value(snapshot: Snapshot, subDevice: SubDevice, signal: string): number | undefined {
  return snapshot.get(`${subDevice.externalId}/${signal}`)?.value;
}

function known(values: readonly (number | undefined)[]): number[] {
  return values.filter((item) => item !== undefined);
}

function sum(values: readonly (number | undefined)[]): number | undefined {
  const numbers = known(values);
  return numbers.length === 0 ? undefined : round(numbers.reduce((total, item) => total + item, 0));
}

function highest(values: readonly (number | undefined)[]): number | undefined {
  const numbers = known(values);
  return numbers.length === 0 ? undefined : Math.max(...numbers);
}

/** grid = consumption + battery − pv */
function balance(
  grid: number | undefined,
  fve: number | undefined,
  battery: number | undefined,
): number | undefined {
  return grid === undefined ? undefined : round(grid + (fve ?? 0) - (battery ?? 0));
}

/** Weighted by capacity; a battery without one counts as 1 kWh. */
function stateOfCharge(snapshot: Snapshot, batteries: readonly SubDevice[]): number | undefined {
  let weight = 0;
  let total = 0;
  for (const battery of batteries) {
    const soc = value(snapshot, battery, 'socPercent');
    if (soc === undefined) continue;
    const capacity = battery.capacityKwh ?? 1;
    weight += capacity;
    total += soc * capacity;
  }
  return weight === 0 ? undefined : round(total / weight);
}

function deviceSample(snapshot: Snapshot, subDevice: SubDevice): DeviceSample[] {
  const powerKw = value(snapshot, subDevice, 'powerKw');
  if (powerKw === undefined) return [];
  const sample: DeviceSample = { deviceId: subDevice.externalId, assetType: subDevice.assetType, powerKw };
  for (const signal of SAMPLE_SIGNALS) {
    const reading = value(snapshot, subDevice, signal);
    if (reading !== undefined) sample[signal] = reading;
  }
  return [sample];
}

function quality(latestAtMs: number | undefined, now: number): DataQuality {
  if (latestAtMs === undefined) return 'MISSING';
  return now - latestAtMs < LIMIT.signalStaleMs ? 'GOOD' : 'STALE';
}

function round(number: number): number {
  return Math.round(number * 1e6) / 1e6;
}
