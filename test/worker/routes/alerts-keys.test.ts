/** Alerts by role and by API key: what a scope opens, and what allowedPlantIds hide [C-9], [C-2.6]. */
import { listAlerts, listRules, makeRule, RULE } from '#workerd/alert-rest.ts';
import { fireAlert } from '#workerd/alerts.ts';
import { bodyOf, type KeyClient } from '#workerd/client.ts';
import { auditRows } from '#workerd/door.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import { API_KEY_SCOPES, type ApiKeyScope } from '../../../protocol/scopes.ts';

const BOTH: ApiKeyScope[] = ['telemetry:read', 'telemetry:write'];

async function idsBy(key: KeyClient, query = ''): Promise<string[]> {
  const page = await listAlerts(key, `?limit=100${query}`);
  expect(page.meta.total).toBe(page.data.length);
  return page.data.map(({ id }) => id);
}

/** A key for one plant; that plant and another one, each with a device. */
const it = test.extend('limited', async ({ team }) => {
  const [plantId, hidden] = [(await team.newPlant()).id, (await team.newPlant()).id];
  const key = await team.newKey(BOTH, { allowedPlantIds: [plantId] });
  const { id: device } = await team.newDevice({ plantId });
  const { id: hiddenDevice } = await team.newDevice({ plantId: hidden });
  return { plantId, hidden, device, hiddenDevice, key };
});

describe('a member', () => {
  it.for(['operator', 'admin', 'orgAdmin'] as const)(
    'may create and change rules with the role %s (spec: Alerts)',
    async (role, { team, plantId }) => {
      const made = await makeRule(team[role], { plantId });
      expect(await team[role].change(`/alerts/${made.id}`, { enabled: false })).toMatchObject({
        enabled: false,
      });
    },
  );

  it('gets 403 with the role VIEWER for creating or changing a rule', async ({ team, plantId }) => {
    const { id } = await makeRule(team.operator, { plantId });
    const refused = [
      await team.viewer.post('/alerts', { ...RULE, plantId }),
      await team.viewer.patch(`/alerts/${id}`, { enabled: false }),
    ];
    for (const answer of refused) await expectError(answer, 403, 'INSUFFICIENT_ORG_PERMISSIONS');
    const { data } = await listRules(team.viewer, `&plantId=${plantId}`);
    expect(data).toMatchObject([{ id, enabled: true }]);
  });

  it.for(['viewer', 'operator', 'admin', 'orgAdmin'] as const)(
    'may list, change, acknowledge and resolve alerts with the role %s (spec: Alerts)',
    async (role, { team, plantId }) => {
      const by = team[role];
      const id = await fireAlert(team.id, { plantId });
      expect(await by.read(`/alerts?plantId=${plantId}`)).toMatchObject({ data: [{ id }] });
      expect(await by.change(`/alerts/${id}`, { note: 'seen' })).toMatchObject({ note: 'seen' });
      await by.read(`/alerts/${id}/acknowledge`, { method: 'POST', body: {} });
      const resolved = await by.read(`/alerts/${id}/resolve`, { method: 'POST', body: {} });
      expect(resolved).toMatchObject({ resolvedBy: by.id });
    },
  );
});

describe('a key', () => {
  it('lists alerts and rules with telemetry:read like a member’s session [C-2.6]', async ({ ownTeam }) => {
    const key = await ownTeam.newKey(['telemetry:read']);
    await fireAlert(ownTeam.id);
    await makeRule(ownTeam.operator);
    for (const query of ['', '?kind=RULE']) {
      const page = await listAlerts(key, query);
      expect(page).toEqual(await listAlerts(ownTeam.viewer, query));
      expect(page.meta.total).toBe(1);
    }
  });

  it('makes and changes rules and alerts with telemetry:write, and the audit trail names the key [C-8.4]', async ({
    team,
    plantId,
  }) => {
    const key = await team.newKey(['telemetry:write']);
    const { id: rule } = await makeRule(key);
    expect(await key.change(`/alerts/${rule}`, { threshold: 5 })).toMatchObject({ threshold: 5 });
    const id = await fireAlert(team.id, { plantId });
    await key.change(`/alerts/${id}`, { note: 'n' });
    const act = (action: string) => key.read(`/alerts/${id}/${action}`, { method: 'POST', body: {} });
    expect(await act('acknowledge')).toMatchObject({ acknowledgedBy: key.id });
    expect(await act('resolve')).toMatchObject({ resolvedBy: key.id });
    const rows = (await auditRows(team.id)).filter(({ target }) => target === id || target === rule);
    expect(rows.map(({ event }) => event)).toEqual([
      'alert_rule.created',
      'alert_rule.updated',
      'alert.updated',
      'alert.acknowledged',
      'alert.resolved',
    ]);
    expect(new Set(rows.map(({ actor_type: type, actor }) => `${type} ${actor}`))).toEqual(
      new Set([`API_KEY ${key.id}`]),
    );
  });

  it('gets 403 with every scope except the needed one [C-4.2]', async ({ team }) => {
    const id = await fireAlert(team.id);
    const without = (scope: ApiKeyScope) => team.newKey(API_KEY_SCOPES.filter((one) => one !== scope));
    const [reader, writer] = [await without('telemetry:write'), await without('telemetry:read')];
    await expectError(await writer.call('/alerts'), 403, 'FORBIDDEN');
    const calls = [
      reader.post('/alerts', RULE),
      reader.patch(`/alerts/${id}`, { note: 'n' }),
      reader.post(`/alerts/${id}/acknowledge`, {}),
      reader.post(`/alerts/${id}/resolve`, {}),
    ];
    for (const refused of await Promise.all(calls)) await expectError(refused, 403, 'FORBIDDEN');
    const { data } = await listAlerts(reader, '?limit=1');
    expect(data).toMatchObject([{ id, status: 'ACTIVE', note: null }]);
  });
});

describe('a key with allowedPlantIds', () => {
  it('sees and changes the alerts of its plants only, and no alert without a plant [C-4.2]', async ({
    team,
    limited,
  }) => {
    const { plantId, hidden, device, key } = limited;
    const { id: ruleId } = await makeRule(team.operator, {});
    const seen = [
      await fireAlert(team.id, { plantId, ruleId, firstSeenAtMs: 1 }),
      await fireAlert(team.id, { plantId, deviceId: device, firstSeenAtMs: 2 }),
    ];
    const unseen = [
      await fireAlert(team.id, { plantId: hidden, ruleId }),
      await fireAlert(team.id, { plantId: null }),
    ];
    expect(await idsBy(key)).toEqual(seen.toReversed());
    expect(await idsBy(key, `&plantId=${hidden}`)).toEqual([]);
    const actions: ((id: string) => Promise<Response>)[] = [
      (id) => key.patch(`/alerts/${id}`, { note: 'n' }),
      (id) => key.post(`/alerts/${id}/acknowledge`, {}),
      (id) => key.post(`/alerts/${id}/resolve`, {}),
    ];
    for (const act of actions) {
      for (const id of unseen) await expectError(await act(id), 404, 'NOT_FOUND');
      for (const id of seen) await bodyOf(await act(id), 200);
    }
    const { data } = await listAlerts(team.viewer, '?limit=100');
    expect(data.filter(({ id }) => unseen.includes(id))).toMatchObject([
      { status: 'ACTIVE', note: null },
      { status: 'ACTIVE', note: null },
    ]);
  });

  it('sees and changes the rules of its plants and their devices only, not those for all plants [C-4.2]', async ({
    team,
    limited,
  }) => {
    const { plantId, hidden, device, hiddenDevice, key } = limited;
    const seen = [
      await makeRule(team.operator, { plantId }),
      await makeRule(team.operator, { deviceId: device }),
    ];
    const unseen = [
      await makeRule(team.operator, {}),
      await makeRule(team.operator, { plantId: hidden }),
      await makeRule(team.operator, { deviceId: hiddenDevice }),
    ];
    expect((await idsBy(key, '&kind=RULE')).sort()).toEqual(seen.map(({ id }) => id).sort());
    for (const { id } of seen) {
      expect(await key.change(`/alerts/${id}`, { name: 'x' })).toMatchObject({ name: 'x' });
    }
    for (const { id } of unseen) {
      await expectError(await key.patch(`/alerts/${id}`, { name: 'x' }), 404, 'NOT_FOUND');
    }
    const { data } = await listRules(team.viewer, '&limit=100');
    for (const rule of unseen) expect(data).toContainEqual(rule);
  });

  it('makes rules for its plants and their devices only [C-4.2]', async ({ team, other, limited }) => {
    const { plantId, hidden, device, hiddenDevice, key } = limited;
    const post = (fields: object) => key.post('/alerts', { ...RULE, ...fields });
    const made = [await makeRule(key, { plantId }), await makeRule(key, { deviceId: device })];
    for (const fields of [{}, { plantId: null }, { deviceId: null }]) {
      await expectError(await post(fields), 403, 'FORBIDDEN');
    }
    const { id: foreign } = await other.newPlant();
    for (const one of [hidden, foreign, crypto.randomUUID()])
      await expectError(await post({ plantId: one }), 404, 'PLANT_NOT_FOUND');
    const { id: homeless } = await team.newDevice();
    for (const one of [hiddenDevice, homeless, crypto.randomUUID()])
      await expectError(await post({ deviceId: one }), 404, 'NOT_FOUND');
    expect((await idsBy(key, '&kind=RULE')).sort()).toEqual(made.map(({ id }) => id).sort());
  });

  it('sees no alert and no rule if the list is empty [C-4.2]', async ({ team, plantId }) => {
    const key = await team.newKey(BOTH, { allowedPlantIds: [] });
    await fireAlert(team.id, { plantId });
    expect([...(await idsBy(key)), ...(await idsBy(key, '&kind=RULE'))]).toEqual([]);
  });
});
