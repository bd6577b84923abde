/**
 * A lock that allows one stack per data folder: the stack listens on a Linux abstract socket named after the
 * folder. Of two simultaneous starts one gets it. The kernel frees it when the process ends, so a lock never
 * becomes stale.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer, type Server } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';

const ANSWER_MS = 1_000;

/**
 * How long a start retries: a process that holds the lock may be busy while it starts, and soon frees the
 * lock if it is stopping.
 */
const TAKE_MS = 10_000;
const PAUSE_MS = 50;

/** Locks the folder (its real path) until this process ends. Throws if another process holds the lock. */
export async function lockFolder(folder: string, takeMs = TAKE_MS): Promise<void> {
  const server = createServer((asking) => {
    asking.on('error', () => {});
    asking.end(String(process.pid));
  });
  server.unref();
  const untilMs = Date.now() + takeMs;
  while (!(await isListening(server, nameOf(folder)))) {
    const isLast = Date.now() >= untilMs;
    // undefined: no process holds the lock any more, or its holder does not answer yet.
    const holder = await holderOf(folder).catch(() => undefined);
    if (holder !== undefined || isLast) throw new Error(refusal(folder, holder));
    await sleep(PAUSE_MS);
  }
}

function refusal(folder: string, holder: number | undefined): string {
  const who = holder === undefined ? 'it does not answer' : `process ${holder}`;
  return `a stack is running on ${folder} (${who}): stop it, or set SITEWIRE_DATA_DIR to another folder`;
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

/**
 * The process that holds the folder; undefined: none. Throws if the holder does not answer: it is ending, or
 * hangs.
 */
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

/** A name that begins with a zero byte is in Linux's abstract namespace: it creates no file. */
function nameOf(folder: string): string {
  return `\0sitewire-${createHash('sha256').update(folder).digest('hex')}`;
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
