/** The latest value of every signal of a site, and the canonical payload made from it [C-3.13]. */
import type { DataQuality, OperatingMode } from '../../../protocol/enums.ts';
import type { CanonicalTelemetry, DeviceSample, SiteSignal } from '../../../protocol/telemetry.ts';
import type { SubDevice } from '../schema.ts';

/** A signal older than this no longer counts as good. */
const STALE_MS = 5 * 60_000;

/** Signals that a site is remembered by: a message may name a thousand, and a device may name them anew each time. */
export const MAX_METRICS = 2_000;

export interface Sample {
  value: number;
  atMs: number;
}

/** Which device sent a message, as far as the meaning of its bare signal names goes. */
export interface SignalOrigin {
  deviceId: string;
  /** A gateway's or controller's bare names are the site's own. */
  servesSite: boolean;
  /** The sub-device that is linked to the device: its bare names are that one's. */
  subDeviceId: string | undefined;
}

export class Snapshot {
  readonly #samples: Map<string, Sample>;
  readonly #lastSampleMs = new Map<string, number>();

  constructor(samples: Record<string, Sample> = {}) {
    this.#samples = new Map(Object.entries(samples));
    for (const [metric, sample] of [...this.#samples].sort((left, right) => left[1].atMs - right[1].atMs)) {
      this.#noteSubDevice(metric, sample.atMs);
    }
  }

  /** Takes in one message; an older one never overwrites a newer, and names beyond the cap are passed over. */
  apply(origin: SignalOrigin, atMs: number, data: Readonly<Record<string, number>>): void {
    for (const [name, value] of Object.entries(data)) {
      const metric = metricName(origin, name);
      const known = this.#samples.get(metric);
      if (!known && this.#samples.size >= MAX_METRICS) continue;
      if (known && known.atMs > atMs) continue;
      this.#samples.set(metric, { value, atMs });
      this.#noteSubDevice(metric, atMs);
    }
  }

  get(metric: string): Sample | undefined {
    return this.#samples.get(metric);
  }

  /** When a sub-device was last heard of. */
  lastSampleAtMs(subDeviceId: string): number | undefined {
    return this.#lastSampleMs.get(subDeviceId);
  }

  #noteSubDevice(metric: string, atMs: number): void {
    const slash = metric.indexOf('/');
    if (slash > 0) this.#lastSampleMs.set(metric.slice(0, slash), atMs);
  }

  latestAtMs(): number | undefined {
    let latest: number | undefined;
    for (const sample of this.#samples.values()) {
      if (latest === undefined || sample.atMs > latest) latest = sample.atMs;
    }
    return latest;
  }

  toJSON(): Record<string, Sample> {
    return Object.fromEntries(this.#samples);
  }
}

function metricName(origin: SignalOrigin, name: string): string {
  if (name.includes('/')) return name;
  if (origin.subDeviceId) return `${origin.subDeviceId}/${name}`;
  return origin.servesSite ? name : `@${origin.deviceId}/${name}`;
}

/** spec: Canonical telemetry payload. Site-level values when sent, else sums by asset type. */
export function canonicalTelemetry(
  snapshot: Snapshot,
  subDevices: readonly SubDevice[],
  mode: OperatingMode,
  now: number,
): CanonicalTelemetry {
  const powerOf = (wanted: (subDevice: SubDevice) => boolean) =>
    sum(subDevices.filter(wanted).map((subDevice) => value(snapshot, subDevice, 'powerKw')));
  const site = (signal: SiteSignal) => snapshot.get(signal)?.value;
  const batteries = subDevices.filter((subDevice) => subDevice.assetType === 'BESS');

  const grid =
    site('gridPowerKw') ?? powerOf((asset) => asset.assetType === 'METER' && asset.meterRole === 'GRID');
  const fve = site('fvePowerKw') ?? powerOf((asset) => asset.assetType === 'FVE');
  const battery = site('batteryPowerKw') ?? powerOf((asset) => asset.assetType === 'BESS');
  const metered = powerOf((asset) => asset.assetType === 'METER' && asset.meterRole === 'CONSUMPTION');
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
      sum(batteries.map((asset) => value(snapshot, asset, 'availableCapacityKwh'))) ??
      null,
    batteryTemperatureCelsius:
      site('batteryTemperatureCelsius') ??
      highest(batteries.map((asset) => value(snapshot, asset, 'temperatureCelsius'))) ??
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
  for (const signal of [
    'availableCapacityKwh',
    'regulationPercent',
    'socPercent',
    'temperatureCelsius',
  ] as const) {
    const reading = value(snapshot, subDevice, signal);
    if (reading !== undefined) sample[signal] = reading;
  }
  return [sample];
}

function quality(latestAtMs: number | undefined, now: number): DataQuality {
  if (latestAtMs === undefined) return 'MISSING';
  return now - latestAtMs < STALE_MS ? 'GOOD' : 'STALE';
}

function round(number: number): number {
  return Math.round(number * 1e6) / 1e6;
}
