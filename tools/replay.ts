/**
 * `npm run replay -- FILE`: checks an export of a plant and derives its decisions again with the code of this folder. Lists
 * what differs; exits with 0 only if nothing does.
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { BrokenExport, type ReplayResult } from './replay/result.ts';
import { showHelp } from './show-help.ts';

const USAGE = `npm run replay -- <file>
  the file is the answer of GET /api/v1/plants/{id}/export`;
showHelp(USAGE);

/** The rules that it runs are those of the objects, whose types are the runtime's: they are checked apart from the tools. */
const { replay } = (await import(new URL('replay/replay.ts', import.meta.url).href)) as {
  replay(text: string): ReplayResult;
};

/** More differences than these are only counted. */
const MOST_SHOWN = 50;

const [file, ...rest] = parseArgs({ allowPositionals: true }).positionals;
if (!file || rest.length > 0) {
  console.error(USAGE);
  process.exitCode = 1;
} else {
  try {
    const { lines, judgements, plans, verdicts, skipped, differences } = replay(readFileSync(file, 'utf8'));
    console.log(`${lines} lines, an unbroken chain`);
    console.log(
      `derived again: ${judgements} judgements, ${plans} changes of the plan, ${verdicts} verdicts`,
    );
    if (skipped > 0) console.log(`not derived: ${skipped} commands whose inputs are not recorded`);
    for (const { number, about, text } of differences.slice(0, MOST_SHOWN))
      console.log(`line ${number}: ${about}: ${text}`);
    console.log(`${differences.length} differences`);
    if (differences.length > 0) process.exitCode = 1;
  } catch (error) {
    if (!(error instanceof BrokenExport)) throw error;
    console.error(`${file}: ${error.message}`);
    process.exitCode = 1;
  }
}
