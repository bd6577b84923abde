/**
 * `npm run sitewire -- week`: loads a simulated week of a plant through MQTT in minutes, reads it back through every
 * endpoint and bucket width, and compares each number with an independent calculation (`week/`), to the last
 * digit. The week contains the night in which clocks go back. `npm run sitewire -- week night [seed]` takes six hours
 * around a midnight, `wide` the same hours with 400 more metrics. The data is kept if SITEWIRE_DATA_DIR is
 * set.
 */
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { showHelp } from './show-help.ts';
import { missingForWeek, runWeek } from './week/stack.ts';

const SPANS = {
  week: { startMs: Date.UTC(2026, 9, 22), hours: 168, others: 0 },
  night: { startMs: Date.UTC(2026, 9, 24, 21), hours: 6, others: 0 },
  wide: { startMs: Date.UTC(2026, 9, 24, 21), hours: 6, others: 400 },
};

const USAGE =
  'npm run sitewire -- week [week|night|wide] [seed]: loads a simulated week of a plant, and checks every answer';
showHelp(USAGE);

const [name = 'week', seed = '1'] = process.argv.slice(2);
const span = Object.hasOwn(SPANS, name) ? SPANS[name as keyof typeof SPANS] : undefined;
if (!span || !/^\d+$/.test(seed)) {
  console.error(USAGE);
  process.exit(2);
}
const missing = missingForWeek();
if (missing.length > 0) {
  console.log(`skipped: install ${missing.join(', ')}`);
  process.exit(0);
}
const given = process.env.SITEWIRE_DATA_DIR;
if (given) mkdirSync(given, { recursive: true });
if (given && readdirSync(given).length > 0) {
  console.error(`${given} is not empty: set SITEWIRE_DATA_DIR to an empty folder`);
  process.exit(2);
}
const folder = given ?? mkdtempSync(join(tmpdir(), 'sitewire-week-'));
const say = (text: string) => void process.stdout.write(text);
try {
  process.exitCode = await runWeek(folder, { ...span, seed: Number(seed) }, say);
} finally {
  if (!given) rmSync(folder, { recursive: true, force: true });
}
