/**
 * A key while it is probed: the nonce of its probe opens one connection, and nothing else may use the key.
 * Housekeeping discards a key whose creation did not finish.
 */
import { env } from 'cloudflare:workers';
import { afterEach, vi } from 'vitest';
import { auditOf, done, markDelivered } from '#workerd/commits.ts';
import { runSql } from '#workerd/d1.ts';
import { dialAmqp, dialRows, lastUsedAtMs } from '#workerd/door.ts';
import { dialVhost, openLink, openVhost, type VhostTestLink } from '#workerd/links.ts';
import { hand } from '#workerd/outbox-events.ts';
import { Partner, vhostRows } from '#workerd/partner.ts';
import { send } from '#workerd/rest.ts';
import { setScene } from '#workerd/scene.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import {
  createKey,
  type Key,
  type KeyOptions,
  type Organization,
  randomHex,
  vhostOf,
} from '#workerd/world.ts';
import type { Env } from '../../../durable-objects/env.ts';
import { apiKeyPrefix } from '../../../protocol/api-key.ts';
import type { ApiKeyRecord } from '../../../protocol/api-key-record.ts';
import type { Page } from '../../../protocol/page.ts';
import { activateKey, deleteProbingKey, prepareProbe, strandedKeys } from '../../../registry/api-keys.ts';
import { keepHouse } from '../../../worker/lifecycle/housekeeping.ts';

const STRANDED_MS = 2 * 60_000;
const ADDRESS = '192.0.2.7';
const ELSEWHERE = ['198.51.100.0/24'];

afterEach(async () => {
  for (const id of await strandedKeys(env.DB, Number.MAX_SAFE_INTEGER, 100))
    await deleteProbingKey(env.DB, id);
});

/** Prepares the next probe of a key and returns its nonce. */
async function prepare(key: Key): Promise<string> {
  const nonce = randomHex(16);
  await prepareProbe(env.DB, key.id, nonce);
  return nonce;
}

async function activate(organization: Organization, { id }: Key): Promise<void> {
  const audit = auditOf(organization, 'api_key.created', 'API_KEY')(id);
  const key = { id, organizationId: organization.id, createdBy: organization.adminId };
  await markDelivered(done(await activateKey(env.DB, key, audit, Date.now())));
}

async function newProbed(options: KeyOptions = {}) {
  const { organization, key } = await setScene({ key: { state: 'probing', ...options } });
  return { organization, key, nonce: await prepare(key) };
}

const it = test.extend('probed', () => newProbed());

/** Dials as a bridge does, with the nonce that its client sent; '' is a client that sends none. */
async function dial(
  organization: Organization,
  key: Pick<Key, 'key'>,
  probe: string,
  username = organization.slug,
): Promise<Response> {
  return await dialAmqp(organization, key, { proof: { probe, address: ADDRESS }, username });
}

async function stateOf({ id }: Key): Promise<string | null> {
  return await env.DB.prepare('SELECT state FROM api_keys WHERE id = ?').bind(id).first('state');
}

describe('a key that is being probed', () => {
  it('gets the 401 of an unknown key from REST, and from AMQP without the nonce of its probe [C-5.4]', async ({
    probed,
  }) => {
    const { organization, key } = probed;
    const unknown = `${key.key.slice(0, -1)}_`;
    const [answer, absent] = [key.key, unknown].map((plaintext) =>
      send('/api/v1/vcp/sites', { key: plaintext }),
    );
    expect(await (await answer)?.clone().text()).toBe(await (await absent)?.text());
    await expectError((await answer) as Response, 401, 'UNAUTHORIZED');
    for (const nonce of ['', randomHex(16), randomHex(16)]) {
      await expectError(await dial(organization, key, nonce), 401, 'UNAUTHORIZED');
    }
    expect(await lastUsedAtMs(key.id)).toBeNull();
  });

  it('is not in the list of keys; its routes get 404, also for an ORG_ADMIN [C-5.4]', async ({ team }) => {
    const [{ orgAdmin: by }, org] = [team, team.id];
    const key = await createKey(team.organization, { state: 'probing' });
    await prepare(key);
    const path = `/partner/api-keys/${key.id}`;
    const answers = [
      by.call(path, { org }),
      by.delete(path, { org }),
      by.post(`${path}/test-connection`, { key: key.key }, { org }),
      by.post(`${path}/acknowledge-bundle`, undefined, { org }),
    ];
    for (const answer of await Promise.all(answers)) await expectError(answer, 404, 'API_KEY_NOT_FOUND');
    const { data, meta } = await by.read<Page<ApiKeyRecord>>('/partner/api-keys', { org });
    expect([data, meta.total]).toEqual([[], 0]);
    expect(await stateOf(key)).toBe('probing');
  });

  it.each(['probing', 'active'] as const)(
    'the nonce of a probe opens one connection of a key that is %s [C-5.4]',
    async (state) => {
      const { organization, key, nonce } = await newProbed({ state, allowedIps: ELSEWHERE });
      const answers = await Promise.all([1, 2, 3].map(() => dial(organization, key, nonce)));
      const statuses = answers.map(({ status }) => status).sort();
      const refused = state === 'probing' ? 401 : 403;
      expect(statuses).toEqual([101, refused, refused]);
      expect((await dial(organization, key, nonce)).status).toBe(refused);
    },
  );

  it('a dial with another nonce, key or user name gets 401, and the nonce stays valid [C-5.4]', async ({
    probed,
  }) => {
    const { organization, key, nonce } = probed;
    const sibling = await createKey(organization, { state: 'probing' });
    const other = await prepare(sibling);
    await expectError(await dial(organization, key, other), 401, 'UNAUTHORIZED');
    await expectError(await dial(organization, sibling, nonce), 401, 'UNAUTHORIZED');
    const flipped = `${nonce.slice(0, -1)}${nonce.endsWith('0') ? '1' : '0'}`;
    await expectError(await dial(organization, key, flipped), 401, 'UNAUTHORIZED');
    expect((await dial(organization, key, nonce)).status).toBe(101);
    await expectError(await dial(organization, sibling, other, sibling.id), 401, 'UNAUTHORIZED');
  });

  it('a probe ignores allowedIps; the partner’s connection does not [C-5.4]', async () => {
    const { organization, key, nonce } = await newProbed({ state: 'active', allowedIps: ELSEWHERE });
    await expectError(await dial(organization, key, ''), 403, 'FORBIDDEN');
    expect((await dial(organization, key, nonce)).status).toBe(101);
    await expectError(await dial(organization, key, nonce), 403, 'FORBIDDEN');
  });

  it('a probe of a revoked key gets 401 and the audit row of a wrong key; of a key without a connect scope, 403 and no audit row [C-5.3]', async () => {
    const { organization, key, nonce } = await newProbed({ revokedAtMs: Date.now() });
    await expectError(await dial(organization, key, nonce), 401, 'UNAUTHORIZED');
    const details = JSON.stringify({ reason: 'revoked key', keyPrefix: apiKeyPrefix(key.key) });
    const row = { event: 'partner.connection_refused', target: key.id, details };
    expect(await dialRows(organization.id)).toMatchObject([row]);
    const scopeless = await newProbed({ scopes: ['vcp:write:setpoint'] });
    const refused = await dial(scopeless.organization, scopeless.key, scopeless.nonce);
    await expectError(refused, 403, 'FORBIDDEN');
    expect(await dialRows(scopeless.organization.id)).toEqual([]);
  });
});

describe('the connection of a probe', () => {
  it('is not audited, sets no lastUsedAt and leaves no event in the queues [C-5.4]', async ({ probed }) => {
    const { organization, key, nonce } = probed;
    const link: VhostTestLink = openLink(await dial(organization, key, nonce));
    const queue = `vcp.${organization.slug}.event.status`;
    await openVhost(link, `partner-${key.id}`);
    const passive = { durable: true, exclusive: false, autoDelete: false, arguments: [] };
    link.send({ kind: 'declare', seq: 1, queue, passive: true, ...passive });
    expect(await link.next((frame) => frame.kind === 'ok')).toMatchObject({ seq: 1 });
    await hand(key, crypto.randomUUID(), 1, 3);

    await activate(organization, key);
    const fromMs = Date.now();
    const partner = new Partner(openLink(await dialVhost(key.id)), organization, key);
    expect(await partner.readyCount('event.status')).toBe(0);
    expect([await dialRows(organization.id), await lastUsedAtMs(key.id)]).toEqual([[], null]);
    // Both are written at most once a minute: those of the probe would show here.
    await openVhost(partner.link, `partner-${key.id}`);
    await vi.waitFor(async () => expect(await lastUsedAtMs(key.id)).toBeGreaterThanOrEqual(fromMs));
    await vi.waitFor(async () => expect(await dialRows(organization.id)).toHaveLength(1));
  });
});

describe('a key whose creation did not finish', () => {
  it('is deleted with its vhost by housekeeping after two minutes, and not before [C-5.4]', async ({
    probed,
  }) => {
    const { organization, key, nonce } = probed;
    const active = await createKey(organization);
    const createdAtMs = Date.now() - 10 * STRANDED_MS;
    const age = 'UPDATE api_keys SET created_at_ms = ? WHERE organization_id = ?';
    await runSql(age, createdAtMs, organization.id);
    await keepHouse(env, createdAtMs + STRANDED_MS);
    expect(await stateOf(key)).toBe('probing');
    await keepHouse(env, createdAtMs + STRANDED_MS + 1);
    expect([await stateOf(key), await stateOf(active)]).toEqual([null, 'active']);
    expect((await dialVhost(key.id)).status).toBe(401);
    await expectError(await dial(organization, key, nonce), 401, 'UNAUTHORIZED');
    expect(JSON.stringify(await vhostRows(key, 'SELECT * FROM fact'))).not.toContain(organization.slug);
    expect((await dial(organization, active, '')).status).toBe(101);
  });

  it('is kept by housekeeping as long as its vhost cannot be deleted [C-5.4]', async ({ probed }) => {
    const { key } = probed;
    vi.spyOn(console, 'error').mockReturnValue(undefined);
    const later = Date.now() + STRANDED_MS + 1_000;
    const discard = () => Promise.reject(new Error('the test wants it so'));
    const VHOST = { idFromName: (name: string) => name, get: () => ({ discard }) };
    await keepHouse({ ...env, VHOST: VHOST as unknown as Env['VHOST'] }, later);
    expect(await stateOf(key)).toBe('probing');
    expect(await vhostOf(key.id).receivePassing('site', [])).toBe('taken');
    await keepHouse(env, later);
    expect(await stateOf(key)).toBeNull();
    expect(await vhostOf(key.id).receivePassing('site', [])).toBe('gone');
  });
});
