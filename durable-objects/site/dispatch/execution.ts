/**
 * The life of a dispatched command: sending, device acks, timeouts, its end, each in the caller's turn. Execution is
 * EXECUTING once, then one of COMPLETED, DEVIATED or FAILED, never reopened [C-7.8].
 */
import { parseCommand } from '../../../protocol/command.ts';
import type { DeviceAckStatus } from '../../../protocol/enums.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { commandFamily } from '../../../protocol/routing-keys.ts';
import type { DueSource } from '../../object/agenda.ts';
import type { Turn } from '../../object/turn.ts';
import { KINDS, kindOf } from '../command/kind/kinds.ts';
import type { CommandOutcome, CommandRow } from '../command/rows.ts';
import { type EventSubject, executionEvent, expiryAlarm } from '../event/events.ts';
import type { SiteParts } from '../parts.ts';
import { ackDue, advance, hasEnded, isExpired, isHeld, outcomeOf, waitingDue } from './dispatch.ts';
import type { DispatchRow } from './rows.ts';
import { sendCommand } from './send-command.ts';

/** Dispatches that one alarm looks at; the rest follow at once in the next. */
const DUE_PER_ALARM = 200;
/** When a due dispatch that could not be handled is looked at again. */
const RETRY_MS = 60_000;

export interface DeviceAck {
  deviceId: string;
  cmdId: string;
  status: DeviceAckStatus;
}

/** A device's ack. Unknown, foreign, lower or repeated ones change nothing [C-3.9]. */
export function applyAck(turn: Turn, site: SiteParts, ack: DeviceAck): void {
  const row = site.dispatches.find(ack.cmdId);
  if (row?.device_id !== ack.deviceId) return;
  const command = commandOf(site, row);
  const { end } = KINDS[command.command_type];
  // What is held until its verdict: the device's COMPLETED says no more than IN_PROGRESS.
  const status = end.by === 'verdict' && ack.status === 'COMPLETED' ? 'IN_PROGRESS' : ack.status;
  const state = advance(row.state, status);
  if (!state) return;

  if (status !== 'FAILED' && command.status === 'PENDING') {
    site.commands.markStarted(turn, command.sequence);
    const details = { targetValueKw: command.target_value_kw };
    site.outbox.emit(turn, executionEvent(subjectOf(site, command), 'EXECUTING', details, turn.now));
  }
  const isToBeHeld = end.by === 'verdict' && status !== 'FAILED';
  const untilMs = isHeld(row.state) ? row.due_at_ms : null;
  const dueMs = isToBeHeld ? (untilMs ?? end.heldUntilMs(command, turn.now)) : null;
  site.dispatches.update(turn, row, { state, due_at_ms: dueMs });
  if (hasEnded(state)) endIfAllHave(turn, site, command);
}

/** What a device that has just subscribed must get: all that is due and not acknowledged, in order. */
export function sendUnacknowledged(turn: Turn, site: SiteParts, deviceId: string): void {
  for (const row of site.dispatches.unacknowledged(deviceId)) {
    // Sent before and lost with its link: that was no try of the device's.
    const tries = row.state === 'SENT' ? row.tries : row.tries + 1;
    if (row.not_before_ms <= turn.now) sendAgain(turn, site, row, tries);
  }
}

/** The agenda's work on dispatches: a window opens, one expires or is retried, one that is held ends. */
export function dispatchAgenda(site: SiteParts): DueSource {
  return {
    name: 'dispatches',
    dueMs: () => site.dispatches.dueMs(),
    run: (turn) => {
      for (const row of site.dispatches.due(turn.now, DUE_PER_ALARM)) {
        const isDone = turn.step(() => runDue(turn, site, row.cmd_id));
        if (!isDone) site.dispatches.update(turn, row, { due_at_ms: turn.now + RETRY_MS });
      }
    },
  };
}

function runDue(turn: Turn, site: SiteParts, cmdId: string): void {
  // Another of this round may have ended its command.
  const row = site.dispatches.find(cmdId);
  if (!row) return;
  if (isHeld(row.state)) judgeHeld(turn, site, row);
  else if (isExpired(row, turn.now)) expire(turn, site, row);
  else if (row.state === 'SENT' && row.tries >= LIMIT.dispatchTries) fail(turn, site, row, 'NO_ACK');
  else if (site.sessions.isLive(row.device_id, turn.now)) sendAgain(turn, site, row, row.tries + 1);
  else {
    const dueMs = waitingDue(row, turn.now);
    site.dispatches.update(turn, row, { state: 'WAITING', due_at_ms: dueMs, reason: null });
  }
}

/** A queued command is checked again when it goes out [C-7.6]. */
function sendAgain(turn: Turn, site: SiteParts, row: DispatchRow, tries: number): void {
  if (isExpired(row, turn.now)) {
    expire(turn, site, row);
    return;
  }
  const command = commandOf(site, row);
  const broken = row.state === 'WAITING' ? recheck(turn, site, command, row) : undefined;
  if (broken) {
    fail(turn, site, row, broken);
    return;
  }
  const sent = site.dispatches.update(turn, row, {
    state: 'SENT',
    tries,
    due_at_ms: ackDue(row.expires_at_ms, turn.now),
  });
  site.commands.markDispatched(turn, command.sequence);
  sendCommand(turn, site, sent);
}

function expire(turn: Turn, site: SiteParts, row: DispatchRow): void {
  const about = subjectOf(site, commandOf(site, row));
  site.outbox.emit(turn, ...expiryAlarm(about, row.device_id, site.registry.keyIds, turn.now));
  fail(turn, site, row, 'EXPIRED');
}

function fail(turn: Turn, site: SiteParts, row: DispatchRow, reason: string): void {
  site.dispatches.update(turn, row, { state: 'FAILED', due_at_ms: null, reason });
  endIfAllHave(turn, site, commandOf(site, row));
}

/** Its time is over: its verdict ends it. */
function judgeHeld(turn: Turn, site: SiteParts, row: DispatchRow): void {
  const command = commandOf(site, row);
  const { end: ending } = KINDS[command.command_type];
  if (ending.by === 'verdict') end(turn, site, command, ending.verdict());
}

function endIfAllHave(turn: Turn, site: SiteParts, command: CommandRow): void {
  const rows = site.dispatches.ofCommand(command.sequence);
  if (rows.every((row) => hasEnded(row.state))) end(turn, site, command, outcomeOf(rows));
}

function end(turn: Turn, site: SiteParts, command: CommandRow, outcome: CommandOutcome): void {
  site.commands.markEnded(turn, command.sequence, outcome);
  site.dispatches.deleteOfCommand(turn, command.sequence);
  const details = { targetValueKw: command.target_value_kw, reason: outcome.reason };
  site.outbox.emit(turn, executionEvent(subjectOf(site, command), outcome.status, details, turn.now));
}

/** Why a command that waited may no longer go out, or undefined when it may. */
function recheck(turn: Turn, site: SiteParts, command: CommandRow, row: DispatchRow): string | undefined {
  const family = commandFamily(command.routing_key.split('.')[0] ?? '', command.routing_key);
  const parsed = family.ok ? parseCommand(family.value, command.payload) : undefined;
  if (!parsed?.ok) return 'INVALID_PAYLOAD';
  return kindOf(parsed.value).recheck(parsed.value.payload, row, site.facts(turn))?.rejectionCode;
}

function commandOf(site: SiteParts, row: DispatchRow): CommandRow {
  const command = site.commands.find(row.command_sequence);
  if (!command) throw new Error(`dispatch ${row.cmd_id} has no command`);
  return command;
}

/** The correlationId echoed is the request's, or its messageId when it had none [C-8.1]. */
function subjectOf(site: SiteParts, command: CommandRow): EventSubject {
  return {
    siteId: site.identity.siteId,
    sequence: command.sequence,
    keyId: command.key_id,
    correlationId: command.correlation_id ?? command.message_id,
    commandType: command.command_type,
  };
}
