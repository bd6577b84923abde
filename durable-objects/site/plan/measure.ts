/** What the journal tells of a site's power and registers over a time, for a verdict [C-7.8]. */
import { LIMIT } from '../../../protocol/limits.ts';
import { SITE_BOUNDS } from '../bounds.ts';
import type { SiteParts } from '../parts.ts';
import { controllablePower, gridPower, gridRegisters } from '../telemetry/canonical.ts';
import { type SignalOrigin, Snapshot } from '../telemetry/snapshot.ts';
import type { Span } from './rows.ts';
import type { Measured, Point } from './verdict.ts';

/** Signals that power and registers are made of. */
const MEASURING = /(owerKw|RegisterKwh)$/;

interface Sample {
  atMs: number;
  receivedMs: number;
  origin: SignalOrigin;
  data: Record<string, number>;
}

/**
 * Samples in the order of their devices' `ts`, from an hour before the first span on, so that what held at its start
 * counts. Registers tell of the whole site: a setpoint for its controllable assets alone is measured by their power.
 * Of a site that told more since then than one turn may hold in memory, what it told last.
 */
export function measure(site: SiteParts, spans: readonly Span[], includeConsumption: boolean): Measured {
  const powerKw = new Series();
  const registers = new Registers();
  const { registry } = site;
  const snapshot = new Snapshot((externalId) => registry.isSubDevice(externalId));
  const power = includeConsumption ? gridPower : controllablePower;
  for (const { atMs, receivedMs, origin, data } of samplesOf(site, spans)) {
    snapshot.apply(origin, { ts: atMs, receivedMs }, data);
    powerKw.add(atMs, power(snapshot, registry.subDevices, atMs));
    const tells = includeConsumption && Object.keys(data).some((name) => name.endsWith('RegisterKwh'));
    if (tells) registers.add(atMs, gridRegisters(snapshot, registry.subDevices));
  }
  return { powerKw: powerKw.points, registerKwh: registers.points() };
}

function samplesOf({ journal }: SiteParts, spans: readonly Span[]): Sample[] {
  const [first] = spans;
  if (!first) return [];
  const sinceMs = first[0] - LIMIT.verdictLookBackMs;
  const toMs = Math.max(...spans.map(([, untilMs]) => untilMs));
  const samples: Sample[] = [];
  for (const { entry, data } of journal.readingsSince(sinceMs, SITE_BOUNDS.verdictChars)) {
    if (entry.ts < sinceMs || entry.ts > toMs) continue;
    const measuring = Object.entries(data).filter(([name]) => MEASURING.test(name));
    if (measuring.length === 0) continue;
    const origin = journal.originOf(entry);
    const { ts: atMs, receivedMs } = entry;
    samples.push({ atMs, receivedMs, origin, data: Object.fromEntries(measuring) });
  }
  return samples.sort((left, right) => left.atMs - right.atMs);
}

/** Points in the order of their moments; those that say nothing new are left out. */
class Series {
  readonly points: Point[] = [];

  add(atMs: number, value: number | null): void {
    const last = this.points.at(-1);
    if (last ? last.value === value : value === null) return;
    if (last?.atMs === atMs) this.points.pop();
    this.points.push({ atMs, value });
  }
}

interface Counted {
  atMs: number;
  imported: number | null;
  exported: number | null;
}

/** Imported less exported. Counters only rise: with one that fell, nothing of them can be compared. */
class Registers {
  readonly #counted: Counted[] = [];
  #hasFallen = false;

  add(atMs: number, { imported, exported }: Omit<Counted, 'atMs'>): void {
    const last = this.#counted.at(-1);
    if (imported === null && exported === null) return;
    this.#hasFallen ||= (imported ?? 0) < (last?.imported ?? 0) || (exported ?? 0) < (last?.exported ?? 0);
    if (last?.atMs === atMs) this.#counted.pop();
    this.#counted.push({ atMs, imported, exported });
  }

  /** Of a site that tells both, only where both are known. */
  points(): Point[] {
    if (this.#hasFallen) return [];
    const tells = (side: 'imported' | 'exported') => this.#counted.some((one) => one[side] !== null);
    const [isImportTold, isExportTold] = [tells('imported'), tells('exported')];
    return this.#counted.flatMap(({ atMs, imported, exported }) => {
      const isWhole = (imported !== null || !isImportTold) && (exported !== null || !isExportTold);
      return isWhole ? [{ atMs, value: (imported ?? 0) - (exported ?? 0) }] : [];
    });
  }
}
