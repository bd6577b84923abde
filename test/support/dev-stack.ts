/**
 * `npm start` and its tools as processes, each stack in its own folder; `cleanUp` ends the processes that a
 * test left.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { Partner } from '../../tools/partner.ts';
import { ANY_PORT } from '../../tools/ports.ts';
import type { Stack } from '../../tools/stack-file.ts';
import { eventually } from './stack.ts';

const ROOT = join(import.meta.dirname, '..', '..');

const START_TIMEOUT_MS = 80_000;

export interface Run {
  process: ChildProcess;
  output: () => string;
  ended: Promise<number | null>;
}

export interface StartedStack {
  stack: Run;
  described: Stack;
}

const runs: Run[] = [];
const folders: string[] = [];

export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sitewire-dev-'));
  folders.push(folder);
  return folder;
}

/** Runs a script of tools/ under Node. */
export function run(
  script: string,
  folder: string,
  env: Record<string, string> = {},
  given: readonly string[] = [],
): Run {
  return follow(process.execPath, [join(ROOT, 'tools', script), ...given], folder, env);
}

/** Runs `npm start` in its own process group, as a terminal does. */
export function runNpmStart(folder: string): Run {
  return follow('npm', ['start'], folder, {}, true);
}

/** Runs any program, with the folder in its environment. */
export function follow(
  command: string,
  given: readonly string[],
  folder: string,
  env: Record<string, string>,
  detached = false,
): Run {
  const child = spawn(command, given, {
    cwd: ROOT,
    env: { ...process.env, SITEWIRE_DATA_DIR: folder, ...ANY_PORT, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached,
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (part: Buffer) => (output += part));
  const ended = once(child, 'exit').then(([code]) => code as number | null);
  const started = { process: child, output: () => output, ended };
  runs.push(started);
  return started;
}

export async function start(folder: string, env: Record<string, string> = {}): Promise<StartedStack> {
  return await untilReady(run('dev.ts', folder, env), folder);
}

export async function untilReady(stack: Run, folder: string): Promise<StartedStack> {
  const isDecided = () => stack.output().includes('Sitewire is ready') || stack.process.exitCode !== null;
  // The output contains the reason, also when the program keeps retrying.
  await eventually(isDecided, START_TIMEOUT_MS).catch(() => {});
  expect(stack.output()).toContain('Sitewire is ready');
  return { stack, described: JSON.parse(readFileSync(join(folder, 'stack.json'), 'utf8')) };
}

/** A partner of a running stack that consumes the events of its commands. */
export async function partnerOf({ amqp, apiKey, organization }: Stack): Promise<Partner> {
  const partner = await Partner.connect({ ...amqp, ...apiKey, slug: organization.slug });
  for (const queue of ['event.status', 'event.execution']) await partner.consume(queue);
  return partner;
}

/** The REST state of the stack's plant. */
export async function readSite<Answer>(stack: Stack, path: string): Promise<Answer> {
  const response = await fetch(`${stack.baseUrl}/api/v1/vcp/sites/${stack.plants[0]?.id}/${path}`, {
    headers: { 'x-api-key': stack.apiKey.key },
  });
  return (await response.json()) as Answer;
}

export function isAlive(pid: number | null): boolean {
  try {
    return pid !== null && process.kill(pid, 0);
  } catch {
    return false;
  }
}

export async function expectGone(...pids: (number | null)[]): Promise<void> {
  for (const pid of pids) expect(pid).toBeGreaterThan(0);
  await eventually(() => !pids.some(isAlive) || undefined);
}

export function childrenOf(parent: number): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && procFile(pid, 'stat').split(') ')[1]?.split(' ')[1] === String(parent));
}

export function commandOf(pid: number): string {
  return procFile(pid, 'cmdline');
}

/** The system's record of a process; empty for one that ended during the check. */
function procFile(pid: number, what: 'stat' | 'cmdline'): string {
  try {
    return readFileSync(`/proc/${pid}/${what}`, 'utf8');
  } catch {
    return '';
  }
}

/** The runtimes that have files of the folder open. */
export function runtimesOf(folder: string): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && hasOpen(pid, folder));
}

function hasOpen(pid: number, folder: string): boolean {
  if (!procFile(pid, 'stat').includes('(workerd)')) return false;
  try {
    const files = readdirSync(`/proc/${pid}/fd`).map((name) => readlinkSync(`/proc/${pid}/fd/${name}`));
    return files.some((file) => file.startsWith(`${folder}/`));
  } catch {
    // The process ended during the check, or closed a file; the next check decides.
    return false;
  }
}

export async function cleanUp(): Promise<void> {
  for (const { process: child, ended } of runs.splice(0)) {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM');
    await ended;
  }
  for (const folder of folders.splice(0)) {
    for (const pid of runtimesOf(folder)) process.kill(pid, 'SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
}
