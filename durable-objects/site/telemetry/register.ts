/**
 * Registers count energy and only rise. When a meter is replaced or reset, its previous total is added to all
 * later values [C-4.5]. A decrease of less than a tenth is a glitch, not a reset: the previous value is kept
 * until the register exceeds it. Pure.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import { isRegister } from '../../../protocol/telemetry.ts';
import type { Series } from './bucket.ts';
import { ExactSum } from './exact-sum.ts';

export interface RegisterState {
  /** The highest value since the last reset, kWh. */
  counted: number;
  /** The total before the last reset, kWh; 0 if there was none. */
  offset: number;
  /** The device's `ts`. */
  atMs: number;
  /** True while the device reports less than `counted`, because of a glitch or a negative value. */
  isHeld?: true;
}

const SLIP = 0.9;

/** Applies the next value, in the order of the device's `ts`. */
export function advanceRegister(
  state: RegisterState | undefined,
  value: number,
  atMs: number,
): RegisterState {
  if (!state) return { counted: value, offset: 0, atMs };
  const { counted, offset } = state;
  if (value >= counted) return { counted: value, offset, atMs };
  if (counted > 0 && value > counted * SLIP) return { counted, offset, atMs, isHeld: true };
  const total = plus(offset, counted);
  // A register cannot be negative: treat the value as a reset to 0.
  if (value < 0) return { counted: 0, offset: total, atMs, isHeld: true };
  return { counted: value, offset: total, atMs };
}

/** The value of the register, kWh, as if it had never been reset or fallen. */
export function totalOf({ counted, offset }: RegisterState): number {
  return plus(offset, counted);
}

/** Whether the total differs from the value that the device reports. */
export function isComputed({ offset, isHeld }: RegisterState): boolean {
  return offset !== 0 || isHeld === true;
}

/** Adds as decimals, so that the sum has no binary rounding digits and never decreases. */
function plus(one: number, other: number): number {
  const sum = new ExactSum();
  sum.add(one);
  sum.add(other);
  return sum.toNumber();
}

/**
 * The corrected total of each sample, undefined where it equals the value. Advances the state in `registers`.
 */
export function totals(
  registers: Record<string, RegisterState>,
  metric: string,
  { atMs, values }: Series,
): (number | undefined)[] | undefined {
  if (!isRegister(metric)) return undefined;
  return values.map((value, index) => {
    const state = advanceRegister(
      Object.hasOwn(registers, metric) ? registers[metric] : undefined,
      value,
      atMs[index] ?? 0,
    );
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
