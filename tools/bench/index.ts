/**
 * `npm run bench -- <id> [minutes] [--baseline]`: runs benchmarks, prints a table for each and writes JSON under
 * bench-results/. docs/performance.md quotes the results. A number after an id is its duration in minutes,
 * for benchmarks that have one. `--baseline` compares with what a user would build instead.
 */

import { showHelp } from '../show-help.ts';
import { benchAmqp } from './amqp.ts';
import { assertQuiet } from './bench-stack.ts';
import { benchObjects } from './objects.ts';
import { benchCommandsOnBothSides } from './p1-baseline.ts';
import { benchCommands } from './p1-command.ts';
import { benchTelemetryOnBothSides } from './p2-baseline.ts';
import { benchTelemetry } from './p2-telemetry.ts';
import { benchFanOut } from './p3-fan-out.ts';
import { benchReads } from './p4-reads.ts';
import { benchIdle } from './p5-idle.ts';
import { benchGrowth } from './p6-growth.ts';
import { benchRecovery } from './p7-recovery.ts';
import { benchCost } from './p8-cost.ts';
import { benchBoundary } from './p9-boundary.ts';
import { benchSoak } from './soak.ts';

const BENCHES: Record<string, (minutes: number | undefined) => Promise<void>> = {
  amqp: benchAmqp,
  objects: benchObjects,
  p1: benchCommands,
  p2: benchTelemetry,
  p5: benchIdle,
  p6: benchGrowth,
  p8: benchCost,
  p9: benchBoundary,
  soak: benchSoak,
};
/** The same benchmarks on both sides: this product, and what a user would build instead. */
const BASELINE_BENCHES: Record<string, () => Promise<void>> = {
  p1: benchCommandsOnBothSides,
  p2: benchTelemetryOnBothSides,
  p3: benchFanOut,
  p4: benchReads,
  p7: benchRecovery,
};
const KNOWN = `${Object.keys(BENCHES).join(', ')}; with --baseline: ${Object.keys(BASELINE_BENCHES).join(', ')}`;
showHelp(`npm run bench -- [<benchmark> [<minutes>]]… [--baseline]\n  ${KNOWN}`);

/** The benchmarks that run without arguments: those that take minutes and not an hour. */
const SHORT = ['p1', 'p2'];

const words = process.argv.slice(2);
const isBaseline = words.includes('--baseline');
const benches = isBaseline ? BASELINE_BENCHES : BENCHES;
const wanted: { id: string; minutes: number | undefined }[] = [];
for (const word of words.filter((one) => one !== '--baseline')) {
  const last = wanted.at(-1);
  if (/^\d+(\.\d+)?$/.test(word) && last) last.minutes = Number(word);
  else wanted.push({ id: word, minutes: undefined });
}
if (wanted.length === 0) wanted.push(...SHORT.map((id) => ({ id, minutes: undefined })));
const unknown = wanted.filter(({ id }) => !Object.hasOwn(benches, id)).map(({ id }) => id);
if (unknown.length > 0) throw new Error(`Unknown benchmark ${unknown.join(', ')}; known are ${KNOWN}`);
assertQuiet();
for (const { id, minutes } of wanted) await benches[id]?.(minutes);
