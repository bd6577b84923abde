/**
 * One stack per data folder. The lock is a name in the kernel that the folder's stack listens on: of two starts at once
 * one gets it, and it goes with its process, however that ends, so that there are no stale ones.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { text } from 'node:stream/consumers';

const ANSWER_MS = 1_000;

/** Takes the folder (its real path) for as long as this process lives; throws when another has it. */
export async function lockFolder(folder: string): Promise<void> {
  const server = createServer((asking) => {
    asking.on('error', () => {});
    asking.end(String(process.pid));
  });
  server.unref();
  try {
    server.listen({ path: nameOf(folder) });
    await once(server, 'listening');
  } catch (error) {
    if (codeOf(error) !== 'EADDRINUSE') throw error;
    const holder = await holderOf(folder).catch(() => undefined);
    throw new Error(
      `a stack is running on ${folder} (process ${holder ?? 'unknown'}): stop it, or choose another SITEWIRE_DATA_DIR`,
    );
  }
}

/** The process that has the folder; undefined: none. Throws when it cannot tell: the holder is on its way out, or hangs. */
export async function holderOf(folder: string): Promise<number | undefined> {
  const socket = connect({ path: nameOf(folder) });
  socket.setTimeout(ANSWER_MS, () => socket.destroy(new Error('no answer')));
  try {
    const pid = Number(await text(socket));
    if (pid > 0) return pid;
  } catch (error) {
    if (codeOf(error) === 'ECONNREFUSED') return undefined;
    throw error;
  }
  throw new Error('no answer');
}

/** Names that begin with a zero byte are Linux's abstract ones: no file stands for them. */
function nameOf(folder: string): string {
  return `\0sitewire-${createHash('sha256').update(folder).digest('hex')}`;
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
