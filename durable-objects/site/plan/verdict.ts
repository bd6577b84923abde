/**
 * The verdict on a setpoint: what the site exchanged with the grid while the setpoint stood on top, against what it
 * asked for [C-7.8]. Pure: samples and spans in, numbers out.
 */
import { type SiteSetpoint, targetSignedKw } from '../../../protocol/command.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { Span } from './rows.ts';

/** A value at a moment, epoch milliseconds; it holds until the next one. Null: a part of it is not known. */
export interface Point {
  atMs: number;
  value: number | null;
}

/** In the order of their moments: power in kW (+ = import), and the net of the grid's registers in kWh. */
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
  /** Of an ENERGY setpoint. */
  targetValueKwh?: number;
  actualValueKwh?: number;
  deviationKwh?: number;
}

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

/** When a setpoint that executes since then is judged. */
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

/** How long the plant may take to arrive at a target, each time it is told one anew. */
export function settlingMs(windowMs: number): number {
  return Math.min(LIMIT.settlingMs, windowMs / 4);
}

export function judge(
  setpoint: SiteSetpoint,
  spans: readonly Span[],
  settleMs: number,
  measured: Measured,
): Verdict {
  return setpoint.type === 'POWER'
    ? judgePower(setpoint, settled(spans, settleMs), measured.powerKw)
    : judgeEnergy(setpoint, spans, measured);
}

function judgePower(setpoint: SiteSetpoint, spans: readonly Span[], points: readonly Point[]): Verdict {
  const targetValueKw = round(targetSignedKw(setpoint));
  const { kwh, hours } = integrate(points, spans);
  if (hours === 0) return { status: 'COMPLETED', reason: 'unmeasured', targetValueKw };
  const actualValueKw = round(kwh / hours);
  const deviationKw = round(actualValueKw - targetValueKw);
  const isOff = exceeds(deviationKw, Math.max(0.05 * Math.abs(targetValueKw), 0.5));
  return {
    status: isOff ? 'DEVIATED' : 'COMPLETED',
    reason: null,
    actualValueKw,
    targetValueKw,
    deviationKw,
  };
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
  const isOff = exceeds(deviationKwh, Math.max(0.05 * Math.abs(targetValueKwh), 0.1));
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

/** Without the time that each span gives the plant to arrive. */
function settled(spans: readonly Span[], settleMs: number): Span[] {
  return spans.flatMap(([fromMs, toMs]) =>
    fromMs + settleMs < toMs ? [[fromMs + settleMs, toMs] as const] : [],
  );
}

/** A sample holds until the next; the last one before a span counts in it. */
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
 * By the registers next to both ends of each span; for what lies between a register and its end, when that is more
 * than half a minute, by the power. Undefined where a span has no two of them.
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

/** What the power makes of the time from one moment to another, negative backwards; nothing for a short one. */
function between(powerKw: readonly Point[], fromMs: number, toMs: number): number {
  if (Math.abs(toMs - fromMs) <= LIMIT.registerFreshMs) return 0;
  const [startMs, endMs] = [Math.min(fromMs, toMs), Math.max(fromMs, toMs)];
  return Math.sign(toMs - fromMs) * (integrated(powerKw, [[startMs, endMs]]) ?? 0);
}

/** More than so much; what both sides are rounded to does not count. */
function exceeds(deviation: number, tolerance: number): boolean {
  return Math.abs(deviation) - tolerance > 1e-9;
}

/** Watts and watt-hours are enough. */
function round(value: number): number {
  return Math.round(value * 1_000) / 1_000 + 0;
}
