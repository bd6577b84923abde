/**
 * The life of a dispatched command: sending, device acks, timeouts, its end. Every function writes inside the
 * caller's transaction and leaves its events and sends in `effects`. Execution is EXECUTING once, then one of
 * COMPLETED or FAILED, never reopened [C-7.8].
 */
import { parseCommand } from '../../../protocol/command.ts';
import type { DeviceAckStatus } from '../../../protocol/enums.ts';
import { commandFamily } from '../../../protocol/routing-keys.ts';
import type { Effects } from '../effects.ts';
import { executionEvent, expiryAlarm, subjectOf } from '../events.ts';
import type { CommandRow, DispatchRow } from '../schema.ts';
import type { SiteState } from '../state.ts';
import { checkItemConstraint, checkItemTarget, checkSetpointConstraint, type SiteFacts } from './checks.ts';
import { ackDue, advance, hasEnded, MAX_TRIES, OPEN_SETPOINT_MS, outcomeOf, waitingDue } from './dispatch.ts';

/** A device's ack. Unknown, foreign, lower or repeated ones change nothing [C-3.9]. */
export function applyAck(
  state: SiteState,
  effects: Effects,
  ack: { deviceId: string; cmdId: string; status: DeviceAckStatus },
  now: number,
): void {
  const row = state.storage.dispatch(ack.cmdId);
  if (row?.device_id !== ack.deviceId) return;
  const command = commandOf(state, row);
  const isSetpoint = command.command_type === 'SITE_SETPOINT';
  // A setpoint is held until its verdict: the device's COMPLETED says no more than IN_PROGRESS.
  const status = isSetpoint && ack.status === 'COMPLETED' ? 'IN_PROGRESS' : ack.status;
  const next = advance(row.state, status);
  if (!next) return;

  if (status !== 'FAILED' && command.status === 'PENDING') {
    state.storage.markStarted(command.sequence, now);
    effects.emit(
      executionEvent(
        subjectOf(siteId(state), command),
        'EXECUTING',
        { targetValueKw: command.target_value_kw },
        now,
      ),
    );
  }
  const due = isSetpoint && status !== 'FAILED' ? heldUntilMs(row, command, now) : null;
  state.storage.setDispatch(row.cmd_id, {
    state: next,
    tries: row.tries,
    due_at_ms: due,
    reason: row.reason,
  });
  if (hasEnded(next)) endIfAllHave(state, effects, command, now);
}

/** When a setpoint that the device holds is ended: at validUntil, or a while after it began [C-7.8]. */
function heldUntilMs(row: DispatchRow, command: CommandRow, now: number): number {
  const isHeld = row.state === 'RECEIVED' || row.state === 'IN_PROGRESS';
  return (isHeld ? row.due_at_ms : null) ?? command.valid_until_ms ?? now + OPEN_SETPOINT_MS;
}

/** What a device that has just subscribed must get: all that is due and not acknowledged, in order. */
export function sendUnacknowledged(state: SiteState, effects: Effects, deviceId: string, now: number): void {
  for (const row of state.storage.unacknowledged(deviceId)) {
    // Sent before and lost with its link: that was no try of the device's.
    const tries = row.state === 'SENT' ? row.tries : row.tries + 1;
    if (row.not_before_ms <= now) sendAgain(state, effects, row, tries, now);
  }
}

/** The agenda's work on a dispatch that is due: its window opens, it expires, is retried, a setpoint ends. */
export function runDueDispatch(state: SiteState, effects: Effects, due: DispatchRow, now: number): void {
  // Another of this round may have ended its command.
  const row = state.storage.dispatch(due.cmd_id);
  if (!row) return;
  const live = state.sessions.isLive(row.device_id, now);
  if (row.state === 'RECEIVED' || row.state === 'IN_PROGRESS') endSetpoint(state, effects, row, now);
  else if (isExpired(row, now)) expire(state, effects, row, now);
  else if (row.state === 'SENT' && row.tries >= MAX_TRIES) fail(state, effects, row, 'NO_ACK', now);
  else if (live) sendAgain(state, effects, row, row.tries + 1, now);
  else wait(state, row, now);
}

function isExpired(row: DispatchRow, now: number): boolean {
  return row.expires_at_ms !== null && row.expires_at_ms <= now;
}

/** A queued command is checked again when it goes out [C-7.6]. */
function sendAgain(state: SiteState, effects: Effects, row: DispatchRow, tries: number, now: number): void {
  if (isExpired(row, now)) {
    expire(state, effects, row, now);
    return;
  }
  const command = commandOf(state, row);
  const broken = row.state === 'WAITING' ? recheck(state, command, row, now) : undefined;
  if (broken) {
    fail(state, effects, row, broken, now);
    return;
  }
  const sent: DispatchRow = { ...row, state: 'SENT', tries, due_at_ms: ackDue(row.expires_at_ms, now) };
  state.storage.setDispatch(row.cmd_id, sent);
  state.storage.markDispatched(command.sequence, now);
  effects.send(sent);
}

function wait(state: SiteState, row: DispatchRow, now: number): void {
  state.storage.setDispatch(row.cmd_id, {
    state: 'WAITING',
    tries: row.tries,
    due_at_ms: waitingDue(row, now),
    reason: null,
  });
}

function expire(state: SiteState, effects: Effects, row: DispatchRow, now: number): void {
  const subject = subjectOf(siteId(state), commandOf(state, row));
  effects.emit(...expiryAlarm(subject, row.device_id, state.registry?.keyIds ?? [], now));
  fail(state, effects, row, 'EXPIRED', now);
}

function fail(state: SiteState, effects: Effects, row: DispatchRow, reason: string, now: number): void {
  state.storage.setDispatch(row.cmd_id, { state: 'FAILED', tries: row.tries, due_at_ms: null, reason });
  endIfAllHave(state, effects, commandOf(state, row), now);
}

/** Without samples to judge by, a setpoint that was held to its end is COMPLETED, reason `unmeasured` [C-7.8]. */
function endSetpoint(state: SiteState, effects: Effects, row: DispatchRow, now: number): void {
  end(state, effects, commandOf(state, row), { status: 'COMPLETED', reason: 'unmeasured' }, now);
}

function endIfAllHave(state: SiteState, effects: Effects, command: CommandRow, now: number): void {
  const rows = state.storage.dispatchesOf(command.sequence);
  if (rows.every((row) => hasEnded(row.state))) end(state, effects, command, outcomeOf(rows), now);
}

function end(
  state: SiteState,
  effects: Effects,
  command: CommandRow,
  outcome: { status: 'COMPLETED' | 'FAILED'; reason: string | null },
  now: number,
): void {
  state.storage.markEnded(command.sequence, outcome.status, outcome.reason, now);
  state.storage.deleteDispatchesOf(command.sequence);
  const details = { targetValueKw: command.target_value_kw, reason: outcome.reason };
  effects.emit(executionEvent(subjectOf(siteId(state), command), outcome.status, details, now));
}

/** Why a command that waited may no longer go out, or undefined when it may. */
function recheck(state: SiteState, command: CommandRow, row: DispatchRow, now: number): string | undefined {
  const family = commandFamily(command.routing_key.split('.')[0] ?? '', command.routing_key);
  const parsed = family.ok ? parseCommand(family.value, command.payload) : undefined;
  if (!parsed?.ok) return 'INVALID_PAYLOAD';
  const facts: SiteFacts = state.facts(now);
  if (parsed.value.commandType === 'SITE_SETPOINT') {
    return checkSetpointConstraint(parsed.value.payload, facts)?.rejectionCode;
  }
  if (parsed.value.commandType !== 'DEVICE_COMMAND') return undefined;
  const { targets = [] } = JSON.parse(row.payload) as { targets?: { deviceId: string }[] };
  for (const item of parsed.value.payload.commands) {
    if (item.command !== row.action || !targets.some((target) => target.deviceId === item.deviceId)) continue;
    const why = checkItemTarget(item, facts) ?? checkItemConstraint(item, facts);
    if (why) return why.rejectionCode;
  }
  return undefined;
}

function commandOf(state: SiteState, row: DispatchRow): CommandRow {
  const command = state.storage.command(row.command_sequence);
  if (!command) throw new Error(`dispatch ${row.cmd_id} has no command`);
  return command;
}

function siteId(state: SiteState): string {
  if (!state.siteId) throw new Error('a site without identity has no commands');
  return state.siteId;
}
