/**
 * Registers count energy and only rise [C-4.5]. A meter that restarts sends nonsense for a reading, often 0: a value that
 * leaves the register's course is believed only when the values after it stay there. Until then the total stands still,
 * and it never rises by more than the meter's connection can carry. Pure.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import { isRegister } from '../../../protocol/telemetry.ts';
import type { Series } from './bucket.ts';
import { ExactSum } from './exact-sum.ts';

export interface RegisterState {
  /** The last value that was believed, kWh. */
  counted: number;
  /** The total when the meter began to count from `origin`, kWh; 0 of a register that was never reset. */
  offset: number;
  /** The value at that time, kWh; absent: 0. */
  origin?: number;
  /** The device's `ts`. */
  atMs: number;
  /** True while the device reports a value that is not believed. */
  isHeld?: true;
  /** The `ts` of the last value that was believed. */
  sureAtMs?: number;
  /** Energy that the connection could have carried lately and the register has not counted yet, kWh. */
  budgetKwh?: number;
  /** Its course before the last fall that was believed. */
  former?: Former | undefined;
  /** Values off the course, until they are believed. */
  doubt?: Doubt;
  /** The exchange that was applied last. */
  exchangedAtMs?: number;
}

type Former = Pick<RegisterState, 'counted' | 'offset'> & { origin?: number | undefined; sureAtMs: number };

interface Doubt {
  isFall: boolean;
  /** The first of the values. */
  value: number;
  sinceMs: number;
  /** How many followed the first one. */
  readings: number;
}

/** What is known of a register besides its values. */
export interface RegisterCourse {
  /** The most that the meter's connection carries, kW. */
  mostKw: number;
  /** When the meter was exchanged, or its total set, by an admin; in the order of time. */
  exchanges?: readonly MeterExchange[] | undefined;
}

/** From `atMs` on, the value `value` of the register is the total `totalKwh`. */
export interface MeterExchange {
  atMs: number;
  value: number;
  totalKwh: number;
}

/** A decrease of less than a tenth is a glitch, not a reset: the value is kept until the register exceeds it. */
const SLIP = 0.9;
/** Values off the course are believed after so many further readings, or after this time. */
const SURE_READINGS = 2;
const SURE_MS = 60_000;
const HOUR_MS = 3_600_000;
/** A usual step of a display. */
const STEP_KWH = 1;
/** How long after a fall the register may take up its former course. */
const FORMER_MS = 24 * HOUR_MS;
/** Where meters begin again from zero: the digits of a display, or 32 bits. */
const OVERFLOWS = [1e5, 1e6, 1e7, 1e8, 1e9, 2 ** 32];

/** Applies the next value, in the order of the device's `ts`. A register cannot be negative: such a value counts as 0. */
export function advanceRegister(
  before: RegisterState | undefined,
  value: number,
  atMs: number,
  { mostKw, exchanges }: RegisterCourse,
): RegisterState {
  const slackKwh = slackOf(mostKw);
  let state = before;
  for (const exchange of exchanges ?? [])
    if (atMs >= exchange.atMs) state = exchanged(state, exchange, slackKwh);
  const shown = Math.max(0, value);
  const after = state ? advanced(state, shown, atMs, mostKw) : begun(shown, atMs, slackKwh);
  return value < 0 ? { ...after, isHeld: true } : after;
}

function begun(value: number, atMs: number, budgetKwh: number): RegisterState {
  return { counted: value, offset: 0, atMs, sureAtMs: atMs, budgetKwh };
}

function advanced(state: RegisterState, value: number, atMs: number, mostKw: number): RegisterState {
  const { counted, doubt, sureAtMs = state.atMs } = state;
  const slackKwh = slackOf(mostKw);
  const carriedKwh = (sinceMs: number) => slackKwh + (mostKw * Math.max(0, atMs - sinceMs)) / HOUR_MS;
  const earnedKwh = (state.budgetKwh ?? slackKwh) + carriedKwh(state.atMs) - slackKwh;
  const budgetKwh = Math.min(earnedKwh, carriedKwh(Math.min(state.atMs, atMs - HOUR_MS)));
  const believed = (next: RegisterState, energyKwh: number): RegisterState => ({
    ...next,
    ...(next.former && atMs - next.former.sureAtMs > FORMER_MS ? { former: undefined } : {}),
    budgetKwh: Math.max(0, budgetKwh - energyKwh),
  });
  const rest = { ...restOf(state), atMs, sureAtMs: atMs };
  const again = resumed(state, value, atMs, carriedKwh);
  if (again) return believed(again, totalOf(again) - totalOf(state));
  const riseKwh = value - counted;
  if (riseKwh >= 0 && riseKwh <= Math.min(budgetKwh, carriedKwh(state.atMs)))
    return believed({ ...rest, counted: value }, riseKwh);
  const held = { ...restOf(state), counted, atMs, sureAtMs, budgetKwh, isHeld: true as const };
  if (riseKwh < 0 && counted > 0 && value > counted * SLIP) return held;
  const isFall = riseKwh < 0;
  // Values on another side of the course are another doubt.
  if (doubt?.isFall !== isFall) return { ...held, doubt: { isFall, value, sinceMs: atMs, readings: 0 } };
  const readings = doubt.readings + 1;
  if (readings < SURE_READINGS && atMs - doubt.sinceMs < SURE_MS)
    return { ...held, doubt: { ...doubt, readings } };
  // A display with coarse steps, or a value after others were lost.
  if (!isFall && riseKwh <= budgetKwh) return believed({ ...rest, counted: value }, riseKwh);
  const mostKwh = Math.min(budgetKwh, carriedKwh(sureAtMs));
  const energyKwh = energyOf(counted, value, doubt.value, mostKwh);
  const { offset, origin } = state;
  const former = isFall ? { former: { counted, offset, origin, sureAtMs } } : {};
  return believed(
    { ...rest, ...former, counted: value, offset: sum(totalOf(state), energyKwh), origin: value },
    energyKwh,
  );
}

/**
 * The state if the value continues the course that the register had before it fell: the fall was no reset, only longer than
 * a moment. The total does not fall.
 */
function resumed(
  state: RegisterState,
  value: number,
  atMs: number,
  carriedKwh: (sinceMs: number) => number,
): RegisterState | undefined {
  const { former, counted, exchangedAtMs } = state;
  if (!former || atMs - former.sureAtMs > FORMER_MS || counted >= former.counted * SLIP) return undefined;
  const riseKwh = value - former.counted;
  // A meter that was reset comes past its former value in small steps.
  if (value - counted <= STEP_KWH || riseKwh < 0 || riseKwh > carriedKwh(former.sureAtMs)) return undefined;
  const { offset, origin } = former;
  const known = {
    counted: value,
    atMs,
    sureAtMs: atMs,
    ...(exchangedAtMs === undefined ? {} : { exchangedAtMs }),
  };
  const course = { ...known, offset, ...(origin === undefined ? {} : { origin }) };
  const total = totalOf(state);
  return totalOf(course) >= total ? course : { ...known, offset: total, origin: value };
}

/** What a value that is believed though it is off the course adds, kWh. `first`: the first one there. */
function energyOf(counted: number, value: number, first: number, mostKwh: number): number {
  const limit = OVERFLOWS.find((one) => value < counted && counted < one && counted >= one * SLIP);
  const overflowed = limit === undefined ? undefined : sum(limit, -counted, value);
  // A meter that only shows 0 does not count.
  if (overflowed !== undefined && value > first && overflowed <= mostKwh) return overflowed;
  // It began again from zero.
  if (value < counted && value <= mostKwh) return value;
  // Another meter, or nonsense that lasts: only what it has counted since it came.
  return Math.max(0, Math.min(sum(value, -first), mostKwh));
}

/** What a register may count at once: a step of its display, and a minute at full power. */
function slackOf(mostKw: number): number {
  return Math.max(STEP_KWH, mostKw / 60);
}

function exchanged(
  state: RegisterState | undefined,
  { atMs, value, totalKwh }: MeterExchange,
  slackKwh: number,
): RegisterState {
  if (state && (state.exchangedAtMs ?? 0) >= atMs) return state;
  // A value that came after the exchange was recorded may be dated before it.
  const offset = Math.max(totalKwh, state ? totalOf(state) : 0);
  return { ...begun(value, atMs, slackKwh), offset, origin: value, exchangedAtMs: atMs };
}

/** What of a state stays when its value changes. */
function restOf({ offset, origin, exchangedAtMs, former }: RegisterState) {
  return {
    offset,
    ...(origin === undefined ? {} : { origin }),
    ...(exchangedAtMs === undefined ? {} : { exchangedAtMs }),
    ...(former === undefined ? {} : { former }),
  };
}

/** The value of the register, kWh, as if it had never been reset or fallen. */
export function totalOf({ counted, offset, origin = 0 }: RegisterState): number {
  return sum(offset, counted, -origin);
}

/** Whether the total differs from the value that the device reports. */
export function isComputed({ offset, origin = 0, isHeld }: RegisterState): boolean {
  return offset !== origin || isHeld === true;
}

/** Adds as decimals, so that the sum has no binary rounding digits and never decreases. */
function sum(...parts: number[]): number {
  const exact = new ExactSum();
  for (const part of parts) exact.add(part);
  return exact.toNumber();
}

/**
 * The corrected total of each sample, undefined where it equals the value. Advances the state in `registers`.
 */
export function totals(
  registers: Record<string, RegisterState>,
  metric: string,
  { atMs, values }: Series,
  courseOf: (metric: string) => RegisterCourse,
): (number | undefined)[] | undefined {
  if (!isRegister(metric)) return undefined;
  const course = courseOf(metric);
  return values.map((value, index) => {
    const before = Object.hasOwn(registers, metric) ? registers[metric] : undefined;
    const state = advanceRegister(before, value, atMs[index] ?? 0, course);
    registers[metric] = state;
    return isComputed(state) ? totalOf(state) : undefined;
  });
}

/** Limits the registers to the number of signals of a site; drops the least recently updated. */
export function boundedRegisters(registers: Record<string, RegisterState>): Record<string, RegisterState> {
  const all = Object.entries(registers);
  if (all.length <= LIMIT.signalsPerSite) return registers;
  const newest = all.sort(([, left], [, right]) => right.atMs - left.atMs).slice(0, LIMIT.signalsPerSite);
  return Object.fromEntries(newest);
}
