/**
 * A server of the baseline as a child process: pinned to the system's core, on loopback, in a private folder. It ends
 * with this process, however this process ends.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { pinnedTo, SYSTEM_CORE } from '../cores.ts';

const START_MS = 30_000;
const STOP_MS = 10_000;
const LOOK_EVERY_MS = 50;

export interface ServerOptions {
  name: string;
  command: readonly [program: string, ...given: string[]];
  /** The user to run as, if this process is root. */
  user?: string;
  /** The signal that stops the server cleanly. */
  signal: NodeJS.Signals;
  isReady(): boolean;
}

export interface Server {
  pid: number;
  stop(): Promise<void>;
}

/** Whether servers that refuse to run as root need a user of their own. */
export function isRoot(): boolean {
  return process.getuid?.() === 0;
}

/** Prefixes a command so that it runs as that user, if this process is root. */
export function asUser(user: string | undefined): string[] {
  if (!user || !isRoot()) return [];
  return ['setpriv', `--reuid=${user}`, `--regid=${user}`, '--clear-groups'];
}

/** The ids of a user and of its group. */
export function idsOf(user: string): [uid: number, gid: number] {
  const id = (kind: string) => Number(execFileSync('id', [kind, user], { encoding: 'utf8' }));
  return [id('-u'), id('-g')];
}

/** Throws what the server printed if it does not start. */
export async function startServer(options: ServerOptions): Promise<Server> {
  const { name, signal } = options;
  const ending = ['setpriv', '--pdeathsig', signal.replace('SIG', '')];
  const [program, given] = pinnedTo(
    SYSTEM_CORE,
    ...asUser(options.user),
    ...ending,
    ...(options.command as readonly string[]),
  );
  const child = spawn(program, given, { stdio: ['ignore', 'pipe', 'pipe'] });
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (part: Buffer) => {
      printed = `${printed}${part}`.slice(-10_000);
    });
  }
  const giveUpAt = Date.now() + START_MS;
  while (!options.isReady()) {
    if (child.exitCode !== null || Date.now() > giveUpAt) {
      await stop(child, signal);
      throw new Error(`${name} did not start: ${printed}`);
    }
    await pause(LOOK_EVERY_MS);
  }
  return { pid: child.pid ?? 0, stop: () => stop(child, signal) };
}

async function stop(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill(signal);
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  await exited;
  clearTimeout(timer);
}
