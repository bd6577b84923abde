/**
 * A schedule on the whole stack: over AMQPS to the simulated plant, through a crash of the edge, to its end
 * [C-7.9].
 */
import { randomUUID } from 'node:crypto';
import { afterEach, expect, it } from 'vitest';
import { cleanUp, newFolder, partnerOf, readSite, start } from '#support/dev-stack.ts';
import { eventually } from '#support/stack.ts';
import type { ScheduleSummary } from '../../protocol/schedule.ts';
import type { Partner, ReceivedEvent } from '../../tools/partner.ts';
import type { Stack } from '../../tools/stack-file.ts';

const open: Partner[] = [];
afterEach(async () => {
  // The client of the crashed edge is closed already.
  await Promise.allSettled(open.splice(0).map((partner) => partner.close()));
  await cleanUp();
});

async function connect(stack: Stack): Promise<Partner> {
  const partner = await partnerOf(stack);
  open.push(partner);
  return partner;
}

async function schedules(stack: Stack): Promise<ScheduleSummary[]> {
  return (await readSite<{ schedules: ScheduleSummary[] }>(stack, 'schedules')).schedules;
}

/** The grid power that the plant last reported; undefined while the edge is unavailable. */
async function gridPowerKw(stack: Stack): Promise<number | null | undefined> {
  type Latest = { payload: { gridPowerKw: number | null } };
  const latest = await readSite<Latest>(stack, 'telemetry/latest').catch(() => undefined);
  return latest?.payload.gridPowerKw;
}

it('a schedule is accepted, followed, continues without the edge, and ends when it is cancelled', async () => {
  const { described: stack } = await start(newFolder());
  const [plant] = stack.plants;
  const partner = await connect(stack);
  const scheduleId = randomUUID();
  const slots = [4, 14, 14].map((value, slotIndex) => ({ slotIndex, mode: 'STANDARD', setpoint: { value } }));
  const startTime = new Date(Date.now() - 6 * 60_000).toISOString();
  const payload = { scheduleId, startTime, slotDurationMinutes: 5, slots };
  const { correlationId } = await partner.publish('schedule', plant?.id ?? '', payload);
  const isOf =
    (status: string) =>
    ({ correlationId: id, payload: { status: seen } }: ReceivedEvent) =>
      id === correlationId && seen === status;
  await partner.waitFor(isOf('ACCEPTED'));
  await partner.waitFor(isOf('EXECUTING'));
  expect(await schedules(stack)).toMatchObject([{ id: scheduleId, status: 'ACTIVE', slotCount: 3 }]);
  await eventually(async () => (await gridPowerKw(stack)) === 14);

  process.kill(stack.pids.edge ?? 0, 'SIGKILL');
  await eventually(async () => (await gridPowerKw(stack)) === undefined);
  await eventually(async () => (await gridPowerKw(stack)) === 14);
  expect(await schedules(stack)).toMatchObject([{ id: scheduleId, status: 'ACTIVE' }]);

  const later = await connect(stack);
  await later.publish('schedule', plant?.id ?? '', { scheduleId, reason: 'over' }, { word: 'cancel' });
  const ended = await later.waitFor(isOf('FAILED'));
  expect(ended.payload).toEqual({ commandType: 'SCHEDULE', status: 'FAILED', reason: 'CANCELLED' });
  expect(await schedules(stack)).toMatchObject([{ id: scheduleId, status: 'CANCELLED' }]);
  await eventually(async () => (await gridPowerKw(stack)) !== 14);
}, 90_000);
