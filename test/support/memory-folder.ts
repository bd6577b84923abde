/**
 * Temporary files in memory, for suites that lose no data if the machine stops: a commit of an object then waits for
 * no disk. A run that was killed leaves its folder; the next run deletes it.
 */
import { existsSync, mkdirSync, readdirSync, rmSync, statfsSync } from 'node:fs';
import { join } from 'node:path';

const MEMORY = '/dev/shm';
const NAME = /^sitewire-tests-(\d+)$/;
/** A run of all suites uses less than half of it. */
const FREE_BYTES = 2 * 1024 ** 3;

/** A folder for this process, deleted when it exits; undefined if the machine has no room for it. */
export function memoryFolder(): string | undefined {
  if (!existsSync(MEMORY)) return undefined;
  for (const name of readdirSync(MEMORY)) {
    const [, pid] = NAME.exec(name) ?? [];
    if (pid && !existsSync(`/proc/${pid}`)) rmSync(join(MEMORY, name), { recursive: true, force: true });
  }
  const { bavail, bsize } = statfsSync(MEMORY);
  if (bavail * bsize < FREE_BYTES) return undefined;
  const folder = join(MEMORY, `sitewire-tests-${process.pid}`);
  mkdirSync(folder, { recursive: true });
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
