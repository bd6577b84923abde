/** The cost of schedules for a site, and the number of schedules it keeps [rule 9]. */
import { runInDurableObject } from 'cloudflare:test';
import { setScene } from '#workerd/scene.ts';
import { DAY, HOUR, MINUTE, passTime } from '#workerd/site-clock.ts';
import { AWAY, deliverEvents, endOf, obey, PLANNED, sentTo } from '#workerd/site-plan.ts';
import { evictSite, numberOf } from '#workerd/site-rows.ts';
import { readSchedules, schedule, statuses } from '#workerd/site-schedules.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { type Plant, siteOf } from '#workerd/world.ts';
import { LIMIT } from '../../../../protocol/limits.ts';

const slots = (count: number) => Array.from({ length: count }, (_none, index) => index % 50);

async function rowsWritten({ id, gateway }: Plant): Promise<number> {
  return (await siteOf(id).diagnostics(gateway.id)).rowsWritten;
}

describe('the cost of a schedule', () => {
  it('672 slots are accepted and stored in as many rows as one slot, four of them for the schedule [rule 9]', async () => {
    const { plant, partner } = await setScene(PLANNED);
    const costs: number[] = [];
    const stored: number[] = [];
    for (const [index, count] of [1, 1, 672].entries()) {
      const before = await rowsWritten(plant);
      const one = schedule(slots(count), { inMs: DAY + index * DAY, slotMinutes: 1 });
      expect(await partner.acknowledge(one)).toMatchObject({ status: 'ACCEPTED' });
      costs.push((await rowsWritten(plant)) - before);
      stored.push(
        await runInDurableObject(siteOf(plant.id), (_site, { storage }) => {
          // The same row again in a transaction that is rolled back: the rows written by storing it.
          let rows = 0;
          try {
            storage.transactionSync(() => {
              const copied =
                'partner_id, starts_at_ms, ends_at_ms, slot_ms, slot_count, last_ms, has_taken_slot, created_at_ms, ended_at_ms, slots';
              rows = storage.sql.exec(
                `INSERT INTO schedule (id, wire_id, command_sequence, status, ${copied})
                   SELECT 'copy', 'copy', -1, status, ${copied} FROM schedule ORDER BY command_sequence DESC LIMIT 1`,
              ).rowsWritten;
              throw new Error('not to stand');
            });
          } catch (error) {
            expect(String(error)).toContain('not to stand');
          }
          return rows;
        }),
      );
    }
    // The first schedule of a site includes rows that a site writes only once.
    expect(costs[2]).toBe(costs[1]);
    expect(stored).toEqual([4, 4, 4]);
  });

  it('a slot boundary writes at most six rows, including the answer of the plant [rule 9]', async () => {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    await partner.submit(schedule(slots(20)));
    await obey(scene, 1, 'COMPLETED');
    await obey(scene, 2, 'RECEIVED', 'COMPLETED');
    // The events of the schedule leave, which is no cost of a boundary.
    await deliverEvents(scene);
    for (const acks of [
      ['COMPLETED'],
      ['RECEIVED', 'COMPLETED'],
      ['RECEIVED', 'IN_PROGRESS'],
      ['RECEIVED'],
    ] as const) {
      const costs: number[] = [];
      for (let boundary = 0; boundary < 3; boundary++) {
        const before = await rowsWritten(plant);
        await passTime(plant.id, MINUTE);
        await obey(scene, (await sentTo(link, plant)).length, ...acks);
        costs.push((await rowsWritten(plant)) - before);
      }
      expect([acks, Math.max(...costs) <= 6, costs]).toEqual([acks, true, costs]);
    }
  });
});

describe('too many schedules', () => {
  it('a new schedule over the limit of open ones ends the oldest QUEUE_FULL, and the others survive a wake [rule 9]', async () => {
    const { plant, partner } = await setScene(AWAY);
    const all = Array.from({ length: LIMIT.openSchedules + 1 }, (_none, index) =>
      schedule(slots(672), { inMs: (index + 1) * DAY }),
    );
    // Without their dispatches the schedules do not count as waiting for the plant, whose limit is lower.
    for (const one of all) {
      await partner.submit(one);
      await runInDurableObject(siteOf(plant.id), (_site, { storage }) => {
        storage.sql.exec('DELETE FROM dispatch');
      });
    }
    expect(await endOf(plant, all[0] as (typeof all)[0])).toBe('FAILED QUEUE_FULL');
    await evictSite(plant.id);
    const open = await numberOf(plant.id, 'SELECT count(*) FROM schedule WHERE ended_at_ms IS NULL');
    expect(open).toBe(LIMIT.openSchedules);
    await passTime(plant.id, DAY - HOUR);
    expect((await statuses(plant.id)).slice(0, 2)).toEqual(['FAILED', 'PENDING']);
  });

  it('the oldest ended schedules over the limit are deleted, and the others are listed in chunks [rule 9]', async () => {
    const { plant, partner } = await setScene(PLANNED);
    const ended = LIMIT.schedulesKept + 20;
    await partner.submit(schedule([1]));
    await runInDurableObject(siteOf(plant.id), (_site, { storage }) => {
      const text = JSON.stringify(slots(672).map((kw) => ['LOCAL_OPTIMIZATION', kw]));
      for (let index = 0; index < ended; index++) {
        const startMs = Date.now() - 2 * DAY + index * MINUTE;
        const endMs = startMs + 672 * MINUTE;
        const window = [startMs, endMs, MINUTE, 672, endMs, startMs, startMs];
        storage.sql.exec(
          `INSERT INTO schedule (id, wire_id, command_sequence, status, partner_id, starts_at_ms, ends_at_ms, slot_ms, slot_count, last_ms,
             created_at_ms, ended_at_ms, slots) VALUES (?1, ?1, ?2, 'COMPLETED', '', ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)`,
          `ended-${index}`,
          1_000_000 + index,
          ...window,
          text,
        );
      }
    });
    await evictSite(plant.id);
    await partner.submit(schedule([2], { inMs: DAY }));
    expect(await numberOf(plant.id, 'SELECT count(*) FROM schedule')).toBe(LIMIT.schedulesKept);
    // Two of the stored schedules are open.
    const [oldest] = await readSchedules(plant.id, Date.now() - 2 * DAY, Date.now() - DAY - HOUR);
    expect(oldest?.id).toBe(`ended-${ended + 2 - LIMIT.schedulesKept}`);
    const some = await readSchedules(plant.id, Date.now() - 2 * DAY, Date.now() - 2 * DAY + 3 * HOUR);
    const first = ended + 2 - LIMIT.schedulesKept;
    expect(some.map(({ id }) => id)).toEqual(
      Array.from({ length: 180 - first }, (_none, index) => `ended-${first + index}`),
    );
  });
});
