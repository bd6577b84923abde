/** The values that were the latest at an earlier time, from the single readings that are stored [C-4.1]. */
import { formatInstant } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { CanonicalTelemetry } from '../../../protocol/telemetry.ts';
import type { PlantCopy } from '../../../registry/plant-copy.ts';
import { canonicalTelemetry } from './canonical.ts';
import { stretches } from './read.ts';
import { type Sample, Snapshot } from './snapshot.ts';
import type { TelemetryStore } from './store.ts';

export interface PastSources {
  registry: Pick<PlantCopy, 'isSubDevice' | 'subDevices'>;
  store: TelemetryStore;
  atMs: number;
}

/** The last value of each wanted metric in the five minutes up to that time: what is older counts as missing. */
export function snapshotAt({
  registry,
  store,
  atMs,
  isWanted,
}: PastSources & { isWanted: (metric: string) => boolean }): Snapshot {
  const fromMs = atMs - LIMIT.signalStaleMs;
  const samples: Record<string, Sample> = {};
  for (const stretch of stretches(store, { fromMs, toMs: atMs + 1, bucket: 'raw' })) {
    for (const metric of stretch.metrics().filter(isWanted)) {
      const last = stretch.points(metric).at(-1);
      if (last) samples[metric] = { value: last.value, atMs: last.atMs };
    }
  }
  return new Snapshot((externalId) => registry.isSubDevice(externalId), samples);
}

/**
 * The canonical payload of that time, with the sub-devices that the plant has now. `mode`: the operating mode of that time.
 * Without a reading the timestamp is the time that was asked for.
 */
export function latestAt(
  sources: PastSources,
  mode: CanonicalTelemetry['currentOperatingMode'],
): { timestamp: string; payload: CanonicalTelemetry } {
  const { registry, atMs } = sources;
  const snapshot = snapshotAt({ ...sources, isWanted: () => true });
  return {
    timestamp: formatInstant(snapshot.latestAtMs() ?? atMs),
    payload: canonicalTelemetry(snapshot, registry.subDevices, mode, atMs),
  };
}
