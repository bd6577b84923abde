/** Alert rules and alerts over REST, one path for both: records, lists, and what may be done with which [C-9]. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { AlertRecord, AlertRuleRecord } from '../../../protocol/alert.ts';
import type { Page } from '../../../protocol/page.ts';
import { fireAlert } from '../../support/workerd/alerts.ts';
import { newTokenDevice, postDevice } from '../../support/workerd/devices.ts';
import { auditRows } from '../../support/workerd/door.ts';
import { postPlant } from '../../support/workerd/fleet.ts';
import { bodyOf, createTeam, type Person, type Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';

const UUID = expect.stringMatching(/^[0-9a-f-]{36}$/);
const INSTANT = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
const RULE = {
  name: 'Nearly empty',
  severity: 'WARNING',
  metric: 'BESS-1/socPercent',
  operator: 'LT',
  threshold: 10,
};

let team: Team;
let plantId: string;

beforeAll(async () => {
  team = await createTeam();
  plantId = (await postPlant(team.operator)).id;
});

async function makeRule(fields: object = {}, by: Person = team.viewer): Promise<AlertRuleRecord> {
  return await by.read('/alerts', { method: 'POST', body: { ...RULE, plantId, ...fields } }, 201);
}

async function listed<Record = AlertRecord>(query: string, by: Person = team.viewer): Promise<Page<Record>> {
  return await by.read(`/alerts${query}`);
}

async function find(id: string, by: Person = team.viewer): Promise<AlertRecord | undefined> {
  return (await listed('?limit=100', by)).data.find((alert) => alert.id === id);
}

function patch(id: string, body: unknown, by: Person = team.viewer): Promise<Response> {
  return by.call(`/alerts/${id}`, { method: 'PATCH', body });
}

function act(id: string, action: 'acknowledge' | 'resolve', body?: unknown): Promise<Response> {
  return team.viewer.call(`/alerts/${id}/${action}`, { method: 'POST', body });
}

/** The rows about one thing, oldest first. */
async function trailOf(id: string) {
  const rows = (await auditRows(team.id)).filter(({ target }) => target === id);
  return rows.map(({ event, actor, target_type: type, details }) => [
    event,
    actor,
    type,
    JSON.parse(details),
  ]);
}

describe('POST /alerts', () => {
  it('makes a rule with all that is said of it, and answers 201 with its record [C-9]', async () => {
    const fields = { forSeconds: 120, cooldownSeconds: 600, enabled: false };
    const made = await makeRule(fields);
    expect(made).toEqual({
      id: UUID,
      kind: 'RULE',
      ...RULE,
      ...fields,
      plantId,
      deviceId: null,
      createdAt: INSTANT,
      updatedAt: made.createdAt,
    });
    expect((await listed('?kind=RULE&limit=100')).data).toContainEqual(made);
    expect(await trailOf(made.id)).toEqual([
      [
        'alert_rule.created',
        team.viewer.id,
        'ALERT_RULE',
        { name: 'Nearly empty', severity: 'WARNING', metric: 'BESS-1/socPercent', operator: 'LT' },
      ],
    ]);
  });

  it('takes what is left out as agreed: 0 s, of ABSENT 300 s, a cooldown of 300 s, enabled [C-9]', async () => {
    const agreed = { forSeconds: 0, cooldownSeconds: 300, enabled: true, threshold: 10 };
    expect(await makeRule()).toMatchObject(agreed);
    const absent = { operator: 'ABSENT', threshold: undefined };
    expect(await makeRule(absent)).toMatchObject({ ...agreed, forSeconds: 300, threshold: null });
    expect(await makeRule({ operator: 'ABSENT' })).toMatchObject({ forSeconds: 300, threshold: null });
  });

  it('is about a device, or about every plant, where it says so [C-9]', async () => {
    const { id: deviceId } = await postDevice(team.operator, { plantId });
    const ofDevice = await makeRule({ plantId: undefined, deviceId });
    expect(ofDevice).toMatchObject({ plantId: null, deviceId });
    expect(await makeRule({ plantId: null, deviceId: null })).toMatchObject({
      plantId: null,
      deviceId: null,
    });
    expect(await listed(`?kind=RULE&deviceId=${deviceId}`)).toMatchObject({
      data: [ofDevice],
      meta: { total: 1 },
    });
  });

  it('finds no plant or device of another organization, nor one that is nowhere [C-1.3]', async () => {
    const other = await createTeam();
    const foreignPlant = (await postPlant(other.operator)).id;
    const foreignDevice = (await postDevice(other.operator, { plantId: foreignPlant })).id;
    const post = (fields: object) =>
      team.viewer.call('/alerts', { method: 'POST', body: { ...RULE, ...fields } });
    const bodies = await Promise.all(
      [foreignPlant, crypto.randomUUID()].map(async (id) =>
        expectError(await post({ plantId: id }), 404, 'PLANT_NOT_FOUND'),
      ),
    );
    expect(bodies[0]).toEqual(bodies[1]);
    const homeless = (await postDevice(team.operator)).id;
    for (const id of [foreignDevice, crypto.randomUUID(), homeless]) {
      await expectError(await post({ deviceId: id }), 404, 'NOT_FOUND');
    }
  });
});

describe('GET /alerts', () => {
  it('lists what fired, to the letter, newest first, page by page [C-9] (spec: List endpoints)', async () => {
    const own = await createTeam();
    const plant = (await postPlant(own.operator)).id;
    const ids: string[] = [];
    for (let at = 1; at <= 3; at++) {
      const seen = { firstSeenAtMs: Date.UTC(2026, 0, at), lastSeenAtMs: Date.UTC(2026, 0, at, 1) };
      ids.push(await fireAlert(own.id, { plantId: plant, ruleId: plant, ...seen }));
    }
    await fireAlert(team.id, { plantId });
    const first = await listed('?limit=2', own.viewer);
    expect(first.meta).toEqual({ page: 1, limit: 2, total: 3, totalPages: 2 });
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
    const second = await listed('?limit=2&page=2', own.viewer);
    expect([...first.data, ...second.data].map(({ id }) => id)).toEqual(ids.toReversed());
    expect(await listed('?kind=ALERT&limit=2', own.viewer)).toEqual(first);
  });

  it('lists rules, newest first, page by page, and none of another organization [C-9]', async () => {
    const own = await createTeam();
    const made: string[] = [];
    for (const name of ['a', 'b', 'c']) made.push((await makeRule({ name, plantId: null }, own.viewer)).id);
    const pages = [
      await listed<AlertRuleRecord>('?kind=RULE&limit=2', own.viewer),
      await listed<AlertRuleRecord>('?kind=RULE&limit=2&page=2', own.viewer),
    ];
    expect(pages[1]?.meta).toEqual({ page: 2, limit: 2, total: 3, totalPages: 2 });
    expect(pages.flatMap(({ data }) => data.map(({ id }) => id)).sort()).toEqual(made.sort());
    expect(await listed('', own.viewer)).toMatchObject({ data: [], meta: { total: 0 } });
  });

  it('is narrowed to a plant, a device, a status [C-9]', async () => {
    const own = await createTeam();
    const [plant, deviceId] = [crypto.randomUUID(), crypto.randomUUID()];
    const here = await fireAlert(own.id, { plantId: plant });
    const there = await fireAlert(own.id, { deviceId });
    const idsOf = async (query: string) => (await listed(query, own.viewer)).data.map(({ id }) => id);
    expect(await idsOf(`?plantId=${plant}`)).toEqual([here]);
    expect(await idsOf(`?deviceId=${deviceId}`)).toEqual([there]);
    expect(await idsOf(`?plantId=${plant}&deviceId=${deviceId}`)).toEqual([]);
    await own.viewer.read(`/alerts/${here}/acknowledge`, { method: 'POST' });
    expect(await idsOf('?status=ACKNOWLEDGED')).toEqual([here]);
    expect(await idsOf('?status=ACTIVE')).toEqual([there]);
    expect(await idsOf('?status=RESOLVED')).toEqual([]);
  });

  it('refuses another kind, status, id or page (bad input: REST)', async () => {
    const bad = ['kind=rule', 'status=OPEN', 'status=', 'plantId=x', 'deviceId=1', 'page=0', 'limit=101'];
    for (const query of [...bad, 'kind=RULE&kind=ALERT']) {
      await expectError(await team.viewer.call(`/alerts?${query}`), 400, 'VALIDATION_ERROR');
    }
  });
});

describe('PATCH /alerts/{id}', () => {
  it('changes the fields of a rule that it names, and no other [C-9]', async () => {
    const made = await makeRule();
    const change = { threshold: 15, name: 'Low', cooldownSeconds: 60 };
    const changed = await bodyOf<AlertRuleRecord>(await patch(made.id, change), 200);
    expect(changed).toEqual({ ...made, ...change, updatedAt: INSTANT });
    expect((await listed('?kind=RULE&limit=100')).data).toContainEqual(changed);
    expect((await trailOf(made.id)).at(-1)).toEqual([
      'alert_rule.updated',
      team.viewer.id,
      'ALERT_RULE',
      change,
    ]);
    const nothing = await bodyOf<AlertRuleRecord>(await patch(made.id, {}), 200);
    expect({ ...nothing, updatedAt: '' }).toEqual({ ...changed, updatedAt: '' });
  });

  it('takes two changes of a rule at once, and loses none [C-9]', async () => {
    const { id } = await makeRule();
    await Promise.all([
      patch(id, { threshold: 15 }),
      patch(id, { enabled: false }),
      patch(id, { name: 'x' }),
    ]);
    const { data } = await listed<AlertRuleRecord>('?kind=RULE&limit=100');
    expect(data.find((rule) => rule.id === id)).toMatchObject({ threshold: 15, enabled: false, name: 'x' });
  });

  it('makes a rule about what is absent of one that compares, and back where it says with what [C-9]', async () => {
    const { id } = await makeRule({ forSeconds: 60 });
    const patched = async (body: object) => await bodyOf<AlertRuleRecord>(await patch(id, body), 200);
    expect(await patched({ operator: 'ABSENT' })).toMatchObject({
      operator: 'ABSENT',
      threshold: null,
      forSeconds: 60,
    });
    expect(await patched({ threshold: 5 })).toMatchObject({ operator: 'ABSENT', threshold: null });
    const { details } = await expectError(await patch(id, { operator: 'GT' }), 400, 'VALIDATION_ERROR');
    expect(details).toEqual([expect.stringMatching(/^threshold/)]);
    expect(await patched({ operator: 'GT', threshold: 0 })).toMatchObject({ operator: 'GT', threshold: 0 });
    await expectError(await patch(id, { threshold: null }), 400, 'VALIDATION_ERROR');
    await patched({ forSeconds: 0 });
    const absent = await expectError(await patch(id, { operator: 'ABSENT' }), 400, 'VALIDATION_ERROR');
    expect(absent.details).toEqual([expect.stringMatching(/^forSeconds/)]);
  });

  it('changes a rule whose device is in no plant any more: it can still be disabled [C-9]', async () => {
    const { id: deviceId } = await newTokenDevice(team, { plantId });
    const { id } = await makeRule({ plantId: undefined, deviceId });
    await team.operator.read(`/devices/${deviceId}`, { method: 'PATCH', body: { plantId: null } });
    expect(await bodyOf(await patch(id, { enabled: false }), 200)).toMatchObject({ id, enabled: false });
  });

  it('changes the severity and the note of an alert, whatever its status, one at a time too [C-9]', async () => {
    const id = await fireAlert(team.id, { plantId });
    const before = await find(id);
    const noted = await bodyOf(await patch(id, { note: 'seen to', severity: 'INFO' }), 200);
    expect(noted).toEqual({ ...before, note: 'seen to', severity: 'INFO' });
    await Promise.all([patch(id, { severity: 'CRITICAL' }), patch(id, { note: null })]);
    expect(await find(id)).toEqual({ ...before, note: null, severity: 'CRITICAL' });
    await bodyOf(await act(id, 'resolve'), 200);
    expect(await bodyOf(await patch(id, { note: 'why' }), 200)).toMatchObject({
      note: 'why',
      status: 'RESOLVED',
    });
    const updated = ['alert.updated', team.viewer.id, 'ALERT'];
    expect((await trailOf(id))[0]).toEqual([...updated, { note: 'seen to', severity: 'INFO' }]);
    expect((await trailOf(id)).at(-1)).toEqual([...updated, { note: 'why' }]);
  });
});
