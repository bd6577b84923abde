/** What ends an open alert beside its condition: its rule, and its plant [C-9]. */
import { env } from 'cloudflare:workers';
import { describe, expect, it } from 'vitest';
import { changeRule, deleteRule, newRuledSite, putRule, statusesAt } from '#workerd/alerts.ts';
import { removePlant, type Step } from '#workerd/registry-changes.ts';
import { holdClock, MINUTE } from '#workerd/site-clock.ts';

holdClock();

describe('an open alert', () => {
  const ENDS: [string, (ruleId: string) => Step][] = [
    ['is disabled', (ruleId) => changeRule(ruleId, { enabled: false })],
    ['is deleted', deleteRule],
    ['is about another plant now', (ruleId) => changeRule(ruleId, { plantId: crypto.randomUUID() })],
  ];

  it.each(ENDS)(
    'of a rule that %s ends with it, by nobody, and none begins any more [C-9]',
    async (_what, end) => {
      const { ruleId, send, pass, change, fired } = await newRuledSite();
      await send(20);
      expect(await fired()).toMatchObject([{ status: 'ACTIVE' }]);
      await change(end(ruleId));
      expect(await fired()).toMatchObject([{ status: 'RESOLVED', resolvedBy: null }]);
      await pass(10 * MINUTE);
      await send(21);
      expect(await fired()).toHaveLength(1);
    },
  );

  it('of a rule that is enabled again begins anew [C-9]', async () => {
    const { ruleId, send, change, fired } = await newRuledSite();
    await send(20);
    await change(changeRule(ruleId, { enabled: false }));
    await change(changeRule(ruleId, { enabled: true }));
    await send(20);
    expect((await fired()).map(({ status }) => status).sort()).toEqual(['ACTIVE', 'RESOLVED']);
  });

  it('of a rule that was changed is judged by what it says now [C-9]', async () => {
    const { ruleId, plant, send, change, fired } = await newRuledSite();
    await send(20);
    await change(changeRule(ruleId, { threshold: 30 }));
    expect(await statusesAt(plant.id)).toEqual(['ACTIVE']);
    await send(20);
    expect(await fired()).toMatchObject([{ status: 'RESOLVED', threshold: 10, resolvedBy: null }]);
  });

  it('of a plant that is deleted ends with it [C-9]', async () => {
    const { organization, plant, send, change, fired } = await newRuledSite();
    await putRule(organization, [plant.id], { metric: 'gridPowerKw', operator: 'LT', threshold: 30 });
    await send(20);
    await change(removePlant(plant));
    expect((await fired()).map(({ status, resolvedBy }) => [status, resolvedBy])).toEqual([
      ['RESOLVED', null],
      ['RESOLVED', null],
    ]);
    const left = await env.DB.prepare('SELECT count(*) AS n FROM alerts WHERE organization_id = ?')
      .bind(organization.id)
      .first<number>('n');
    expect(left).toBe(2);
  });
});
