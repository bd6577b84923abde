/**
 * `npm run sitewire -- fuzz --frames 10000000 [--seed N]`: runs random clients against the bridge's AMQP engine until
 * they have sent the given number of frames. It prints its seed first, and for a failed walk the shortest walk
 * that fails and the command that repeats it. It also fails if the memory of the process grows too much.
 */
import { parseArgs } from 'node:util';
import { fuzz } from './fuzz/batch.ts';
import { showHelp } from './show-help.ts';

/** How much memory the process may gain after its warm-up. */
const GROWTH_MIB = 300;
const WARM_FRAMES = 200_000;

showHelp(
  'npm run sitewire -- fuzz [--frames 10000000] [--seed <number>]: runs random AMQP clients against the bridge',
);
const { values } = parseArgs({
  options: { frames: { type: 'string', default: '10000000' }, seed: { type: 'string' } },
});
for (const [name, value] of Object.entries(values)) {
  if (!/^\d{1,12}$/.test(value)) {
    console.error(`--${name} must be a number`);
    process.exit(2);
  }
}
const wanted = Number(values.frames);
const firstSeed = Number(values.seed ?? Date.now() % 2 ** 31);
let seed = firstSeed;
console.log(`amqp fuzz: seed ${firstSeed}`);

function fail(error: unknown): never {
  console.error(`amqp fuzz: failed with seed ${seed}: npm run sitewire -- fuzz --frames 1 --seed ${seed}`);
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
}
process.on('uncaughtException', fail);
process.on('unhandledRejection', fail);

const startedMs = performance.now();
let warmMib: number | undefined;
let reportedMs = startedMs;
for (let frames = 0; frames < wanted; seed++) {
  try {
    frames += await fuzz(seed);
  } catch (error) {
    fail(error);
  }
  const mib = process.memoryUsage.rss() / 2 ** 20;
  if (frames >= WARM_FRAMES) warmMib ??= mib;
  if (warmMib !== undefined && mib > warmMib + GROWTH_MIB) {
    fail(new Error(`the process grew from ${Math.round(warmMib)} to ${Math.round(mib)} MiB`));
  }
  const now = performance.now();
  if (now - reportedMs < 5_000 && frames < wanted) continue;
  reportedMs = now;
  const perSecond = Math.round(frames / ((now - startedMs) / 1_000));
  console.log(
    `amqp fuzz: ${frames} of ${wanted} frames, ${perSecond}/s, ${Math.round(mib)} MiB, seed ${seed}`,
  );
}
