/** What is shown of API keys over REST, and what an admin says of them: no secret, and each thing told once. */
import { env } from 'cloudflare:workers';
import { beforeEach, describe, expect, it } from 'vitest';
import type { ApiKeyRecord, ConnectionTest, CreatedApiKey } from '../../../protocol/api-key-record.ts';
import type { Page } from '../../../protocol/page.ts';
import { type ApiKeyScope, VCP_WRITE_SCOPES } from '../../../protocol/scopes.ts';
import { organizationOf } from '../../support/workerd/fleet.ts';
import { bodyOf, type Call, createTeam, type Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';
import { createKey } from '../../support/workerd/world.ts';

const KEYS = '/partner/api-keys';

let team: Team;

beforeEach(async () => {
  team = await createTeam();
});

function ask(path = '', options: Call = {}): Promise<Response> {
  return team.orgAdmin.call(`${KEYS}${path}`, { org: team.id, ...options });
}

async function make(fields: object = {}): Promise<CreatedApiKey> {
  const body = { name: 'Desk', partnerId: 'acme', scopes: ['vcp:read'], ...fields };
  return await bodyOf(await ask('', { method: 'POST', body }), 201);
}

async function list(query = ''): Promise<Page<ApiKeyRecord>> {
  return await bodyOf(await ask(query), 200);
}

async function remove(id: string): Promise<object> {
  return await bodyOf(await ask(`/${id}`, { method: 'DELETE' }), 200);
}

async function test(id: string, key: string): Promise<ConnectionTest> {
  return await bodyOf(await ask(`/${id}/test-connection`, { method: 'POST', body: { key } }), 200);
}

interface Told {
  event: string;
  actor: string;
  outcome: string;
  details: string;
}

/** The audit rows of a key, in the order of their writing. */
async function toldOf(id: string): Promise<Told[]> {
  const rows = env.DB.prepare(
    'SELECT event, actor, outcome, details FROM audit_events WHERE target = ? ORDER BY rowid',
  );
  return (await rows.bind(id).all<Told>()).results;
}

describe('what is shown of keys', () => {
  it('are their scopes as given, and what these come to [C-5.3]', async () => {
    const cases: [ApiKeyScope[], ApiKeyScope[]][] = [
      [
        ['vcp:read', 'plants:read'],
        ['vcp:read', 'plants:read'],
      ],
      [['trading:connect'], ['trading:connect', ...VCP_WRITE_SCOPES]],
      [
        ['trading:connect', 'vcp:read'],
        ['trading:connect', 'vcp:read'],
      ],
      [['trading:write'], ['trading:write']],
    ];
    for (const [scopes, effectiveScopes] of cases) {
      const { apiKey, connectionBundle } = await make({ scopes });
      expect([apiKey, connectionBundle]).toMatchObject([{ scopes, effectiveScopes, vhost: null }, null]);
      expect(await bodyOf(await ask(`/${apiKey.id}`), 200)).toEqual(apiKey);
    }
  });

  it('is a page, the newest first, none twice (spec: List endpoints)', async () => {
    const ids: string[] = [];
    for (let index = 0; index < 5; index++) ids.unshift((await make()).apiKey.id);
    // Of one moment: the order is still one.
    await env.DB.prepare('UPDATE api_keys SET created_at_ms = 1 WHERE id IN (?, ?)')
      .bind(ids[3], ids[4])
      .run();
    const wanted = [...ids.slice(0, 3), ...ids.slice(3).sort().reverse()];
    const pages = [await list('?limit=2'), await list('?limit=2&page=2'), await list('?limit=2&page=3')];
    expect(pages.flatMap(({ data }) => data.map(({ id }) => id))).toEqual(wanted);
    expect(pages[2]?.meta).toEqual({ page: 3, limit: 2, total: 5, totalPages: 3 });
    expect((await list()).meta).toEqual({ page: 1, limit: 20, total: 5, totalPages: 1 });
    for (const query of ['?limit=101', '?limit=0', '?page=0', '?page=1&page=2']) {
      await expectError(await ask(query), 400, 'VALIDATION_ERROR');
    }
  });

  it('is no secret, nor anything made from one (spec: API key management)', async () => {
    const { key, signingKey, apiKey } = await make();
    await remove(apiKey.id);
    const row = env.DB.prepare('SELECT key_hash FROM api_keys WHERE id = ?').bind(apiKey.id);
    const hash = String(await row.first('key_hash'));
    const audit = await team.admin.call('/audit-events', { org: team.id });
    for (const answer of [await ask(), await ask(`/${apiKey.id}`), audit]) {
      const text = await answer.text();
      expect(text).toContain(apiKey.id);
      for (const secret of [key, key.slice(11), signingKey, hash]) expect(text).not.toContain(secret);
    }
  });
});

describe('what an admin does with a key', () => {
  it('is told with who did it: made, acknowledged once, tested, revoked once (spec: Audit events)', async () => {
    const { key, apiKey } = await make({ name: 'Reader', partnerId: 'p-1' });
    const { id, keyPrefix, scopes } = apiKey;
    for (let time = 0; time < 3; time++) {
      const response = await ask(`/${id}/acknowledge-bundle`, { method: 'POST' });
      expect(await bodyOf(response, 200)).toMatchObject({ id, isActive: true });
    }
    await test(id, key);
    const first = await remove(id);
    expect(first).toEqual({ id, isActive: false, revokedAt: expect.stringMatching(/Z$/) });
    expect(await remove(id)).toEqual(first);
    const told = (await toldOf(id)).map((row) => ({ ...row, details: JSON.parse(row.details) as object }));
    const actor = team.orgAdmin.id;
    const details = { name: 'Reader', partnerId: 'p-1', scopes, keyPrefix };
    expect(told).toEqual([
      { event: 'api_key.created', actor, outcome: 'SUCCESS', details },
      { event: 'api_key.bundle_acknowledged', actor, outcome: 'SUCCESS', details: { keyPrefix } },
      {
        event: 'api_key.test_connection',
        actor,
        outcome: 'FAILURE',
        details: expect.objectContaining({ keyPrefix, ok: false }),
      },
      { event: 'api_key.revoked', actor, outcome: 'SUCCESS', details: { keyPrefix } },
    ]);
  });

  it('to revoke it, twice at once, is one revocation and answered alike [C-3.2]', async () => {
    const { apiKey } = await make();
    const answers = await Promise.all([1, 2, 3].map(() => remove(apiKey.id)));
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
    const revoked = (await toldOf(apiKey.id)).filter(({ event }) => event === 'api_key.revoked');
    expect(revoked).toHaveLength(1);
  });

  it('changes when it was last changed, and never when it was made [C-5.2]', async () => {
    const { apiKey } = await make();
    await env.DB.prepare('UPDATE api_keys SET updated_at_ms = 1, created_at_ms = 1').run();
    await remove(apiKey.id);
    const { createdAt, updatedAt } = await bodyOf<ApiKeyRecord>(await ask(`/${apiKey.id}`), 200);
    expect([createdAt, Date.parse(updatedAt) > 1]).toEqual(['1970-01-01T00:00:00.001Z', true]);
  });
});

describe('the connection test', () => {
  it('dials nobody with another key, without broker scopes, revoked or expired [C-5.5]', async () => {
    const organization = organizationOf(team);
    const [good, other] = [await createKey(organization), await createKey(organization)];
    const { key, apiKey } = await make();
    const revoked = await createKey(organization, { revokedAtMs: 1 });
    const expired = await createKey(organization, { expiresAtMs: 1 });
    const cases: [string, string, RegExp][] = [
      [good.id, other.key, /another key/],
      [good.id, `${good.key.slice(0, -1)}_`, /another key/],
      [good.id, '', /another key/],
      [revoked.id, good.key, /another key/],
      [apiKey.id, key, /broker scopes/],
      [revoked.id, revoked.key, /revoked or has expired/],
      [expired.id, expired.key, /revoked or has expired/],
      [good.id, good.key, /no AMQP listener/],
    ];
    for (const [id, plaintext, error] of cases) {
      expect(await test(id, plaintext)).toEqual({
        ok: false,
        durationMs: 0,
        error: expect.stringMatching(error),
      });
    }
    const [made, ...tests] = await toldOf(good.id);
    expect(made?.event).toBe('api_key.created');
    expect(tests.map(({ outcome }) => outcome)).toEqual(Array(4).fill('FAILURE'));
    expect(JSON.stringify(tests)).not.toContain(other.key);
  });

  it('takes the key and nothing else (bad input: REST)', async () => {
    const { key, apiKey } = await make();
    for (const body of [{}, { key: null }, { key: 'x'.repeat(201) }, { key, host: 'example.org' }, [], 'x']) {
      const response = await ask(`/${apiKey.id}/test-connection`, { method: 'POST', body });
      await expectError(response, 400, 'VALIDATION_ERROR');
    }
  });
});
