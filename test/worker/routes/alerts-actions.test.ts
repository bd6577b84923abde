/** Alerts that are acknowledged and resolved, and what is refused of alerts and rules [C-9] (bad input: REST). */
import { beforeAll, describe, expect, it } from 'vitest';
import { ALERT_OPERATORS, ALERT_SEVERITIES, type AlertRecord } from '../../../protocol/alert.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { Page } from '../../../protocol/page.ts';
import { fireAlert } from '../../support/workerd/alerts.ts';
import { auditRows } from '../../support/workerd/door.ts';
import { organizationOf, postPlant } from '../../support/workerd/fleet.ts';
import { bodyOf, createTeam, type Team } from '../../support/workerd/people.ts';
import { RegistryRows } from '../../support/workerd/registry-rows.ts';
import { expectError } from '../../support/workerd/rest.ts';

const INSTANT = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
const RULE = { name: 'Rule', severity: 'INFO', metric: 'gridPowerKw', operator: 'GT', threshold: 10 };

let team: Team;
let plantId: string;

beforeAll(async () => {
  team = await createTeam();
  plantId = (await postPlant(team.operator)).id;
});

function post(body: unknown): Promise<Response> {
  return team.viewer.call('/alerts', { method: 'POST', body });
}

function act(id: string, action: string, body?: unknown): Promise<Response> {
  return team.viewer.call(`/alerts/${id}/${action}`, { method: 'POST', body });
}

async function acted(id: string, action: string, body?: unknown): Promise<AlertRecord> {
  return await bodyOf(await act(id, action, body), 200);
}

async function find(id: string): Promise<AlertRecord | undefined> {
  const { data } = await team.viewer.read<Page<AlertRecord>>('/alerts?limit=100');
  return data.find((alert) => alert.id === id);
}

async function trailOf(id: string): Promise<unknown[]> {
  const rows = (await auditRows(team.id)).filter(({ target }) => target === id);
  return rows.map(({ event, actor, details }) => [event, actor, JSON.parse(details)]);
}

describe('an alert', () => {
  it('is acknowledged once, by whom and when, with a note or without [C-9]', async () => {
    const [id, other] = [await fireAlert(team.id), await fireAlert(team.id)];
    const before = await find(id);
    const seen = { status: 'ACKNOWLEDGED', acknowledgedBy: team.viewer.id, acknowledgedAt: INSTANT };
    const acknowledged = await acted(id, 'acknowledge', { note: 'on it' });
    expect(acknowledged).toEqual({ ...before, ...seen, note: 'on it' });
    const { message } = await expectError(await act(id, 'acknowledge', { note: 'again' }), 409, 'CONFLICT');
    expect(message).toContain('ACKNOWLEDGED');
    expect(await find(id)).toEqual(acknowledged);
    expect(await acted(other, 'acknowledge')).toMatchObject({ ...seen, note: null });
    expect(await trailOf(id)).toEqual([['alert.acknowledged', team.viewer.id, { note: 'on it' }]]);
  });

  it.each(['ACTIVE', 'ACKNOWLEDGED'])(
    'that is %s is resolved once, by whom and when [C-9]',
    async (status) => {
      const id = await fireAlert(team.id, { plantId });
      if (status === 'ACKNOWLEDGED') await acted(id, 'acknowledge', { note: 'on it' });
      const before = await find(id);
      const resolved = await acted(id, 'resolve', {});
      expect(resolved).toEqual({
        ...before,
        status: 'RESOLVED',
        resolvedBy: team.viewer.id,
        resolvedAt: INSTANT,
      });
      for (const action of ['resolve', 'acknowledge']) {
        await expectError(await act(id, action, { note: 'late' }), 409, 'CONFLICT');
      }
      expect(await find(id)).toEqual(resolved);
      expect((await trailOf(id)).at(-1)).toEqual(['alert.resolved', team.viewer.id, {}]);
    },
  );

  it('that two acknowledge or resolve at once is so by one of them, and the other is told 409 [C-9]', async () => {
    for (const action of ['acknowledge', 'resolve']) {
      const id = await fireAlert(team.id, { plantId });
      const answers = await Promise.all([act(id, action), act(id, action)]);
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
      expect(await trailOf(id)).toHaveLength(1);
    }
  });

  it('takes a note alone, of 500 characters at most (bad input: REST)', async () => {
    const id = await fireAlert(team.id, { plantId });
    const bad = [
      { note: 'n'.repeat(501) },
      { note: null },
      { note: 1 },
      { status: 'ACTIVE' },
      { resolvedBy: 'x' },
      [],
    ];
    for (const action of ['acknowledge', 'resolve'])
      for (const body of bad) await expectError(await act(id, action, body), 400, 'VALIDATION_ERROR');
    expect(await find(id)).toMatchObject({ status: 'ACTIVE', note: null });
    expect(await acted(id, 'resolve', { note: 'n'.repeat(500) })).toMatchObject({ note: 'n'.repeat(500) });
  });

  it('of another organization, and a rule in its place, is as absent [C-1.3]', async () => {
    const other = await createTeam();
    const foreign = await fireAlert(other.id);
    const { id: rule } = await bodyOf<{ id: string }>(await post({ ...RULE, plantId }), 201);
    for (const action of ['acknowledge', 'resolve']) {
      const absent = await expectError(await act(crypto.randomUUID(), action), 404, 'NOT_FOUND');
      for (const id of [foreign, rule])
        expect(await expectError(await act(id, action), 404, 'NOT_FOUND')).toEqual(absent);
    }
    const patched = await team.viewer.call(`/alerts/${foreign}`, { method: 'PATCH', body: { note: 'x' } });
    await expectError(patched, 404, 'NOT_FOUND');
    await expectError(await act('x', 'resolve'), 400, 'INVALID_UUID');
    const { data } = await other.viewer.read<Page<AlertRecord>>('/alerts');
    expect(data).toMatchObject([{ id: foreign, status: 'ACTIVE', note: null }]);
  });

  it('takes no field of a rule, and a rule none of an alert: 400 by name [C-9]', async () => {
    const id = await fireAlert(team.id, { plantId });
    const { id: rule } = await bodyOf<{ id: string }>(await post({ ...RULE, plantId }), 201);
    const patch = (of: string, body: object) => team.viewer.call(`/alerts/${of}`, { method: 'PATCH', body });
    const ofRule = {
      name: 'x',
      metric: 'x',
      operator: 'GT',
      threshold: 1,
      forSeconds: 1,
      cooldownSeconds: 60,
      enabled: true,
    };
    for (const [name, value] of Object.entries(ofRule)) {
      const refused = await patch(id, { severity: 'INFO', [name]: value });
      expect(String((await expectError(refused, 400, 'VALIDATION_ERROR')).details)).toContain(name);
    }
    const refused = await expectError(await patch(rule, { name: 'x', note: 'n' }), 400, 'VALIDATION_ERROR');
    expect(String(refused.details)).toContain('note');
    for (const of of [id, rule]) {
      for (const name of ['status', 'count', 'organizationId', 'plantId', 'deviceId', 'kind', 'id']) {
        const { details } = await expectError(await patch(of, { [name]: 'x' }), 400, 'VALIDATION_ERROR');
        expect(String(details)).toContain(name);
      }
    }
    expect(await find(id)).toMatchObject({ severity: 'WARNING' });
  });
});

describe('a rule', () => {
  it.each<[string, object]>([
    ['no name', { name: undefined }],
    ['a blank name', { name: ' ' }],
    ['no metric', { metric: undefined }],
    ['an empty metric', { metric: '' }],
    ['a metric of 201 characters', { metric: 'm'.repeat(201) }],
    ['no severity', { severity: undefined }],
    ['another severity', { severity: 'HIGH' }],
    ['a severity in lower case', { severity: 'info' }],
    ['no operator', { operator: undefined }],
    ['another operator', { operator: '>' }],
    ['no threshold', { threshold: undefined }],
    ['a null threshold', { threshold: null }],
    ['a threshold of text', { threshold: '10' }],
    ['a threshold beyond what a signal can be', { threshold: 1e12 + 1e3 }],
    ['negative forSeconds', { forSeconds: -1 }],
    ['broken forSeconds', { forSeconds: 1.5 }],
    ['forSeconds of more than a day', { forSeconds: 86_401 }],
    ['nothing to wait for what is absent', { operator: 'ABSENT', forSeconds: 0 }],
    ['a cooldown of 59 s', { cooldownSeconds: 59 }],
    ['a cooldown of more than a day', { cooldownSeconds: 86_401 }],
    ['enabled as text', { enabled: 'true' }],
    ['both a plant and a device', { plantId: crypto.randomUUID(), deviceId: crypto.randomUUID() }],
    ['a plant that is no UUID', { plantId: 'x' }],
    ['an unknown field', { note: 'n' }],
    ['a kind', { kind: 'RULE' }],
    ['an organization', { organizationId: crypto.randomUUID() }],
  ])('with %s is refused, and none is made (bad input: REST)', async (_what, fields) => {
    const count = async () => (await team.viewer.read<Page<unknown>>('/alerts?kind=RULE')).meta.total;
    const before = await count();
    const { details } = await expectError(await post({ ...RULE, ...fields }), 400, 'VALIDATION_ERROR');
    const [name = ''] = Object.keys(fields);
    expect(String(details)).toMatch(new RegExp(`${name}|forSeconds`));
    expect(await count()).toBe(before);
  });

  it('is taken at each bound, with each severity and operator [C-9]', async () => {
    const good = [
      { forSeconds: 86_400, cooldownSeconds: 86_400 },
      { cooldownSeconds: 60, metric: 'm'.repeat(200) },
      { threshold: 1e12 },
      { threshold: -1e12 },
      { operator: 'ABSENT', forSeconds: 1 },
      ...ALERT_SEVERITIES.map((severity) => ({ severity })),
      ...ALERT_OPERATORS.map((operator) => ({ operator })),
    ];
    for (const fields of good) expect((await post({ ...RULE, plantId, ...fields })).status).toBe(201);
  });

  it('is one of 200 of its organization at most: 409, and a change of one is no other [C-9]', async () => {
    const own = await createTeam();
    const rows = await RegistryRows.create();
    const organization = { organization_id: organizationOf(own).id };
    for (let count = 1; count < LIMIT.alertRulesPerOrganization; count++) {
      await rows.insert('alert_rules', organization);
    }
    const make = () => own.viewer.call('/alerts', { method: 'POST', body: RULE });
    const { id } = await bodyOf<{ id: string }>(await make(), 201);
    await expectError(await make(), 409, 'CONFLICT');
    const body = { enabled: false };
    await own.viewer.read(`/alerts/${id}`, { method: 'PATCH', body });
    expect(await own.viewer.read('/alerts?kind=RULE&limit=1')).toMatchObject({ meta: { total: 200 } });
  });
});
