/** Commands and alerts as they were at an earlier time, from what is known of them now. Pure. */
import type { Alert, Command } from './types.ts';

/** The status that an alert had at that time; it was open. */
export function alertStatusAt({ acknowledgedAt }: Alert, atMs: number): Alert['status'] {
  return acknowledgedAt !== null && Date.parse(acknowledgedAt) <= atMs ? 'ACKNOWLEDGED' : 'ACTIVE';
}

/** The command as it was at that time: what became of it later is left out. */
export function commandAt(command: Command, atMs: number): Command {
  const { status, startedAt, finishedAt } = command;
  if (status === 'REJECTED' || (finishedAt !== undefined && Date.parse(finishedAt) <= atMs)) return command;
  const {
    reason: _reason,
    actualValueKw: _actual,
    deviationKw: _deviation,
    finishedAt: _at,
    ...then
  } = command;
  const hasStarted = startedAt !== undefined && Date.parse(startedAt) <= atMs;
  return { ...then, status: hasStarted ? 'EXECUTING' : 'PENDING' };
}
