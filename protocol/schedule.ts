/** Schedules: payloads to set and cancel one, and the summary (spec: Schedule summary; [C-4.4], [C-7.9]). */
import * as z from 'zod';
import { OPERATING_MODES, SCHEDULE_STATUSES } from './enums.ts';
import { instant, parseInstant, uuid } from './ids.ts';
import { ACROSS_FIELDS } from './issue.ts';
import { LIMIT } from './limits.ts';
import { quantity, reason } from './payload-fields.ts';

const MINUTE_MS = 60_000;

/** `value`: kW, + = import. A slot without a setpoint only sets the mode. */
const publishedSlot = z.strictObject({
  slotIndex: z.int(),
  mode: z.enum(OPERATING_MODES),
  setpoint: z.strictObject({ value: quantity }).optional(),
});

/** The fields that determine the window. Its end can be checked even if single slots are invalid. */
const windowFields = z.object({
  startTime: instant,
  endTime: instant.optional(),
  slotDurationMinutes: z.int().min(LIMIT.scheduleSlotMinutesMin).max(LIMIT.scheduleSlotMinutesMax),
  slots: z.array(z.unknown()).min(1),
});

/**
 * Whether the slot has a wrong index. False if slotIndex is not an integer, because that is already reported
 * as a fault of the field.
 */
function isOutOfPlace(slot: { slotIndex: number } | null, index: number): boolean {
  return Number.isInteger(slot?.slotIndex) && slot?.slotIndex !== index;
}

/** The payload of `{slug}.schedule.set`. */
export const scheduleSet = z
  .strictObject({
    scheduleId: uuid.optional(),
    ...windowFields.shape,
    slotDurationMinutes: windowFields.shape.slotDurationMinutes.default(LIMIT.scheduleSlotMinutes),
    slots: z.array(publishedSlot).min(1).max(LIMIT.scheduleSlots),
  })
  .superRefine(({ slots }, context) => {
    // Reports only the first wrong index, because all later ones are usually wrong, too.
    const place = Array.isArray(slots) ? slots.findIndex(isOutOfPlace) : -1;
    if (place < 0) return;
    const message = `must be ${place}: slots are contiguous from 0`;
    context.addIssue({ code: 'custom', path: ['slots', place, 'slotIndex'], message });
  }, ACROSS_FIELDS)
  .superRefine(
    (schedule, context) => {
      const { endsAtMs } = scheduleWindow(schedule);
      if (schedule.endTime === undefined || parseInstant(schedule.endTime) === endsAtMs) return;
      const message = 'must be startTime plus the duration of all slots, or be omitted';
      context.addIssue({ code: 'custom', path: ['endTime'], message });
    },
    { when: ({ value }) => windowFields.safeParse(value).success },
  );
export type ScheduleSet = z.infer<typeof scheduleSet>;

/** The payload of `{slug}.schedule.cancel`. */
export const scheduleCancel = z.strictObject({ scheduleId: uuid, reason: reason.optional() });
export type ScheduleCancel = z.infer<typeof scheduleCancel>;

/** The window in epoch milliseconds. Slots follow each other without gaps in UTC; daylight saving has no effect. */
export function scheduleWindow({
  startTime,
  slotDurationMinutes,
  slots,
}: Pick<ScheduleSet, 'startTime' | 'slotDurationMinutes' | 'slots'>): {
  startsAtMs: number;
  endsAtMs: number;
  slotMs: number;
} {
  const startsAtMs = parseInstant(startTime) ?? 0;
  const slotMs = slotDurationMinutes * MINUTE_MS;
  return { startsAtMs, endsAtMs: startsAtMs + slots.length * slotMs, slotMs };
}

export const scheduleSlot = z.strictObject({
  slotIndex: z.int(),
  startTime: z.string(),
  endTime: z.string(),
  mode: z.enum(OPERATING_MODES),
  setpoint: z.strictObject({ value: z.number(), unit: z.literal('kW') }).nullable(),
});

/** spec: Schedule summary. */
export const scheduleSummary = z.strictObject({
  id: z.string(),
  plantId: z.string(),
  status: z.enum(SCHEDULE_STATUSES),
  startTime: z.string(),
  endTime: z.string(),
  slotCount: z.int(),
  slotDurationMinutes: z.number(),
  slots: z.array(scheduleSlot),
  createdAt: z.string(),
});
export type ScheduleSummary = z.infer<typeof scheduleSummary>;
