/**
 * Runs a benchmark, which is data: its stack or its two sides, its load, what it measures, its aims. The runner starts
 * and stops the stacks, runs the rounds in turn A B A B, and reports medians, ranges and ratios.
 */
import { type BenchOptions, type BenchStack, startBenchStack } from './bench-stack.ts';
import { type Figure, median, report } from './figures.ts';

export const ROUNDS = Number(process.env.SITEWIRE_BENCH_ROUNDS ?? 5);

/** Figures by name. */
export type Measured = Readonly<Record<string, { value: number; unit: string }>>;

interface Described {
  title: string;
  /** Each is the aim of every figure whose name contains the key; of two sides, for their ratio. */
  aims?: Readonly<Record<string, string>>;
}

export interface Benchmark extends Described {
  /** `minutes`: how long it takes, for those that have a duration. */
  figures(minutes?: number): Promise<Figure[]>;
}

/** What the product does alone on a stack. */
interface Alone extends Described {
  stack: BenchOptions;
  measure(stack: BenchStack, minutes?: number): Promise<Measured>;
}

export function alone({ stack: options, measure, ...described }: Alone): Benchmark {
  return {
    ...described,
    figures: async (minutes) => {
      const stack = await startBenchStack(options);
      try {
        return Object.entries(await measure(stack, minutes)).map(([name, one]) => ({ name, ...one }));
      } finally {
        await stack.stop();
      }
    },
  };
}

/** The product's side and the other one, both running. */
export interface Sides<Side> {
  sides: readonly [ours: Side, other: Side];
  stop(): Promise<void>;
}

/** What both sides do under the same load. */
interface Compared<Side, Loaded> extends Described {
  /** What the other side is, for the names of its figures. */
  other: string;
  start(): Promise<Sides<Side>>;
  /** Connects the clients of a side. */
  load(side: Side): Promise<Loaded>;
  warmUp?(loaded: Loaded): Promise<unknown>;
  /** One round. */
  measure(loaded: Loaded): Promise<Measured>;
  /** Disconnects the clients. */
  end?(loaded: Loaded): unknown;
}

export function compared<Side, Loaded>({
  other,
  start,
  load,
  warmUp,
  measure,
  end,
  ...described
}: Compared<Side, Loaded>): Benchmark {
  return {
    ...described,
    figures: async () => {
      const { sides, stop } = await start();
      const all: Loaded[] = [];
      try {
        for (const side of sides) all.push(await load(side));
        for (const one of all) await warmUp?.(one);
        const rounds: Measured[][] = all.map(() => []);
        for (let round = 1; round <= ROUNDS; round++) {
          for (const [index, one] of all.entries()) rounds[index]?.push(await measure(one));
          console.log(`  round ${round} of ${ROUNDS}`);
        }
        return ratiosOf(rounds, other);
      } finally {
        try {
          for (const one of all) await end?.(one);
        } finally {
          await stop();
        }
      }
    },
  };
}

/** Runs the parts of a benchmark and reports each. */
export async function run(id: string, parts: readonly Benchmark[], minutes?: number): Promise<void> {
  for (const part of parts) report(id, part.title, await withAims(part, minutes));
}

/** The figures of a benchmark, each with its aim. */
export async function withAims({ figures, aims = {} }: Benchmark, minutes?: number): Promise<Figure[]> {
  const found = await figures(minutes);
  const isRatio = ({ name }: Figure) => name.endsWith(', ratio');
  const isOfTwoSides = found.some(isRatio);
  return found.map((figure) => {
    const [, target] = Object.entries(aims).find(([key]) => figure.name.includes(key)) ?? [];
    return target === undefined || (isOfTwoSides && !isRatio(figure)) ? figure : { ...figure, target };
  });
}

/** Three figures for each measure: ours, the other side's, and the ratio of the rounds. */
function ratiosOf([ours = [], others = []]: readonly Measured[][], other: string): Figure[] {
  return Object.entries(ours[0] ?? {}).flatMap(([name, { unit }]) => {
    const valuesOf = (rounds: readonly Measured[]) => rounds.map((round) => round[name]?.value ?? Number.NaN);
    const [mine, theirs] = [valuesOf(ours), valuesOf(others)];
    const ratios = mine.map((value, round) => value / (theirs[round] ?? Number.NaN));
    return [
      { name: `${name}, ours`, unit, ...rangeOf(mine) },
      { name: `${name}, ${other}`, unit, ...rangeOf(theirs) },
      // Of counts that are usually 0 there is no ratio.
      ...(ratios.every(Number.isFinite) ? [{ name: `${name}, ratio`, unit: '×', ...rangeOf(ratios) }] : []),
    ];
  });
}

function rangeOf(values: readonly number[]): Pick<Figure, 'value' | 'least' | 'most'> {
  return { value: median(values), least: Math.min(...values), most: Math.max(...values) };
}
