/** API keys over REST: who may make which, and what is refused. What is shown of them, and their probe, stand beside. */
import { env } from 'cloudflare:workers';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Env } from '../../../durable-objects/env.ts';
import type { ApiKeyRecord, CreatedApiKey } from '../../../protocol/api-key-record.ts';
import type { Page } from '../../../protocol/page.ts';
import { VCP_WRITE_SCOPES } from '../../../protocol/scopes.ts';
import { callWithKey, createTeamKey, postPlant } from '../../support/workerd/fleet.ts';
import { bodyOf, type Call, createTeam, type Person, type Team } from '../../support/workerd/people.ts';
import { expectError, restRequest, settle } from '../../support/workerd/rest.ts';

const KEYS = '/partner/api-keys';
const REQUEST = { name: 'Desk', partnerId: 'acme', scopes: ['vcp:read'] };
const ABSENT = 'ffffffff-ffff-4fff-8fff-ffffffffffff';

let team: Team;
let other: Team;

beforeAll(async () => {
  other = await createTeam();
});
beforeEach(async () => {
  team = await createTeam();
});

function ask(path = '', options: Call = {}, by: Person = team.orgAdmin): Promise<Response> {
  return by.call(`${KEYS}${path}`, { org: team.id, ...options });
}

function post(fields: object = {}, by?: Person): Promise<Response> {
  return ask('', { method: 'POST', body: { ...REQUEST, ...fields } }, by);
}

async function make(fields: object = {}): Promise<CreatedApiKey> {
  return await bodyOf(await post(fields), 201);
}

/** A request that meets an edge with other bindings than ours. */
async function postTo(bindings: Partial<Env>, fields: object): Promise<Response> {
  const headers = {
    authorization: `Bearer ${team.orgAdmin.accessToken}`,
    'content-type': 'application/json',
    'x-org-id': team.id,
  };
  const body = JSON.stringify({ ...REQUEST, ...fields });
  return await settle(restRequest(`/api/v1${KEYS}`, { method: 'POST', headers, body }), bindings);
}

async function keyCount(): Promise<number> {
  const count = env.DB.prepare('SELECT count(*) AS n FROM api_keys WHERE organization_id = ?').bind(team.id);
  return (await count.first<number>('n')) ?? -1;
}

async function list(query = ''): Promise<Page<ApiKeyRecord>> {
  return await bodyOf(await ask(query), 200);
}

/** Every route of keys, for one of them. */
function everyRoute(id: string): [string, Call][] {
  return [
    ['', { method: 'POST', body: REQUEST }],
    ['', {}],
    [`/${id}`, {}],
    [`/${id}/test-connection`, { method: 'POST', body: { key: 'x' } }],
    [`/${id}/acknowledge-bundle`, { method: 'POST' }],
    [`/${id}`, { method: 'DELETE' }],
  ];
}

describe('the routes of API keys', () => {
  it('are open to an ORG_ADMIN alone, and to no key (spec: API key management)', async () => {
    const { apiKey } = await make();
    for (const [path, options] of everyRoute(apiKey.id)) {
      for (const by of [team.viewer, team.operator, team.admin]) {
        await expectError(await ask(path, options, by), 403, 'INSUFFICIENT_ORG_PERMISSIONS');
      }
      await expectError(await ask(path, options, other.orgAdmin), 403, 'ORG_MEMBERSHIP_REQUIRED');
      const key = await createTeamKey(team, ['config:write', 'plants:write']);
      const response = await callWithKey(key, `${KEYS}${path}`, { ...options, org: team.id });
      await expectError(response, 401, 'UNAUTHORIZED');
    }
    expect((await list()).data.find(({ id }) => id === apiKey.id)).toMatchObject({ isActive: true });
  });

  it('need x-org-id, also of who has one membership only [C-1.3]', async () => {
    const { apiKey } = await make();
    for (const [path, options] of everyRoute(apiKey.id)) {
      const response = await team.orgAdmin.call(`${KEYS}${path}`, options);
      await expectError(response, 400, 'ORG_CONTEXT_REQUIRED');
    }
  });

  it('know a foreign key as an absent one, byte for byte [C-10]', async () => {
    const { apiKey } = await make();
    const foreign = everyRoute(apiKey.id).slice(2);
    for (const [index, [path, options]] of everyRoute(ABSENT).slice(2).entries()) {
      const absent = await ask(path, options);
      const [foreignPath = '', foreignOptions] = foreign[index] ?? [];
      const by = other.orgAdmin;
      const answer = await by.call(`${KEYS}${foreignPath}`, { ...foreignOptions, org: other.id });
      expect(await answer.clone().text()).toBe(await absent.clone().text());
      for (const response of [absent, answer]) await expectError(response, 404, 'API_KEY_NOT_FOUND');
      const malformed = path.replace(ABSENT, 'nobody');
      await expectError(await ask(malformed, options), 400, 'INVALID_UUID');
    }
    expect((await list()).data).toMatchObject([{ id: apiKey.id, isActive: true }]);
  });
});

describe('a request for a key', () => {
  it('needs scopes, and known ones: codes of their own [C-10]', async () => {
    await expectError(await post({ scopes: [] }), 400, 'API_KEY_SCOPES_EMPTY');
    for (const scope of [
      'vcp:write',
      'VCP:READ',
      'vcp:read ',
      '*',
      '',
      'admin',
      '__proto__',
      'constructor',
    ]) {
      const response = await post({ scopes: ['vcp:read', scope] });
      const { details } = await expectError(response, 400, 'API_KEY_SCOPE_INVALID');
      expect(details).toEqual({ unknown: [scope] });
    }
    for (const scopes of [undefined, null, 'vcp:read', [1], { 0: 'vcp:read' }, Array(101).fill('vcp:read')]) {
      await expectError(await post({ scopes }), 400, 'VALIDATION_ERROR');
    }
    expect(await keyCount()).toBe(0);
  });

  it('for broker scopes is refused where there is no bridge [C-10]', async () => {
    for (const scope of ['vcp:connect', ...VCP_WRITE_SCOPES]) {
      const response = await post({ scopes: ['vcp:read', scope] });
      await expectError(response, 400, 'API_KEY_VCP_SCOPES_NOT_SUPPORTED');
    }
    expect(await keyCount()).toBe(0);
  });

  it('for ranges of addresses is refused where nobody sees these; a malformed one everywhere [C-10]', async () => {
    const wrong = [
      '10.0.0.0/33',
      '2001:db8::/129',
      '10.0.0.0/-1',
      '10.0.0.0/',
      '/8',
      'x',
      '',
      '10.0.0.256/8',
    ];
    for (const CLIENT_ADDRESS of ['none', 'platform']) {
      for (const range of wrong) {
        const response = await postTo({ CLIENT_ADDRESS }, { allowedIps: ['192.0.2.0/24', range] });
        const { details } = await expectError(response, 400, 'VALIDATION_ERROR');
        expect(JSON.stringify(details)).toContain('allowedIps.1');
      }
    }
    const allowedIps = ['192.0.2.0/24', '2001:db8::/32', '::ffff:192.0.2.0/120'];
    const refused = await postTo({ CLIENT_ADDRESS: 'none' }, { allowedIps });
    await expectError(refused, 400, 'API_KEY_CIDR_NOT_IMPLEMENTED');
    expect((await postTo({ CLIENT_ADDRESS: 'none' }, { allowedIps: [] })).status).toBe(201);
    expect((await make({ allowedIps })).apiKey.allowedIps).toEqual(allowedIps);
    expect((await make()).apiKey.allowedIps).toEqual([]);
  });

  it('for plants names some, all of its organization, or none [C-5.2]', async () => {
    const own = await postPlant(team.operator);
    const foreign = await postPlant(other.operator);
    for (const allowedPlantIds of [[], [foreign.id], [own.id, foreign.id], [ABSENT], ['x'], null, own.id]) {
      await expectError(await post({ allowedPlantIds }), 400, 'VALIDATION_ERROR');
    }
    const texts = [foreign.id, ABSENT].map(async (id) => (await post({ allowedPlantIds: [id] })).text());
    expect(new Set(await Promise.all(texts)).size).toBe(1);
    const { apiKey } = await make({ allowedPlantIds: [own.id.toUpperCase()] });
    expect(apiKey.allowedPlantIds).toEqual([own.id]);
    expect((await make()).apiKey.allowedPlantIds).toBeNull();
  });

  it('for a time that is over, or is none, is refused [C-5.2]', async () => {
    const past = [Date.now() - 1, Date.now() - 86_400_000].map((atMs) => new Date(atMs).toISOString());
    for (const expiresAt of [
      ...past,
      '1970-01-01T00:00:00Z',
      '2099-02-30T00:00:00Z',
      '2099-01-01',
      null,
      1,
    ]) {
      await expectError(await post({ expiresAt }), 400, 'VALIDATION_ERROR');
    }
    const { apiKey } = await make({ expiresAt: '2099-01-01T02:00:00+02:00' });
    expect(apiKey).toMatchObject({ expiresAt: '2099-01-01T00:00:00.000Z', isActive: true });
  });

  it('has a name and a partner of 1 to 100 characters (spec: Limits)', async () => {
    for (const field of ['name', 'partnerId']) {
      for (const value of ['', ' ', 'x'.repeat(101), undefined, null, 1]) {
        await expectError(await post({ [field]: value }), 400, 'VALIDATION_ERROR');
      }
      for (const value of ['x', 'ž'.repeat(100)]) {
        expect((await make({ [field]: value })).apiKey).toMatchObject({ [field]: value });
      }
    }
  });

  it('that sets what is not its to set is refused, and nothing of it is applied (bad input: REST)', async () => {
    const fields = [
      { id: ABSENT },
      { vhost: 'partner-x' },
      { organizationId: other.id },
      { isActive: false },
      { key: 'sw_x' },
      { signingKey: '00'.repeat(32) },
      { state: 'active' },
      { createdBy: other.orgAdmin.id },
      { revokedAt: null },
      JSON.parse('{"__proto__":{"scopes":["vcp:connect"]}}') as object,
      { constructor: {} },
    ];
    for (const more of fields) {
      const body = `{${JSON.stringify(REQUEST).slice(1, -1)},${JSON.stringify(more).slice(1)}`;
      const response = await ask('', { method: 'POST', body: JSON.parse(body) });
      await expectError(response, 400, 'VALIDATION_ERROR');
    }
    expect(await keyCount()).toBe(0);
  });

  it('beyond a thousand live keys is refused: 409, until one is revoked [C-10]', async () => {
    await env.DB.prepare(
      `INSERT INTO api_keys (id, organization_id, key_hash, key_prefix, name, partner_id, scopes, created_by, created_at_ms, updated_at_ms)
       WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
       SELECT lower(hex(randomblob(16))), ?1, hex(randomblob(32)), 'sw_00000000', 'n', 'p', '["vcp:read"]', ?2, i, i FROM n`,
    )
      .bind(team.id, team.orgAdmin.id)
      .run();
    const { apiKey } = await make();
    await expectError(await post(), 409, 'CONFLICT');
    expect((await ask(`/${apiKey.id}`, { method: 'DELETE' })).status).toBe(200);
    await make();
    await expectError(await post(), 409, 'CONFLICT');
  });
});
