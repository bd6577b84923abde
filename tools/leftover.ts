/** What an earlier stack on the same folder may have left: two runtimes must never share one folder's data. */
import { readdirSync, readFileSync, readlinkSync, realpathSync } from 'node:fs';
import { join, sep } from 'node:path';
import { readStack, type Stack } from './stack-file.ts';

/** Throws when a stack runs on the folder; ends the workerd of one that was killed. */
export function endLeftover(folder: string): void {
  let left: Stack;
  try {
    left = readStack(folder);
  } catch {
    return;
  }
  const { stack, edge } = left.pids;
  if (commandOf(stack)?.includes('tools/dev.ts')) {
    throw new Error(
      `a stack is running on ${folder} (process ${stack}): stop it, or choose another SITEWIRE_DATA_DIR`,
    );
  }
  if (edge !== null && holdsFiles(edge, folder)) process.kill(edge, 'SIGKILL');
}

/** Whether a process has files of the folder open: its number may be another's by now. */
function holdsFiles(pid: number, folder: string): boolean {
  const inside = realpathSync(folder) + sep;
  const descriptors = `/proc/${pid}/fd`;
  try {
    return readdirSync(descriptors).some((name) => readlinkSync(join(descriptors, name)).startsWith(inside));
  } catch {
    return false;
  }
}

/** The command line of a process; undefined when there is none, or where the system does not tell. */
function commandOf(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return undefined;
  }
}
