/**
 * The life of a schedule [C-7.9]. Its slots stand in the plan from the plant's acknowledgement on.
 *
 *   PENDING ──plant acked──► ACCEPTED ──window open──► ACTIVE ──last slot over──► COMPLETED | FAILED
 *      └──────────────────────── cancelled, or no slot left ───────────────────► CANCELLED
 */
import type { DeviceAckStatus } from '../../../protocol/enums.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { type ScheduleSet, scheduleWindow } from '../../../protocol/schedule.ts';
import type { Turn } from '../../object/turn.ts';
import { checkPower, lowestLimit } from '../command/checks.ts';
import type { PlannedDispatch } from '../command/kind/kind.ts';
import type { Refusal } from '../command/refusal.ts';
import type { CommandRow } from '../command/rows.ts';
import { toDevices } from '../command/to-devices.ts';
import { hasEnded } from '../dispatch/dispatch.ts';
import { expireCommand, fail, failCommand, finish, raiseViolation, subjectOf } from '../dispatch/ends.ts';
import type { DispatchRow, DispatchState } from '../dispatch/rows.ts';
import { dispatch } from '../dispatch/send-command.ts';
import { executionEvent, expiryAlarm } from '../event/events.ts';
import { raise } from '../event/raise.ts';
import type { SiteParts } from '../parts.ts';
import type { SiteFacts } from '../site-facts.ts';
import type { OpenSchedule, StandingSlot } from './rows.ts';
import { cutByNewer, type KeptSlot, skippedText } from './slots.ts';

/** One that was just recorded: its gateway is told of it. Of those that are open only so many may be; the oldest ends. */
export function setSchedule(
  turn: Turn,
  site: SiteParts,
  payload: ScheduleSet,
  { sequence, id }: { sequence: number; id: string },
): void {
  const { scheduleId = id } = payload;
  const window = scheduleWindow(payload);
  const slots = payload.slots.map(({ mode, setpoint }): KeptSlot => [mode, setpoint?.value ?? null]);
  site.schedules.insert(turn, scheduleId, sequence, window, slots);
  const schedule = site.schedules.openOf(sequence);
  if (schedule) tellSchedule(turn, site, schedule, site.facts(turn).gatewayId);
  const open = site.schedules.open();
  for (const oldest of open.slice(0, Math.max(0, open.length - LIMIT.openSchedules)))
    failCommand(turn, site, oldest.sequence, 'QUEUE_FULL');
}

/** All of it, for running alone, as it was set: which slots newer ones have the gateway knows by their sequences. */
export function tellSchedule(
  turn: Turn,
  site: SiteParts,
  schedule: OpenSchedule,
  gatewayId: string | undefined,
): void {
  const { id: scheduleId, sequence, startsAtMs, endsAtMs, slotMs } = schedule;
  const [planned] = toDevices([gatewayId], 'SCHEDULE_SET', {
    scheduleId,
    sequence,
    startTime: formatInstant(startsAtMs),
    endTime: formatInstant(endsAtMs),
    slotDurationMinutes: slotMs / 60_000,
    slots: site.schedules.slotsOf(schedule).map(([mode, targetKw], slotIndex) => ({
      slotIndex,
      mode,
      setpoint: targetKw === null ? null : { value: targetKw },
    })),
  });
  if (planned) dispatch(turn, site, sequence, planned, { notBeforeMs: 0, expiresAtMs: endsAtMs });
}

/** The gateway says that it has it, or that it will not. */
export function ackSchedule(
  turn: Turn,
  site: SiteParts,
  row: DispatchRow,
  command: CommandRow,
  status: DeviceAckStatus,
): void {
  if (status === 'FAILED') {
    fail(turn, site, row, null);
    return;
  }
  if (status === 'COMPLETED') site.dispatches.delete(turn, row.cmd_id);
  // It may still say FAILED, and is waited for no longer.
  else if (row.due_at_ms !== null) site.dispatches.update(turn, row, { state: status, due_at_ms: null });
  if (site.schedules.openOf(command.sequence)?.status !== 'PENDING') return;
  // What is over by now has ended before this one takes the place of anything.
  passSchedules(turn, site);
  const schedule = site.schedules.openOf(command.sequence);
  if (schedule) accept(turn, site, schedule);
}

/** It has its slots: of older schedules for good, and not those that a newer one has already. */
function accept(turn: Turn, site: SiteParts, accepted: OpenSchedule): void {
  const { schedules } = site;
  schedules.update(turn, accepted, { status: 'ACCEPTED' });
  for (const other of schedules.open()) {
    if (other.sequence === accepted.sequence || other.status === 'PENDING') continue;
    const own = schedules.openOf(accepted.sequence) ?? accepted;
    const [older, newer] = other.sequence < own.sequence ? [other, own] : [own, other];
    const isMet = newer.startsAtMs < older.lastMs && older.startsAtMs < newer.endsAtMs;
    if (isMet) schedules.setSlots(turn, older, cutByNewer(older, schedules.slotsOf(older), newer, turn.now));
  }
  for (const { sequence, status, startsAtMs, lastMs } of schedules.open()) {
    const isNothingLeft = lastMs <= Math.max(startsAtMs, turn.now);
    if (status !== 'PENDING' && isNothingLeft) cancelSchedule(turn, site, sequence);
  }
  site.plan.touch();
}

/** By its partner, or because no slot of it is left. */
export function cancelSchedule(turn: Turn, site: SiteParts, sequence: number): void {
  const schedule = site.schedules.openOf(sequence);
  if (!schedule) return;
  site.schedules.end(turn, schedule, 'CANCELLED');
  failCommand(turn, site, sequence, 'CANCELLED');
  site.plan.touch();
}

/** What time has decided of schedules, though it is looked at late. */
export function passSchedules(turn: Turn, site: SiteParts): void {
  for (const schedule of site.schedules.open()) {
    const { sequence, status, startsAtMs, endsAtMs, lastMs } = schedule;
    const dueMs = status === 'PENDING' ? endsAtMs : status === 'ACCEPTED' ? startsAtMs : lastMs;
    // Log rows are long, and this runs with every change of the plan.
    const command = dueMs <= turn.now ? site.commands.find(sequence) : undefined;
    if (!command) continue;
    if (status === 'ACCEPTED') activate(turn, site, schedule, command);
    else if (status === 'ACTIVE') complete(turn, site, schedule, command);
    else {
      expireCommand(turn, site, command);
      failCommand(turn, site, sequence, 'EXPIRED');
    }
  }
}

function activate(turn: Turn, site: SiteParts, schedule: OpenSchedule, command: CommandRow): void {
  const active = { ...schedule, status: 'ACTIVE' as const };
  site.schedules.update(turn, schedule, { status: 'ACTIVE' });
  site.commands.markStarted(turn, command.sequence);
  site.outbox.emit(turn, executionEvent(subjectOf(command), 'EXECUTING', {}, turn.now));
  if (active.lastMs > turn.now) return;
  complete(turn, site, active, { ...command, status: 'EXECUTING', started_at_ms: turn.now });
}

/** COMPLETED when the plant took any slot; without one it failed for what its slots were skipped for, or was never told. */
function complete(turn: Turn, site: SiteParts, schedule: OpenSchedule, command: CommandRow): void {
  const skipped = skippedText(site.schedules.slotsOf(schedule));
  const status = schedule.isCarried ? 'COMPLETED' : 'FAILED';
  site.schedules.end(turn, schedule, status);
  if (status === 'FAILED' && skipped === undefined) {
    const { gatewayId } = site.facts(turn);
    const alarms = expiryAlarm(subjectOf(command), gatewayId, site.registry.keyIds, turn.now);
    raise(turn, site, 'COMMAND_EXPIRED', alarms);
  }
  const reason = skipped ?? (status === 'FAILED' ? 'EXPIRED' : null);
  finish(turn, site, command, { status, reason });
  site.dispatches.deleteOfCommand(turn, command.sequence);
  site.plan.touch();
}

/** What the plant is told of a slot, or why it may not go out [C-7.9]. */
export function planSlot(
  { id: scheduleId, slotIndex, mode, targetKw, endsAtMs }: StandingSlot,
  facts: SiteFacts,
): { planned: PlannedDispatch[]; why?: Refusal } {
  const validUntil = formatInstant(endsAtMs);
  if (targetKw === null) {
    return {
      planned: toDevices([facts.gatewayId], 'MODE_CHANGE', { scheduleId, slotIndex, mode, validUntil }),
    };
  }
  const why = checkPower(facts, targetKw, slotIndex);
  if (why) return { planned: [], why };
  const maxRampKwPerMinute = lowestLimit(facts, 'maxRampKwPerMinute');
  const ramp = maxRampKwPerMinute === undefined ? {} : { maxRampKwPerMinute };
  const setpoint = { scheduleId, slotIndex, mode, targetSignedKw: targetKw, validUntil, ...ramp };
  return { planned: toDevices([facts.gatewayId], 'SITE_SETPOINT', setpoint) };
}

/** The plant has taken the slot that it was told; it may still say FAILED, and is waited for no longer. */
export function ackSlot(turn: Turn, site: SiteParts, row: DispatchRow, state: DispatchState): void {
  const { told } = site.plan;
  const schedule = told?.by === 'slot' ? site.schedules.openOf(told.sequence) : undefined;
  if (schedule && !schedule.isCarried) site.schedules.update(turn, schedule, { isCarried: true });
  if (hasEnded(state)) site.dispatches.delete(turn, row.cmd_id);
  else if (row.due_at_ms !== null) site.dispatches.update(turn, row, { state, due_at_ms: null });
}

/** A slot that no longer fits ends here, with its alarm; the schedule goes on. */
export function skipUnfit(turn: Turn, site: SiteParts, slot: StandingSlot, why: Refusal): void {
  const command = site.commands.find(slot.sequence);
  if (command && why.violation) raiseViolation(turn, site, command, why.violation, 'skipped');
  site.schedules.skip(turn, slot, why.rejectionCode);
  site.plan.touch();
}
