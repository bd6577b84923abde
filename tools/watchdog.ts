/**
 * Runs beside a stack and learns of its end when the channel between them closes. A stack that was killed cannot stop
 * its runtime: bridge and simulator see their parent go and end, workerd does not.
 */
import { realpathSync } from 'node:fs';
import { holderOf } from './folder-lock.ts';
import { end, leftovers } from './leftover.ts';
import { dataFolder } from './stack-file.ts';

/** A runtime that was being started when the stack was killed appears only after a while. */
const SWEEP_MS = 5_000;
const PAUSE_MS = 100;

const folder = realpathSync(dataFolder());
process.on('disconnect', () => void sweep());

async function sweep(): Promise<void> {
  for (let sweptMs = 0; sweptMs < SWEEP_MS; sweptMs += PAUSE_MS) {
    await endRuntimes().catch(() => {
      // Whose the folder is could not be told: the next round asks again.
    });
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

/** All but that of a stack that has the folder by now. */
async function endRuntimes(): Promise<void> {
  const holder = await holderOf(folder);
  for (const { pid, name } of leftovers(folder, holder)) if (name === 'workerd') end(pid);
}
