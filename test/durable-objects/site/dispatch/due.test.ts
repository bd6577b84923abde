/** When the next dispatch is due: known in memory, because an index would cost a row for each dispatch. */
import { runInDurableObject } from 'cloudflare:test';
import fc from 'fast-check';
import { forAll } from '#support/property.ts';
import { setScene } from '#workerd/scene.ts';
import { alarmAt, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { commandsOf, nthCommand, sendAck, stayConnected } from '#workerd/site-devices.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { charge } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { dispatchRow } from '#workerd/site-view.ts';
import { turnsOf } from '#workerd/turns.ts';
import { siteOf } from '#workerd/world.ts';
import { Sql } from '../../../../durable-objects/object/sql.ts';
import type { Turn } from '../../../../durable-objects/object/turn.ts';
import { DispatchRows } from '../../../../durable-objects/site/dispatch/rows.ts';

const SENT = dispatchRow({ state: 'SENT', tries: 1 });

const NAMES = ['a', 'b', 'c'];
type Step = { cmdId: string; dueMs: number | null | 'ended'; isUndone: boolean } | 'alarm';

const walks = fc.array(
  fc.oneof(
    fc.constant('alarm' as const),
    fc.record({
      cmdId: fc.constantFrom(...NAMES),
      dueMs: fc.oneof(fc.integer({ min: 1, max: 9 }), fc.constantFrom(null, 'ended' as const)),
      isUndone: fc.boolean(),
    }),
  ),
  { maxLength: 20 },
);

function change(turn: Turn, rows: DispatchRows, { cmdId, dueMs }: Exclude<Step, 'alarm'>): void {
  const row = rows.find(cmdId);
  if (dueMs === 'ended') rows.delete(turn, cmdId);
  else if (row) rows.update(turn, row, { due_at_ms: dueMs });
  else rows.insert(turn, { ...SENT, cmd_id: cmdId, due_at_ms: dueMs });
}

describe('the time at which the next dispatch is due', () => {
  it('is never too late, also after a step that was undone, and is exact after each alarm (rule 10)', async () => {
    await runInDurableObject(siteOf(crypto.randomUUID()), (_site, state) => {
      const runAt = turnsOf(state, () => {});
      forAll(walks, (walk) => {
        state.storage.sql.exec('DELETE FROM dispatch');
        const rows = new DispatchRows(new Sql(state.storage));
        for (const step of walk) {
          if (step === 'alarm') rows.forgetDue();
          else
            runAt(START_MS, (turn) =>
              turn.tryStep(() => {
                change(turn, rows, step);
                if (step.isUndone) throw new Error('undone');
              }),
            );
          const dues = rows.all().flatMap(({ due_at_ms: dueAtMs }) => dueAtMs ?? []);
          const exact = dues.length > 0 ? Math.min(...dues) : undefined;
          const known = rows.dueMs();
          if (step === 'alarm') expect(known).toBe(exact);
          else
            expect(known ?? Number.POSITIVE_INFINITY).toBeLessThanOrEqual(exact ?? Number.POSITIVE_INFINITY);
        }
      });
    });
  });

  it.for(['is awake', 'has been evicted'])(
    'is that of the second command if the first has ended and the site %s: the second is sent again after 30 s [C-7.8]',
    async (state, { listeningSite: { plant, partner, link } }) => {
      await partner.submit(charge(1));
      const first = await nthCommand(link, 1);
      setClock(START_MS + 10 * SECOND);
      await partner.submit(charge(2));
      const second = await nthCommand(link, 2);
      await sendAck(link, plant.gateway, first.cmdId, 'COMPLETED');
      if (state === 'has been evicted') await evictSite(plant.id);
      await stayConnected(plant, link, 30 * SECOND);
      expect(commandsOf(link).map(({ cmdId, ts }) => [cmdId, ts - START_MS])).toEqual([
        [first.cmdId, 0],
        [second.cmdId, 10_000],
        [second.cmdId, 40_000],
      ]);
    },
  );

  it('does not set the alarm for a dispatch that has already ended (rule 10)', async () => {
    const { plant, partner, link } = await setScene({ gateway: 'listening' });
    await partner.submit(charge());
    const { cmdId } = await nthCommand(link, 1);
    await sendAck(link, plant.gateway, cmdId, 'COMPLETED');
    expect(await passTime(plant.id, 30 * SECOND - 1)).toBeGreaterThan(0);
    expect(await alarmAt(plant.id)).toBeGreaterThan(START_MS + 30 * SECOND);
  });
});
