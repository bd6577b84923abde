/** What REST and the audit trail show of API keys: no secret, and no action of an admin twice. */
import { bodyOf } from '#workerd/client.ts';
import { rowsFrom, runSql, valueFrom } from '#workerd/d1.ts';
import type { AuditRow } from '#workerd/door.ts';
import { keyAdminTest as it } from '#workerd/key-admin.ts';
import { describe, expect, expectError } from '#workerd/worker-test.ts';
import { type ApiKeyScope, VCP_WRITE_SCOPES } from '../../../protocol/scopes.ts';

type AuditedRow = Pick<AuditRow, 'event' | 'actor' | 'outcome' | 'details'>;

/** The audit rows of a key, in the order of their writing. */
async function auditedOf(id: string): Promise<AuditedRow[]> {
  const sql = 'SELECT event, actor, outcome, details FROM audit_events WHERE target = ? ORDER BY rowid';
  return await rowsFrom<AuditedRow>(sql, id);
}

describe('the answers about API keys', () => {
  it('a key shows its scopes as given and its effective scopes [C-5.3]', async ({ keys }) => {
    const cases: [given: ApiKeyScope[], effective?: ApiKeyScope[]][] = [
      [['vcp:read', 'plants:read']],
      [['trading:connect'], ['trading:connect', ...VCP_WRITE_SCOPES]],
      [['trading:connect', 'vcp:read']],
      [['trading:write']],
    ];
    const { apiKey: once } = await keys.make({ scopes: ['vcp:read', 'plants:read', 'vcp:read'] });
    expect(once.scopes).toEqual(['vcp:read', 'plants:read']);
    for (const [scopes, effectiveScopes = scopes] of cases) {
      const { apiKey, connectionBundle } = await keys.make({ scopes });
      expect([apiKey, connectionBundle]).toMatchObject([{ scopes, effectiveScopes, vhost: null }, null]);
      expect(await keys.read(apiKey.id)).toEqual(apiKey);
    }
  });

  it('keys are listed in pages, the newest first (spec: List endpoints)', async ({ keys }) => {
    const ids: string[] = [];
    for (let index = 0; index < 5; index++) ids.unshift((await keys.make()).apiKey.id);
    // Two keys of one millisecond still have a fixed order.
    await runSql('UPDATE api_keys SET created_at_ms = 1 WHERE id IN (?, ?)', ids[3], ids[4]);
    const wanted = [...ids.slice(0, 3), ...ids.slice(3).sort().reverse()];
    const pages = [
      await keys.list('?limit=2'),
      await keys.list('?limit=2&page=2'),
      await keys.list('?limit=2&page=3'),
    ];
    expect(pages.flatMap(({ data }) => data.map(({ id }) => id))).toEqual(wanted);
    expect(pages[2]?.meta).toEqual({ page: 3, limit: 2, total: 5, totalPages: 3 });
    expect((await keys.list()).meta).toEqual({ page: 1, limit: 20, total: 5, totalPages: 1 });
    for (const query of ['?limit=101', '?limit=0', '?page=0', '?page=1&page=2']) {
      await expectError(await keys.ask(query), 400, 'VALIDATION_ERROR');
    }
  });

  it('after the creation of a key no answer has a secret of it (spec: API key management)', async ({
    keys,
    ownTeam,
  }) => {
    const { key, signingKey, apiKey } = await keys.make();
    await keys.revoke(apiKey.id);
    const hash = String(await valueFrom('SELECT key_hash FROM api_keys WHERE id = ?', apiKey.id));
    const audit = await ownTeam.admin.call('/audit-events', { org: ownTeam.id });
    for (const answer of [await keys.ask(), await keys.ask(`/${apiKey.id}`), audit]) {
      const text = await answer.text();
      expect(text).toContain(apiKey.id);
      for (const secret of [key, key.slice(11), signingKey, hash]) expect(text).not.toContain(secret);
    }
  });
});

describe('the actions of an admin on a key', () => {
  it('a creation, a bundle’s acknowledgement and a revocation are audited, a repetition is not (spec: Audit events)', async ({
    keys,
    ownTeam,
  }) => {
    const { key, apiKey } = await keys.make({ name: 'Reader', partnerId: 'p-1' });
    const { id, keyPrefix, scopes } = apiKey;
    for (let time = 0; time < 3; time++) {
      const response = await keys.ask(`/${id}/acknowledge-bundle`, { method: 'POST' });
      expect(await bodyOf(response, 200)).toMatchObject({ id, isActive: true });
    }
    // No probe runs for a key without a vhost, so that is not audited.
    await keys.test(id, key);
    const first = await keys.revoke(id);
    expect(first).toEqual({ id, isActive: false, revokedAt: expect.stringMatching(/Z$/) });
    expect(await keys.revoke(id)).toEqual(first);
    const rows = (await auditedOf(id)).map((row) => ({ ...row, details: JSON.parse(row.details) as object }));
    const actor = ownTeam.orgAdmin.id;
    const details = { name: 'Reader', partnerId: 'p-1', sees: 'PARTNER', scopes, keyPrefix };
    expect(rows).toEqual([
      { event: 'api_key.created', actor, outcome: 'SUCCESS', details },
      { event: 'api_key.bundle_acknowledged', actor, outcome: 'SUCCESS', details: { keyPrefix } },
      { event: 'api_key.revoked', actor, outcome: 'SUCCESS', details: { keyPrefix } },
    ]);
  });

  it('concurrent revocations get the same answer and are audited once [C-3.2]', async ({ keys }) => {
    const { apiKey } = await keys.make();
    const answers = await Promise.all([1, 2, 3].map(() => keys.revoke(apiKey.id)));
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
    const revoked = (await auditedOf(apiKey.id)).filter(({ event }) => event === 'api_key.revoked');
    expect(revoked).toHaveLength(1);
  });

  it('a repeated revocation does not raise the registry version [C-5.6]', async ({ keys }) => {
    const { apiKey } = await keys.make();
    await keys.revoke(apiKey.id);
    const version = () => valueFrom('SELECT max(registry_version) FROM organizations');
    const before = await version();
    await keys.revoke(apiKey.id);
    expect(await version()).toBe(before);
  });

  it('a revocation changes updatedAt and not createdAt [C-5.2]', async ({ keys }) => {
    const { apiKey } = await keys.make();
    await runSql('UPDATE api_keys SET updated_at_ms = 1, created_at_ms = 1');
    await keys.revoke(apiKey.id);
    const { createdAt, updatedAt } = await keys.read(apiKey.id);
    expect([createdAt, Date.parse(updatedAt) > 1]).toEqual(['1970-01-01T00:00:00.001Z', true]);
  });
});

describe('the connection test', () => {
  it('fails before it connects if the key is wrong, ended or without broker scopes, or no listener is set [C-5.5]', async ({
    keys,
    ownTeam,
  }) => {
    const [good, second] = [await ownTeam.newKey(), await ownTeam.newKey()];
    const { key, apiKey } = await keys.make();
    const revoked = await ownTeam.newKey(undefined, { revokedAtMs: 1 });
    const expired = await ownTeam.newKey(undefined, { expiresAtMs: 1 });
    const cases: [string, string, RegExp][] = [
      [good.id, second.key, /another key/],
      [good.id, `${good.key.slice(0, -1)}_`, /another key/],
      [good.id, '', /another key/],
      [revoked.id, good.key, /another key/],
      [apiKey.id, key, /broker scopes/],
      [revoked.id, revoked.key, /revoked or has expired/],
      [expired.id, expired.key, /revoked or has expired/],
      [good.id, good.key, /no AMQP listener/],
    ];
    for (const [id, plaintext, error] of cases) {
      const failure = { ok: false, durationMs: 0, error: expect.stringMatching(error) };
      expect(await keys.test(id, plaintext)).toEqual(failure);
    }
    const [made, ...tests] = await auditedOf(good.id);
    expect(made?.event).toBe('api_key.created');
    // Only the last one was a probe [C-14.3].
    expect(tests.map(({ outcome }) => outcome)).toEqual(['FAILURE']);
    expect(JSON.stringify(tests)).not.toContain(second.key);
  });

  it('gets 400 unless its body has the key and nothing else (bad input: REST)', async ({ keys }) => {
    const { key, apiKey } = await keys.make();
    for (const body of [{}, { key: null }, { key: 'x'.repeat(201) }, { key, host: 'example.org' }, [], 'x']) {
      const response = await keys.ask(`/${apiKey.id}/test-connection`, { method: 'POST', body });
      await expectError(response, 400, 'VALIDATION_ERROR');
    }
  });
});
