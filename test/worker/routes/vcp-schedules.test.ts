/** GET /vcp/sites/{siteId}/schedules, and `activeSchedule` of the configuration (spec: Schedule summary; [C-4.4]). */
import { describe, expect, it } from 'vitest';
import { formatInstant } from '../../../protocol/ids.ts';
import type { ScheduleSummary } from '../../../protocol/schedule.ts';
import { expectError, read, send } from '../../support/workerd/rest.ts';
import { DAY, HOUR, holdClock, MINUTE, START_MS, setClock } from '../../support/workerd/site-clock.ts';
import { connectListening, nthCommand, sendAck } from '../../support/workerd/site-devices.ts';
import { cancel, schedule } from '../../support/workerd/site-schedules.ts';
import { Submitter } from '../../support/workerd/site-submissions.ts';
import { createKey, createOrganization, createWorld, type World } from '../../support/workerd/world.ts';

holdClock();

const pathOf = (siteId: string, query = '') => `/api/v1/vcp/sites/${siteId}/schedules${query}`;

async function list({ plant, key }: World, query = ''): Promise<ScheduleSummary[]> {
  const { schedules } = await read<{ schedules: ScheduleSummary[] }>(pathOf(plant.id, query), key.key);
  return schedules;
}

async function active({ plant, key }: World): Promise<ScheduleSummary | null> {
  const path = `/api/v1/vcp/sites/${plant.id}/config`;
  return (await read<{ activeSchedule: ScheduleSummary | null }>(path, key.key)).activeSchedule;
}

describe('the list of schedules', () => {
  it('shows each with its slots in their order, and no field besides (spec: Schedule summary)', async () => {
    const world = await createWorld();
    const partner = new Submitter(world.plant.id);
    const scheduleId = crypto.randomUUID();
    await partner.submit(schedule([5, -2.5, 'PEAK_SHAVING'], { scheduleId, inMs: HOUR, slotMinutes: 15 }));
    const at = (minutes: number) => formatInstant(START_MS + HOUR + minutes * MINUTE);
    expect(await list(world)).toEqual([
      {
        id: scheduleId,
        plantId: world.plant.id,
        status: 'PENDING',
        startTime: at(0),
        endTime: at(45),
        slotCount: 3,
        slotDurationMinutes: 15,
        createdAt: formatInstant(START_MS),
        slots: [
          {
            slotIndex: 0,
            startTime: at(0),
            endTime: at(15),
            mode: 'STANDARD',
            setpoint: { value: 5, unit: 'kW' },
          },
          {
            slotIndex: 1,
            startTime: at(15),
            endTime: at(30),
            mode: 'STANDARD',
            setpoint: { value: -2.5, unit: 'kW' },
          },
          { slotIndex: 2, startTime: at(30), endTime: at(45), mode: 'PEAK_SHAVING', setpoint: null },
        ],
      },
    ]);
  });

  it('is by start, of those whose windows meet [from, to) [C-4.4]', async () => {
    const world = await createWorld();
    const partner = new Submitter(world.plant.id);
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
      return (await list(world, `?from=${start}&to=${end}`)).map(kwOf);
    };
    expect((await list(world)).map(kwOf)).toEqual([1, 2, 4, 3]);
    expect(await between(0, 3 * HOUR)).toEqual([1, 2, 4, 3]);
    expect(await between(HOUR, 2 * HOUR)).toEqual([2, 4]);
    expect(await between(HOUR - 1, 2 * HOUR + 1)).toEqual([1, 2, 4, 3]);
    expect(await between(3 * HOUR, 4 * HOUR)).toEqual([]);
    expect(await between(90 * MINUTE, 91 * MINUTE)).toEqual([2, 4]);
  });

  it('without a range is that of a week back and a week ahead (spec: Limits)', async () => {
    const world = await createWorld();
    const partner = new Submitter(world.plant.id);
    for (const inMs of [7 * DAY - 1, 7 * DAY]) await partner.submit(schedule([1], { inMs }));
    expect(await list(world)).toHaveLength(1);
    setClock(START_MS + 14 * DAY + MINUTE - 1);
    expect(await list(world)).toHaveLength(1);
  });

  it.each([
    '?from=2030-03-05T10:00:00Z&to=2030-03-05T10:00:00Z',
    '?from=2030-03-05T10:00:01Z&to=2030-03-05T10:00:00Z',
    '?from=2031-03-05T10:00:00Z',
    '?to=2029-03-05T10:00:00Z',
    '?from=yesterday',
    '?from=2030-03-05T10:00:00',
    '?from=2030-03-05T10:00:00Z&from=2030-03-05T11:00:00Z',
  ])('is 400 for %s [C-4.4]', async (query) => {
    const { plant, key } = await createWorld();
    await expectError(await send(pathOf(plant.id, query), key), 400, 'VALIDATION_ERROR');
  });

  it('of another organization’s site is that of none: 404 [C-4.2]', async () => {
    const { plant } = await createWorld();
    const key = await createKey(await createOrganization());
    await expectError(await send(pathOf(plant.id), key), 404, 'SITE_NOT_FOUND');
  });
});

describe('activeSchedule', () => {
  it('is the latest recorded of those that are open, tomorrow’s before today’s (spec: Site configuration snapshot)', async () => {
    const world = await createWorld();
    const partner = new Submitter(world.plant.id);
    const [today, tomorrow] = [crypto.randomUUID(), crypto.randomUUID()];
    expect(await active(world)).toBeNull();
    await partner.submit(schedule([1], { scheduleId: today }));
    expect(await active(world)).toMatchObject({ id: today, status: 'PENDING', slotCount: 1 });
    await partner.submit(schedule([2], { scheduleId: tomorrow, inMs: DAY }));
    expect(await active(world)).toMatchObject({ id: tomorrow, status: 'PENDING' });
    const link = await connectListening(world.plant);
    for (const n of [1, 2]) {
      const { cmdId } = await nthCommand(link, n);
      await sendAck(link, world.plant.gateway, cmdId, 'COMPLETED');
    }
    expect(await active(world)).toMatchObject({ id: tomorrow, status: 'ACCEPTED' });
    await partner.submit(cancel(tomorrow));
    expect(await active(world)).toMatchObject({ id: today, status: 'ACTIVE' });
    await partner.submit(cancel(today));
    expect(await active(world)).toBeNull();
  });
});
