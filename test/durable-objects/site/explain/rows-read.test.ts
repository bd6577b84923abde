/** An explanation and a timeline read few rows, however old and busy the site is [C-13.2], [C-13.3]. */
import { expect, vi } from 'vitest';
import { HOUR, passTime, SECOND, setClock } from '#workerd/site-clock.ts';
import { sendTelemetry } from '#workerd/site-devices.ts';
import { planned, rowOf } from '#workerd/site-plan.ts';
import { countRowsRead } from '#workerd/site-statements.ts';
import { it } from '#workerd/site-test.ts';
import { type Plant, siteOf } from '#workerd/world.ts';
import type { ExplainQuery } from '../../../../durable-objects/ask-rpc.ts';

const MOST_ROWS = 60;
type Question = { kind: 'explain'; query: ExplainQuery } | { kind: 'timeline'; commandId: string };

/** The rows that a site reads for one question. */
async function rowsRead({ id }: Plant, question: Question): Promise<number> {
  const count = await countRowsRead(id);
  expect(await siteOf(id).ask({ ...question, siteId: id, asker: 'member' })).not.toBeNull();
  const rows = await count();
  vi.restoreAllMocks();
  return rows;
}

it('at most 60 rows, with 200 changes and with 1 500', async ({ plannedSite: { plant, partner, link } }) => {
  const first = planned(5, 'NORMAL');
  await partner.submit(first);
  const { id: commandId } = await rowOf(plant, first);
  const beganMs = Date.now();
  const questions = (): Question[] => [
    { kind: 'explain', query: { atMs: null } },
    { kind: 'explain', query: { atMs: beganMs + 100 * SECOND } },
    { kind: 'explain', query: { fromMs: beganMs, toMs: Date.now() } },
    { kind: 'timeline', commandId },
  ];
  const figures: number[][] = [];
  let sent = 0;
  for (const size of [200, 1_500]) {
    for (; sent < size; sent++) {
      await partner.submit(planned(sent % 90, 'HIGH', { forMs: HOUR }));
      setClock(Date.now() + SECOND);
      if (sent % 100 === 0) await passTime(plant.id, SECOND);
      if (sent % 20 === 0) await sendTelemetry(link, plant.gateway, { gridPowerKw: sent % 90 });
    }
    const rows: number[] = [];
    for (const question of questions()) rows.push(await rowsRead(plant, question));
    figures.push(rows);
  }
  const [few = [], many = []] = figures;
  expect(Math.min(...few)).toBeGreaterThan(0);
  expect(Math.max(...few, ...many)).toBeLessThanOrEqual(MOST_ROWS);
  // Readings that are not packed yet are read in blocks; they are as many as come in half an hour.
  for (const index of [0, 2, 3]) expect(many[index]).toBeLessThanOrEqual((few[index] ?? 0) + 2);
});
