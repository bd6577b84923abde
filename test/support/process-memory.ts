/** What a process takes in RAM, in MiB, from outside, as Linux tells it. */
import { readFileSync, writeFileSync } from 'node:fs';
import { memoryOf } from '../../tools/bench/process-figures.ts';

type Pid = number | undefined;

/** Now. */
export function residentMib(pid: Pid): number {
  return memoryOf(running(pid)).rss;
}

/** At most, since it began or `forgetPeak`. */
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
