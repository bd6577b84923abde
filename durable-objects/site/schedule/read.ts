/** The schedules for REST (spec: Schedule summary; [C-4.4]). */
import type { JsonChunk, ScheduleQuery } from '../../../protocol/history.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import type { ScheduleSummary } from '../../../protocol/schedule.ts';
import { SITE_BOUNDS } from '../bounds.ts';
import type { ScheduleRow, ScheduleRows } from './rows.ts';
import { type StoredSlot, slotStart } from './slots.ts';

/** One page of schedules, ordered by start. */
export function readSchedules(
  schedules: ScheduleRows,
  plantId: string,
  { fromMs, toMs, after }: ScheduleQuery,
): JsonChunk {
  const rows = schedules.meeting(fromMs, toMs, after, SITE_BOUNDS.schedulesPerCall);
  const items = rows.map((row) => JSON.stringify(summaryOf(plantId, row))).join(',');
  const last = rows.length < SITE_BOUNDS.schedulesPerCall ? undefined : rows.at(-1);
  return { items, nextMs: last?.command_sequence ?? null };
}

export function readActiveSchedule(schedules: ScheduleRows, plantId: string): ScheduleSummary | null {
  const row = schedules.latestOpen();
  return row ? summaryOf(plantId, row) : null;
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
