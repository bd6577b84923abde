/**
 * The verdict on a setpoint: compares the site's grid exchange while the setpoint was active with its target
 * [C-7.8]. Pure: takes samples and spans, returns numbers.
 */
import { type SiteSetpoint, targetSignedKw } from '../../../protocol/command.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { Span } from './state.ts';

/** A value at a time, epoch ms, valid until the next point. Null: a part of the value is unknown. */
export interface Point {
  atMs: number;
  value: number | null;
}

/** Points in time order: power in kW (+ = import) and net grid registers (import − export) in kWh. */
export interface Measured {
  powerKw: readonly Point[];
  registerKwh: readonly Point[];
}

export interface Verdict {
  status: 'COMPLETED' | 'DEVIATED';
  reason: 'unmeasured' | null;
  actualValueKw?: number;
  targetValueKw: number;
  deviationKw?: number;
  /** The kWh values are present only for ENERGY setpoints. */
  targetValueKwh?: number;
  actualValueKwh?: number;
  deviationKwh?: number;
}

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

/** When the verdict is due on a setpoint that the plant has executed since `executingSinceMs`. */
export function verdictAtMs(
  setpoint: SiteSetpoint,
  window: { startsAtMs: number; endsAtMs: number | null },
  executingSinceMs: number,
): number {
  if (setpoint.type === 'POWER') return window.endsAtMs ?? executingSinceMs + LIMIT.openSetpointMs;
  const fromMs = Math.max(window.startsAtMs, executingSinceMs);
  const untilMs = fromMs + (setpoint.intervalMinutes ?? 0) * MINUTE_MS;
  return Math.min(window.endsAtMs ?? untilMs, untilMs);
}

/** The settling time after each activation of a POWER setpoint, in which measurements do not count. */
export function settlingTimeMs(windowMs: number): number {
  return Math.min(LIMIT.settlingMs, windowMs / 4);
}

export function judge(
  setpoint: SiteSetpoint,
  spans: readonly Span[],
  settlingMs: number,
  measured: Measured,
): Verdict {
  return setpoint.type === 'POWER'
    ? judgePower(setpoint, afterSettling(spans, settlingMs), measured.powerKw)
    : judgeEnergy(setpoint, spans, measured);
}

function judgePower(setpoint: SiteSetpoint, spans: readonly Span[], points: readonly Point[]): Verdict {
  const targetValueKw = round(targetSignedKw(setpoint));
  const { kwh, hours } = integrate(points, spans);
  if (hours === 0) return { status: 'COMPLETED', reason: 'unmeasured', targetValueKw };
  const actualValueKw = round(kwh / hours);
  const deviationKw = round(actualValueKw - targetValueKw);
  const isOff = exceeds(deviationKw, toleranceKw(targetValueKw));
  return {
    status: isOff ? 'DEVIATED' : 'COMPLETED',
    reason: null,
    actualValueKw,
    targetValueKw,
    deviationKw,
  };
}

/** How far a measured power may be from the target. */
export function toleranceKw(targetKw: number): number {
  return toleranceOf(targetKw, LIMIT.verdictToleranceKw);
}

function toleranceOf(target: number, least: number): number {
  return Math.max(LIMIT.verdictTolerance * Math.abs(target), least);
}

function judgeEnergy(setpoint: SiteSetpoint, spans: readonly Span[], measured: Measured): Verdict {
  const targetValueKw = round(targetSignedKw(setpoint));
  const hours = (setpoint.intervalMinutes ?? 0) / 60;
  const targetValueKwh = round(targetSignedKw(setpoint) * hours);
  const target = { targetValueKw, targetValueKwh };
  const kwh = counted(measured, spans) ?? integrated(measured.powerKw, spans);
  if (kwh === undefined) return { status: 'COMPLETED', reason: 'unmeasured', ...target };
  const actualValueKwh = round(kwh);
  const deviationKwh = round(actualValueKwh - targetValueKwh);
  const isOff = exceeds(deviationKwh, toleranceOf(targetValueKwh, LIMIT.verdictToleranceKwh));
  const actualValueKw = hours === 0 ? 0 : round(actualValueKwh / hours);
  return {
    status: isOff ? 'DEVIATED' : 'COMPLETED',
    reason: null,
    actualValueKw,
    deviationKw: round(actualValueKw - targetValueKw),
    actualValueKwh,
    deviationKwh,
    ...target,
  };
}

/** The spans without the settling time at the start of each. */
function afterSettling(spans: readonly Span[], settlingMs: number): Span[] {
  return spans.flatMap(([fromMs, toMs]) =>
    fromMs + settlingMs < toMs ? [[fromMs + settlingMs, toMs] as const] : [],
  );
}

/** Each sample is valid until the next; the last one before a span counts for its beginning. */
function integrate(points: readonly Point[], spans: readonly Span[]): { kwh: number; hours: number } {
  let [kwh, hours] = [0, 0];
  for (const [fromMs, toMs] of spans) {
    points.forEach(({ atMs, value }, index) => {
      const untilMs = Math.min(toMs, points[index + 1]?.atMs ?? toMs);
      const part = (untilMs - Math.max(fromMs, atMs)) / HOUR_MS;
      if (value === null || part <= 0) return;
      kwh += value * part;
      hours += part;
    });
  }
  return { kwh, hours };
}

function integrated(points: readonly Point[], spans: readonly Span[]): number | undefined {
  const { kwh, hours } = integrate(points, spans);
  return hours === 0 ? undefined : kwh;
}

/**
 * Energy from the register. The value for each end of a span is the last one at or before it; if the start has none,
 * the first one after it. If that value is more than half a minute from the end, the energy of the power between the
 * two is added or subtracted. Undefined if a span does not have two register values.
 */
function counted({ registerKwh: points, powerKw }: Measured, spans: readonly Span[]): number | undefined {
  let total = 0;
  for (const [fromMs, toMs] of spans) {
    const last = points.findLast(({ atMs }) => atMs <= toMs);
    const first = points.findLast(({ atMs }) => atMs <= fromMs) ?? points[0];
    if (!first || !last || first.atMs >= last.atMs || first.value === null || last.value === null) {
      return undefined;
    }
    total +=
      last.value - first.value + between(powerKw, fromMs, first.atMs) + between(powerKw, last.atMs, toMs);
  }
  return spans.length === 0 ? undefined : total;
}

/** Energy from the power between two times, negative if `toMs` is earlier; 0 for a short gap. */
function between(powerKw: readonly Point[], fromMs: number, toMs: number): number {
  if (Math.abs(toMs - fromMs) <= LIMIT.registerFreshMs) return 0;
  const [startMs, endMs] = [Math.min(fromMs, toMs), Math.max(fromMs, toMs)];
  return Math.sign(toMs - fromMs) * (integrated(powerKw, [[startMs, endMs]]) ?? 0);
}

/** Whether the deviation exceeds the tolerance; ignores rounding errors. */
function exceeds(deviation: number, tolerance: number): boolean {
  return Math.abs(deviation) - tolerance > 1e-9;
}

/** Rounds to watts or watt-hours; `+ 0` turns -0 into 0. */
function round(value: number): number {
  return Math.round(value * 1_000) / 1_000 + 0;
}

/** The times in which the plant followed a setpoint, up to `untilMs`, of the last day. */
export function spansOf(
  { spans, obeyedSinceMs }: { spans: readonly Span[]; obeyedSinceMs: number | null },
  untilMs: number,
): Span[] {
  const all: Span[] = obeyedSinceMs === null ? [...spans] : [...spans, [obeyedSinceMs, untilMs]];
  const earliestMs = untilMs - LIMIT.verdictDepthMs;
  return all.flatMap(([fromMs, toMs]) => {
    const span = [Math.max(fromMs, earliestMs), Math.min(toMs, untilMs)] as const;
    return span[0] < span[1] ? [span] : [];
  });
}
