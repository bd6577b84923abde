/**
 * Registers count energy and only rise. A meter that was replaced or reset begins anew: what it had counted is added
 * to what it counts from then on [C-4.5]. One that falls by less than a tenth is no reset but a slip of its last digits, or
 * of whoever sends them: what it had said holds until it says more. Pure.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import { isRegister } from '../../../protocol/telemetry.ts';
import type { Series } from './bucket.ts';
import { ExactSum } from './exact-sum.ts';

export interface RegisterState {
  /** The most that it said since it was last reset, kWh. */
  counted: number;
  /** What it had counted before its resets. */
  offset: number;
  /** The device's `ts`. */
  atMs: number;
  /** It says less than it did. */
  isHeld?: true;
}

const SLIP = 0.9;

/** `value`: what it says next, in the order of its device's `ts`. */
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
  // Nobody counts less than nothing.
  if (value < 0) return { counted: 0, offset: total, atMs, isHeld: true };
  return { counted: value, offset: total, atMs };
}

/** What it has counted since it was first heard, kWh. */
export function totalOf({ counted, offset }: RegisterState): number {
  return plus(offset, counted);
}

/** Whether the total is something else than what the device says. */
export function isComputed({ offset, isHeld }: RegisterState): boolean {
  return offset !== 0 || isHeld === true;
}

/** As decimals: what is added never makes it less, and shows no digits that nobody sent. */
function plus(one: number, other: number): number {
  const sum = new ExactSum();
  sum.add(one);
  sum.add(other);
  return sum.toNumber();
}

/** What a register's samples stand for, where that is something else than they say; the states move on. */
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

/** As many as there are signals; those that were silent for longest are forgotten. */
export function boundedRegisters(registers: Record<string, RegisterState>): Record<string, RegisterState> {
  const all = Object.entries(registers);
  if (all.length <= LIMIT.signalsPerSite) return registers;
  const newest = all.sort(([, left], [, right]) => right.atMs - left.atMs).slice(0, LIMIT.signalsPerSite);
  return Object.fromEntries(newest);
}
