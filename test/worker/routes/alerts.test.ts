/** Alert rules and alerts share one path: records, lists, and what may be done with each [C-9]. */
import { findAlert, listAlerts, listRules, makeRule, RULE } from '#workerd/alert-rest.ts';
import { fireAlert } from '#workerd/alerts.ts';
import { bodyOf } from '#workerd/client.ts';
import { runSql } from '#workerd/d1.ts';
import { describe, expect, expectError, expectSameError, INSTANT, test, UUID } from '#workerd/worker-test.ts';
import type { AlertRuleRecord } from '../../../protocol/alert.ts';

const it = test
  .extend('makeRule', ({ team, plantId }) => (fields: object = {}) => {
    return makeRule(team.operator, { plantId, ...fields });
  })
  .extend('patch', ({ team }) => (id: string, body: unknown) => {
    return team.operator.patch(`/alerts/${id}`, body);
  });

describe('POST /alerts', () => {
  it('makes a rule and answers 201 with its record [C-9]', async ({ team, plantId, makeRule }) => {
    const fields = { forSeconds: 120, cooldownSeconds: 600, enabled: false };
    const made = await makeRule(fields);
    expect(made).toEqual({
      id: UUID,
      kind: 'RULE',
      mailTo: [],
      ...RULE,
      ...fields,
      plantId,
      deviceId: null,
      createdAt: INSTANT,
      updatedAt: made.createdAt,
    });
    expect((await listRules(team.operator, '&limit=100')).data).toContainEqual(made);
    const { threshold: _, ...details } = RULE;
    const trail = ['alert_rule.created', team.operator.id, 'ALERT_RULE', details];
    expect(await team.trailOf(made.id)).toEqual([trail]);
  });

  it('makes a rule with forSeconds 0 (ABSENT: 300), cooldownSeconds 300 and enabled by default [C-9]', async ({
    makeRule,
  }) => {
    const agreed = { forSeconds: 0, cooldownSeconds: 300, enabled: true, threshold: 10 };
    expect(await makeRule()).toMatchObject(agreed);
    const absent = { operator: 'ABSENT', threshold: undefined };
    expect(await makeRule(absent)).toMatchObject({ ...agreed, forSeconds: 300, threshold: null });
    expect(await makeRule({ operator: 'ABSENT' })).toMatchObject({ forSeconds: 300, threshold: null });
  });

  it('makes a rule for one plant, for one device or for every plant [C-9]', async ({
    team,
    plantId,
    makeRule,
  }) => {
    const { id: deviceId } = await team.newDevice({ plantId });
    const ofDevice = await makeRule({ plantId: undefined, deviceId });
    expect(ofDevice).toMatchObject({ plantId: null, deviceId });
    const ofAll = { plantId: null, deviceId: null };
    expect(await makeRule(ofAll)).toMatchObject(ofAll);
    const page = await listRules(team.operator, `&deviceId=${deviceId}`);
    expect(page).toMatchObject({ data: [ofDevice], meta: { total: 1 } });
  });

  it('gets 404 for a foreign plant or device as for an absent one, and for a device without a plant [C-1.3]', async ({
    team,
    other,
  }) => {
    const { id: plantId } = await other.newPlant();
    const [foreign, homeless] = [await other.newDevice({ plantId }), await team.newDevice()];
    const post = (fields: object) => team.operator.post('/alerts', { ...RULE, ...fields });
    const toPlants = [plantId, crypto.randomUUID()].map((id) => post({ plantId: id }));
    await expectSameError(toPlants, 404, 'PLANT_NOT_FOUND');
    for (const id of [foreign.id, crypto.randomUUID(), homeless.id])
      await expectError(await post({ deviceId: id }), 404, 'NOT_FOUND');
  });
});

describe('GET /alerts', () => {
  it('alerts are listed newest first [C-9] (spec: List endpoints)', async ({ team, ownTeam, plantId }) => {
    const plant = (await ownTeam.newPlant()).id;
    const ids: string[] = [];
    for (let at = 1; at <= 3; at++) {
      const seen = { firstSeenAtMs: Date.UTC(2026, 0, at), lastSeenAtMs: Date.UTC(2026, 0, at, 1) };
      ids.push(await fireAlert(ownTeam.id, { plantId: plant, ruleId: plant, ...seen }));
    }
    await fireAlert(team.id, { plantId });
    const first = await listAlerts(ownTeam.operator, '?limit=2');
    expect(first.meta).toEqual({ page: 1, limit: 2, total: 3, totalPages: 2, next: expect.any(String) });
    expect(first.data[0]).toEqual({
      id: ids[2],
      kind: 'ALERT',
      ruleId: plant,
      type: 'THRESHOLD',
      severity: 'WARNING',
      status: 'ACTIVE',
      plantId: plant,
      deviceId: null,
      message: 'nearly empty',
      value: 9,
      threshold: 10,
      firstSeenAt: '2026-01-03T00:00:00.000Z',
      lastSeenAt: '2026-01-03T01:00:00.000Z',
      count: 1,
      note: null,
      acknowledgedBy: null,
      acknowledgedAt: null,
      resolvedBy: null,
      resolvedAt: null,
    });
    const second = await listAlerts(ownTeam.operator, '?limit=2&page=2');
    expect([...first.data, ...second.data].map(({ id }) => id)).toEqual(ids.toReversed());
    expect(await listAlerts(ownTeam.operator, '?kind=ALERT&limit=2')).toEqual(first);
  });

  it('kind=RULE lists rules in pages, newest first; without kind=RULE no rule is listed [C-9]', async ({
    ownTeam,
  }) => {
    // The order of their times is neither that in which they are made nor its reverse.
    for (const [name, createdAtMs] of [
      ['middle', 2],
      ['newest', 3],
      ['oldest', 1],
    ] as const) {
      const { id } = await makeRule(ownTeam.operator, { name });
      await runSql('UPDATE alert_rules SET created_at_ms = ? WHERE id = ?', createdAtMs, id);
    }
    const pages = [
      await listRules(ownTeam.operator, '&limit=2'),
      await listRules(ownTeam.operator, '&limit=2&page=2'),
    ];
    expect(pages[1]?.meta).toEqual({ page: 2, limit: 2, total: 3, totalPages: 2, next: null });
    const names = pages.flatMap(({ data }) => data.map(({ name }) => name));
    expect(names).toEqual(['newest', 'middle', 'oldest']);
    expect(await listAlerts(ownTeam.operator)).toMatchObject({ data: [], meta: { total: 0 } });
  });

  it('the list can be filtered by plant, device and status [C-9]', async ({ ownTeam }) => {
    const [plant, deviceId] = [crypto.randomUUID(), crypto.randomUUID()];
    const here = await fireAlert(ownTeam.id, { plantId: plant });
    const there = await fireAlert(ownTeam.id, { deviceId });
    const idsOf = async (query: string) =>
      (await listAlerts(ownTeam.operator, query)).data.map(({ id }) => id);
    expect(await idsOf(`?plantId=${plant}`)).toEqual([here]);
    expect(await idsOf(`?deviceId=${deviceId}`)).toEqual([there]);
    expect(await idsOf(`?plantId=${plant}&deviceId=${deviceId}`)).toEqual([]);
    await ownTeam.operator.read(`/alerts/${here}/acknowledge`, { method: 'POST' });
    expect(await idsOf('?status=ACKNOWLEDGED')).toEqual([here]);
    expect(await idsOf('?status=ACTIVE')).toEqual([there]);
    expect(await idsOf('?status=RESOLVED')).toEqual([]);
  });

  it('an unknown kind or status, or an invalid id or page, gets 400 (bad input: REST)', async ({ team }) => {
    const bad = ['kind=rule', 'status=OPEN', 'status=', 'plantId=x', 'deviceId=1', 'page=0', 'limit=101'];
    for (const query of [...bad, 'kind=RULE&kind=ALERT']) {
      await expectError(await team.operator.call(`/alerts?${query}`), 400, 'VALIDATION_ERROR');
    }
  });
});

describe('PATCH /alerts/{id}', () => {
  it('changes the named fields of a rule and no others [C-9]', async ({ team, makeRule, patch }) => {
    const made = await makeRule();
    const change = { threshold: 15, name: 'Low', cooldownSeconds: 60 };
    const changed = await bodyOf<AlertRuleRecord>(await patch(made.id, change), 200);
    expect(changed).toEqual({ ...made, ...change, updatedAt: INSTANT });
    expect((await listRules(team.operator, '&limit=100')).data).toContainEqual(changed);
    const updated = ['alert_rule.updated', team.operator.id, 'ALERT_RULE', change];
    expect((await team.trailOf(made.id)).at(-1)).toEqual(updated);
    const nothing = await bodyOf<AlertRuleRecord>(await patch(made.id, {}), 200);
    expect({ ...nothing, updatedAt: '' }).toEqual({ ...changed, updatedAt: '' });
  });

  it('keeps concurrent changes of different fields of a rule [C-9]', async ({ team, makeRule, patch }) => {
    const { id } = await makeRule();
    const changes = [{ threshold: 15 }, { enabled: false }, { name: 'x' }];
    await Promise.all(changes.map((change) => patch(id, change)));
    const { data } = await listRules(team.operator, '&limit=100');
    expect(data.find((rule) => rule.id === id)).toMatchObject({ threshold: 15, enabled: false, name: 'x' });
  });

  it('changes a rule to ABSENT, which deletes its threshold, and back only with a new threshold [C-9]', async ({
    makeRule,
    patch,
  }) => {
    const { id } = await makeRule({ forSeconds: 60 });
    const patched = async (body: object) => await bodyOf<AlertRuleRecord>(await patch(id, body), 200);
    const absentRule = { operator: 'ABSENT', threshold: null, forSeconds: 60 };
    expect(await patched({ operator: 'ABSENT' })).toMatchObject(absentRule);
    expect(await patched({ threshold: 5 })).toMatchObject({ operator: 'ABSENT', threshold: null });
    const { details } = await expectError(await patch(id, { operator: 'GT' }), 400, 'VALIDATION_ERROR');
    expect(details).toEqual([expect.stringMatching(/^threshold/)]);
    expect(await patched({ operator: 'GT', threshold: 0 })).toMatchObject({ operator: 'GT', threshold: 0 });
    await expectError(await patch(id, { threshold: null }), 400, 'VALIDATION_ERROR');
    await patched({ forSeconds: 0 });
    const absent = await expectError(await patch(id, { operator: 'ABSENT' }), 400, 'VALIDATION_ERROR');
    expect(absent.details).toEqual([expect.stringMatching(/^forSeconds/)]);
  });

  it('can disable a rule whose device left its plant [C-9]', async ({ team, device, makeRule, patch }) => {
    const { id } = await makeRule({ plantId: undefined, deviceId: device.id });
    await team.operator.change(`/devices/${device.id}`, { plantId: null });
    expect(await bodyOf(await patch(id, { enabled: false }), 200)).toMatchObject({ id, enabled: false });
  });

  it('changes severity and note of an alert, RESOLVED or not [C-9]', async ({ team, plantId, patch }) => {
    const id = await fireAlert(team.id, { plantId });
    const before = await findAlert(team.operator, id);
    const noted = await bodyOf(await patch(id, { note: 'seen to', severity: 'INFO' }), 200);
    expect(noted).toEqual({ ...before, note: 'seen to', severity: 'INFO' });
    await Promise.all([patch(id, { severity: 'CRITICAL' }), patch(id, { note: null })]);
    expect(await findAlert(team.operator, id)).toEqual({ ...before, note: null, severity: 'CRITICAL' });
    await team.operator.read(`/alerts/${id}/resolve`, { method: 'POST' });
    const late = await bodyOf(await patch(id, { note: 'why' }), 200);
    expect(late).toMatchObject({ note: 'why', status: 'RESOLVED' });
    const updated = ['alert.updated', team.operator.id, 'ALERT'];
    const trail = (await team.trailOf(id)).filter(([event]) => event === 'alert.updated');
    // Changes of one minute share a row.
    expect(trail.at(-1)).toEqual([...updated, expect.objectContaining({ note: 'why' })]);
    expect(JSON.stringify(trail)).toContain('seen to');
  });
});
