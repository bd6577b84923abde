/** The cores of a benchmark: the system under test runs on one, the load generator on the other. */
import { execFileSync } from 'node:child_process';

export const SYSTEM_CORE = '0';
export const GENERATOR_CORE = '1';

/** Pins all threads of a process to one core; children that it starts later inherit this. */
export function pin(pid: number, core: string): void {
  execFileSync('taskset', ['-a', '-cp', core, String(pid)], { stdio: 'ignore' });
}

/** Returns a command, as `spawn` takes it, that is pinned to a core from its start. */
export function pinnedTo(core: string, ...command: string[]): [string, string[]] {
  return ['taskset', ['-c', core, ...command]];
}
