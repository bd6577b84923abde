/** Schedules as a partner publishes them, and as REST shows them. */
import type { Submission } from '../../../durable-objects/rpc.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { type ScheduleSummary, scheduleSummary } from '../../../protocol/schedule.ts';
import { MINUTE } from './site-clock.ts';
import { submission } from './site-submissions.ts';
import { siteOf } from './world.ts';

/** A slot: a power in kW, positive for import, or only a mode. */
/** A power in kW, or a mode. */
export type SlotValue = number | string;

export interface ScheduleOptions {
  scheduleId?: string;
  /** The start, from now. */
  inMs?: number;
  slotMinutes?: number;
}

/** The payload of a schedule with these slots, by default of a minute each. */
export function scheduleOf(
  slots: readonly SlotValue[],
  { inMs = 0, slotMinutes = 1, ...rest }: ScheduleOptions = {},
) {
  return {
    ...rest,
    startTime: formatInstant(Date.now() + inMs),
    slotDurationMinutes: slotMinutes,
    slots: slots.map((slot, slotIndex) =>
      typeof slot === 'number'
        ? { slotIndex, mode: 'STANDARD', setpoint: { value: slot } }
        : { slotIndex, mode: slot, setpoint: null },
    ),
  };
}

export function schedule(slots: readonly SlotValue[], options: ScheduleOptions = {}): Submission {
  return submission('schedule', scheduleOf(slots, options));
}

export function cancel(scheduleId: string, payload: object = {}): Submission {
  return submission('schedule', { scheduleId, ...payload }, { routingKey: 'acme.schedule.cancel' });
}

/** As REST lists them, the week around now unless it says otherwise. */
export async function readSchedules(
  siteId: string,
  fromMs = Date.now() - 7 * 24 * 60 * MINUTE,
  toMs = Date.now() + 7 * 24 * 60 * MINUTE,
): Promise<ScheduleSummary[]> {
  const all: ScheduleSummary[] = [];
  for (let after: number | null = null, chunks = 0; chunks < 1_000; chunks++) {
    const { items, nextMs }: { items: string; nextMs: number | null } = await siteOf(siteId).readSchedules(
      siteId,
      { fromMs, toMs, after },
      'member',
    );
    all.push(...(JSON.parse(`[${items}]`) as unknown[]).map((one) => scheduleSummary.parse(one)));
    if (nextMs === null) return all;
    after = nextMs;
  }
  throw new Error('the list of schedules does not end');
}

/** The statuses of all of them, by their start. */
export async function statuses(siteId: string): Promise<string[]> {
  return (await readSchedules(siteId)).map(({ status }) => status);
}
