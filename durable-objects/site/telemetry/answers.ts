/**
 * Answers history reads. A call for telemetry or meter readings returns a bounded chunk of JSON text and where
 * the next one starts.
 */
import type { DevicePage, DeviceQuery, HistoryQuery, JsonChunk } from '../../../protocol/history.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { MeterReading } from '../../../protocol/meter.ts';
import { BUCKET_MS, isRegister } from '../../../protocol/telemetry.ts';
import type { PlantCopy, SubDevice } from '../../../registry/plant-copy.ts';
import type { Clock } from '../../object/clock.ts';
import { SITE_BOUNDS } from '../bounds.ts';
import type { Bucket } from './bucket.ts';
import type { Journal } from './journal.ts';
import { type LastValue, meterReading, roleOf } from './meter.ts';
import { bucketStretches, type Point, type Stretch, stretches } from './read.ts';
import { isComputed, totalOf } from './register.ts';
import { metricName, recentSamples, type SignalOrigin } from './snapshot.ts';
import { BASE, BASE_MS } from './storage-levels.ts';
import type { TelemetryStore } from './store.ts';

const QUARTER = LIMIT.meterReadingStepMs;
const DAY = BUCKET_MS['1d'];

type TelemetryQuery = Extract<HistoryQuery, { kind: 'telemetry' }>;

/** The objects that history is read from. */
export interface HistorySources {
  clock: Pick<Clock, 'now'>;
  registry: PlantCopy;
  store: TelemetryStore;
}

/** Readings or buckets of one metric, from the start of the range, oldest first. */
export function readTelemetry(
  { store }: HistorySources,
  { metric, fromMs, toMs, granularity }: TelemetryQuery,
): JsonChunk {
  const items: string[] = [];
  for (const stretch of stretches(store, { metric, fromMs, toMs, bucket: granularity })) {
    for (const point of stretch.points(metric)) items.push(pointText(point));
    if (items.length >= SITE_BOUNDS.pointsPerCall && stretch.endMs < toMs)
      return { items: items.join(','), nextMs: stretch.endMs };
  }
  return { items: items.join(','), nextMs: null };
}

/** The current meter reading; null when no register is fresh enough. */
export function readMeterState({ store, registry, clock }: HistorySources): MeterReading | null {
  const registers = store.registersNow();
  const lastValue = (metric: string): LastValue | undefined => {
    const state = Object.hasOwn(registers, metric) ? registers[metric] : undefined;
    return state && { total: totalOf(state), atMs: state.atMs, isComputed: isComputed(state) };
  };
  return meterReading(registry.subDevices, lastValue, clock.now());
}

/** The meter reading of each quarter hour up to now that has one, computed one day at a time. */
export function readMeterReadings(sources: HistorySources, fromMs: number, toMs: number): JsonChunk {
  const endMs = Math.min(toMs, sources.clock.now() + 1);
  const first = Math.ceil(fromMs / QUARTER) * QUARTER;
  const items: string[] = [];
  for (let dayMs = first; dayMs < endMs; ) {
    const nextMs = Math.min(Math.floor(dayMs / DAY) * DAY + DAY, endMs);
    for (const reading of quarters(sources, dayMs, nextMs)) items.push(JSON.stringify(reading));
    dayMs = Math.ceil(nextMs / QUARTER) * QUARTER;
    if (items.length >= SITE_BOUNDS.readingsPerCall && dayMs < endMs)
      return { items: items.join(','), nextMs: dayMs };
  }
  return { items: items.join(','), nextMs: null };
}

function* quarters(
  { store, registry }: HistorySources,
  fromMs: number,
  toMs: number,
): Generator<MeterReading> {
  const metered = registry.subDevices.filter((subDevice) => roleOf(subDevice) !== null);
  const range = { fromMs: fromMs - LIMIT.registerStaleMs, toMs, bucket: BASE };
  const byMetric = new Map<string, Map<number, Bucket>>();
  for (const stretch of bucketStretches(store, range)) {
    for (const metric of stretch.metrics().filter((one) => isRegisterOf(metered, one))) {
      const own = byMetric.get(metric) ?? new Map<number, Bucket>();
      for (const bucket of stretch.buckets(metric)) own.set(bucket.startMs, bucket);
      byMetric.set(metric, own);
    }
  }
  for (let quarterMs = fromMs; quarterMs < toMs; quarterMs += QUARTER) {
    const reading = meterReading(
      metered,
      (metric) => lastValueBy(byMetric.get(metric), quarterMs),
      quarterMs,
    );
    if (reading) yield reading;
  }
}

/**
 * The last value of a register at or before a quarter hour; undefined when it is older than
 * `registerStaleMs`. The value is taken from five-minute buckets; the bucket that starts at the quarter hour
 * is used only if its last sample is exactly at that time.
 */
function lastValueBy(
  buckets: ReadonlyMap<number, Bucket> | undefined,
  quarterMs: number,
): LastValue | undefined {
  for (let startMs = quarterMs; startMs >= quarterMs - LIMIT.registerStaleMs; startMs -= BASE_MS) {
    const bucket = buckets?.get(startMs);
    if (!bucket || bucket.lastAtMs > quarterMs) continue;
    const { last, lastAtMs, total } = bucket;
    return { total: total ?? last, atMs: lastAtMs, isComputed: total !== undefined };
  }
  return undefined;
}

function isRegisterOf(subDevices: readonly SubDevice[], metric: string): boolean {
  return isRegister(metric) && subDevices.some(({ externalId }) => metric.startsWith(`${externalId}/`));
}

export interface DeviceSources extends HistorySources {
  journal: Journal;
  /** Whether the device belongs to this site. */
  isHere(deviceId: string): boolean;
}

/**
 * One page of a device's telemetry, ordered by time and then metric, with the device's own metric names
 * [C-3.5].
 */
export function readDeviceTelemetry(
  { store, registry, journal, isHere }: DeviceSources,
  deviceId: string,
  { metric, fromMs, toMs, bucket, aggregate, page, limit }: DeviceQuery,
): DevicePage {
  const origin = journal.meaningOf(deviceId);
  const named = metric === undefined ? undefined : metricName(origin, metric);
  const linked = registry.subDevices.filter(({ linkedDeviceId }) => linkedDeviceId !== null);
  const others = linked.filter(({ linkedDeviceId }) => linkedDeviceId !== deviceId);
  const isOwn = (one: string) => isOf(origin, others, one) && (named === undefined || one === named);
  const first = (page - 1) * limit;
  const items: string[] = [];
  let total = 0;
  if (isHere(deviceId)) {
    for (const stretch of stretches(store, { metric: named, fromMs, toMs, bucket, aggregate })) {
      const rows = rowsOf(stretch, isOwn);
      if (total + rows.length > first && total < first + limit) {
        rows.sort((left, right) => left.atMs - right.atMs || (left.metric < right.metric ? -1 : 1));
        const own = rows.slice(Math.max(0, first - total), first + limit - total);
        for (const row of own) items.push(pointText(row, ownName(origin, row.metric)));
      }
      total += rows.length;
    }
  }
  return { items: items.join(','), total };
}

/** The last value of each signal that the device sent in the last day, by the name that the device uses. */
export function readLastReadings(
  { journal, registry, clock }: Omit<DeviceSources, 'store' | 'isHere'>,
  deviceId: string,
): Record<string, number> {
  const origin = journal.meaningOf(deviceId);
  const others = registry.subDevices.filter(
    ({ linkedDeviceId }) => linkedDeviceId !== null && linkedDeviceId !== deviceId,
  );
  return Object.fromEntries(
    recentSamples(journal.snapshot.toJSON(), clock.now())
      .filter(([metric]) => isOf(origin, others, metric))
      .map(([metric, { value }]) => [ownName(origin, metric), value]),
  );
}

function rowsOf(stretch: Stretch, isOwn: (metric: string) => boolean): (Point & { metric: string })[] {
  const own = stretch.metrics().filter(isOwn);
  return own.flatMap((metric) => stretch.points(metric).map((point) => ({ ...point, metric })));
}

/**
 * Whether a device sent a metric. The metrics of sub-devices that no device is linked to count as sent by the
 * gateway or controller.
 */
function isOf(
  { deviceId, servesSite, subDeviceId }: SignalOrigin,
  others: readonly SubDevice[],
  metric: string,
): boolean {
  if (metric.startsWith('@')) return metric.startsWith(`@${deviceId}/`);
  if (subDeviceId !== undefined && metric.startsWith(`${subDeviceId}/`)) return true;
  return servesSite && !others.some(({ externalId }) => metric.startsWith(`${externalId}/`));
}

/** The name that the device itself uses for the metric. */
function ownName({ deviceId, subDeviceId }: SignalOrigin, metric: string): string {
  for (const prefix of [`@${deviceId}/`, `${subDeviceId}/`]) {
    if (metric.startsWith(prefix)) return metric.slice(prefix.length);
  }
  return metric;
}

function pointText({ atMs, value, count }: Point, metric?: string): string {
  return JSON.stringify({
    timestamp: formatInstant(atMs),
    ...(metric === undefined ? {} : { metric }),
    value,
    ...(count === undefined ? {} : { count }),
  });
}
