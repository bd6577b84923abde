/**
 * The latest value of every signal of a site, by the device's `ts` [C-3.13]. Devices may invent signal names,
 * so the number of signals is limited: the least recently updated are dropped. Unknown names have a lower
 * limit [C-3.13].
 */
import { SUB_DEVICE_SIGNALS } from '../../../protocol/asset.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { SITE_SIGNALS } from '../../../protocol/telemetry.ts';

export interface Sample {
  value: number;
  /** The device's `ts`. */
  atMs: number;
  /** When the sample was received. Presence needs it, because the device's `ts` may be wrong or old. */
  receivedMs?: number;
}

/**
 * The facts about the sender of a message that decide what its bare signal names mean, that is names without
 * a sub-device.
 */
export interface SignalOrigin {
  deviceId: string;
  /** True for a gateway or controller: its signal names without a sub-device are signals of the site. */
  servesSite: boolean;
  /** The linked sub-device, if any: signal names of the device without a sub-device are signals of this one. */
  subDeviceId: string | undefined;
}

/** Hints for device makers name only signals that were received within this time. */
const RECENT_MS = 24 * 3_600_000;

const KNOWN_SUB_DEVICE_SIGNALS: ReadonlySet<string> = new Set(SUB_DEVICE_SIGNALS);
const KNOWN_SITE_SIGNALS: ReadonlySet<string> = new Set(SITE_SIGNALS);

export class Snapshot {
  readonly #samples: Map<string, Sample>;
  readonly #isSubDevice: (externalId: string) => boolean;
  /** By external id, for sub-devices of the site. */
  readonly #lastSampleMs = new Map<string, number>();
  #unknownCount = 0;

  constructor(isSubDevice: (externalId: string) => boolean, samples: Record<string, Sample> = {}) {
    this.#isSubDevice = isSubDevice;
    this.#samples = new Map(Object.entries(samples));
    for (const [metric, sample] of [...this.#samples].sort((left, right) => left[1].atMs - right[1].atMs)) {
      this.#noteSubDevice(metric, sample.receivedMs ?? sample.atMs);
      if (!this.#isKnown(metric)) this.#unknownCount += 1;
    }
  }

  /**
   * Applies one message. An older value never overwrites a newer one; of equal `ts` the one received later
   * wins.
   */
  apply(
    origin: SignalOrigin,
    { ts: atMs, receivedMs }: { ts: number; receivedMs: number },
    data: Readonly<Record<string, number>>,
  ): void {
    for (const [name, value] of Object.entries(data)) {
      const metric = metricName(origin, name);
      const known = this.#samples.get(metric);
      this.#noteSubDevice(metric, receivedMs);
      if (known && known.atMs > atMs) {
        this.#samples.set(metric, { ...known, receivedMs });
        continue;
      }
      if (!known && !this.#isKnown(metric)) this.#unknownCount += 1;
      this.#samples.set(metric, { value, atMs, receivedMs });
    }
    if (this.#unknownCount > LIMIT.unknownSignalsPerSite) {
      const unknown = [...this.#samples].filter(([metric]) => !this.#isKnown(metric));
      this.#forgetStalest(unknown, LIMIT.unknownSignalsPerSite);
    }
    if (this.#samples.size > LIMIT.signalsPerSite) {
      this.#forgetStalest([...this.#samples], LIMIT.signalsPerSite);
    }
  }

  get(metric: string): Sample | undefined {
    return this.#samples.get(metric);
  }

  /** When the last sample of a sub-device was received. */
  lastSampleAtMs(subDeviceId: string): number | undefined {
    return this.#lastSampleMs.get(subDeviceId);
  }

  /**
   * Drops the oldest of these samples until at most `max` are left. Drops none if there are fewer, because
   * some unknown names have become known in the meantime.
   */
  #forgetStalest(samples: [string, Sample][], max: number): void {
    const byAge = samples.sort((left, right) => left[1].atMs - right[1].atMs);
    for (const [metric] of byAge.slice(0, Math.max(0, samples.length - max))) this.#samples.delete(metric);
    this.#unknownCount = [...this.#samples.keys()].filter((metric) => !this.#isKnown(metric)).length;
  }

  /**
   * Whether payloads, presence or checks use the metric: a site signal, or a known signal of a sub-device of
   * the site.
   */
  #isKnown(metric: string): boolean {
    const slash = metric.indexOf('/');
    if (slash < 0) return KNOWN_SITE_SIGNALS.has(metric);
    return KNOWN_SUB_DEVICE_SIGNALS.has(metric.slice(slash + 1)) && this.#isSubDevice(metric.slice(0, slash));
  }

  #noteSubDevice(metric: string, atMs: number): void {
    const slash = metric.indexOf('/');
    const subDevice = metric.slice(0, Math.max(0, slash));
    if (!this.#isSubDevice(subDevice)) return;
    this.#lastSampleMs.set(subDevice, Math.max(atMs, this.#lastSampleMs.get(subDevice) ?? 0));
  }

  latestAtMs(): number | undefined {
    const moments = [...this.#samples.values()].map(({ atMs }) => atMs);
    return moments.length > 0 ? Math.max(...moments) : undefined;
  }

  toJSON(): Record<string, Sample> {
    return Object.fromEntries(this.#samples);
  }
}

/**
 * The metric for a signal name of a device. Only a gateway or controller may name other sub-devices; such a
 * name from any other device becomes a metric of that device (`@device/…`).
 */
export function metricName(origin: SignalOrigin, name: string): string {
  const slash = name.indexOf('/');
  const isOwn = slash > 0 && name.slice(0, slash) === origin.subDeviceId;
  if (slash >= 0) return origin.servesSite || isOwn ? name : `@${origin.deviceId}/${name}`;
  if (origin.subDeviceId) return `${origin.subDeviceId}/${name}`;
  return origin.servesSite ? name : `@${origin.deviceId}/${name}`;
}

/** The samples that were received within the last day. */
export function recentSamples(samples: Readonly<Record<string, Sample>>, now: number): [string, Sample][] {
  return Object.entries(samples).filter(([, { atMs, receivedMs = atMs }]) => now - receivedMs < RECENT_MS);
}
