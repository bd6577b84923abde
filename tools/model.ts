/** `npm run model -- --steps 1000000 [--seed N]`: the plan of a site against its model, for as long as is asked. */
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: { steps: { type: 'string', default: '1000000' }, seed: { type: 'string' } },
});
for (const [name, value] of Object.entries(values)) {
  if (!/^\d{1,12}$/.test(value)) {
    console.error(`--${name} must be a number`);
    process.exit(2);
  }
}
const { status } = spawnSync(
  process.execPath,
  ['node_modules/vitest/vitest.mjs', 'run', 'test/durable-objects/site/plan/model.test.ts'],
  {
    stdio: 'inherit',
    env: {
      ...process.env,
      SITEWIRE_MODEL_STEPS: values.steps,
      SITEWIRE_MODEL_SEED: values.seed ?? String(Date.now() % 2 ** 31),
    },
  },
);
process.exitCode = status ?? 1;
