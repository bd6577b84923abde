/** How dispatches and their commands end, each in the caller's turn: once, and never reopened [C-7.8]. */
import type { Turn } from '../../object/turn.ts';
import type { Refusal, Violation } from '../command/refusal.ts';
import type { CommandOutcome, CommandRow } from '../command/rows.ts';
import {
  droppedAlarm,
  type EventSubject,
  executionEvent,
  expiryAlarm,
  violationAlarms,
} from '../event/events.ts';
import { raise } from '../event/raise.ts';
import type { SiteParts } from '../parts.ts';
import { DEVICE_FAILED, hasEnded, outcomeOf, targetsOf, wasTold } from './dispatch.ts';
import { type DispatchRow, OWN, PLAN_OWN } from './rows.ts';

/** Its window is over. What was told and not acknowledged is no longer told; what was not, has expired. */
export function expire(turn: Turn, site: SiteParts, row: DispatchRow): void {
  if (wasTold(row)) {
    fail(turn, site, row, 'NO_ACK');
    return;
  }
  if (isOfCommand(row)) raiseExpiry(turn, site, commandOf(site, row), row.device_id);
  fail(turn, site, row, 'EXPIRED');
}

/** The window of a setpoint is over, and its plant never said that it obeys. */
export function expireCommand(turn: Turn, site: SiteParts, command: CommandRow): void {
  const wasSent = command.dispatched_at_ms !== null;
  if (!wasSent) raiseExpiry(turn, site, command, site.facts(turn).gatewayId);
  finish(turn, site, command, { status: 'FAILED', reason: wasSent ? 'NO_ACK' : 'EXPIRED' });
}

function raiseExpiry(turn: Turn, site: SiteParts, command: CommandRow, deviceId: string | undefined): void {
  const { keyIds } = site.registry;
  raise(turn, site, 'COMMAND_EXPIRED', expiryAlarm(subjectOf(command), deviceId, keyIds, turn.now));
}

/** It may not go out any more as things are: a limit that it breaks is an alarm. */
export function endUnfit(turn: Turn, site: SiteParts, row: DispatchRow, why: Refusal): void {
  if (why.violation) raiseViolation(turn, site, commandOf(site, row), why.violation);
  fail(turn, site, row, why.rejectionCode);
}

export function raiseViolation(
  turn: Turn,
  site: SiteParts,
  command: CommandRow,
  violation: Violation,
  outcome?: 'rejected' | 'skipped',
): void {
  const about = subjectOf(command);
  const keysFor = site.keysToldOf(turn, about.keyId);
  const alarms = violationAlarms(about, [violation], keysFor, turn.now, outcome);
  raise(turn, site, 'CONSTRAINT_VIOLATION', alarms);
}

/** Without a reason its device said no more than that it failed. */
export function fail(turn: Turn, site: SiteParts, row: DispatchRow, reason: string | null): void {
  if (row.command_sequence === PLAN_OWN) {
    site.dispatches.deleteOfCommand(turn, PLAN_OWN);
    failSlot(turn, site, reason);
    return;
  }
  if (row.command_sequence === OWN) {
    endOwn(turn, site, row, 'FAILED', reason ?? DEVICE_FAILED);
    return;
  }
  endDispatch(turn, site, commandOf(site, row), row, { state: 'FAILED', reason });
}

/** The slot that the plant was told, if it was one: it refused it or never answered, so it is skipped, with an alarm. */
function failSlot(turn: Turn, site: SiteParts, reason: string | null): void {
  const { told } = site.plan;
  if (told?.by !== 'slot' || (reason !== null && reason !== 'NO_ACK')) return;
  const command = site.schedules.openOf(told.sequence) && site.commands.find(told.sequence);
  if (!command) return;
  const why = reason ?? DEVICE_FAILED;
  site.schedules.skip(turn, told, why);
  const { keyIds } = site.registry;
  const alarms = droppedAlarm(subjectOf(command), why, keyIds, turn.now, told.slotIndex);
  raise(turn, site, 'SETPOINT_DEVIATION', alarms);
  site.plan.touch();
}

/** A command to a device over REST ends: its row says how. */
export function endOwn(
  turn: Turn,
  site: SiteParts,
  { cmd_id: cmdId }: DispatchRow,
  status: 'COMPLETED' | 'FAILED',
  reason: string | null,
): void {
  site.ownCommands.end(turn, cmdId, status, reason);
  site.dispatches.delete(turn, cmdId);
}

/** Whether it is of a partner's command: neither the plan's own nor a device's. */
export function isOfCommand({ command_sequence: sequence }: DispatchRow): boolean {
  return sequence !== PLAN_OWN && sequence !== OWN;
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
  if (how.state === 'FAILED') site.commanded.forget(turn, command.sequence, targetsOf(row));
  const isLast = rows.every((one) => hasEnded(one.state));
  if (isLast) endAll(turn, site, command, outcomeOf(rows));
  else site.dispatches.update(turn, row, { ...how, due_at_ms: null });
  return isLast;
}

function endAll(turn: Turn, site: SiteParts, command: CommandRow, outcome: CommandOutcome): void {
  if (outcome.status !== 'FAILED') {
    finish(turn, site, command, outcome);
    site.dispatches.deleteOfCommand(turn, command.sequence);
    return;
  }
  // Its command had its verdict already, and nothing reopens that: an alarm tells that it stands no longer.
  if (!isOpen(command) && site.plan.entries.find(command.sequence)) {
    const { keyIds } = site.registry;
    const alarms = droppedAlarm(subjectOf(command), outcome.reason, keyIds, turn.now);
    raise(turn, site, 'SETPOINT_DEVIATION', alarms);
  }
  failCommand(turn, site, command.sequence, outcome.reason);
}

/** A command has failed, if it was open, and nothing of it is under way or stands any more. */
export function failCommand(turn: Turn, site: SiteParts, sequence: number, reason: string | null): void {
  const command = site.commands.find(sequence);
  if (command) finish(turn, site, command, { status: 'FAILED', reason });
  site.dispatches.deleteOfCommand(turn, sequence);
  site.plan.remove(turn, sequence);
  site.plan.loseMode(turn, sequence);
  const schedule = site.schedules.openOf(sequence);
  if (!schedule) return;
  site.schedules.end(turn, schedule, 'FAILED');
  site.plan.touch();
}

/** The end of a command, if it is open: its row and its event. What still stands for it is the caller's to end. */
export function finish(turn: Turn, site: SiteParts, command: CommandRow, outcome: CommandOutcome): void {
  if (!isOpen(command)) return;
  site.commands.markEnded(turn, command, outcome);
  site.counts.add(turn, `executions/${outcome.status}`);
  const details = { targetValueKw: command.target_value_kw, ...outcome };
  site.outbox.emit(turn, executionEvent(subjectOf(command), outcome.status, details, turn.now));
}

function isOpen({ status }: CommandRow): boolean {
  return status === 'PENDING' || status === 'EXECUTING';
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
