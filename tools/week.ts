/**
 * `npm run week`: a week of a simulated plant, around the night in which clocks go back, is loaded through MQTT in
 * minutes, read back through every endpoint and width, and held against an independent reckoning to the last digit
 * (`week/`). `npm run week -- night [seed]` takes six hours across a midnight, `wide` those of 400 more metrics.
 * SITEWIRE_DATA_DIR keeps the data.
 */
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { missingForWeek, runWeek } from './week/stack.ts';

const SPANS = {
  week: { startMs: Date.UTC(2026, 9, 22), hours: 168, others: 0 },
  night: { startMs: Date.UTC(2026, 9, 24, 21), hours: 6, others: 0 },
  wide: { startMs: Date.UTC(2026, 9, 24, 21), hours: 6, others: 400 },
};

const [name = 'week', seed = '1'] = process.argv.slice(2);
const span = Object.hasOwn(SPANS, name) ? SPANS[name as keyof typeof SPANS] : undefined;
if (!span || !/^\d+$/.test(seed)) {
  console.error('npm run week -- [week|night|wide] [seed]');
  process.exit(2);
}
const missing = missingForWeek();
if (missing.length > 0) {
  console.log(`skipped: install ${missing.join(', ')}`);
  process.exit(0);
}
const kept = process.env.SITEWIRE_DATA_DIR;
if (kept) mkdirSync(kept, { recursive: true });
if (kept && readdirSync(kept).length > 0) {
  console.error(`${kept} is not empty: a week begins with nothing`);
  process.exit(2);
}
const folder = kept ?? mkdtempSync(join(tmpdir(), 'sitewire-week-'));
const say = (text: string) => void process.stdout.write(text);
try {
  process.exitCode = await runWeek(folder, { ...span, seed: Number(seed) }, say);
} finally {
  if (!kept) rmSync(folder, { recursive: true, force: true });
}
