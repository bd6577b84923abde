/**
 * Finds and ends the processes that a killed stack has left running: two runtimes must never share one
 * folder's data. Each process of a stack carries the folder in its environment, so it is found whichever
 * process was killed first.
 */
import { readdirSync, readFileSync } from 'node:fs';

const MARK = 'SITEWIRE_STACK_FOLDER';
const END_TIMEOUT_MS = 5_000;
const PAUSE_MS = 20;

export interface Leftover {
  pid: number;
  name: string;
}

/** Marks all processes that this process will start as belonging to the folder (its real path). */
export function markChildren(folder: string): void {
  process.env[MARK] = folder;
}

/** Processes of the folder that are not children of `holder`, the stack that holds the folder now. */
export function leftovers(folder: string, holder: number | undefined): Leftover[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && pid !== process.pid && isMarked(pid, folder))
    .map(describe)
    .filter((process) => process !== undefined)
    .filter(({ parent }) => parent !== holder);
}

/** Ends all leftover processes; resolves when they are gone. */
export async function endLeftovers(folder: string): Promise<void> {
  const giveUpAt = performance.now() + END_TIMEOUT_MS;
  for (;;) {
    const left = leftovers(folder, process.pid);
    if (left.length === 0) return;
    if (performance.now() > giveUpAt) {
      throw new Error(`processes of an earlier stack do not end: ${left.map(({ pid }) => pid).join(', ')}`);
    }
    for (const { pid } of left) end(pid);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

/** Sends SIGKILL; a process that has ended already is ignored. */
export function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has ended already.
  }
}

function isMarked(pid: number, folder: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(`${MARK}=${folder}`);
  } catch {
    // The process has ended, or belongs to another user.
    return false;
  }
}

function describe(pid: number): (Leftover & { parent: number }) | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const name = /\((.*)\)/.exec(status)?.[1] ?? '';
    return { pid, name, parent: Number(status.split(') ')[1]?.split(' ')[1]) };
  } catch {
    return undefined;
  }
}
