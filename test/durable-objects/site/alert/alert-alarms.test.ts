/** An alert is an alarm of the kind ALERT for every key that may see the plant: RAISED once, CLEARED once [C-9]. */
import { changeRule, deleteRule, newRuledSite, type RuleOptions } from '#workerd/alerts.ts';
import { MINUTE, SECOND } from '#workerd/site-clock.ts';
import { type Listener, listen } from '#workerd/site-listener.ts';
import { crashSite } from '#workerd/site-rows.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createKey, createPlant, siteOf } from '#workerd/world.ts';
import { formatInstant } from '../../../../protocol/ids.ts';

function alarmsOf(listener: Listener): Record<string, unknown>[] {
  return listener.events('alarm').map(({ payload }) => payload);
}

/** A site with a rule, and a listener with a key that may see it. */
async function newScene(options: RuleOptions = {}) {
  const scene = await newRuledSite(options);
  const key = await createKey(scene.organization);
  // The site reads its keys again.
  await scene.change();
  return { ...scene, listener: await listen(scene.organization, key) };
}

describe('an alert', () => {
  it('is RAISED with its first reading and CLEARED when its condition is over [C-9]', async () => {
    const { ruleId, send, pass, fired, listener } = await newScene({ forSeconds: 60 });
    await send(20);
    const seenAt = formatInstant(Date.now());
    await pass(MINUTE);
    await send(21);
    const [alert] = await fired();
    const raised = {
      alarmId: alert?.id,
      kind: 'ALERT',
      type: 'THRESHOLD',
      severity: 'WARNING',
      status: 'RAISED',
      message: 'Rule: gridPowerKw is 21, over 10',
      ruleId,
      metric: 'gridPowerKw',
      limit: 10,
      value: 21,
      raisedAt: seenAt,
    };
    expect(alarmsOf(listener)).toEqual([raised]);
    await send(5);
    await pass(MINUTE);
    const clearedAt = formatInstant(Date.now());
    await fired();
    const { value: _none, ...rest } = raised;
    const cleared = { ...rest, status: 'CLEARED', message: 'Rule: the condition is over' };
    expect(alarmsOf(listener)).toEqual([raised, { ...cleared, clearedAt }]);
    const ids = listener.events('alarm').map(({ messageId }) => messageId);
    expect(new Set(ids).size).toBe(2);
  });

  it('is not RAISED again while its condition comes and goes, and after a crash of the site [C-9]', async () => {
    const { plant, send, pass, fired, listener } = await newScene({ forSeconds: 60 });
    await send(20);
    await pass(MINUTE);
    for (const gridPowerKw of [20, 5, 20]) {
      await send(gridPowerKw);
      await pass(10 * SECOND);
    }
    await fired();
    await crashSite(plant.id);
    await pass(SECOND);
    expect(alarmsOf(listener).map(({ status }) => status)).toEqual(['RAISED']);
  });

  it('is CLEARED when a person resolves it, and only once [C-9]', async () => {
    const { plant, send, fired, listener } = await newScene();
    await send(20);
    const [alert] = await fired();
    await siteOf(plant.id).endAlert(alert?.id ?? '');
    await siteOf(plant.id).endAlert(alert?.id ?? '');
    await fired();
    expect(alarmsOf(listener).map(({ status, message }) => [status, message])).toEqual([
      ['RAISED', 'Rule: gridPowerKw is 20, over 10'],
      ['CLEARED', 'a person resolved the alert'],
    ]);
  });

  it.each([
    ['disabled', (id: string) => changeRule(id, { enabled: false })],
    ['deleted', (id: string) => deleteRule(id)],
  ])('is CLEARED when its rule is %s, with the type and severity that it had [C-9]', async (_how, step) => {
    const { ruleId, send, change, fired, listener } = await newScene();
    await send(20);
    await fired();
    await change(step(ruleId));
    await fired();
    const [raised, cleared, ...others] = alarmsOf(listener);
    expect(others).toEqual([]);
    expect(cleared).toEqual({
      alarmId: raised?.alarmId,
      kind: 'ALERT',
      type: 'THRESHOLD',
      severity: 'WARNING',
      status: 'CLEARED',
      message: 'the alert rule was deleted or disabled',
      ruleId,
      raisedAt: raised?.raisedAt,
      clearedAt: expect.any(String),
    });
  });

  it('about absence has no value and no limit [C-9]', async () => {
    const { send, pass, fired, listener } = await newScene({
      operator: 'ABSENT',
      threshold: null,
      forSeconds: 60,
    });
    await send(1);
    await pass(MINUTE);
    await fired();
    const [alarm] = alarmsOf(listener).filter(({ kind }) => kind === 'ALERT');
    expect(alarm).toMatchObject({
      type: 'ABSENT',
      status: 'RAISED',
      message: 'Rule: no gridPowerKw received for 60 s',
    });
    expect(Object.keys(alarm ?? {})).not.toContain('value');
    expect(Object.keys(alarm ?? {})).not.toContain('limit');
  });

  it('goes to no key that may not see the plant [C-8.1]', async () => {
    const { organization, change, send, fired, listener } = await newScene();
    const elsewhere = await createPlant(organization);
    const key = await createKey(organization, { allowedPlantIds: [elsewhere.id] });
    const other = await listen(organization, key);
    await change();
    await send(20);
    await fired();
    expect([alarmsOf(listener).length, alarmsOf(other).length]).toEqual([1, 0]);
  });
});
