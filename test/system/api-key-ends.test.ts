/** The test and the end of a key: a deleted or expired key is invalid everywhere from the next request on. */
import { afterEach, describe, expect, it } from 'vitest';
import { audited, KEYS, optionsOf, recordOf, wanted, withoutBridge } from '#support/api-keys.ts';
import { type Closable, openPartner, type Pace } from '#support/closable.ts';
import { openConnection } from '#support/returning-partner.ts';
import { eventually } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';
import type { ConnectionTest, CreatedApiKey } from '../../protocol/api-key-record.ts';
import { vhostOf } from '../../tools/objects.ts';
import { VCP_SCOPES } from '../../tools/seed.ts';

const CLOSED_WITHIN_MS = 1_000;
const LIFE_MS = 4_000;

const stack = suiteStack();
const clients: Closable[] = [];

afterEach(() => {
  for (const client of clients.splice(0)) client.stop();
});

async function clientOf(created: CreatedApiKey, pace: Pace): Promise<Closable> {
  const client = await openPartner(optionsOf(stack, created), stack.credentials.plantId, pace);
  clients.push(client);
  if (pace === 'busy') await eventually(() => client.taken > 3 || undefined);
  return client;
}

async function endOf(client: Closable): Promise<unknown> {
  return await eventually(() => client.end, CLOSED_WITHIN_MS);
}

async function remove({ apiKey }: CreatedApiKey): Promise<{ status: number; body: object }> {
  return await stack.admin.ask('DELETE', `${KEYS}/${apiKey.id}`);
}

async function test({ apiKey }: CreatedApiKey, key: string): Promise<ConnectionTest> {
  return await stack.admin.call('POST', `${KEYS}/${apiKey.id}/test-connection`, { key });
}

/** From this moment on the key is refused everywhere, and no event goes to its queues. */
async function expectDead(created: CreatedApiKey): Promise<void> {
  const reads = Array.from({ length: 20 }, () => stack.rest('/vcp/sites', created.key));
  const login = () => openConnection(optionsOf(stack, created)).then(() => 'accepted', String);
  const logins = [login(), login(), login()];
  const texts = new Set((await Promise.all(reads)).map((answer) => JSON.stringify(answer)));
  expect(texts.size).toBe(1);
  expect(JSON.parse([...texts][0] ?? '')).toMatchObject({ status: 401, body: { code: 'UNAUTHORIZED' } });
  for (const outcome of await Promise.all(logins)) expect(outcome).toContain('403 (ACCESS-REFUSED)');
  const vhost = await vhostOf(stack.edge.miniflare, created.apiKey.id);
  expect(await vhost.receivePassing('site', [])).toBe('gone');
}

describe('the deletion of a key', () => {
  it.each(['idle', 'busy'] as const)(
    'ends its %s connections within a second, and every later access is refused [C-5.6]',
    async (pace) => {
      const created = await stack.admin.createKey(wanted(VCP_SCOPES));
      const other = await stack.admin.createKey(wanted(VCP_SCOPES));
      const mine = [await clientOf(created, pace), await clientOf(created, pace)];
      const bystander = await clientOf(other, 'idle');
      expect((await stack.rest('/vcp/sites', created.key)).status).toBe(200);

      const beforeMs = Date.now();
      const { status, body } = await remove(created);
      const dead = expectDead(created);
      expect(await Promise.all(mine.map(endOf))).toEqual([320, 320]);
      await dead;
      const { id } = created.apiKey;
      expect([status, body]).toEqual([200, { id, isActive: false, revokedAt: expect.any(String) }]);
      const { revokedAt } = body as { revokedAt: string };
      expect(Date.parse(revokedAt)).toBeGreaterThanOrEqual(beforeMs);
      expect(await recordOf(stack, id)).toMatchObject({ isActive: false });
      expect([bystander.end, (await stack.rest('/vcp/sites', other.key)).status]).toEqual([undefined, 200]);
    },
  );

  it('ends connections that opened after a restart of the edge, and is still in force after another restart [C-5.6]', async () => {
    const created = await stack.admin.createKey(wanted(VCP_SCOPES));
    const before = await clientOf(created, 'idle');
    await stack.killEdge();
    expect(await eventually(() => before.end)).toBe(320);
    const idle = await clientOf(created, 'idle');
    await remove(created);
    expect(await endOf(idle)).toBe(320);
    await stack.killEdge();
    await expectDead(created);
  });

  it('gets the same answer when repeated, and is audited once [C-3.2]', async () => {
    const created = await stack.admin.createKey(wanted(VCP_SCOPES));
    const first = await remove(created);
    for (let time = 0; time < 2; time++) expect(await remove(created)).toEqual(first);
    expect(await audited(stack, 'api_key.revoked', created.apiKey.id)).toMatchObject([
      {
        outcome: 'SUCCESS',
        target: { type: 'API_KEY', id: created.apiKey.id },
        details: { keyPrefix: created.apiKey.keyPrefix },
      },
    ]);
    await expectDead(created);
  });

  it('ends its REST access if it has no vhost [C-5.6]', async () => {
    const created = await stack.admin.createKey(wanted(['vcp:read']));
    expect((await stack.rest('/vcp/sites', created.key)).status).toBe(200);
    await remove(created);
    await expectDead(created);
  });

  it('ends its connections at / if it has a legacy vhost [C-5.3]', async () => {
    const created = await stack.admin.createKey(wanted(['trading:connect']));
    const idle = await clientOf(created, 'idle');
    await remove(created);
    expect(await endOf(idle)).toBe(320);
    await expectDead(created);
  });
});

describe('the expiry of a key', () => {
  it('ends its connections and all access, and the key is listed as no longer active [C-5.6]', async () => {
    const expiresAtMs = Date.now() + LIFE_MS;
    const expiresAt = new Date(expiresAtMs).toISOString();
    const created = await stack.admin.createKey(wanted(VCP_SCOPES, { expiresAt }));
    const idle = await clientOf(created, 'idle');
    expect(await recordOf(stack, created.apiKey.id)).toMatchObject({ isActive: true, expiresAt });
    await eventually(() => Date.now() >= expiresAtMs || undefined);
    const dead = expectDead(created);
    expect(await endOf(idle)).toBe(320);
    await dead;
    expect(await recordOf(stack, created.apiKey.id)).toMatchObject({ isActive: false });
    expect(await remove(created)).toMatchObject({ status: 200, body: { isActive: false } });
  });
});

describe('the connection test of a key', () => {
  it('opens a real connection, and reports its duration [C-5.5]', async () => {
    const created = await stack.admin.createKey(wanted(VCP_SCOPES));
    const result = await test(created, created.key);
    expect(result).toEqual({ ok: true, durationMs: expect.any(Number) });
    expect(result.durationMs).toBeGreaterThan(0);
  });

  it('reports the problem: another key, no broker scopes, revoked, no listener [C-5.5]', async () => {
    const created = await stack.admin.createKey(wanted(VCP_SCOPES));
    const other = await stack.admin.createKey(wanted(['vcp:read']));
    const revoked = await stack.admin.createKey(wanted(VCP_SCOPES));
    await remove(revoked);
    const results = [
      await test(created, other.key),
      await test(created, `${created.key}x`),
      await test(other, other.key),
      await test(revoked, revoked.key),
      await withoutBridge(stack, () => test(created, created.key)),
    ];
    for (const result of results) {
      expect(result).toEqual({
        ok: false,
        durationMs: expect.any(Number),
        error: expect.stringMatching(/\S/),
      });
    }
    expect(new Set(results.map(({ error }) => error)).size).toBe(4);
    expect(await test(created, created.key)).toMatchObject({ ok: true });
    // Only where a probe ran: the last one, and the one without a bridge.
    const rows = await audited(stack, 'api_key.test_connection', created.apiKey.id);
    expect(rows.map(({ outcome }) => outcome)).toEqual(['SUCCESS', 'FAILURE']);
    expect(JSON.stringify(rows)).not.toContain(created.key);
  });

  it('leaves no connection open: ten clients can connect after ten tests [C-6.3]', async () => {
    const created = await stack.admin.createKey(wanted(VCP_SCOPES));
    for (let time = 0; time < 10; time++)
      expect(await test(created, created.key)).toMatchObject({ ok: true });
    const opened = await eventually(async () => {
      while (clients.length < 10) {
        const isIn = await clientOf(created, 'idle').catch(() => false);
        if (!isIn) return undefined;
      }
      return clients.length;
    });
    expect(opened).toBe(10);
  });
});

describe('the acknowledgement of a bundle', () => {
  it('is audited once, however often it is sent, and returns the key (spec: Audit events)', async () => {
    const created = await stack.admin.createKey(wanted(VCP_SCOPES));
    const { id } = created.apiKey;
    const path = `${KEYS}/${id}/acknowledge-bundle`;
    for (let time = 0; time < 3; time++) {
      expect(await stack.admin.call('POST', path, {})).toMatchObject({ id, isActive: true });
    }
    expect(await audited(stack, 'api_key.bundle_acknowledged', id)).toHaveLength(1);
  });
});
