/**
 * `npm run bench -- <id> [minutes] [--baseline]`: runs benchmarks, prints a table for each and writes JSON under
 * bench-results/. docs/performance.md quotes the results. A number after an id is its duration in minutes,
 * for benchmarks that have one. `--baseline` compares with what a user would build instead.
 */

import { showHelp } from '../show-help.ts';
import { amqp } from './amqp.ts';
import { assertQuiet } from './bench-stack.ts';
import { objects } from './objects.ts';
import { commandsOnBothSides } from './p1-baseline.ts';
import { commands, rowsOfCommands } from './p1-command.ts';
import { telemetryOnBothSides } from './p2-baseline.ts';
import { telemetry } from './p2-telemetry.ts';
import { fanOut } from './p3-fan-out.ts';
import { reads } from './p4-reads.ts';
import { idle } from './p5-idle.ts';
import { growth } from './p6-growth.ts';
import { recovery } from './p7-recovery.ts';
import { cost } from './p8-cost.ts';
import { boundary } from './p9-boundary.ts';
import { type Benchmark, run } from './runner.ts';
import { soak } from './soak.ts';

const BENCHES: Record<string, readonly Benchmark[]> = {
  amqp,
  objects,
  p1: [commands, rowsOfCommands],
  p2: [telemetry],
  p5: [idle],
  p6: [growth],
  p8: [cost],
  p9: [boundary],
  soak: [soak],
};
/** The same benchmarks on both sides: this product, and what a user would build instead. */
const BASELINE_BENCHES: Record<string, readonly Benchmark[]> = {
  p1: [commandsOnBothSides],
  p2: telemetryOnBothSides,
  p3: fanOut,
  p4: [reads],
  p7: [recovery],
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
for (const { id, minutes } of wanted)
  await run(isBaseline ? `${id}-baseline` : id, benches[id] ?? [], minutes);
