/**
 * The two sides of a comparison: this product, and what a user would build instead. The same load drives both, in turn
 * A B A B, and each figure is the median of the rounds with their range.
 */
import type { Partner } from '../partner.ts';
import type { SeededPlant } from '../seed.ts';
import type { BaselineStack } from './baseline/stack.ts';
import type { BenchStack } from './bench-stack.ts';
import { type Figure, median, processCpuMs } from './figures.ts';
import type { DeviceSide } from './instant-device.ts';
import type { Observed } from './telemetry-load.ts';

export const ROUNDS = Number(process.env.SITEWIRE_BENCH_ROUNDS ?? 5);

export interface Side extends DeviceSide, Observed {
  name: 'ours' | 'baseline';
  plants: readonly SeededPlant[];
  partner(): Promise<Partner>;
}

export function ourSide(stack: BenchStack): Side {
  const { ca, ports, token, plants, partner } = stack;
  return {
    ...{ name: 'ours', ca, ports, token, plants },
    partner: () => partner(),
    cpuMs: () => processCpuMs(stack.edge.pid() ?? 0) + processCpuMs(stack.bridgePid),
  };
}

export function baselineSide(stack: BaselineStack): Side {
  const { ca, ports, plants } = stack;
  return {
    ...{ name: 'baseline', ca, ports, plants },
    token: (deviceId) => stack.token(deviceId),
    partner: () => stack.partner(),
    cpuMs: () => stack.cpuMs(),
    onStored: (listener) => {
      stack.onStored = listener;
      return () => {
        stack.onStored = () => {};
      };
    },
  };
}

/** The figures of one round of one side, by name. */
export type Measured = Readonly<Record<string, { value: number; unit: string }>>;

/** Alternates between the sides; returns what each measured in each round. */
export async function alternate<One>(
  sides: readonly One[],
  measure: (side: One) => Promise<Measured>,
  rounds = ROUNDS,
): Promise<Measured[][]> {
  const all: Measured[][] = sides.map(() => []);
  for (let round = 0; round < rounds; round++) {
    for (const [index, side] of sides.entries()) all[index]?.push(await measure(side));
    console.log(`  round ${round + 1} of ${rounds}`);
  }
  return all;
}

/** Three figures for each measure: ours, the other side's, and the ratio of the rounds. */
export function compared(
  ours: readonly Measured[],
  others: readonly Measured[],
  other: string,
  targets: Readonly<Record<string, string>> = {},
): Figure[] {
  return Object.entries(ours[0] ?? {}).flatMap(([name, { unit }]) => {
    const valuesOf = (rounds: readonly Measured[]) => rounds.map((round) => round[name]?.value ?? Number.NaN);
    const [mine, theirs] = [valuesOf(ours), valuesOf(others)];
    const ratios = mine.map((value, round) => value / (theirs[round] ?? Number.NaN));
    const target = targets[name];
    const both: Figure[] = [
      { name: `${name}, ours`, unit, ...rangeOf(mine) },
      { name: `${name}, ${other}`, unit, ...rangeOf(theirs) },
    ];
    // Of counts that are usually 0 there is no ratio.
    if (ratios.every((ratio) => Number.isFinite(ratio)))
      both.push({ name: `${name}, ratio`, unit: '×', ...rangeOf(ratios), ...(target ? { target } : {}) });
    return both;
  });
}

function rangeOf(values: readonly number[]): Pick<Figure, 'value' | 'least' | 'most'> {
  return { value: median(values), least: Math.min(...values), most: Math.max(...values) };
}
