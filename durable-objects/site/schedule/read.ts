/** Schedules as REST reads them (spec: Schedule summary; [C-4.4]). */
import type { JsonChunk, ScheduleQuery } from '../../../protocol/history.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import type { ScheduleSummary } from '../../../protocol/schedule.ts';
import { SITE_BOUNDS } from '../bounds.ts';
import type { SiteParts } from '../parts.ts';
import type { ScheduleRow } from './rows.ts';
import { type KeptSlot, slotStart } from './slots.ts';

/** By their start, so many at a time. */
export function readSchedules(site: SiteParts, { fromMs, toMs, after }: ScheduleQuery): JsonChunk {
  const rows = site.schedules.meeting(fromMs, toMs, after, SITE_BOUNDS.schedulesPerCall);
  const items = rows.map((row) => JSON.stringify(summaryOf(site, row))).join(',');
  const last = rows.length < SITE_BOUNDS.schedulesPerCall ? undefined : rows.at(-1);
  return { items, nextMs: last?.command_sequence ?? null };
}

export function readActiveSchedule(site: SiteParts): ScheduleSummary | null {
  const row = site.schedules.latestOpen();
  return row ? summaryOf(site, row) : null;
}

/** Slots are answered as they were set, whatever a newer schedule or a limit has taken of them. */
function summaryOf(site: SiteParts, row: ScheduleRow): ScheduleSummary {
  const window = { startsAtMs: row.starts_at_ms, endsAtMs: row.ends_at_ms, slotMs: row.slot_ms };
  const slots = JSON.parse(row.slots) as KeptSlot[];
  return {
    id: row.id,
    plantId: site.identity.siteId,
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
