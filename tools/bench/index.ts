/** `npm run bench -- <id>`: prints a table, writes JSON under bench-results/. docs/performance.md quotes the figures. */
import { assertQuiet } from './bench-stack.ts';
import { benchCommands } from './p1-command.ts';
import { benchTelemetry } from './p2-telemetry.ts';

const BENCHES: Record<string, () => Promise<void>> = { p1: benchCommands, p2: benchTelemetry };

const wanted = process.argv.slice(2);
const ids = wanted.length > 0 ? wanted : Object.keys(BENCHES);
const unknown = ids.filter((id) => !Object.hasOwn(BENCHES, id));
if (unknown.length > 0)
  throw new Error(`no such benchmark: ${unknown.join(', ')}; there are ${Object.keys(BENCHES).join(', ')}`);
assertQuiet();
for (const id of ids) await BENCHES[id]?.();
