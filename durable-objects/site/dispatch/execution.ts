/**
 * The life of a dispatched command: sending, device acks, timeouts, its end, each in the caller's turn. Execution is
 * EXECUTING once, then one of COMPLETED, DEVIATED or FAILED, never reopened [C-7.8].
 */
import type { DeviceAckStatus } from '../../../protocol/enums.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import type { DueSource } from '../../object/agenda.ts';
import type { Turn } from '../../object/turn.ts';
import { KINDS, kindOf } from '../command/kind/kinds.ts';
import type { CommandRow } from '../command/rows.ts';
import { executionEvent } from '../event/events.ts';
import type { SiteParts } from '../parts.ts';
import { ackDue, advance, hasEnded, isExpired, isHeld, waitingDue } from './dispatch.ts';
import { commandOf, end, endDispatch, expire, fail, subjectOf } from './ends.ts';
import type { DispatchRow } from './rows.ts';
import { sendCommand } from './send-command.ts';
import { findServing, makeRoom, readCommand, recheck } from './waiting.ts';

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
  const logged = commandOf(site, row);
  const { end: ending } = KINDS[logged.command_type];
  // What is held until its verdict: the device's COMPLETED says no more than IN_PROGRESS.
  const status = ending.by === 'verdict' && ack.status === 'COMPLETED' ? 'IN_PROGRESS' : ack.status;
  const state = advance(row.state, status);
  if (!state) return;

  const starts = status !== 'FAILED' && logged.status === 'PENDING';
  const command = starts ? { ...logged, started_at_ms: turn.now } : logged;
  if (starts) {
    takeEffect(turn, site, command);
    const details = { targetValueKw: command.target_value_kw };
    site.outbox.emit(turn, executionEvent(subjectOf(command), 'EXECUTING', details, turn.now));
  }
  if (state === 'COMPLETED' || state === 'FAILED') {
    if (endDispatch(turn, site, command, row, { state, reason: row.reason })) return;
  } else {
    const untilMs = isHeld(row.state) ? row.due_at_ms : null;
    const heldUntilMs =
      ending.by === 'verdict'
        ? (untilMs ?? ending.heldUntilMs(command, turn.now))
        : turn.now + LIMIT.noResultMs;
    site.dispatches.update(turn, row, { state, due_at_ms: heldUntilMs });
  }
  if (starts) site.commands.markStarted(turn, command.sequence);
}

/** A command acts on the site itself from its device's first ack on [C-7.7]. */
function takeEffect(turn: Turn, site: SiteParts, row: CommandRow): void {
  if (!KINDS[row.command_type].effect) return;
  const command = readCommand(row);
  if (!command) return;
  const { configuration } = site;
  kindOf(command).effect?.(
    turn,
    { configuration, commandId: row.id, keyPrefix: row.key_prefix },
    command.payload,
  );
}

/**
 * What a device that has just subscribed must get, in order: what waits for it, what it has not acknowledged, and what
 * it has and may have forgotten; its `cmdId` lets it answer twice.
 */
export function sendOpen(turn: Turn, site: SiteParts, deviceId: string): void {
  const isNewSession = site.sessions.handOver(deviceId);
  const lastEmergency = site.commands.lastEmergency();
  for (const row of site.dispatches.openFor(deviceId)) {
    if (isHeld(row.state)) {
      // What an emergency came after is not begun anew.
      if (isNewSession && row.command_sequence >= lastEmergency) sendCommand(turn, site, row);
    }
    // Sent before and lost with its link: that was no try of the device's. Past its window only its ack is waited for.
    else if (row.state === 'SENT') {
      if (!isExpired(row, turn.now)) sendAgain(turn, site, row, row.tries);
    } else if (row.not_before_ms <= turn.now) sendWaiting(turn, site, row.cmd_id);
  }
}

/** To whoever serves it now, if that one is there. */
function sendWaiting(turn: Turn, site: SiteParts, cmdId: string): void {
  // Another of this round may have ended its command.
  const row = site.dispatches.find(cmdId);
  if (!row) return;
  for (const one of findServing(turn, site, commandOf(site, row), row)) {
    if (site.sessions.isLive(one.device_id, turn.now)) sendAgain(turn, site, one, one.tries + 1);
    else if (!site.facts(turn).isActive(one.device_id)) fail(turn, site, one, 'DEVICE_GONE');
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
      makeRoom(turn, site);
    },
  };
}

function runDue(turn: Turn, site: SiteParts, cmdId: string): void {
  // Another of this round may have ended its command.
  const row = site.dispatches.find(cmdId);
  if (!row) return;
  if (isHeld(row.state)) endHeld(turn, site, row);
  else if (row.state === 'WAITING') runWaiting(turn, site, row);
  else if (row.tries >= LIMIT.dispatchTries) fail(turn, site, row, 'NO_ACK');
  else if (isExpired(row, turn.now)) {
    // It was told in time, and may have been obeyed: its ack is waited for, it is not told again.
    site.dispatches.update(turn, row, { tries: row.tries + 1, due_at_ms: ackDue(turn.now) });
  } else if (site.sessions.isLive(row.device_id, turn.now)) sendAgain(turn, site, row, row.tries + 1);
  else {
    wait(turn, site, row);
    sendWaiting(turn, site, row.cmd_id);
  }
}

function runWaiting(turn: Turn, site: SiteParts, row: DispatchRow): void {
  // Told once and away ever since: whoever was told has had its time.
  const isGivenUp = row.tries > 0 && row.expires_at_ms === null && row.due_at_ms !== null;
  if (isExpired(row, turn.now) || isGivenUp) {
    expire(turn, site, row);
    return;
  }
  // It waits on, unless it goes out now, or nobody is left to wait for.
  wait(turn, site, row);
  if (row.not_before_ms <= turn.now) sendWaiting(turn, site, row.cmd_id);
}

function wait(turn: Turn, site: SiteParts, row: DispatchRow): void {
  const toldUntilMs = row.tries > 0 && row.expires_at_ms === null ? turn.now + LIMIT.noResultMs : undefined;
  const dueMs = toldUntilMs ?? waitingDue(row, turn.now);
  site.dispatches.update(turn, row, { state: 'WAITING', due_at_ms: dueMs, reason: null });
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
  const sent = site.dispatches.update(turn, row, { state: 'SENT', tries, due_at_ms: ackDue(turn.now) });
  site.commands.markDispatched(turn, command.sequence);
  sendCommand(turn, site, sent);
}

/** The registry says that the plant consists of other things: what waits for what it lost ends; or that it is no more. */
export function plantChanged(turn: Turn, site: SiteParts, isGone: boolean): void {
  const rows = isGone ? site.dispatches.all() : site.dispatches.waiting();
  for (const { cmd_id: cmdId } of rows) {
    const row = site.dispatches.find(cmdId);
    const why = row && (isGone ? 'PLANT_GONE' : recheck(turn, site, commandOf(site, row), row));
    if (row && why && !hasEnded(row.state)) fail(turn, site, row, why);
  }
  if (!isGone) return;
  for (const { id } of site.devices.all()) {
    site.sessions.cut(turn, id, CLOSE_CODES.revoked, 'the plant is gone', turn.now);
  }
}

/** Its time is over: its verdict ends it, or its device has said nothing more. */
function endHeld(turn: Turn, site: SiteParts, row: DispatchRow): void {
  const command = commandOf(site, row);
  const { end: ending } = KINDS[command.command_type];
  if (ending.by === 'verdict') end(turn, site, command, ending.verdict());
  else fail(turn, site, row, 'NO_RESULT');
}
