/**
 * Runs beside a stack and ends its runtime after the stack was killed: bridge and simulator notice the end of
 * their parent and exit, workerd does not. The IPC channel to the stack closes when the stack ends.
 */
import { realpathSync } from 'node:fs';
import { holderOf } from './folder-lock.ts';
import { end, leftovers } from './leftover.ts';
import { dataFolder } from './stack-file.ts';

/** A runtime that was just starting when the stack was killed appears with a delay. */
const SWEEP_MS = 5_000;
const PAUSE_MS = 100;

const folder = realpathSync(dataFolder());
process.on('disconnect', () => void sweep());

async function sweep(): Promise<void> {
  for (let sweptMs = 0; sweptMs < SWEEP_MS; sweptMs += PAUSE_MS) {
    await endRuntimes().catch(() => {
      // The process that holds the folder did not answer; the next round tries again.
    });
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

/** Ends all runtimes of the folder except that of a stack that has locked it since. */
async function endRuntimes(): Promise<void> {
  const holder = await holderOf(folder);
  for (const { pid, name } of leftovers(folder, holder)) if (name === 'workerd') end(pid);
}
