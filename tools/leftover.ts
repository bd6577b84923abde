/**
 * What a stack that was killed may leave behind: two runtimes must never share one folder's data. All that a stack
 * starts carries the folder in its environment, so that it is known whoever ended first and whatever was written down.
 */
import { readdirSync, readFileSync } from 'node:fs';

const MARK = 'SITEWIRE_STACK_FOLDER';
const END_TIMEOUT_MS = 5_000;
const PAUSE_MS = 20;

export interface Leftover {
  pid: number;
  name: string;
}

/** From here on all that this process starts is known as the folder's (its real path). */
export function markChildren(folder: string): void {
  process.env[MARK] = folder;
}

/** What runs on a folder without being a child of the stack that has it now. */
export function leftovers(folder: string, holder: number | undefined): Leftover[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && pid !== process.pid && isMarked(pid, folder))
    .map(describe)
    .filter((process) => process !== undefined)
    .filter(({ parent }) => parent !== holder);
}

/** Ends all of it; resolves when it is gone. */
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

/** kill -9; one that has ended is fine. */
export function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It ended while we looked.
  }
}

function isMarked(pid: number, folder: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(`${MARK}=${folder}`);
  } catch {
    // It ended while we looked, or is another user's.
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
