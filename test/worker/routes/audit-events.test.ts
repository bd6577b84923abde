/** Audit events: every admin action with its actor, address, target and outcome, for admins of the organization [C-8.4]. */

import { env } from 'cloudflare:workers';
import { beforeAll, describe, expect, it } from 'vitest';
import { writeConnected, writeRefusedConnection } from '../../../durable-objects/registry/audit-events.ts';
import { apiKeyPrefix } from '../../../protocol/api-key.ts';
import type { AuditEvent } from '../../../protocol/audit.ts';
import type { Page } from '../../../protocol/page.ts';
import type { PlantRecord, SubDeviceRecord } from '../../../protocol/plant-record.ts';
import { UNLIMITED } from '../../../protocol/site-config.ts';
import { callWithKey, createTeamKey, organizationOf, postPlant } from '../../support/workerd/fleet.ts';
import { bodyOf, type Call, call, createTeam, Person, type Team } from '../../support/workerd/people.ts';
import { RegistryRows } from '../../support/workerd/registry-rows.ts';
import { expectError } from '../../support/workerd/rest.ts';
import { createDevice, createKey } from '../../support/workerd/world.ts';

const ADDRESS = '203.0.113.9';
const CONFIG = { constraints: null, fallback: null, operatingMode: 'PEAK_SHAVING' };

let team: Team;
let other: Team;

beforeAll(async () => {
  [team, other] = await Promise.all([createTeam(), createTeam()]);
});

async function pageOf(query: string, by: Person = team.admin): Promise<Page<AuditEvent>> {
  return await by.read(`/audit-events${query}`);
}

/** The newest row of the organization. */
async function newest(by: Person = team.admin): Promise<AuditEvent | undefined> {
  return (await pageOf('?limit=1', by)).data[0];
}

/** The rows about one thing, newest first. */
async function about(id: string): Promise<AuditEvent[]> {
  return (await pageOf('?limit=100')).data.filter(({ target }) => target?.id === id);
}

/** From an address that the platform tells. */
function from(options: Call = {}): Call {
  return { ...options, headers: { 'cf-connecting-ip': ADDRESS, ...options.headers } };
}

function rowOf(person: Person, event: string, type: string, id: string, details: object): object {
  return {
    id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    event,
    actor: { type: 'USER', id: person.id, name: person.email },
    target: { type, id },
    address: ADDRESS,
    outcome: 'SUCCESS',
    details,
    count: 1,
    createdAt: expect.stringMatching(/Z$/),
  };
}

describe('the row of an action', () => {
  it('tells who made, changed and deleted which plant, from where [C-8.4]', async () => {
    const by = team.operator;
    const made = from({ method: 'POST', body: { name: 'Dairy', timezone: 'UTC' } });
    const { id } = await by.read<PlantRecord>('/plants', made, 201);
    expect(await newest()).toEqual(rowOf(by, 'plant.created', 'PLANT', id, { name: 'Dairy' }));
    await by.read(`/plants/${id}`, from({ method: 'PATCH', body: { externalPlantId: null } }));
    expect(await newest()).toEqual(rowOf(by, 'plant.updated', 'PLANT', id, { externalPlantId: null }));
    await team.admin.read(`/plants/${id}/config`, from({ method: 'PUT', body: CONFIG }));
    const put = { ...CONFIG, hardLimits: null };
    expect(await newest()).toEqual(rowOf(team.admin, 'plant.config_updated', 'PLANT', id, put));
    await by.read(`/plants/${id}`, from({ method: 'DELETE' }));
    expect(await newest()).toEqual(rowOf(by, 'plant.deleted', 'PLANT', id, { name: 'Dairy' }));
    expect(await about(id)).toHaveLength(4);
  });

  it('tells who added, changed and took away which sub-device [C-8.4]', async () => {
    const by = team.operator;
    const { id: plantId } = await postPlant(by);
    const path = `/plants/${plantId}/sub-devices`;
    const body = { externalId: 'M-1', assetType: 'METER', name: 'Meter' };
    const { id } = await by.read<SubDeviceRecord>(path, from({ method: 'POST', body }), 201);
    await by.read(`${path}/${id}`, from({ method: 'PATCH', body: { name: 'Main' } }));
    await by.read(`${path}/${id}`, from({ method: 'DELETE' }));
    expect(await about(id)).toEqual([
      rowOf(by, 'sub_device.deleted', 'SUB_DEVICE', id, { externalId: 'M-1' }),
      rowOf(by, 'sub_device.updated', 'SUB_DEVICE', id, { name: 'Main' }),
      rowOf(by, 'sub_device.created', 'SUB_DEVICE', id, { plantId, ...body }),
    ]);
  });

  it('tells who changed the organization and its members [C-8.4]', async () => {
    const own = await createTeam();
    const [by, path] = [own.orgAdmin, `/organizations/${own.id}`];
    const settings = { restRatePerMinute: 1_000 };
    await by.read(path, from({ method: 'PATCH', body: { settings } }));
    expect(await newest(by)).toEqual(rowOf(by, 'organization.updated', 'ORGANIZATION', own.id, { settings }));
    const { id, email } = await Person.register();
    await by.read(`${path}/members`, from({ method: 'POST', body: { email, role: 'VIEWER' } }), 201);
    expect(await newest(by)).toEqual(rowOf(by, 'member.added', 'USER', id, { role: 'VIEWER' }));
    await by.read(`/users/${id}`, from({ method: 'PATCH', body: { role: 'ADMIN' } }));
    const change = { from: 'VIEWER', to: 'ADMIN' };
    expect(await newest(by)).toEqual(rowOf(by, 'member.role_changed', 'USER', id, change));
    await by.read(`${path}/members/${id}`, from({ method: 'DELETE' }));
    expect(await newest(by)).toEqual(rowOf(by, 'member.removed', 'USER', id, { role: 'ADMIN' }));
    const [first] = (await pageOf('?event=organization.created', by)).data;
    const made = rowOf(by, 'organization.created', 'ORGANIZATION', own.id, { slug: own.slug });
    expect(first).toEqual({ ...made, address: null });
  });

  it('names an API key by its id and prefix where a key acted [C-8.4]', async () => {
    const key = await createTeamKey(team, ['plants:write']);
    const made = await callWithKey(key, '/plants', from({ method: 'POST', body: { name: 'x' } }));
    const { id } = await bodyOf<PlantRecord>(made, 201);
    expect(await about(id)).toMatchObject([
      {
        event: 'plant.created',
        actor: { type: 'API_KEY', id: key.id, name: apiKeyPrefix(key.key) },
        address: ADDRESS,
      },
    ]);
  });

  it('has no address where the platform tells none, whatever a client says [C-4.2]', async () => {
    const headers = { 'x-forwarded-for': ADDRESS, 'x-real-ip': ADDRESS, forwarded: `for=${ADDRESS}` };
    const made = { method: 'POST', body: { name: 'x' }, headers } as const;
    const { id } = await team.operator.read<PlantRecord>('/plants', made, 201);
    expect(await about(id)).toMatchObject([{ address: null }]);
  });

  it('is not written for what was refused, or only read [C-8.4]', async () => {
    const { id } = await postPlant(team.operator);
    await createDevice(organizationOf(team), id, 'GATEWAY');
    const { total } = (await pageOf('')).meta;
    const path = `/plants/${id}`;
    const refused: [Person, string, Call, number][] = [
      [team.operator, path, { method: 'DELETE' }, 409],
      [team.operator, path, { method: 'PATCH', body: { eanCons: '1' } }, 400],
      [team.viewer, path, { method: 'PATCH', body: { name: 'x' } }, 403],
      [other.operator, path, { method: 'PATCH', body: { name: 'x' } }, 404],
      [team.admin, `${path}/config`, { method: 'PUT', body: CONFIG, headers: { 'if-match': '"x"' } }, 412],
      [
        team.admin,
        `${path}/config`,
        { method: 'PUT', body: { ...CONFIG, hardLimits: { ...UNLIMITED, maxImportKw: 1 } } },
        403,
      ],
      [team.viewer, path, {}, 200],
      [team.viewer, `${path}/config`, {}, 200],
    ];
    for (const [by, at, options, status] of refused) {
      expect([at, (await by.call(at, options)).status]).toEqual([at, status]);
    }
    expect((await pageOf('')).meta.total).toBe(total);
  });
});

describe('GET /audit-events', () => {
  it('shows partners that connected, and how often which connection was refused (spec: Audit events)', async () => {
    const own = await createTeam();
    const key = await createKey(organizationOf(own));
    const now = Date.now() + 60_000;
    const prefix = apiKeyPrefix(key.key);
    await writeConnected(env.DB, { organizationId: own.id, keyId: key.id, keyPrefix: prefix }, ADDRESS, now);
    const refused = { organizationId: own.id, username: own.slug, address: ADDRESS, reason: 'revoked' };
    for (let time = 0; time < 3; time++) await writeRefusedConnection(env.DB, refused, now + 1);
    expect((await pageOf('?limit=2', own.admin)).data).toMatchObject([
      {
        event: 'partner.connection_refused',
        actor: { type: 'API_KEY', id: own.slug },
        target: null,
        address: ADDRESS,
        outcome: 'FAILURE',
        details: { reason: 'revoked' },
        count: 3,
      },
      {
        event: 'partner.connected',
        actor: { type: 'API_KEY', id: key.id, name: prefix },
        target: { type: 'API_KEY', id: key.id },
        address: ADDRESS,
        outcome: 'SUCCESS',
        count: 1,
      },
    ]);
  });

  it('answers pages, newest first, and those of one event alone where it is named [C-8.4]', async () => {
    const own = await createTeam();
    const ids: string[] = [];
    for (const name of ['a', 'b', 'c']) ids.unshift((await postPlant(own.operator, { name })).id);
    const targets = ({ data }: Page<AuditEvent>) => data.map(({ target }) => target?.id);
    expect(targets(await pageOf('?limit=3', own.admin))).toEqual(ids);
    const second = await pageOf('?event=plant.created&limit=2&page=2', own.admin);
    expect([targets(second), second.meta]).toEqual([
      [ids[2]],
      { page: 2, limit: 2, total: 3, totalPages: 2 },
    ]);
    for (const event of ['plant.deleted', 'plant', 'plant.%', "'%20OR%201=1--", 'PLANT.CREATED']) {
      const none = await pageOf(`?event=${event}`, own.admin);
      expect([event, none.data, none.meta.total]).toEqual([event, [], 0]);
    }
    for (const query of ['event=', `event=${'a'.repeat(101)}`, 'event=a&event=b', 'limit=101', 'page=0']) {
      await expectError(await own.admin.call(`/audit-events?${query}`), 400, 'VALIDATION_ERROR');
    }
  });

  it('never shows a row of another organization, nor of none [C-1.3]', async () => {
    const mine = await postPlant(team.operator);
    const theirs = await postPlant(other.operator);
    const { total } = (await pageOf('')).meta;
    const rows = await RegistryRows.create();
    await rows.insert('audit_events', { event: 'nobody.did', organization_id: null });
    await rows.insert('audit_events', { event: 'nobody.did', organization_id: other.id });
    expect((await pageOf('?event=nobody.did')).data).toEqual([]);
    expect((await pageOf('')).meta.total).toBe(total);
    expect(await about(theirs.id)).toEqual([]);
    const seen = (await pageOf('?limit=100', other.admin)).data;
    expect(seen.some(({ target }) => target?.id === mine.id)).toBe(false);
    expect(seen.some(({ target }) => target?.id === theirs.id)).toBe(true);
  });

  it('shows a row that older code wrote, in the words of today [C-8.4]', async () => {
    const rows = await RegistryRows.create();
    const old = { actor: 'k', target: 'k', organization_id: team.id, created_at_ms: Date.now() + 3_600_000 };
    for (const [outcome, expected] of [
      ['success', 'SUCCESS'],
      ['failure', 'FAILURE'],
    ]) {
      await rows.insert('audit_events', { ...old, event: `old.${outcome}`, outcome: outcome ?? '' });
      const [row] = (await pageOf(`?event=old.${outcome}`)).data;
      expect(row).toMatchObject({ actor: { type: 'API_KEY', id: 'k' }, outcome: expected });
    }
  });

  it('keeps secrets out: no row has a password, a token or a key (bad input: REST)', async () => {
    const { key } = await createTeamKey(team, ['plants:read']);
    const text = JSON.stringify((await pageOf('?limit=100')).data);
    for (const secret of [key, team.admin.accessToken, team.admin.refreshToken])
      expect(text).not.toContain(secret);
    expect(text).not.toMatch(/password|hash|secret|token/i);
    expect((await call('/audit-events')).status).toBe(401);
  });
});
