/**
 * `npm run sitewire -- replay FILE`: checks an export of a plant and derives its decisions again with the installed code. Lists
 * what differs; exits with 0 only if nothing does.
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { BrokenExport, type ReplayResult } from './replay/result.ts';
import { showHelp } from './show-help.ts';

const USAGE = `npm run sitewire -- replay <file>
  the file is the answer of GET /api/v1/plants/{id}/export`;
showHelp(USAGE);

/** Imported at run time: the rules use types of workerd, which the type check of the tools does not have. */
const { replay } = (await import(new URL('replay/replay.ts', import.meta.url).href)) as {
  replay(text: string): ReplayResult;
};

/** More differences than these are only counted. */
const MOST_SHOWN = 50;

const [file, ...more] = parseArgs({ allowPositionals: true }).positionals;
if (!file || more.length > 0) {
  console.error(USAGE);
  process.exitCode = 1;
} else {
  try {
    const { lines, sha256, judgements, plans, verdicts, skipped, differences } = replay(
      readFileSync(file, 'utf8'),
    );
    console.log(`${lines} lines, an unbroken chain; the last line has the SHA-256 ${sha256}`);
    console.log(
      `derived again: ${judgements} judgements, ${plans} changes of the plan, ${verdicts} verdicts`,
    );
    if (skipped > 0) console.log(`not derived: ${skipped} commands whose inputs are not recorded`);
    for (const { number, about, text } of differences.slice(0, MOST_SHOWN))
      console.log(`line ${number}: ${about}: ${text}`);
    const rest = differences.length > MOST_SHOWN ? `, the first ${MOST_SHOWN} are listed` : '';
    console.log(`${differences.length} differences${rest}`);
    if (differences.length > 0) process.exitCode = 1;
  } catch (error) {
    if (!(error instanceof BrokenExport)) throw error;
    console.error(`${file}: ${error.message}`);
    process.exitCode = 1;
  }
}
