/** Acknowledging and resolving alerts, and refused fields of alerts and rules [C-9] (bad input: REST). */
import { findAlert, listAlerts, listRules, makeRule, RULE } from '#workerd/alert-rest.ts';
import { fireAlert } from '#workerd/alerts.ts';
import { bodyOf } from '#workerd/client.ts';
import { describe, expect, expectError, INSTANT, test } from '#workerd/worker-test.ts';
import { ALERT_OPERATORS, ALERT_SEVERITIES, type AlertRecord } from '../../../protocol/alert.ts';
import { LIMIT } from '../../../protocol/limits.ts';

const it = test
  .extend('post', ({ team }) => (body: unknown) => {
    return team.operator.post('/alerts', body);
  })
  .extend('act', ({ team }) => (id: string, action: string, body?: unknown) => {
    return team.operator.post(`/alerts/${id}/${action}`, body);
  })
  .extend('acted', ({ act }) => async (...given: Parameters<typeof act>) => {
    return await bodyOf<AlertRecord>(await act(...given), 200);
  });

describe('an alert', () => {
  it('can be acknowledged once, with or without a note; a second acknowledgement gets 409 [C-9]', async ({
    team,
    act,
    acted,
  }) => {
    const [id, other] = [await fireAlert(team.id), await fireAlert(team.id)];
    const before = await findAlert(team.operator, id);
    const seen = { status: 'ACKNOWLEDGED', acknowledgedBy: team.operator.id, acknowledgedAt: INSTANT };
    const acknowledged = await acted(id, 'acknowledge', { note: 'on it' });
    expect(acknowledged).toEqual({ ...before, ...seen, note: 'on it' });
    const { message } = await expectError(await act(id, 'acknowledge', { note: 'again' }), 409, 'CONFLICT');
    expect(message).toContain('ACKNOWLEDGED');
    expect(await findAlert(team.operator, id)).toEqual(acknowledged);
    expect(await acted(other, 'acknowledge')).toMatchObject({ ...seen, note: null });
    expect(await team.trailOf(id)).toEqual([
      ['alert.acknowledged', team.operator.id, 'ALERT', { note: 'on it' }],
    ]);
  });

  it.for(['ACTIVE', 'ACKNOWLEDGED'])(
    'can be resolved once if it is %s; after that, both actions get 409 [C-9]',
    async (status, { team, act, acted }) => {
      const id = await fireAlert(team.id);
      if (status === 'ACKNOWLEDGED') await acted(id, 'acknowledge', { note: 'on it' });
      const before = await findAlert(team.operator, id);
      const resolved = await acted(id, 'resolve', {});
      const resolution = { status: 'RESOLVED', resolvedBy: team.operator.id, resolvedAt: INSTANT };
      expect(resolved).toEqual({ ...before, ...resolution });
      for (const action of ['resolve', 'acknowledge']) {
        await expectError(await act(id, action, { note: 'late' }), 409, 'CONFLICT');
      }
      expect(await findAlert(team.operator, id)).toEqual(resolved);
      expect((await team.trailOf(id)).at(-1)).toEqual(['alert.resolved', team.operator.id, 'ALERT', {}]);
    },
  );

  it('is in the list of a time at which it was open, and of no other time', async ({ team, act }) => {
    const id = await fireAlert(team.id);
    const begun = await findAlert(team.operator, id);
    await act(id, 'resolve', {});
    const ended = await findAlert(team.operator, id);
    const [begin, end] = [begun?.firstSeenAt, ended?.resolvedAt].map((at) => Date.parse(at ?? ''));
    if (begin === undefined || end === undefined) throw new Error('unreachable');
    const isListed = async (atMs: number) => {
      const path = `/alerts?limit=100&at=${new Date(atMs).toISOString()}`;
      const { data } = await team.operator.read<{ data: AlertRecord[] }>(path);
      return data.some((one) => one.id === id);
    };
    expect(await isListed(begin - 1)).toBe(false);
    expect(await isListed(end)).toBe(false);
    // An alert that begins and ends in the same millisecond was open at no time.
    expect(await isListed(begin)).toBe(begin < end);
    const other = await fireAlert(team.id);
    const { data } = await team.operator.read<{ data: AlertRecord[] }>(
      `/alerts?at=${new Date(Date.now() + 60_000).toISOString()}`,
    );
    expect(data.map((one) => one.id)).toContain(other);
    await expectError(await team.operator.call('/alerts?at=yesterday'), 400, 'VALIDATION_ERROR');
  });

  it('takes one of two concurrent acknowledgements, or resolutions, and the other gets 409 [C-9]', async ({
    team,
    act,
  }) => {
    for (const action of ['acknowledge', 'resolve']) {
      const id = await fireAlert(team.id);
      const answers = await Promise.all([act(id, action), act(id, action)]);
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
      expect(await team.trailOf(id)).toHaveLength(1);
    }
  });

  it('cannot be acknowledged or resolved with a note over 500 characters or another field: 400 (bad input: REST)', async ({
    team,
    act,
    acted,
  }) => {
    const id = await fireAlert(team.id);
    const bad = [{ note: 'n'.repeat(501) }, { note: null }, { note: 1 }, { status: 'ACTIVE' }, []];
    for (const action of ['acknowledge', 'resolve'])
      for (const body of [...bad, { resolvedBy: 'x' }])
        await expectError(await act(id, action, body), 400, 'VALIDATION_ERROR');
    expect(await findAlert(team.operator, id)).toMatchObject({ status: 'ACTIVE', note: null });
    expect(await acted(id, 'resolve', { note: 'n'.repeat(500) })).toMatchObject({ note: 'n'.repeat(500) });
  });

  it('gets the same 404 as an absent one in another organization, and so does the id of a rule [C-1.3]', async ({
    team,
    other,
    act,
  }) => {
    const foreign = await fireAlert(other.id);
    const { id: rule } = await makeRule(team.operator);
    for (const action of ['acknowledge', 'resolve']) {
      const absent = await expectError(await act(crypto.randomUUID(), action), 404, 'NOT_FOUND');
      for (const id of [foreign, rule])
        expect(await expectError(await act(id, action), 404, 'NOT_FOUND')).toEqual(absent);
    }
    const patched = await team.operator.patch(`/alerts/${foreign}`, { note: 'x' });
    await expectError(patched, 404, 'NOT_FOUND');
    await expectError(await act('x', 'resolve'), 400, 'INVALID_UUID');
    const { data } = await listAlerts(other.operator);
    expect(data).toMatchObject([{ id: foreign, status: 'ACTIVE', note: null }]);
  });

  it('gets 400, as a rule does, for a PATCH with a field of the other kind or a read-only field [C-9]', async ({
    team,
  }) => {
    const id = await fireAlert(team.id);
    const { id: rule } = await makeRule(team.operator);
    const patch = (of: string, body: object) => team.operator.patch(`/alerts/${of}`, body);
    const { severity: _, ...ofRule } = { ...RULE, forSeconds: 1, cooldownSeconds: 60, enabled: true };
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
    expect(await findAlert(team.operator, id)).toMatchObject({ severity: 'WARNING' });
  });
});

describe('a rule', () => {
  it.for<[string, object]>([
    ['no name', { name: undefined }],
    ['a blank name', { name: ' ' }],
    ['no metric', { metric: undefined }],
    ['an empty metric', { metric: '' }],
    ['a metric of 201 characters', { metric: 'm'.repeat(201) }],
    ['no severity', { severity: undefined }],
    ['an unknown severity', { severity: 'HIGH' }],
    ['a severity in lower case', { severity: 'info' }],
    ['no operator', { operator: undefined }],
    ['an unknown operator', { operator: '>' }],
    ['no threshold', { threshold: undefined }],
    ['a null threshold', { threshold: null }],
    ['a threshold of text', { threshold: '10' }],
    ['a threshold beyond what a signal can be', { threshold: 1e12 + 1e3 }],
    ['negative forSeconds', { forSeconds: -1 }],
    ['a fraction in forSeconds', { forSeconds: 1.5 }],
    ['forSeconds of more than a day', { forSeconds: 86_401 }],
    ['the operator ABSENT and forSeconds 0', { operator: 'ABSENT', forSeconds: 0 }],
    ['a cooldown of 59 s', { cooldownSeconds: 59 }],
    ['a cooldown of more than a day', { cooldownSeconds: 86_401 }],
    ['enabled as text', { enabled: 'true' }],
    ['both a plant and a device', { plantId: crypto.randomUUID(), deviceId: crypto.randomUUID() }],
    ['a plant that is no UUID', { plantId: 'x' }],
    ['an unknown field', { note: 'n' }],
    ['a kind', { kind: 'RULE' }],
    ['an organization', { organizationId: crypto.randomUUID() }],
  ])('is refused with %s (bad input: REST)', async ([_what, fields], { team, post }) => {
    const count = async () => (await listRules(team.operator)).meta.total;
    const before = await count();
    const { details } = await expectError(await post({ ...RULE, ...fields }), 400, 'VALIDATION_ERROR');
    const [name = ''] = Object.keys(fields);
    expect(String(details)).toMatch(new RegExp(`${name}|forSeconds`));
    expect(await count()).toBe(before);
  });

  it('may have the lowest and highest values, any severity and operator [C-9]', async ({ post }) => {
    const good = [
      { forSeconds: 86_400, cooldownSeconds: 86_400 },
      { cooldownSeconds: 60, metric: 'm'.repeat(200) },
      { threshold: 1e12 },
      { threshold: -1e12 },
      { operator: 'ABSENT', forSeconds: 1 },
      ...ALERT_SEVERITIES.map((severity) => ({ severity })),
      ...ALERT_OPERATORS.map((operator) => ({ operator })),
    ];
    for (const fields of good) expect((await post({ ...RULE, ...fields })).status).toBe(201);
  });

  it('gets 409 if its organization has 200 rules; the existing ones can still be changed [C-9]', async ({
    ownTeam,
    rows,
  }) => {
    for (let count = 1; count < LIMIT.alertRulesPerOrganization; count++) {
      await rows.insert('alert_rules', { organization_id: ownTeam.id });
    }
    const { id } = await makeRule(ownTeam.operator);
    await expectError(await ownTeam.operator.post('/alerts', RULE), 409, 'CONFLICT');
    await ownTeam.operator.change(`/alerts/${id}`, { enabled: false });
    expect(await listRules(ownTeam.operator, '&limit=1')).toMatchObject({ meta: { total: 200 } });
  });
});
