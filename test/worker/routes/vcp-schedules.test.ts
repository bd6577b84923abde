import { DAY, HOUR, holdClock, MINUTE, START_MS, setClock } from '#workerd/site-clock.ts';
import { connectListening, nthCommand, sendAck } from '#workerd/site-devices.ts';
import { cancel, schedule } from '#workerd/site-schedules.ts';
import { Submitter } from '#workerd/site-submissions.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import type { ScheduleSummary } from '../../../protocol/schedule.ts';

holdClock();

const it = test
  .extend('partner', ({ plant }) => new Submitter(plant.id))
  .extend('path', ({ plant }) => `/vcp/sites/${plant.id}/schedules`)
  .extend('list', ({ path, key }) => async (query = '') => {
    return (await key.read<{ schedules: ScheduleSummary[] }>(`${path}${query}`)).schedules;
  })
  .extend('active', ({ plant, key }) => async () => {
    const path = `/vcp/sites/${plant.id}/config`;
    return (await key.read<{ activeSchedule: ScheduleSummary | null }>(path)).activeSchedule;
  });

describe('the list of schedules', () => {
  it('a schedule has its slots in order (spec: Schedule summary)', async ({ plant, partner, list }) => {
    const scheduleId = crypto.randomUUID();
    await partner.submit(schedule([5, -2.5, 'PEAK_SHAVING'], { scheduleId, inMs: HOUR, slotMinutes: 15 }));
    const at = (minutes: number) => formatInstant(START_MS + HOUR + minutes * MINUTE);
    expect(await list()).toEqual([
      {
        id: scheduleId,
        plantId: plant.id,
        status: 'PENDING',
        startTime: at(0),
        endTime: at(45),
        slotCount: 3,
        slotDurationMinutes: 15,
        createdAt: formatInstant(START_MS),
        slots: [
          { mode: 'STANDARD', setpoint: { value: 5, unit: 'kW' } },
          { mode: 'STANDARD', setpoint: { value: -2.5, unit: 'kW' } },
          { mode: 'PEAK_SHAVING', setpoint: null },
        ].map((slot, index) => {
          return { slotIndex: index, startTime: at(15 * index), endTime: at(15 * (index + 1)), ...slot };
        }),
      },
    ]);
  });

  it('schedules that overlap [from, to) are listed, sorted by their start [C-4.4]', async ({
    partner,
    list,
  }) => {
    for (const [inMs, kw] of [
      [2 * HOUR, 3],
      [0, 1],
      [HOUR, 2],
      [HOUR, 4],
    ] as const)
      await partner.submit(schedule([kw], { inMs, slotMinutes: 60 }));
    const kwOf = ({ slots }: ScheduleSummary) => slots[0]?.setpoint?.value;
    const between = async (from: number, to: number) => {
      const [start, end] = [from, to].map((offset) => encodeURIComponent(formatInstant(START_MS + offset)));
      return (await list(`?from=${start}&to=${end}`)).map(kwOf);
    };
    expect((await list()).map(kwOf)).toEqual([1, 2, 4, 3]);
    expect(await between(0, 3 * HOUR)).toEqual([1, 2, 4, 3]);
    expect(await between(HOUR, 2 * HOUR)).toEqual([2, 4]);
    expect(await between(HOUR - 1, 2 * HOUR + 1)).toEqual([1, 2, 4, 3]);
    expect(await between(3 * HOUR, 4 * HOUR)).toEqual([]);
    expect(await between(90 * MINUTE, 91 * MINUTE)).toEqual([2, 4]);
  });

  it('has without a range the schedules of the last and of the next seven days (spec: Limits)', async ({
    partner,
    list,
  }) => {
    for (const inMs of [7 * DAY - 1, 7 * DAY]) await partner.submit(schedule([1], { inMs }));
    expect(await list()).toHaveLength(1);
    setClock(START_MS + 14 * DAY + MINUTE - 1);
    expect(await list()).toHaveLength(1);
  });

  it.for([
    '?from=2030-03-05T10:00:00Z&to=2030-03-05T10:00:00Z',
    '?from=2030-03-05T10:00:01Z&to=2030-03-05T10:00:00Z',
    '?from=2031-03-05T10:00:00Z',
    '?to=2029-03-05T10:00:00Z',
    '?from=yesterday',
    '?from=2030-03-05T10:00:00',
    '?from=2030-03-05T10:00:00Z&from=2030-03-05T11:00:00Z',
  ])('the range %s gets 400 [C-4.4]', async (query, { key, path }) => {
    await expectError(await key.call(`${path}${query}`), 400, 'VALIDATION_ERROR');
  });
});

describe('activeSchedule', () => {
  it('is the open schedule that was submitted last (spec: Site configuration snapshot)', async ({
    plant,
    partner,
    active,
  }) => {
    const [today, tomorrow] = [crypto.randomUUID(), crypto.randomUUID()];
    expect(await active()).toBeNull();
    await partner.submit(schedule([1], { scheduleId: today }));
    expect(await active()).toMatchObject({ id: today, status: 'PENDING', slotCount: 1 });
    await partner.submit(schedule([2], { scheduleId: tomorrow, inMs: DAY }));
    expect(await active()).toMatchObject({ id: tomorrow, status: 'PENDING' });
    const link = await connectListening(plant);
    for (const n of [1, 2]) {
      const { cmdId } = await nthCommand(link, n);
      await sendAck(link, plant.gateway, cmdId, 'COMPLETED');
    }
    expect(await active()).toMatchObject({ id: tomorrow, status: 'ACCEPTED' });
    await partner.submit(cancel(tomorrow));
    expect(await active()).toMatchObject({ id: today, status: 'ACTIVE' });
    await partner.submit(cancel(today));
    expect(await active()).toBeNull();
  });
});
