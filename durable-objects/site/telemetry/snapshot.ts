/** The latest value of every signal of a site: the newest by receive time, within a cap on names [C-3.13]. */
import { LIMIT } from '../../../protocol/limits.ts';

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
      if (!known && this.#samples.size >= LIMIT.signalsPerSite) continue;
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
