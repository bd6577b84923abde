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
import { tellAgreed } from '../config/apply.ts';
import { removeDevice } from '../device/remove.ts';
import { executionEvent } from '../event/events.ts';
import type { SiteParts } from '../parts.ts';
import { ackEntry } from '../plan/entry.ts';
import { catchUp, tellAgain } from '../plan/settle.ts';
import { ackSchedule, ackSlot } from '../schedule/lifecycle.ts';
import {
  ackDue,
  advance,
  hasEnded,
  isExpired,
  isForWhoeverServes,
  isHeld,
  isOfSchedule,
  waitingDue,
} from './dispatch.ts';
import {
  commandOf,
  endDispatch,
  endOwn,
  endUnfit,
  expire,
  fail,
  failCommand,
  isOfCommand,
  subjectOf,
} from './ends.ts';
import { type DispatchRow, OWN, PLAN_OWN } from './rows.ts';
import { sendCommand } from './send-command.ts';
import { findServing, makeRoom, readCommand, recheck, recheckWaiting } from './waiting.ts';

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
  const state = advance(row.state, ack.status);
  if (!state) return;
  if (row.command_sequence === PLAN_OWN) {
    if (state === 'FAILED') fail(turn, site, row, null);
    else if (site.plan.told?.by === 'slot') ackSlot(turn, site, row, state);
    else if (hasEnded(state)) site.dispatches.deleteOfCommand(turn, PLAN_OWN);
    else site.dispatches.update(turn, row, { state, due_at_ms: turn.now + LIMIT.noResultMs });
    return;
  }
  if (row.command_sequence === OWN) {
    if (state === 'FAILED') fail(turn, site, row, null);
    else if (state === 'COMPLETED') endOwn(turn, site, row, state, null);
    else site.dispatches.update(turn, row, { state, due_at_ms: turn.now + LIMIT.noResultMs });
    return;
  }
  const logged = commandOf(site, row);
  if (row.action === 'SCHEDULE_SET') {
    ackSchedule(turn, site, row, logged, ack.status);
    return;
  }
  if (KINDS[logged.command_type].end === 'plan') {
    ackEntry(turn, site, row, logged, ack.status);
    return;
  }

  const starts = ack.status !== 'FAILED' && logged.status === 'PENDING';
  const command = starts ? { ...logged, started_at_ms: turn.now } : logged;
  if (starts) {
    takeEffect(turn, site, command);
    const details = { targetValueKw: command.target_value_kw };
    site.outbox.emit(turn, executionEvent(subjectOf(command), 'EXECUTING', details, turn.now));
  }
  if (state === 'COMPLETED' || state === 'FAILED') {
    if (endDispatch(turn, site, command, row, { state, reason: row.reason })) return;
  } else site.dispatches.update(turn, row, { state, due_at_ms: turn.now + LIMIT.noResultMs });
  if (starts) site.commands.markStarted(turn, command.sequence);
}

/** A command acts on the site itself from its device's first ack on [C-7.7]. */
function takeEffect(turn: Turn, site: SiteParts, row: CommandRow): void {
  if (!KINDS[row.command_type].effect) return;
  const command = readCommand(row);
  if (!command) return;
  const { configuration, plan } = site;
  const { id: commandId, sequence, key_prefix: keyPrefix } = row;
  const acting = { configuration, plan, commandId, sequence, keyPrefix };
  kindOf(command).effect?.(turn, acting, command.payload);
  if (command.commandType !== 'MODE_CHANGE' || plan.emergency) return;
  forgetBefore(turn, site, sequence, commandId);
  // Schedules that the emergency held back.
  for (const waiting of site.dispatches.waiting())
    if (isOfSchedule(waiting)) sendWaiting(turn, site, waiting.cmd_id);
}

/** A mode is in force: what came before it, of modes and emergencies, and was not acknowledged is told no more. */
function forgetBefore(turn: Turn, site: SiteParts, modeSequence: number, by: string): void {
  site.dispatches.deleteOfCommand(turn, PLAN_OWN);
  for (const { action, command_sequence: sequence } of site.dispatches.all()) {
    const isOlder = sequence < modeSequence && (action === 'MODE_CHANGE' || action.startsWith('EMERGENCY_'));
    if (isOlder) failCommand(turn, site, sequence, `SUPERSEDED by ${by}`);
  }
}

/**
 * What a device that has just subscribed must get, in order: what waits for it, what it has not acknowledged, and what
 * it has and may have forgotten; its `cmdId` lets it answer twice.
 */
export function sendOpen(turn: Turn, site: SiteParts, deviceId: string): void {
  catchUp(turn, site);
  const isNewSession = site.sessions.handOver(deviceId);
  const lastEmergency = site.commands.lastEmergency();
  const isOwed = site.configuration.isOwedTo(deviceId);
  for (const row of site.dispatches.openFor(deviceId)) {
    if (isHeld(row.state)) {
      // What an emergency came after is not begun anew, nor what is over; what the plan says now is.
      const isWanted = !isOvertaken(row, lastEmergency);
      if (isNewSession && isWanted && !isExpired(row, turn.now)) sendCommand(turn, site, row);
    }
    // Sent before and lost with its link: that was no try of the device's. Past its window only its ack is waited for.
    else if (row.state === 'SENT') {
      if (mayBeToldAgain(row, lastEmergency, turn.now)) sendAgain(turn, site, row, row.tries);
    } else if (row.not_before_ms <= turn.now) sendWaiting(turn, site, row.cmd_id);
  }
  if (!isNewSession || site.facts(turn).gatewayId !== deviceId) return;
  if (isOwed) tellAgreed(turn, site, deviceId);
  tellAgain(turn, site, deviceId);
}

/** Not past its window, and not behind an emergency: what was told before one is not told after it. */
function mayBeToldAgain(row: DispatchRow, lastEmergency: number, now: number): boolean {
  return !isOvertaken(row, lastEmergency) && !isExpired(row, now);
}

function isOvertaken(row: DispatchRow, lastEmergency: number): boolean {
  return isOfCommand(row) && row.command_sequence < lastEmergency && !isForWhoeverServes(row);
}

/** To whoever serves it now, if that one is there. */
function sendWaiting(turn: Turn, site: SiteParts, cmdId: string): void {
  // Another of this round may have ended its command.
  const row = site.dispatches.find(cmdId);
  if (!row || (isOfSchedule(row) && site.plan.emergency)) return;
  for (const one of findServing(turn, site, row)) {
    if (site.sessions.isLive(one.device_id, turn.now)) sendAgain(turn, site, one, one.tries + 1);
    else if (isGone(site, one.device_id)) fail(turn, site, one, 'DEVICE_GONE');
  }
}

/**
 * Its device is no more here: what waits for it goes to who serves in its place. So does what that one is to be told
 * anyway, by the plan; anything else that it was told may have been obeyed, and ends. What it has ended stays so.
 */
export function handOver(turn: Turn, site: SiteParts, cmdId: string): void {
  const row = site.dispatches.find(cmdId);
  if (!row || hasEnded(row.state)) return;
  const { gatewayId } = site.facts(turn);
  if (row.state === 'WAITING') {
    if (row.not_before_ms <= turn.now) sendWaiting(turn, site, cmdId);
  } else if (row.command_sequence === PLAN_OWN) site.dispatches.delete(turn, cmdId);
  else if (isForWhoeverServes(row)) {
    wait(turn, site, row);
    sendWaiting(turn, site, cmdId);
  } else if (row.action === 'SITE_SETPOINT' && gatewayId !== undefined) {
    site.dispatches.delete(turn, cmdId);
    site.plan.forgetTold(turn);
  } else fail(turn, site, row, 'DEVICE_GONE');
}

/** Not one that is suspended: it may be let in again. */
function isGone({ devices }: SiteParts, deviceId: string): boolean {
  const device = devices.find(deviceId);
  return device === undefined || device.status === 'DECOMMISSIONED';
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
  if (isHeld(row.state)) fail(turn, site, row, 'NO_RESULT');
  else if (row.state === 'WAITING') runWaiting(turn, site, row);
  else if (row.tries >= LIMIT.dispatchTries) fail(turn, site, row, 'NO_ACK');
  else if (!mayBeToldAgain(row, site.commands.lastEmergency(), turn.now)) {
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
  const broken = row.state === 'WAITING' ? recheck(turn, site, row) : undefined;
  if (broken) {
    endUnfit(turn, site, row, broken);
    return;
  }
  const sent = site.dispatches.update(turn, row, { state: 'SENT', tries, due_at_ms: ackDue(turn.now) });
  site.commands.markDispatched(turn, row.command_sequence);
  sendCommand(turn, site, sent);
}

/** The registry says that the plant consists of other things: what waits for what it lost ends; or that it is no more. */
export function plantChanged(turn: Turn, site: SiteParts, isGone: boolean): void {
  const { deviceTypes = {} } = site.registry.record ?? {};
  for (const id of site.devices.allLeaving()) if (!(id in deviceTypes)) removeDevice(turn, site, id);
  for (const device of site.devices.all())
    site.devices.setType(turn, device, deviceTypes[device.id] ?? device.type);
  if (!isGone) recheckWaiting(turn, site);
  else {
    for (const { cmd_id: cmdId } of site.dispatches.all()) {
      const row = site.dispatches.find(cmdId);
      if (row && !hasEnded(row.state)) fail(turn, site, row, 'PLANT_GONE');
    }
    for (const { sequence } of [...site.plan.entries.all(), ...site.schedules.open()])
      failCommand(turn, site, sequence, 'PLANT_GONE');
    for (const { id } of site.devices.all()) {
      site.sessions.cut(turn, id, CLOSE_CODES.revoked, 'the plant is gone', turn.now);
    }
  }
  site.alerts.rulesChanged(turn);
  // Who is there, and which alarms stand, by what the plant consists of now.
  turn.send(() => site.presence.noteChange());
}
