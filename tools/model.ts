/**
 * `npm run sitewire -- model --steps 1000000 [--seed N]`: compares the plan of a site with its model for the given
 * number of steps. Each process runs a part of them, so that progress can be shown.
 */
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';
import { showHelp } from './show-help.ts';

const WALKS = 'test/durable-objects/site/plan/model-';
const STEPS_PER_PROCESS = 20_000;

showHelp(
  'npm run sitewire -- model [--steps 1000000] [--seed <number>]: compares the plan of a site with its model',
);
const { values } = parseArgs({
  options: { steps: { type: 'string', default: '1000000' }, seed: { type: 'string' } },
});
for (const [name, value] of Object.entries(values)) {
  if (!/^\d{1,12}$/.test(value)) {
    console.error(`--${name} must be a number`);
    process.exit(2);
  }
}
const wanted = Number(values.steps);
const firstSeed = Number(values.seed ?? Date.now() % 2 ** 31);
let seed = firstSeed;
for (let steps = 0; steps < wanted; seed++) {
  const piece = Math.min(STEPS_PER_PROCESS, wanted - steps);
  const { status } = spawnSync(
    process.execPath,
    ['node_modules/vitest/vitest.mjs', 'run', '--reporter=dot', WALKS],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
      encoding: 'utf8',
      env: {
        ...process.env,
        SITEWIRE_TESTS: 'all',
        SITEWIRE_MODEL_STEPS: String(piece),
        SITEWIRE_MODEL_SEED: String(seed),
      },
    },
  );
  if (status !== 0) fail(seed, piece);
  steps += piece;
  console.log(`plan model: ${steps} of ${wanted} steps, seeds ${firstSeed} to ${seed}`);
}

/** Runs the failed seed again with full output, then exits. */
function fail(failedSeed: number, steps: number): never {
  console.error(`plan model: failed with seed ${failedSeed}`);
  const env = {
    SITEWIRE_TESTS: 'all',
    SITEWIRE_MODEL_STEPS: String(steps),
    SITEWIRE_MODEL_SEED: String(failedSeed),
  };
  spawnSync(process.execPath, ['node_modules/vitest/vitest.mjs', 'run', WALKS], {
    stdio: 'inherit',
    env: { ...process.env, ...env },
  });
  process.exit(1);
}
