/**
 * `npm run sitewire -- conformance`: runs the transcripts of test/conformance/amqp on our stack and, if Debian's package
 * `rabbitmq-server` is installed, on a real RabbitMQ. Then it runs the partners' client libraries and the
 * examples, including those that must be compiled first. With `-- --record` it stores the answers of RabbitMQ
 * as the expected ones.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { showHelp } from './show-help.ts';

showHelp('npm run sitewire -- conformance [--record]: compares our AMQP listener with a real RabbitMQ');
const { values } = parseArgs({ options: { record: { type: 'boolean', default: false } } });
const ROOT = join(import.meta.dirname, '..');
const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs');

const folder = 'test/conformance/amqp/';
const clients = ['clients', 'examples'].map((name) => `test/conformance/${name}.test.ts`);
const suites = values.record ? [`${folder}rabbitmq.test.ts`] : [folder, ...clients];
const child = spawn(process.execPath, [vitest, 'run', '--project', 'node', ...suites], {
  cwd: ROOT,
  env: { ...process.env, SITEWIRE_TESTS: 'all', SITEWIRE_CONFORMANCE: values.record ? 'record' : 'compare' },
  stdio: 'inherit',
});
const [code] = (await once(child, 'exit')) as [number | null];
process.exit(code ?? 1);
