/** `npm run sitewire -- examples`: records openapi/examples.json on a stack of its own. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ANY_PORT } from '../ports.ts';
import { readStack } from '../stack-file.ts';
import { record } from './rest-calls/record.ts';
import { routeFacts } from './rest-calls/route-facts.ts';
import { until } from './rest-calls/world.ts';

const FILE = join(import.meta.dirname, 'openapi', 'examples.json');

const folder = mkdtempSync(join(tmpdir(), 'sitewire-examples-'));
const stack = spawn(process.execPath, [join(import.meta.dirname, '..', 'dev.ts')], {
  env: { ...process.env, ...ANY_PORT, SITEWIRE_DATA_DIR: folder, SITEWIRE_SIMULATOR: 'off' },
  stdio: ['ignore', 'ignore', 'inherit'],
});
try {
  await until(() => existsSync(join(folder, 'stack.json')) || undefined, 60_000);
  const recorded = await record(readStack(folder), await routeFacts());
  writeFileSync(FILE, `${JSON.stringify(recorded, null, 2)}\n`);
  console.log(
    `wrote ${Object.keys(recorded.calls).length} calls and ${Object.keys(recorded.errors).length} errors`,
  );
} finally {
  stack.kill('SIGTERM');
  await once(stack, 'exit');
  rmSync(folder, { recursive: true, force: true });
}
