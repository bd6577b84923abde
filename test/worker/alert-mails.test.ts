/** Members whom an alert rule names get a mail when an alert begins and ends, one a minute at most [C-9]. */
import { env } from 'cloudflare:workers';
import { changeAlerts, fireAlert } from '#workerd/alerts.ts';
import { runSql, valueFrom } from '#workerd/d1.ts';
import { joinOrganization, Person } from '#workerd/people.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import type { AlertRuleRecord } from '../../protocol/alert.ts';
import type { Env } from '../../worker/env.ts';
import { keepHouse } from '../../worker/lifecycle/housekeeping.ts';

const RULE = {
  name: 'Battery nearly empty',
  severity: 'WARNING',
  metric: 'BESS-1/socPercent',
  operator: 'LT',
  threshold: 10,
};

const it = test
  // What the scheduled task of a minute mails: to whom, and the text.
  .extend('minute', ({ mailbox }) => async () => {
    const before = mailbox.mails.length;
    await keepHouse({ ...env, ...mailbox.bindings } as Env, Date.now());
    return mailbox.mails.slice(before).filter(({ subject }) => subject === 'Alerts on Sitewire');
  })
  .extend('scene', async ({ ownTeam: team }) => {
    const { id: plantId } = await team.newPlant({ name: 'Dairy' });
    const newRule = (mailTo: string[]) =>
      team.operator.create<AlertRuleRecord>('/alerts', { ...RULE, plantId, mailTo });
    const fire = (ruleId: string, message = 'BESS-1/socPercent is 9, under 10') =>
      fireAlert(team.id, { plantId, ruleId, message });
    return { team, plantId, newRule, fire };
  });

describe('a mail about an alert', () => {
  it('goes to the members whom the rule names when the alert begins, and once more when it ends [C-9]', async ({
    scene,
    minute,
  }) => {
    const { team, plantId, newRule, fire } = scene;
    const rule = await newRule([team.viewer.id, team.admin.id]);
    expect(rule.mailTo).toEqual([team.viewer.id, team.admin.id]);
    await fire(rule.id);
    const begun = await minute();
    expect(begun.map(({ to }) => to).sort()).toEqual([team.viewer.email, team.admin.email].sort());
    expect(begun[0]?.text).toMatch(/WARNING at Dairy, since \S+: BESS-1\/socPercent is 9, under 10/);
    expect(await minute()).toEqual([]);
    await changeAlerts(plantId, `status = 'RESOLVED', resolved_at_ms = ${Date.now()}`);
    const ended = await minute();
    expect(ended).toHaveLength(2);
    expect(ended[0]?.text).toMatch(/Over at Dairy, \S+ to \S+: BESS-1/);
    expect(await minute()).toEqual([]);
  });

  it('lists all alerts of the minute, at most 50 of them, and the number of the others [C-9]', async ({
    scene,
    minute,
  }) => {
    const { team, newRule, fire } = scene;
    const rule = await newRule([team.viewer.id]);
    for (let index = 0; index < 52; index++) await fire(rule.id, `alert ${index}`);
    const [mail, ...others] = await minute();
    expect(others).toEqual([]);
    expect(mail?.text.match(/WARNING at Dairy/g)).toHaveLength(50);
    expect(mail?.text).toContain('And 2 more');
  });

  it('is one mail that says that it is over if the alert begins and ends within a minute [C-9]', async ({
    scene,
    minute,
  }) => {
    const { team, plantId, newRule, fire } = scene;
    await fire((await newRule([team.viewer.id])).id);
    await changeAlerts(plantId, `status = 'RESOLVED', resolved_at_ms = ${Date.now()}`);
    const [mail, ...others] = await minute();
    expect(others).toEqual([]);
    expect(mail?.text).toContain('Over at Dairy');
  });

  it('goes to nobody who has left, has not proved the address, or whose organization is suspended [C-9]', async ({
    scene,
    minute,
  }) => {
    const { team, newRule, fire } = scene;
    const [gone, unproved] = [await Person.register(), await Person.register()];
    for (const person of [gone, unproved]) await joinOrganization(team.id, person, 'VIEWER');
    const rule = await newRule([gone.id, unproved.id, team.viewer.id]);
    await runSql('DELETE FROM memberships WHERE user_id = ?', gone.id);
    await runSql('UPDATE users SET proved_at_ms = NULL WHERE id = ?', unproved.id);
    await fire(rule.id);
    expect((await minute()).map(({ to }) => to)).toEqual([team.viewer.email]);
    await runSql('UPDATE organizations SET suspended_at_ms = 1 WHERE id = ?', team.id);
    await fire(rule.id);
    expect(await minute()).toEqual([]);
    expect(
      await valueFrom(
        'SELECT count(*) FROM alerts WHERE mail_due IS NOT NULL AND organization_id = ?',
        team.id,
      ),
    ).toBe(0);
  });

  it('is not due for a rule without recipients, and not sent later where mail was off [C-9]', async ({
    scene,
    minute,
  }) => {
    const { team, newRule, fire } = scene;
    await fire((await newRule([])).id);
    const due = () =>
      valueFrom('SELECT count(*) FROM alerts WHERE mail_due IS NOT NULL AND organization_id = ?', team.id);
    expect(await due()).toBe(0);
    await fire((await newRule([team.viewer.id])).id);
    expect(await due()).toBe(1);
    await keepHouse(env as Env, Date.now());
    expect(await due()).toBe(0);
    expect(await minute()).toEqual([]);
  });
});

describe('mailTo of an alert rule', () => {
  it('can be changed, and must name members, each once, 20 at most [C-9]', async ({ scene, other }) => {
    const { team, newRule, plantId } = scene;
    const { id } = await newRule([team.viewer.id]);
    const path = `/alerts/${id}`;
    expect(await team.operator.change(path, { mailTo: [team.admin.id] })).toMatchObject({
      mailTo: [team.admin.id],
    });
    expect(await team.operator.change(path, { threshold: 5 })).toMatchObject({ mailTo: [team.admin.id] });
    const many = Array.from({ length: 21 }, () => crypto.randomUUID());
    for (const mailTo of [
      [other.viewer.id],
      [crypto.randomUUID()],
      [team.viewer.id, team.viewer.id],
      many,
      ['x'],
      null,
    ]) {
      await expectError(
        await team.operator.call(path, { method: 'PATCH', body: { mailTo } }),
        400,
        'VALIDATION_ERROR',
      );
      await expectError(
        await team.operator.post('/alerts', { ...RULE, plantId, mailTo }),
        400,
        'VALIDATION_ERROR',
      );
    }
    expect(await team.operator.change(path, { mailTo: [] })).toMatchObject({ mailTo: [] });
  });
});
