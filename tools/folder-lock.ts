/**
 * One stack per data folder. The lock is a name in the kernel that the folder's stack listens on: of two starts at once
 * one gets it, and it goes with its process, however that ends, so that there are no stale ones.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer, type Server } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';

const ANSWER_MS = 1_000;

/** How long a start asks on: a holder that begins itself is busy for a while, one that ends is gone soon. */
const TAKE_MS = 10_000;
const PAUSE_MS = 50;

/** Takes the folder (its real path) for as long as this process lives; throws when another has it. */
export async function lockFolder(folder: string, takeMs = TAKE_MS): Promise<void> {
  const server = createServer((asking) => {
    asking.on('error', () => {});
    asking.end(String(process.pid));
  });
  server.unref();
  const untilMs = Date.now() + takeMs;
  while (!(await isListening(server, nameOf(folder)))) {
    const isLast = Date.now() >= untilMs;
    // Nobody: it went since, or has the name and does not listen yet.
    const holder = await holderOf(folder).catch(() => undefined);
    if (holder !== undefined || isLast) throw new Error(refusal(folder, holder));
    await sleep(PAUSE_MS);
  }
}

function refusal(folder: string, holder: number | undefined): string {
  const who = holder === undefined ? 'it does not answer' : `process ${holder}`;
  return `a stack is running on ${folder} (${who}): stop it, or choose another SITEWIRE_DATA_DIR`;
}

async function isListening(server: Server, path: string): Promise<boolean> {
  try {
    server.listen({ path });
    await once(server, 'listening');
    return true;
  } catch (error) {
    if (codeOf(error) !== 'EADDRINUSE') throw error;
    return false;
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
