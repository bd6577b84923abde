/** What an earlier stack on the same folder may have left: two runtimes must never share one folder's data. */
import { readFileSync } from 'node:fs';
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
  if (edge !== null && commandOf(edge)?.includes('workerd')) process.kill(edge, 'SIGKILL');
}

/** The command line of a process; undefined when there is none, or where the system does not tell. */
function commandOf(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return undefined;
  }
}
