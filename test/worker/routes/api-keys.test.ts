/** API keys over REST: which keys may be made, and what is refused. */
import type { Call } from '#workerd/client.ts';
import { countOf, runSql } from '#workerd/d1.ts';
import { KEY_REQUEST, KEYS, keyAdminTest } from '#workerd/key-admin.ts';
import { describe, expect, expectError, expectSameError } from '#workerd/worker-test.ts';
import type { Env } from '../../../durable-objects/env.ts';
import { VCP_WRITE_SCOPES } from '../../../protocol/scopes.ts';

const ABSENT = 'ffffffff-ffff-4fff-8fff-ffffffffffff';

const it = keyAdminTest
  /** A request to a Worker with other bindings. */
  .extend('postTo', ({ ownTeam: { id: org, orgAdmin } }) => (bindings: Partial<Env>, fields: object) => {
    return orgAdmin.call(KEYS, { method: 'POST', org, body: { ...KEY_REQUEST, ...fields } }, bindings);
  })
  .extend(
    'keyCount',
    ({ ownTeam }) =>
      () =>
        countOf('api_keys', 'organization_id = ?', ownTeam.id),
  );

const ROUTES_OF_A_KEY: [path: string, options: Call][] = [
  ['', {}],
  ['/test-connection', { method: 'POST', body: { key: 'x' } }],
  ['/acknowledge-bundle', { method: 'POST' }],
  ['', { method: 'DELETE' }],
];

describe('the routes of API keys', () => {
  it('answer roles below ORG_ADMIN with 403 and API keys with 401, and change nothing (spec: API key management)', async ({
    keys,
    ownTeam,
  }) => {
    const { apiKey } = await keys.make();
    const { viewer, operator, admin } = ownTeam;
    const key = await ownTeam.newKey(['config:write', 'plants:write']);
    for (const [path, options] of ROUTES_OF_A_KEY) {
      for (const by of [viewer, operator, admin]) {
        const response = await keys.ask(`/${apiKey.id}${path}`, options, by);
        await expectError(response, 403, 'INSUFFICIENT_ORG_PERMISSIONS');
      }
      const byKey = await key.call(`${KEYS}/${apiKey.id}${path}`, { ...options, org: ownTeam.id });
      await expectError(byKey, 401, 'UNAUTHORIZED');
    }
    expect((await keys.read(apiKey.id)).isActive).toBe(true);
  });

  it('answer for a key of another organization as for an absent one, byte for byte [C-10]', async ({
    keys,
    other,
  }) => {
    const { apiKey } = await keys.make();
    for (const [path, options] of ROUTES_OF_A_KEY) {
      const by = other.orgAdmin;
      const foreign = by.call(`${KEYS}/${apiKey.id}${path}`, { ...options, org: other.id });
      await expectSameError([keys.ask(`/${ABSENT}${path}`, options), foreign], 404, 'API_KEY_NOT_FOUND');
      await expectError(await keys.ask(`/nobody${path}`, options), 400, 'INVALID_UUID');
    }
    expect((await keys.list()).data).toMatchObject([{ id: apiKey.id, isActive: true }]);
  });
});

describe('a request to make a key', () => {
  it('gets 400 for an empty list of scopes and for an unknown scope, each with its own code, and for no list [C-10]', async ({
    keys,
    keyCount,
  }) => {
    await expectError(await keys.post({ scopes: [] }), 400, 'API_KEY_SCOPES_EMPTY');
    const unknown = ['vcp:write', 'VCP:READ', 'vcp:read ', '*', '', 'admin', '__proto__', 'constructor'];
    for (const scope of unknown) {
      const response = await keys.post({ scopes: ['vcp:read', scope] });
      const { details } = await expectError(response, 400, 'API_KEY_SCOPE_INVALID');
      expect(details).toEqual({ unknown: [scope] });
    }
    const mistyped = await keys.post({ scopes: ['vcp:write:device'] });
    const { message } = await expectError(mistyped, 400, 'API_KEY_SCOPE_INVALID');
    expect(message).toBe('Unknown scope "vcp:write:device". Did you mean "vcp:write:device-command"?');
    for (const scopes of [undefined, null, 'vcp:read', [1], { 0: 'vcp:read' }, Array(101).fill('vcp:read')]) {
      await expectError(await keys.post({ scopes }), 400, 'VALIDATION_ERROR');
    }
    expect(await keyCount()).toBe(0);
  });

  it('gets 400 with vcp:connect or a vcp:write scope if no AMQP listener is configured [C-10]', async ({
    keys,
    keyCount,
  }) => {
    for (const scope of ['vcp:connect', ...VCP_WRITE_SCOPES]) {
      const response = await keys.post({ scopes: ['vcp:read', scope] });
      await expectError(response, 400, 'API_KEY_VCP_SCOPES_NOT_SUPPORTED');
    }
    expect(await keyCount()).toBe(0);
  });

  it('gets 400 with malformed allowedIps; without client addresses, also with any allowedIps [C-10]', async ({
    keys,
    postTo,
  }) => {
    const badMasks = ['10.0.0.0/33', '2001:db8::/129', '10.0.0.0/-1', '10.0.0.0/'];
    const wrong = [...badMasks, '/8', 'x', '', '10.0.0.256/8'];
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
    expect((await keys.make({ allowedIps })).apiKey.allowedIps).toEqual(allowedIps);
    expect((await keys.make()).apiKey.allowedIps).toEqual([]);
  });

  it('gets 400 with allowedPlantIds unless they are one or more plants of the organization [C-5.2]', async ({
    keys,
    other,
    ownTeam,
  }) => {
    const own = await ownTeam.newPlant();
    const foreign = await other.newPlant();
    for (const allowedPlantIds of [[], [foreign.id], [own.id, foreign.id], [ABSENT], ['x'], null, own.id]) {
      await expectError(await keys.post({ allowedPlantIds }), 400, 'VALIDATION_ERROR');
    }
    const texts = [foreign.id, ABSENT].map(async (id) => (await keys.post({ allowedPlantIds: [id] })).text());
    expect(new Set(await Promise.all(texts)).size).toBe(1);
    const { apiKey } = await keys.make({ allowedPlantIds: [own.id.toUpperCase()] });
    expect(apiKey.allowedPlantIds).toEqual([own.id]);
    expect((await keys.make()).apiKey.allowedPlantIds).toBeNull();
  });

  it('gets 400 with an expiry that is past or malformed [C-5.2]', async ({ keys }) => {
    const past = [Date.now() - 1, Date.now() - 86_400_000].map((atMs) => new Date(atMs).toISOString());
    const wrong = ['1970-01-01T00:00:00Z', '2099-02-30T00:00:00Z', '2099-01-01', null, 1];
    for (const expiresAt of [...past, ...wrong]) {
      await expectError(await keys.post({ expiresAt }), 400, 'VALIDATION_ERROR');
    }
    const { apiKey } = await keys.make({ expiresAt: '2099-01-01T02:00:00+02:00' });
    expect(apiKey).toMatchObject({ expiresAt: '2099-01-01T00:00:00.000Z', isActive: true });
  });

  it('gets 400 unless its name and its partnerId have 1 to 100 characters (spec: Limits)', async ({
    keys,
  }) => {
    for (const field of ['name', 'partnerId']) {
      for (const value of ['', ' ', 'x'.repeat(101), undefined, null, 1]) {
        await expectError(await keys.post({ [field]: value }), 400, 'VALIDATION_ERROR');
      }
      for (const value of ['x', 'ž'.repeat(100)]) {
        expect((await keys.make({ [field]: value })).apiKey).toMatchObject({ [field]: value });
      }
    }
  });

  it('gets 400 with fields that a client cannot set (bad input: REST)', async ({ keys, other, keyCount }) => {
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
      const body = `{${JSON.stringify(KEY_REQUEST).slice(1, -1)},${JSON.stringify(more).slice(1)}`;
      const response = await keys.ask('', { method: 'POST', body: JSON.parse(body) });
      await expectError(response, 400, 'VALIDATION_ERROR');
    }
    expect(await keyCount()).toBe(0);
  });

  it('gets 409 while the organization has 1 000 live keys [C-10]', async ({ keys, ownTeam }) => {
    await runSql(
      `INSERT INTO api_keys (id, organization_id, key_hash, key_prefix, name, partner_id, scopes, created_by, created_at_ms, updated_at_ms)
       WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
       SELECT lower(hex(randomblob(16))), ?1, hex(randomblob(32)), 'sw_00000000', 'n', 'p', '["vcp:read"]', ?2, i, i FROM n`,
      ownTeam.id,
      ownTeam.orgAdmin.id,
    );
    const { apiKey } = await keys.make();
    await expectError(await keys.post(), 409, 'CONFLICT');
    expect((await keys.ask(`/${apiKey.id}`, { method: 'DELETE' })).status).toBe(200);
    await keys.make();
    await expectError(await keys.post(), 409, 'CONFLICT');
  });
});
