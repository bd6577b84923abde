/** Which core a benchmark's processes run on: the system under test on one, the load generator on the other. */
import { execFileSync } from 'node:child_process';

export const SYSTEM_CORE = '0';
export const GENERATOR_CORE = '1';

/** All threads of a process to one core; children that it starts later inherit it. */
export function pin(pid: number, core: string): void {
  execFileSync('taskset', ['-a', '-cp', core, String(pid)], { stdio: 'ignore' });
}

/** A command on a core from its first instruction, as `spawn` takes it. */
export function pinnedTo(core: string, ...command: string[]): [string, string[]] {
  return ['taskset', ['-c', core, ...command]];
}
