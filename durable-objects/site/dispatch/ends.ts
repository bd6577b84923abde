/** How dispatches and their commands end, each in the caller's turn: once, and never reopened [C-7.8]. */
import { LIMIT } from '../../../protocol/limits.ts';
import type { Turn } from '../../object/turn.ts';
import { KINDS } from '../command/kind/kinds.ts';
import type { CommandOutcome, CommandRow } from '../command/rows.ts';
import { type EventSubject, executionEvent, expiryAlarm } from '../event/events.ts';
import type { SiteParts } from '../parts.ts';
import { hasEnded, outcomeOf, wasTold } from './dispatch.ts';
import type { DispatchRow } from './rows.ts';

/** Its window is over. What was told and not acknowledged is no longer told; what was not, has expired. */
export function expire(turn: Turn, site: SiteParts, row: DispatchRow): void {
  if (wasTold(row)) {
    fail(turn, site, row, 'NO_ACK');
    return;
  }
  const about = subjectOf(commandOf(site, row));
  site.outbox.emit(turn, ...expiryAlarm(about, row.device_id, site.registry.keyIds, turn.now));
  fail(turn, site, row, 'EXPIRED');
}

export function fail(turn: Turn, site: SiteParts, row: DispatchRow, reason: string): void {
  endDispatch(turn, site, commandOf(site, row), row, { state: 'FAILED', reason });
}

/** All of a command that still waits ends, for that reason. */
export function failWaiting(turn: Turn, site: SiteParts, commandSequence: number, reason: string): void {
  for (const row of site.dispatches.ofCommand(commandSequence)) {
    if (row.state === 'WAITING') fail(turn, site, row, reason);
  }
}

/** One dispatch ends; once all of its command have, the command does. Returns whether it did. */
export function endDispatch(
  turn: Turn,
  site: SiteParts,
  command: CommandRow,
  row: DispatchRow,
  how: { state: 'COMPLETED' | 'FAILED'; reason: string | null },
): boolean {
  const rows = site.dispatches
    .ofCommand(command.sequence)
    .map((one) => (one.cmd_id === row.cmd_id ? { ...one, ...how } : one));
  const isLast = rows.every((one) => hasEnded(one.state));
  if (isLast) end(turn, site, command, outcomeOf(rows));
  else site.dispatches.update(turn, row, { ...how, due_at_ms: null });
  return isLast;
}

export function end(turn: Turn, site: SiteParts, command: CommandRow, outcome: CommandOutcome): void {
  site.commands.markEnded(turn, command, outcome);
  site.dispatches.deleteOfCommand(turn, command.sequence);
  const details = { targetValueKw: command.target_value_kw, reason: outcome.reason };
  site.outbox.emit(turn, executionEvent(subjectOf(command), outcome.status, details, turn.now));
}

export function commandOf(site: SiteParts, row: DispatchRow): CommandRow {
  const command = site.commands.find(row.command_sequence);
  if (!command) throw new Error(`dispatch ${row.cmd_id} has no command`);
  return command;
}

/** The correlationId echoed is the request's, or its messageId when it had none [C-8.1]. */
export function subjectOf(command: CommandRow): EventSubject {
  return {
    commandId: command.id,
    keyId: command.key_id,
    correlationId: command.correlation_id ?? command.message_id,
    commandType: command.command_type,
  };
}

/** Setpoints that are held side by side: beyond so many the oldest ends as if its time were over. */
export function endSurplus(turn: Turn, site: SiteParts): void {
  for (const row of site.dispatches.heldBeyond(LIMIT.heldSetpoints)) {
    const command = commandOf(site, row);
    const { end: ending } = KINDS[command.command_type];
    if (ending.by === 'verdict') end(turn, site, command, ending.verdict());
  }
}
