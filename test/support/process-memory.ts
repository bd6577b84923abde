/** The memory of a process in RAM, in MiB, as Linux reports it. */
import { readFileSync, writeFileSync } from 'node:fs';
import { memoryOf } from '../../tools/bench/process-figures.ts';

type Pid = number | undefined;

/** The current value. */
export function residentMib(pid: Pid): number {
  return memoryOf(running(pid)).rss;
}

/** The peak since the process began or since `forgetPeak`. */
export function peakMib(pid: Pid): number {
  const status = readFileSync(`/proc/${running(pid)}/status`, 'utf8');
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]) / 1_024;
}

export function forgetPeak(pid: Pid): void {
  writeFileSync(`/proc/${running(pid)}/clear_refs`, '5');
}

function running(pid: Pid): number {
  if (pid === undefined) throw new Error('the process does not run');
  return pid;
}
