/**
 * The stored schedules of a site. Open schedules are in memory, their slots loaded on first use; ended ones
 * are only in their rows, and the oldest are deleted above a limit.
 */
import type { ScheduleStatus } from '../../../protocol/enums.ts';
import type { ScheduleQuery } from '../../../protocol/history.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { earliest } from '../../object/agenda.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import { sentBy } from '../sight.ts';
import { putIn } from '../stored.ts';
import {
  cutSlot,
  type DueSlot,
  lastEndMs,
  nextBoundaryMs,
  type SlotPlace,
  type SlotWindow,
  type StoredSlot,
  slotAt,
} from './slots.ts';

/** A schedule that has not ended; all times in epoch ms. */
export interface OpenSchedule extends SlotWindow {
  /** The partner that sent it; empty: a person. */
  readonly partnerId: string;
  readonly id: string;
  /** The id that the gateway knows. */
  readonly wireId: string;
  /** Sequence of its command; a newer schedule has a higher one. */
  readonly sequence: number;
  readonly status: ScheduleStatus;
  readonly lastMs: number;
  readonly hasTakenSlot: boolean;
}

/** The active slot at a given time, and its schedule. */
export interface ActiveSlot extends DueSlot {
  wireId: string;
  sequence: number;
}

/** A row of the schedule table. */
export type ScheduleRow = {
  partner_id: string;
  id: string;
  wire_id: string;
  command_sequence: number;
  status: ScheduleStatus;
  starts_at_ms: number;
  ends_at_ms: number;
  slot_ms: number;
  slot_count: number;
  last_ms: number;
  has_taken_slot: number;
  created_at_ms: number;
  ended_at_ms: number | null;
  /** JSON of `StoredSlot[]`. */
  slots: string;
};

export interface FoundSchedule extends Record<string, string | number> {
  sequence: number;
  status: ScheduleStatus;
  wireId: string;
}

export class ScheduleRows {
  readonly #sql: Sql;
  #open: Map<number, OpenSchedule> | undefined;
  readonly #slots = new Map<number, readonly StoredSlot[]>();

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** Oldest first. */
  open(): OpenSchedule[] {
    return [...this.#all().values()].sort((left, right) => left.sequence - right.sequence);
  }

  openOf(commandSequence: number): OpenSchedule | undefined {
    return this.#all().get(commandSequence);
  }

  /** Finds an open or ended schedule of this partner that is still stored [C-15.1]. */
  find(partnerId: string, id: string): FoundSchedule | undefined {
    return this.#sql.one<FoundSchedule>(
      `SELECT command_sequence AS sequence, status, wire_id AS wireId FROM schedule WHERE partner_id = ? AND id = ?`,
      partnerId,
      id,
    );
  }

  /** Whether the gateway knows a stored schedule by this id. */
  #isOnWire(wireId: string): boolean {
    return this.#sql.one('SELECT 1 FROM schedule WHERE wire_id = ? LIMIT 1', wireId) !== undefined;
  }

  /** The slots of an open schedule. */
  slotsOf({ partnerId, id, sequence }: OpenSchedule): readonly StoredSlot[] {
    const known = this.#slots.get(sequence);
    if (known) return known;
    const row = this.#sql.one<{ slots: string }>(
      'SELECT slots FROM schedule WHERE partner_id = ? AND id = ?',
      partnerId,
      id,
    );
    const slots = JSON.parse(row?.slots ?? '[]') as StoredSlot[];
    this.#slots.set(sequence, slots);
    return slots;
  }

  /** The active slot at `atMs` among the accepted schedules. Their slots never overlap. */
  activeSlot(atMs: number): ActiveSlot | undefined {
    for (const schedule of this.#all().values()) {
      if (schedule.status === 'PENDING' || atMs < schedule.startsAtMs || atMs >= schedule.lastMs) continue;
      const slot = slotAt(schedule, this.slotsOf(schedule), atMs);
      if (slot) return { ...slot, wireId: schedule.wireId, sequence: schedule.sequence };
    }
    return undefined;
  }

  /** When time changes an open schedule next; `now` if a change is overdue. */
  dueMs(now: number): number | undefined {
    return earliest(
      this.open().map((schedule) => {
        const { status, startsAtMs, endsAtMs, lastMs } = schedule;
        if (status === 'PENDING') return endsAtMs;
        if (status === 'ACCEPTED') return startsAtMs;
        return now < lastMs ? nextBoundaryMs(schedule, () => this.slotsOf(schedule), now) : now;
      }),
    );
  }

  /** The newest open schedule of these partners (spec: Site configuration snapshot). */
  latestOpen(partners: readonly string[] | undefined): ScheduleRow | undefined {
    const { sql, bindings } = sentBy(partners);
    return this.#sql.one<ScheduleRow>(
      `SELECT * FROM schedule WHERE ended_at_ms IS NULL AND ${sql} ORDER BY command_sequence DESC LIMIT 1`,
      ...bindings,
    );
  }

  /**
   * Schedules of these partners whose windows overlap [fromMs, toMs), ordered by start, after the schedule
   * `afterSequence`.
   */
  meeting(
    { fromMs, toMs, after: afterSequence }: ScheduleQuery,
    partners: readonly string[] | undefined,
    limit: number,
  ): ScheduleRow[] {
    const { sql, bindings } = sentBy(partners);
    // No window is longer than the maximum number of slots of maximum length.
    const earliestMs = fromMs - LIMIT.scheduleSlots * LIMIT.scheduleSlotMinutesMax * 60_000;
    const after =
      afterSequence !== null &&
      this.#sql.one<{ at: number }>(
        'SELECT starts_at_ms AS at FROM schedule WHERE command_sequence = ?',
        afterSequence,
      );
    return this.#sql.all<ScheduleRow>(
      `SELECT * FROM schedule WHERE (starts_at_ms, command_sequence) > (?, ?) AND starts_at_ms < ? AND ends_at_ms > ?
         AND ${sql} ORDER BY starts_at_ms, command_sequence LIMIT ?`,
      after ? after.at : earliestMs,
      afterSequence ?? 0,
      toMs,
      fromMs,
      ...bindings,
      limit,
    );
  }

  /**
   * `command`: the one that sets the schedule. If the gateway knows a schedule of another partner by the same id, it gets
   * the command's id.
   */
  insert(
    turn: Turn,
    id: string,
    command: { sequence: number; id: string; partnerId: string },
    window: SlotWindow,
    slots: readonly StoredSlot[],
  ): void {
    const { startsAtMs, endsAtMs, slotMs } = window;
    const { sequence, partnerId } = command;
    const wireId = this.#isOnWire(id) ? command.id : id;
    const schedule = {
      partnerId,
      id,
      wireId,
      sequence,
      startsAtMs,
      endsAtMs,
      slotMs,
      lastMs: endsAtMs,
      hasTakenSlot: false,
    };
    this.#note(turn, sequence, { ...schedule, status: 'PENDING' });
    turn.insert('schedule', {
      partner_id: partnerId,
      id,
      wire_id: wireId,
      command_sequence: sequence,
      status: 'PENDING',
      starts_at_ms: startsAtMs,
      ends_at_ms: endsAtMs,
      slot_ms: slotMs,
      slot_count: slots.length,
      last_ms: endsAtMs,
      created_at_ms: turn.now,
      slots: JSON.stringify(slots),
    });
    this.#forgetOldest(turn);
  }

  /** Changes an open schedule. */
  update(
    turn: Turn,
    schedule: OpenSchedule,
    change: Partial<Pick<OpenSchedule, 'status' | 'hasTakenSlot'>>,
  ): void {
    const next = { ...schedule, ...change };
    this.#note(turn, schedule.sequence, next);
    turn.write(
      'UPDATE schedule SET status = ?, has_taken_slot = ? WHERE partner_id = ? AND id = ?',
      next.status,
      Number(next.hasTakenSlot),
      schedule.partnerId,
      schedule.id,
    );
  }

  /** Skips the rest of a slot of an open schedule, for the reason `why`. */
  skip(turn: Turn, { sequence, slotIndex }: SlotPlace, why: string): void {
    const schedule = this.openOf(sequence);
    if (schedule) this.setSlots(turn, schedule, cutSlot(this.slotsOf(schedule), slotIndex, turn.now, why));
  }

  setSlots(turn: Turn, schedule: OpenSchedule, slots: readonly StoredSlot[]): void {
    const next = { ...schedule, lastMs: lastEndMs(schedule, slots) };
    this.#note(turn, schedule.sequence, next);
    turn.write(
      'UPDATE schedule SET slots = ?, last_ms = ? WHERE partner_id = ? AND id = ?',
      JSON.stringify(slots),
      next.lastMs,
      schedule.partnerId,
      schedule.id,
    );
  }

  end(
    turn: Turn,
    { partnerId, id, sequence }: OpenSchedule,
    status: 'COMPLETED' | 'FAILED' | 'CANCELLED',
  ): void {
    this.#note(turn, sequence, undefined);
    turn.write(
      'UPDATE schedule SET status = ?, ended_at_ms = ? WHERE partner_id = ? AND id = ?',
      status,
      turn.now,
      partnerId,
      id,
    );
  }

  #forgetOldest(turn: Turn): void {
    const count = this.#sql.one<{ count: number }>('SELECT count(*) AS count FROM schedule')?.count ?? 0;
    const surplus = count - LIMIT.schedulesKept;
    if (surplus <= 0) return;
    turn.write(
      `DELETE FROM schedule WHERE (partner_id, id) IN
         (SELECT partner_id, id FROM schedule WHERE ended_at_ms IS NOT NULL ORDER BY starts_at_ms, command_sequence LIMIT ?)`,
      surplus,
    );
  }

  #note(turn: Turn, sequence: number, schedule: OpenSchedule | undefined): void {
    turn.undo(() => this.#slots.delete(sequence));
    this.#slots.delete(sequence);
    putIn(turn, this.#all(), sequence, schedule);
  }

  #all(): Map<number, OpenSchedule> {
    this.#open ??= new Map(
      this.#sql
        .all<Omit<OpenSchedule, 'hasTakenSlot'> & { hasTakenSlot: number }>(
          `SELECT partner_id AS partnerId, id, wire_id AS wireId, command_sequence AS sequence, status, starts_at_ms AS startsAtMs, ends_at_ms AS endsAtMs,
             slot_ms AS slotMs, last_ms AS lastMs, has_taken_slot AS hasTakenSlot FROM schedule
           WHERE ended_at_ms IS NULL ORDER BY command_sequence`,
        )
        .map((row) => [row.sequence, { ...row, hasTakenSlot: row.hasTakenSlot === 1 }]),
    );
    return this.#open;
  }
}
