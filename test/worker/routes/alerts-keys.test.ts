/** Alerts by role and by API key: what each scope opens, and how far a key that is limited to plants sees [C-9], [C-2.6]. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { AlertRecord, AlertRuleRecord } from '../../../protocol/alert.ts';
import type { Page } from '../../../protocol/page.ts';
import { API_KEY_SCOPES, type ApiKeyScope } from '../../../protocol/scopes.ts';
import { fireAlert } from '../../support/workerd/alerts.ts';
import { postDevice } from '../../support/workerd/devices.ts';
import { auditRows } from '../../support/workerd/door.ts';
import { callWithKey, createTeamKey, postPlant } from '../../support/workerd/fleet.ts';
import { bodyOf, type Call, createTeam, type Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';
import type { Key } from '../../support/workerd/world.ts';

const BOTH: ApiKeyScope[] = ['telemetry:read', 'telemetry:write'];
const RULE = { name: 'Rule', severity: 'INFO', metric: 'gridPowerKw', operator: 'GT', threshold: 10 };

let team: Team;

beforeAll(async () => {
  team = await createTeam();
});

async function readBy<Body>(key: Key, path: string, options: Call = {}, status = 200): Promise<Body> {
  return await bodyOf<Body>(await callWithKey(key, path, options), status);
}

async function newPlantId(owner = team): Promise<string> {
  return (await postPlant(owner.operator)).id;
}

/** A rule as a member makes it. */
async function newRule(fields: object): Promise<AlertRuleRecord> {
  return await team.viewer.read('/alerts', { method: 'POST', body: { ...RULE, ...fields } }, 201);
}

async function idsBy(key: Key, query = ''): Promise<string[]> {
  const page = await readBy<Page<AlertRecord>>(key, `/alerts?limit=100${query}`);
  expect(page.meta.total).toBe(page.data.length);
  return page.data.map(({ id }) => id);
}

function withBody(method: 'POST' | 'PATCH', body: object = {}): Call {
  return { method, body };
}

describe('a member', () => {
  it.each(['viewer', 'operator', 'admin', 'orgAdmin'] as const)(
    '%s may do it all: role any (spec: Alerts)',
    async (role) => {
      const by = team[role];
      const plantId = await newPlantId();
      const made = await by.read<AlertRuleRecord>('/alerts', withBody('POST', { ...RULE, plantId }), 201);
      await by.read(`/alerts/${made.id}`, withBody('PATCH', { enabled: false }));
      const id = await fireAlert(team.id, { plantId });
      expect(await by.read(`/alerts?plantId=${plantId}`)).toMatchObject({ data: [{ id }] });
      await by.read(`/alerts/${id}/acknowledge`, withBody('POST'));
      expect(await by.read(`/alerts/${id}/resolve`, withBody('POST'))).toMatchObject({ resolvedBy: by.id });
    },
  );
});

describe('a key with', () => {
  it('telemetry:read lists alerts and rules as a member does [C-2.6]', async () => {
    const own = await createTeam();
    const key = await createTeamKey(own, ['telemetry:read']);
    await fireAlert(own.id);
    await own.viewer.read('/alerts', withBody('POST', RULE), 201);
    for (const query of ['', '?kind=RULE']) {
      const page = await readBy<Page<unknown>>(key, `/alerts${query}`);
      expect(page).toEqual(await own.viewer.read(`/alerts${query}`));
      expect(page.meta.total).toBe(1);
    }
  });

  it('telemetry:write makes and changes rules, acknowledges and resolves, and the trail names the key [C-8.4]', async () => {
    const key = await createTeamKey(team, ['telemetry:write']);
    const { id: rule } = await readBy<AlertRuleRecord>(key, '/alerts', withBody('POST', RULE), 201);
    expect(await readBy(key, `/alerts/${rule}`, withBody('PATCH', { threshold: 5 }))).toMatchObject({
      threshold: 5,
    });
    const id = await fireAlert(team.id, { plantId: await newPlantId() });
    await readBy(key, `/alerts/${id}`, withBody('PATCH', { note: 'n' }));
    expect(await readBy(key, `/alerts/${id}/acknowledge`, withBody('POST'))).toMatchObject({
      acknowledgedBy: key.id,
    });
    expect(await readBy(key, `/alerts/${id}/resolve`, withBody('POST'))).toMatchObject({
      resolvedBy: key.id,
    });
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

  it('every scope but the one that is needed is refused: 403, and nothing is done [C-4.2]', async () => {
    const id = await fireAlert(team.id, { plantId: await newPlantId() });
    const without = async (scope: ApiKeyScope) =>
      await createTeamKey(
        team,
        API_KEY_SCOPES.filter((one) => one !== scope),
      );
    const [reader, writer] = [await without('telemetry:write'), await without('telemetry:read')];
    await expectError(await callWithKey(writer, '/alerts'), 403, 'FORBIDDEN');
    const calls: [string, Call][] = [
      ['/alerts', withBody('POST', RULE)],
      [`/alerts/${id}`, withBody('PATCH', { note: 'n' })],
      [`/alerts/${id}/acknowledge`, withBody('POST')],
      [`/alerts/${id}/resolve`, withBody('POST')],
    ];
    for (const [path, options] of calls)
      await expectError(await callWithKey(reader, path, options), 403, 'FORBIDDEN');
    expect(await readBy(reader, '/alerts?limit=1')).toMatchObject({
      data: [{ id, status: 'ACTIVE', note: null }],
    });
  });
});

describe('a key that is limited to plants', () => {
  async function newLimited() {
    const [plantId, hidden] = [await newPlantId(), await newPlantId()];
    const key = await createTeamKey(team, BOTH, { allowedPlantIds: [plantId] });
    const { id: device } = await postDevice(team.operator, { plantId });
    const { id: hiddenDevice } = await postDevice(team.operator, { plantId: hidden });
    return { plantId, hidden, device, hiddenDevice, key };
  }

  it('sees alerts of those plants, whoever’s rule it was, and no other [C-4.2]', async () => {
    const { plantId, hidden, device, key } = await newLimited();
    const { id: ruleId } = await newRule({});
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
    const actions: [string, Call][] = [
      ['', withBody('PATCH', { note: 'n' })],
      ['/acknowledge', withBody('POST')],
      ['/resolve', withBody('POST')],
    ];
    for (const id of unseen) {
      for (const [action, options] of actions)
        await expectError(await callWithKey(key, `/alerts/${id}${action}`, options), 404, 'NOT_FOUND');
    }
    for (const id of seen) {
      for (const [action, options] of actions) await readBy(key, `/alerts/${id}${action}`, options);
    }
    const { data } = await team.viewer.read<Page<AlertRecord>>('/alerts?limit=100');
    expect(data.filter(({ id }) => unseen.includes(id))).toMatchObject([
      { status: 'ACTIVE', note: null },
      { status: 'ACTIVE', note: null },
    ]);
  });

  it('sees and changes rules about those plants and devices there, and no other [C-4.2]', async () => {
    const { plantId, hidden, device, hiddenDevice, key } = await newLimited();
    const seen = [await newRule({ plantId }), await newRule({ deviceId: device })];
    const unseen = [
      await newRule({}),
      await newRule({ plantId: hidden }),
      await newRule({ deviceId: hiddenDevice }),
    ];
    expect((await idsBy(key, '&kind=RULE')).sort()).toEqual(seen.map(({ id }) => id).sort());
    for (const { id } of seen) {
      expect(await readBy(key, `/alerts/${id}`, withBody('PATCH', { name: 'x' }))).toMatchObject({
        name: 'x',
      });
    }
    for (const { id } of unseen) {
      const refused = await callWithKey(key, `/alerts/${id}`, withBody('PATCH', { name: 'x' }));
      await expectError(refused, 404, 'NOT_FOUND');
    }
    const { data } = await team.viewer.read<Page<AlertRuleRecord>>('/alerts?kind=RULE&limit=100');
    for (const rule of unseen) expect(data).toContainEqual(rule);
  });

  it('makes rules there alone: elsewhere is 404, and for the whole organization 403 [C-4.2]', async () => {
    const { plantId, hidden, device, hiddenDevice, key } = await newLimited();
    const post = (fields: object) => callWithKey(key, '/alerts', withBody('POST', { ...RULE, ...fields }));
    const made = [
      await bodyOf<AlertRuleRecord>(await post({ plantId }), 201),
      await bodyOf<AlertRuleRecord>(await post({ deviceId: device }), 201),
    ];
    for (const fields of [{}, { plantId: null }, { deviceId: null }]) {
      await expectError(await post(fields), 403, 'FORBIDDEN');
    }
    const foreign = await newPlantId(await createTeam());
    for (const one of [hidden, foreign, crypto.randomUUID()])
      await expectError(await post({ plantId: one }), 404, 'PLANT_NOT_FOUND');
    const { id: homeless } = await postDevice(team.operator);
    for (const one of [hiddenDevice, homeless, crypto.randomUUID()])
      await expectError(await post({ deviceId: one }), 404, 'NOT_FOUND');
    expect((await idsBy(key, '&kind=RULE')).sort()).toEqual(made.map(({ id }) => id).sort());
  });

  it('of which none is left sees nothing at all [C-4.2]', async () => {
    const key = await createTeamKey(team, BOTH, { allowedPlantIds: [] });
    await fireAlert(team.id, { plantId: await newPlantId() });
    expect([...(await idsBy(key)), ...(await idsBy(key, '&kind=RULE'))]).toEqual([]);
  });
});
