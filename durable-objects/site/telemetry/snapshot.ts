/**
 * The latest value of every signal of a site, by its device's own `ts` [C-3.13]. Names are a device's to invent, so they are
 * capped: the stalest make room, those that mean nothing here within a smaller part of their own [C-3.13].
 */
import { SUB_DEVICE_SIGNALS } from '../../../protocol/asset.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { SITE_SIGNALS } from '../../../protocol/telemetry.ts';

export interface Sample {
  value: number;
  /** The device's `ts`. */
  atMs: number;
  /** When it was received: what a device's clock says is no sign of its life. */
  heardMs?: number;
}

/** Which device sent a message, as far as the meaning of its bare signal names goes. */
export interface SignalOrigin {
  deviceId: string;
  /** A gateway's or controller's bare names are the site's own. */
  servesSite: boolean;
  /** The sub-device that is linked to the device: its bare names are that one's. */
  subDeviceId: string | undefined;
}

const KNOWN_SUB_DEVICE_SIGNALS: ReadonlySet<string> = new Set(SUB_DEVICE_SIGNALS);
const KNOWN_SITE_SIGNALS: ReadonlySet<string> = new Set(SITE_SIGNALS);

export class Snapshot {
  readonly #samples: Map<string, Sample>;
  readonly #isSubDevice: (externalId: string) => boolean;
  /** By external id, for sub-devices that the site has. */
  readonly #lastSampleMs = new Map<string, number>();
  #unknownCount = 0;

  constructor(isSubDevice: (externalId: string) => boolean, samples: Record<string, Sample> = {}) {
    this.#isSubDevice = isSubDevice;
    this.#samples = new Map(Object.entries(samples));
    for (const [metric, sample] of [...this.#samples].sort((left, right) => left[1].atMs - right[1].atMs)) {
      this.#noteSubDevice(metric, sample.heardMs ?? sample.atMs);
      if (!this.#isKnown(metric)) this.#unknownCount += 1;
    }
  }

  /** Takes in one message; an older one never overwrites a newer, of equal ones the later received wins. */
  apply(
    origin: SignalOrigin,
    { ts: atMs, receivedMs: heardMs }: { ts: number; receivedMs: number },
    data: Readonly<Record<string, number>>,
  ): void {
    for (const [name, value] of Object.entries(data)) {
      const metric = metricName(origin, name);
      const known = this.#samples.get(metric);
      this.#noteSubDevice(metric, heardMs);
      if (known && known.atMs > atMs) {
        this.#samples.set(metric, { ...known, heardMs });
        continue;
      }
      if (!known && !this.#isKnown(metric)) this.#unknownCount += 1;
      this.#samples.set(metric, { value, atMs, heardMs });
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

  /** When a sub-device was last heard of. */
  lastSampleAtMs(subDeviceId: string): number | undefined {
    return this.#lastSampleMs.get(subDeviceId);
  }

  /** Those beyond so many. Names that were unknown once may have become known: there may be none. */
  #forgetStalest(samples: [string, Sample][], max: number): void {
    const byAge = samples.sort((left, right) => left[1].atMs - right[1].atMs);
    for (const [metric] of byAge.slice(0, Math.max(0, samples.length - max))) this.#samples.delete(metric);
    this.#unknownCount = [...this.#samples.keys()].filter((metric) => !this.#isKnown(metric)).length;
  }

  /** Whether payloads, presence or checks are made from it: a site signal, or a known one of a sub-device here. */
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

/** Only what serves the site names other sub-devices; what anyone else calls so stays its own (`@device/…`). */
export function metricName(origin: SignalOrigin, name: string): string {
  const slash = name.indexOf('/');
  const isOwn = slash > 0 && name.slice(0, slash) === origin.subDeviceId;
  if (slash >= 0) return origin.servesSite || isOwn ? name : `@${origin.deviceId}/${name}`;
  if (origin.subDeviceId) return `${origin.subDeviceId}/${name}`;
  return origin.servesSite ? name : `@${origin.deviceId}/${name}`;
}
