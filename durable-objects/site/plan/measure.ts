/** Reads a site's power and registers from the journal, for a verdict [C-7.8]. */
import { LIMIT } from '../../../protocol/limits.ts';
import type { PlantCopy } from '../../../registry/plant-copy.ts';
import { SITE_BOUNDS } from '../bounds.ts';
import { controllablePower, gridPower, gridRegisters } from '../telemetry/canonical.ts';
import type { Journal } from '../telemetry/journal.ts';
import { type SignalOrigin, Snapshot } from '../telemetry/snapshot.ts';
import type { Span } from './state.ts';
import type { Measured, Point } from './verdict.ts';

/** Matches the names of signals that are a power or a register. */
const MEASURING = /(owerKw|RegisterKwh)$/;

/** The powers and registers of one message. */
export interface MeasuredSample {
  atMs: number;
  receivedMs: number;
  origin: SignalOrigin;
  data: Record<string, number>;
}

/**
 * Reads samples in the order of the devices' `ts`, starting `verdictLookBackMs` before the first span, so
 * that the value valid at its start is included. Registers measure the whole site, so a setpoint for only the
 * controllable assets is measured by power. If there are more samples than one turn may hold in memory, only
 * the newest are used.
 */
export function measure(
  journal: Journal,
  registry: PlantCopy,
  spans: readonly Span[],
  includeConsumption: boolean,
): Measured {
  return measuredBy(samplesOf(journal, spans), registry, includeConsumption);
}

/** The same of given samples, in the order of the devices' `ts`. */
export function measuredBy(
  samples: readonly MeasuredSample[],
  registry: Pick<PlantCopy, 'subDevices' | 'isSubDevice'>,
  includeConsumption: boolean,
): Measured {
  const powerKw = new Series();
  const registers = new Registers();
  const snapshot = new Snapshot((externalId) => registry.isSubDevice(externalId));
  const power = includeConsumption ? gridPower : controllablePower;
  for (const { atMs, receivedMs, origin, data } of samples) {
    snapshot.apply(origin, { ts: atMs, receivedMs }, data);
    powerKw.add(atMs, power(snapshot, registry.subDevices, atMs));
    const hasRegisters = includeConsumption && Object.keys(data).some((name) => name.endsWith('RegisterKwh'));
    if (hasRegisters) registers.add(atMs, gridRegisters(snapshot, registry.subDevices));
  }
  return { powerKw: powerKw.points, registerKwh: registers.points() };
}

/** The time of the samples that matter. */
export function timeOf(spans: readonly Span[], first: Span): { sinceMs: number; toMs: number } {
  return {
    sinceMs: first[0] - LIMIT.verdictLookBackMs,
    toMs: Math.max(...spans.map(([, untilMs]) => untilMs)),
  };
}

function samplesOf(journal: Journal, spans: readonly Span[]): MeasuredSample[] {
  const [first] = spans;
  if (!first) return [];
  const { sinceMs, toMs } = timeOf(spans, first);
  const samples: MeasuredSample[] = [];
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

/** Points in time order, without those that repeat the previous value. */
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

/**
 * Imported minus exported energy. Registers only rise. If a register fell, its values before and after the
 * fall cannot be compared, and none is used.
 */
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

  /** If the site has both registers, only points where both are known. */
  points(): Point[] {
    if (this.#hasFallen) return [];
    const isSent = (side: 'imported' | 'exported') => this.#counted.some((one) => one[side] !== null);
    const [hasImport, hasExport] = [isSent('imported'), isSent('exported')];
    return this.#counted.flatMap(({ atMs, imported, exported }) => {
      const isWhole = (imported !== null || !hasImport) && (exported !== null || !hasExport);
      return isWhole ? [{ atMs, value: (imported ?? 0) - (exported ?? 0) }] : [];
    });
  }
}
