/**
 * The schedules of a site [C-7.9]. The slots of a schedule are part of the plan once the plant has acknowledged it.
 *
 *   PENDING ──plant acked──► ACCEPTED ──window open──► ACTIVE ──last slot over──► COMPLETED | FAILED
 *      └──────────────────────── cancelled, or no slot left ───────────────────► CANCELLED
 *
 * An open schedule ends FAILED when its command fails: rejected by the plant, expired, too many open ones.
 */
import type { JsonChunk, ScheduleQuery } from '../../../protocol/history.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { type ScheduleSet, type ScheduleSummary, scheduleWindow } from '../../../protocol/schedule.ts';
import type { Asker } from '../../ask-rpc.ts';
import type { Turn } from '../../object/turn.ts';
import { SITE_BOUNDS } from '../bounds.ts';
import { type Commands, subjectOf } from '../command/commands.ts';
import { checkPower, lowestLimit } from '../command/constraints.ts';
import type { CommandRow } from '../command/rows.ts';
import { type PlannedDispatch, toDevices } from '../dispatch/dispatch.ts';
import type { Dispatches } from '../dispatch/dispatches.ts';
import type { Events } from '../event/events.ts';
import type { Refusal } from '../refusal.ts';
import { partnersSeen } from '../sight.ts';
import type { SiteView, ViewOf } from '../site-view.ts';
import type { ActiveSlot, OpenSchedule, ScheduleRow, ScheduleRows } from './rows.ts';
import { cutByNewer, type StoredSlot, skippedText, slotStart } from './slots.ts';

export interface SchedulesHost {
  rows: ScheduleRows;
  commands: Commands;
  dispatches: Dispatches;
  events: Events;
  view: ViewOf;
  /** Called when the active slot may have changed. */
  changed(): void;
}

export class Schedules {
  readonly rows: ScheduleRows;
  readonly #host: SchedulesHost;

  constructor(host: SchedulesHost) {
    this.#host = host;
    this.rows = host.rows;
  }

  /** One page of schedules for REST, ordered by start (spec: Schedule summary; [C-4.4]). */
  page(plantId: string, query: ScheduleQuery, asker: Asker): JsonChunk {
    const rows = this.rows.meeting(query, partnersSeen(asker), SITE_BOUNDS.schedulesPerCall);
    const items = rows.map((row) => JSON.stringify(summaryOf(plantId, row))).join(',');
    const last = rows.length < SITE_BOUNDS.schedulesPerCall ? undefined : rows.at(-1);
    return { items, nextMs: last?.command_sequence ?? null };
  }

  /** The newest open schedule (spec: Site configuration snapshot). */
  active(plantId: string, asker: Asker): ScheduleSummary | null {
    const row = this.rows.latestOpen(partnersSeen(asker));
    return row ? summaryOf(plantId, row) : null;
  }

  /** Stores a schedule that was just recorded and sends it. Above the limit of open schedules the oldest fails. */
  set(turn: Turn, payload: ScheduleSet, command: { sequence: number; id: string; partnerId: string }): void {
    const { sequence } = command;
    const { scheduleId = command.id } = payload;
    const window = scheduleWindow(payload);
    const slots = payload.slots.map(({ mode, setpoint }): StoredSlot => [mode, setpoint?.value ?? null]);
    this.rows.insert(turn, scheduleId, command, window, slots);
    const schedule = this.rows.openOf(sequence);
    if (schedule) this.send(turn, schedule, this.#host.view(turn).gatewayId);
    const open = this.rows.open();
    for (const oldest of open.slice(0, Math.max(0, open.length - LIMIT.openSchedules)))
      this.#host.commands.fail(turn, oldest.sequence, 'QUEUE_FULL');
  }

  /**
   * Sends a whole schedule as it was set, so that the gateway can follow it without the platform. From the sequences
   * the gateway knows which slots newer schedules replace.
   */
  send(turn: Turn, schedule: OpenSchedule, gatewayId: string | undefined): void {
    const { wireId: scheduleId, sequence, startsAtMs, endsAtMs, slotMs } = schedule;
    const [planned] = toDevices([gatewayId], 'SCHEDULE_SET', {
      scheduleId,
      sequence,
      startTime: formatInstant(startsAtMs),
      endTime: formatInstant(endsAtMs),
      slotDurationMinutes: slotMs / 60_000,
      slots: this.rows.slotsOf(schedule).map(([mode, targetKw], slotIndex) => ({
        slotIndex,
        mode,
        setpoint: targetKw === null ? null : { value: targetKw },
      })),
    });
    if (!planned) return;
    const from = { owner: 'SCHEDULE' as const, commandSequence: sequence };
    this.#host.dispatches.create(turn, from, planned, { notBeforeMs: 0, expiresAtMs: endsAtMs });
  }

  /** The plant has acknowledged the schedule of that command. */
  accept(turn: Turn, sequence: number): void {
    if (this.rows.openOf(sequence)?.status !== 'PENDING') return;
    // First ends the schedules whose time is over, so that the accepted schedule replaces none of their slots.
    this.advance(turn);
    const schedule = this.rows.openOf(sequence);
    if (schedule) this.#accept(turn, schedule);
  }

  /** Where schedules overlap, the slots of the newer one replace those of the older one. */
  #accept(turn: Turn, accepted: OpenSchedule): void {
    this.rows.update(turn, accepted, { status: 'ACCEPTED' });
    for (const other of this.rows.open()) {
      if (other.sequence === accepted.sequence || other.status === 'PENDING') continue;
      const current = this.rows.openOf(accepted.sequence) ?? accepted;
      const [older, newer] = other.sequence < current.sequence ? [other, current] : [current, other];
      const overlaps = newer.startsAtMs < older.lastMs && older.startsAtMs < newer.endsAtMs;
      if (!overlaps) continue;
      this.rows.setSlots(turn, older, cutByNewer(older, this.rows.slotsOf(older), newer, turn.now));
    }
    for (const { sequence, status, startsAtMs, lastMs } of this.rows.open()) {
      const isNothingLeft = lastMs <= Math.max(startsAtMs, turn.now);
      if (status !== 'PENDING' && isNothingLeft) this.cancel(turn, sequence);
    }
    this.#host.changed();
  }

  /**
   * Cancels the schedule of that command, because its partner cancelled it or because none of its slots is
   * left.
   */
  cancel(turn: Turn, sequence: number): void {
    const schedule = this.rows.openOf(sequence);
    if (!schedule) return;
    this.rows.end(turn, schedule, 'CANCELLED');
    this.#host.commands.fail(turn, sequence, 'CANCELLED');
    this.#host.changed();
  }

  /** The command of a schedule has failed: the schedule ends FAILED. */
  forget(turn: Turn, sequence: number): void {
    const schedule = this.rows.openOf(sequence);
    if (!schedule) return;
    this.rows.end(turn, schedule, 'FAILED');
    this.#host.changed();
  }

  /** Applies all changes of status that are due by now, even if this runs late. */
  advance(turn: Turn): void {
    const { commands, view } = this.#host;
    for (const schedule of this.rows.open()) {
      const { sequence, status, startsAtMs, endsAtMs, lastMs } = schedule;
      const dueMs = status === 'PENDING' ? endsAtMs : status === 'ACCEPTED' ? startsAtMs : lastMs;
      // Log rows are long and this runs with every change of the plan, so a row is read only if its schedule
      // is due.
      const command = dueMs <= turn.now ? commands.find(sequence) : undefined;
      if (!command) continue;
      if (status === 'ACCEPTED') this.#activate(turn, schedule, command);
      else if (status === 'ACTIVE') this.#complete(turn, schedule, command);
      else {
        commands.expire(turn, command, view(turn).gatewayId);
        commands.fail(turn, sequence, 'EXPIRED');
      }
    }
  }

  #activate(turn: Turn, schedule: OpenSchedule, command: CommandRow): void {
    const active = { ...schedule, status: 'ACTIVE' as const };
    this.rows.update(turn, schedule, { status: 'ACTIVE' });
    this.#host.commands.rows.markStarted(turn, command.sequence);
    this.#host.events.executing(turn, subjectOf(command));
    if (active.lastMs > turn.now) return;
    this.#complete(turn, active, { ...command, status: 'EXECUTING', started_at_ms: turn.now });
  }

  /** COMPLETED when the plant took any slot; otherwise FAILED, with the reasons of skipped slots or NO_SLOT_TAKEN. */
  #complete(turn: Turn, schedule: OpenSchedule, command: CommandRow): void {
    const { commands, dispatches } = this.#host;
    const skipped = skippedText(this.rows.slotsOf(schedule));
    const status = schedule.hasTakenSlot ? 'COMPLETED' : 'FAILED';
    this.rows.end(turn, schedule, status);
    const reason = skipped ?? (status === 'FAILED' ? 'NO_SLOT_TAKEN' : null);
    commands.finish(turn, command, { status, reason });
    dispatches.rows.deleteOfCommand(turn, command.sequence);
    this.#host.changed();
  }

  /** The plant has taken a slot of the schedule of that command. */
  noteTakenSlot(turn: Turn, sequence: number): void {
    const schedule = this.rows.openOf(sequence);
    if (schedule && !schedule.hasTakenSlot) this.rows.update(turn, schedule, { hasTakenSlot: true });
  }

  /** Skips a slot that violates a limit now: the slot ends with an alarm, and the schedule continues. */
  skipUnfit(turn: Turn, slot: ActiveSlot, why: Refusal): void {
    const command = this.#host.commands.find(slot.sequence);
    if (command && why.violation) {
      this.#host.events.violated(turn, subjectOf(command), why.violation, 'skipped');
    }
    this.rows.skip(turn, slot, why.rejectionCode);
    this.#host.changed();
  }

  /**
   * Skips a slot that the plant rejected or never acknowledged: the slot ends with an alarm, and the schedule
   * continues.
   */
  skipFailed(turn: Turn, slot: { sequence: number; slotIndex: number }, why: string): void {
    const command = this.rows.openOf(slot.sequence) && this.#host.commands.find(slot.sequence);
    if (!command) return;
    this.rows.skip(turn, slot, why);
    this.#host.events.dropped(turn, subjectOf(command), why, slot.slotIndex);
    this.#host.changed();
  }
}

/** The MQTT command of a slot, or why the slot may not be sent [C-7.9]. */
export function planSlot(
  { wireId: scheduleId, slotIndex, mode, targetKw, endsAtMs }: ActiveSlot,
  view: SiteView,
): { planned: PlannedDispatch[]; why?: Refusal } {
  const validUntil = formatInstant(endsAtMs);
  if (targetKw === null) {
    return {
      planned: toDevices([view.gatewayId], 'MODE_CHANGE', { scheduleId, slotIndex, mode, validUntil }),
    };
  }
  const why = checkPower(view, targetKw, slotIndex);
  if (why) return { planned: [], why };
  const maxRampKwPerMinute = lowestLimit(view, 'maxRampKwPerMinute');
  const ramp = maxRampKwPerMinute === undefined ? {} : { maxRampKwPerMinute };
  const setpoint = { scheduleId, slotIndex, mode, targetSignedKw: targetKw, validUntil, ...ramp };
  return { planned: toDevices([view.gatewayId], 'SITE_SETPOINT', setpoint) };
}

/** Slots are shown as they were set, even if a newer schedule or a limit has cut them. */
function summaryOf(plantId: string, row: ScheduleRow): ScheduleSummary {
  const window = { startsAtMs: row.starts_at_ms, endsAtMs: row.ends_at_ms, slotMs: row.slot_ms };
  const slots = JSON.parse(row.slots) as StoredSlot[];
  return {
    id: row.id,
    plantId,
    status: row.status,
    startTime: formatInstant(row.starts_at_ms),
    endTime: formatInstant(row.ends_at_ms),
    slotCount: row.slot_count,
    slotDurationMinutes: row.slot_ms / 60_000,
    slots: slots.map(([mode, targetKw], slotIndex) => ({
      slotIndex,
      startTime: formatInstant(slotStart(window, slotIndex)),
      endTime: formatInstant(slotStart(window, slotIndex + 1)),
      mode,
      setpoint: targetKw === null ? null : { value: targetKw, unit: 'kW' },
    })),
    createdAt: formatInstant(row.created_at_ms),
  };
}
