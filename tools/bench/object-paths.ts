/** What `npm run bench -- objects` does on each of its sides, and how it measures it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { threadsCpuMs } from './process-figures.ts';
import type { Measured } from './runner.ts';

export const PATH_NAMES = [
  /** Device link → Site → answer. */
  'reading',
  /** Call → Site → device link → acknowledgement. */
  'command of a Site',
  /** Client link → Vhost → Site → device link, and from its acknowledgement to the events at the client. */
  'command of a Vhost and a Site',
  /** The same, with a batch of 100 for 100 Sites. */
  'command of a Vhost, each to its own Site',
  /** Call → Vhost → client link. */
  'event of a Vhost',
] as const;
export type PathName = (typeof PATH_NAMES)[number];

/** Does that many operations in batches of that size, the next when the previous one is answered. */
export type Path = (operations: number, batch: number) => Promise<void>;

export interface ObjectSide {
  /** Of workerd. */
  pid: number;
  paths: Record<PathName, Path>;
  stop(): Promise<void>;
}

/** Number of Sites that get commands in turn. */
export const SITES = 100;
export const BATCHES = [1, 10, 100];
const OPERATIONS: Record<PathName, Record<number, number>> = {
  reading: { 1: 2_000, 10: 10_000, 100: 30_000 },
  'command of a Site': { 1: 500, 10: 1_500, 100: 2_000 },
  'command of a Vhost and a Site': { 1: 500, 10: 1_500, 100: 3_000 },
  'command of a Vhost, each to its own Site': { 1: 500, 10: 1_500, 100: 3_000 },
  'event of a Vhost': { 1: 1_000, 10: 5_000, 100: 10_000 },
};
/** Operations of a path before it is measured, in batches of ten: the runtime then has compiled the hot code. */
const WARM_UP = 3_000;
const PERF = '/usr/bin/perf';
const SYNCS = ['fsync', 'fdatasync'].map((name) => `syscalls:sys_enter_${name}`).join(',');
/** What perf needs to begin to count. */
const PERF_MS = 300;

export async function warmUp({ paths }: ObjectSide): Promise<void> {
  for (const name of PATH_NAMES) await paths[name](WARM_UP, 10);
}

export async function measurePaths({ pid, paths }: ObjectSide): Promise<Measured> {
  const measured: Record<string, { value: number; unit: string }> = {};
  for (const name of PATH_NAMES) {
    for (const batch of BATCHES) {
      const operations = OPERATIONS[name][batch] ?? batch;
      const stopCount = await countSyncs(pid);
      const cpuBefore = threadsCpuMs(pid);
      await paths[name](operations, batch);
      const cpuMs = threadsCpuMs(pid) - cpuBefore;
      const syncs = await stopCount();
      const what = `${name}, ${batch} per batch`;
      measured[`CPU per ${what}`] = { value: (cpuMs * 1_000) / operations, unit: 'µs' };
      if (syncs !== undefined) measured[`fsyncs per ${what}`] = { value: syncs / operations, unit: '' };
    }
  }
  return measured;
}

/** Counts calls of fsync and fdatasync without stopping the process at them; undefined if the kernel gives no counts. */
async function countSyncs(pid: number): Promise<() => Promise<number | undefined>> {
  if (!existsSync(PERF)) return async () => undefined;
  const perf = spawn(PERF, ['stat', '-x', ',', '-e', SYNCS, '-p', String(pid)], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let printed = '';
  perf.stderr.on('data', (part: Buffer) => {
    printed += part;
  });
  await pause(PERF_MS);
  return async () => {
    await interrupted(perf);
    const counts = printed.split('\n').filter((line) => line.includes('sys_enter_'));
    const values = counts.map((line) => Number(line.split(',')[0]));
    return values.length === 0 || values.some(Number.isNaN)
      ? undefined
      : values.reduce((sum, value) => sum + value, 0);
  };
}

async function interrupted(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const closed = once(child, 'close');
  child.kill('SIGINT');
  await closed;
}
