/** Webhooks over REST: who may manage them, how they are made, shown, changed and deleted [C-12.4]. */
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import type { Call } from '#workerd/client.ts';
import { rowsFrom } from '#workerd/d1.ts';
import { operator } from '#workerd/operator.ts';
import { webhookTest as it, WEBHOOKS, type WebhookAdmin } from '#workerd/webhooks.ts';
import {
  describe,
  expect,
  expectError,
  expectInvalid,
  expectSameError,
  INSTANT,
  UUID,
} from '#workerd/worker-test.ts';
import { createKey } from '#workerd/world.ts';
import { eraseRemains } from '../../../worker/lifecycle/organization-end.ts';

const ABSENT = 'ffffffff-ffff-4fff-8fff-ffffffffffff';
const SINCE = { since: '2026-01-15T10:00:00Z' };

/** Every route of one webhook. */
const OF_ONE: [path: string, options: Call][] = [
  ['', {}],
  ['', { method: 'PATCH', body: { description: 'x' } }],
  ['/test', { method: 'POST' }],
  ['/attempts', {}],
  ['/recover', { method: 'POST', body: SINCE }],
  ['/resend', { method: 'POST', body: { sequence: 1 } }],
  ['/rotate-secret', { method: 'POST' }],
  ['/enable', { method: 'POST' }],
  ['', { method: 'DELETE' }],
];

function routesOf(id: string, hooks: WebhookAdmin): [path: string, options: Call][] {
  const made = { url: 'https://hooks.example.com/', keyId: hooks.key.id, types: ['ack'] };
  const all: [string, Call][] = [
    ['', {}],
    ['', { method: 'POST', body: made }],
  ];
  return [...all, ...OF_ONE.map(([path, options]): [string, Call] => [`/${id}${path}`, options])];
}

/** The rows of the organization's webhooks, with everything that the registry has of them. */
function rowsOf({ team }: WebhookAdmin): Promise<unknown[]> {
  return rowsFrom('SELECT * FROM webhooks WHERE organization_id = ? ORDER BY id', team.id);
}

/** Revokes the key of the webhooks, as its ORG_ADMIN does. */
async function revokeKey({ team, key }: WebhookAdmin): Promise<void> {
  await team.orgAdmin.remove(`/partner/api-keys/${key.id}`, { org: team.id });
}

describe('the routes of webhooks', () => {
  it('answer roles below ORG_ADMIN with 403 and API keys with 401, and change nothing [C-12.4]', async ({
    hooks,
  }) => {
    const { team, key } = hooks;
    const id = await hooks.makeEnabled();
    const before = await rowsOf(hooks);
    for (const [path, options] of routesOf(id, hooks)) {
      for (const by of [team.viewer, team.operator, team.admin])
        await expectError(await hooks.ask(path, options, by), 403, 'INSUFFICIENT_ORG_PERMISSIONS');
      const byKey = await key.call(`${WEBHOOKS}${path}`, { ...options, org: team.id });
      await expectError(byKey, 401, 'UNAUTHORIZED');
    }
    expect(await rowsOf(hooks)).toEqual(before);
  });

  it('need x-org-id [C-12.4]', async ({ hooks }) => {
    const { id } = (await hooks.make()).webhook;
    for (const [path, options] of routesOf(id, hooks)) {
      const response = await hooks.team.orgAdmin.call(`${WEBHOOKS}${path}`, options);
      await expectError(response, 400, 'ORG_CONTEXT_REQUIRED');
    }
    expect(await hooks.count()).toBe(1);
  });

  it('answer for a webhook of another organization as for an absent one, byte for byte [C-12.4] [C-1.3]', async ({
    hooks,
    other,
    receiver,
  }) => {
    const id = await hooks.makeEnabled();
    const [before, posts] = [await rowsOf(hooks), receiver.received.length];
    for (const [path, options] of OF_ONE) {
      const foreign = other.orgAdmin.call(`${WEBHOOKS}/${id}${path}`, { ...options, org: other.id });
      await expectSameError([hooks.ask(`/${ABSENT}${path}`, options), foreign], 404, 'NOT_FOUND');
      await expectError(await hooks.ask(`/nobody${path}`, options), 400, 'INVALID_UUID');
    }
    expect(await rowsOf(hooks)).toEqual(before);
    expect(receiver.received).toHaveLength(posts);
    const theirs = await other.orgAdmin.read<{ data: object[] }>(WEBHOOKS, { org: other.id });
    expect(theirs.data).toEqual([]);
  });
});

describe('POST /partner/webhooks', () => {
  it('makes a webhook that is PENDING until its receiver has answered webhook.verify [C-12.4]', async ({
    hooks,
    receiver,
  }) => {
    const { promise: answered, resolve: answer } = Promise.withResolvers<Response>();
    receiver.answer = () => answered;
    const { webhook, secret } = await hooks.make({ types: ['ack', 'alarm'], description: 'Desk' });
    const at = webhook.createdAt;
    expect(webhook).toEqual({
      ...{ id: UUID, keyId: hooks.key.id, url: receiver.url, types: ['ack', 'alarm'], siteIds: null },
      ...{ description: 'Desk', status: 'PENDING', statusReason: null, statusAt: at },
      ...{ previousSecretUntil: null, createdAt: INSTANT, updatedAt: at },
    });
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    await hooks.send('ack');
    expect((await hooks.read(webhook.id)).status).toBe('PENDING');
    expect(receiver.typesOf()).toEqual(['webhook.verify']);
    answer(new Response(null, { status: 204 }));
    await hooks.until(webhook.id, 'ENABLED');
    await receiver.ids(1);
    const enabled = await hooks.read(webhook.id);
    expect(enabled).toMatchObject({ ...webhook, status: 'ENABLED', statusAt: INSTANT });
    expect(await hooks.list()).toEqual([expect.objectContaining({ id: webhook.id, status: 'ENABLED' })]);
  });

  it('shows the secret once, and never in a list, an item or the audit log [C-12.4]', async ({ hooks }) => {
    const { webhook, secret } = await hooks.make();
    const rotated = (await (await hooks.act(webhook.id, 'rotate-secret')).json()) as { secret: string };
    expect(rotated.secret).not.toBe(secret);
    await hooks.patch(webhook.id, { description: 'x' });
    await hooks.act(webhook.id, 'test');
    const shown = JSON.stringify([
      await hooks.list(),
      await hooks.read(webhook.id),
      await hooks.attempts(webhook.id),
      await rowsOf(hooks),
      await hooks.team.eventsAbout(webhook.id),
    ]);
    for (const one of [secret, rotated.secret]) expect(shown).not.toContain(one.slice('whsec_'.length));
    expect(shown).not.toMatch(/whsec_/);
  });

  it('accepts the sites of the key, in upper and lower case, and null for all [C-12.4]', async ({
    hooks,
  }) => {
    const { id: siteId } = await hooks.team.newPlant();
    const { webhook } = await hooks.make({ siteIds: [siteId.toUpperCase()] });
    expect(webhook.siteIds).toEqual([siteId]);
    expect((await hooks.make({ siteIds: null })).webhook.siteIds).toBeNull();
  });

  it.for([['vcp:read'], ['vcp:connect'], ['trading:connect']] as const)(
    'accepts a key with the scope %s [C-12.4]',
    async ([scope], { hooks }) => {
      const key = await hooks.team.newKey([scope]);
      expect((await hooks.make({ keyId: key.id })).webhook.keyId).toBe(key.id);
    },
  );

  it('answers a key without events 409, and a revoked or an expired one, too [C-12.4]', async ({ hooks }) => {
    const { team } = hooks;
    const blind = await team.newKey(['plants:read', 'config:read']);
    const revoked = await team.newKey(['vcp:read'], { revokedAtMs: Date.now() });
    const expired = await team.newKey(['vcp:read'], { expiresAtMs: Date.now() - 1 });
    const texts = [];
    for (const { id: keyId } of [blind, revoked, expired])
      texts.push((await expectError(await hooks.post({ keyId }), 409, 'CONFLICT')).message);
    expect(texts[0]).toContain('vcp:read');
    expect(texts.slice(1)).toEqual(Array(2).fill(expect.stringContaining('revoked or has expired')));
    expect(await hooks.count()).toBe(0);
  });

  it('answers a foreign key like an absent one, and a hidden or foreign site like an absent one [C-1.3]', async ({
    hooks,
    other,
  }) => {
    const { team } = hooks;
    const foreignKey = await other.newKey();
    const keys = [foreignKey.id, ABSENT].map((keyId) => hooks.post({ keyId }));
    await expectSameError(keys, 404, 'API_KEY_NOT_FOUND');
    const [own, hidden, foreign] = [await team.newPlant(), await team.newPlant(), await other.newPlant()];
    const limited = await createKey(team.organization, { allowedPlantIds: [own.id] });
    const { webhook } = await hooks.make({ keyId: limited.id, siteIds: [own.id] });
    const before = await rowsOf(hooks);
    const sites = [hidden.id, foreign.id, ABSENT];
    const posted = sites.map((id) => hooks.post({ keyId: limited.id, siteIds: [own.id, id] }));
    await expectSameError(posted, 400, 'VALIDATION_ERROR');
    const patched = sites.map((id) => hooks.patch(webhook.id, { siteIds: [own.id, id] }));
    await expectSameError(patched, 400, 'VALIDATION_ERROR');
    const all = await hooks.post({ keyId: limited.id, siteIds: [hidden.id, own.id, ABSENT] });
    expect((await expectError(all, 400, 'VALIDATION_ERROR')).details).toEqual([
      'siteIds.0: the API key sees no site with this id',
      'siteIds.2: the API key sees no site with this id',
    ]);
    expect(await rowsOf(hooks)).toEqual(before);
  });

  it('makes 16 webhooks for a key and no 17th, even of 20 requests at once [C-12.4]', async ({ hooks }) => {
    const at = await Promise.all(Array.from({ length: 20 }, () => hooks.post()));
    const statuses = at.map(({ status }) => status).sort();
    expect(statuses).toEqual([...Array(16).fill(201), ...Array(4).fill(409)]);
    expect(await hooks.count()).toBe(16);
    const { message } = await expectError(await hooks.post(), 409, 'CONFLICT');
    expect(message).toContain('limit of 16 webhooks');
    const audited = await rowsFrom(
      `SELECT id FROM audit_events WHERE organization_id = ? AND event = 'webhook.created'`,
      hooks.team.id,
    );
    expect(audited).toHaveLength(16);
    const another = await hooks.team.newKey();
    await hooks.make({ keyId: another.id });
    const [{ id = '' } = {}] = await hooks.list(`?keyId=${hooks.key.id}`);
    expect((await hooks.ask(`/${id}`, { method: 'DELETE' })).status).toBe(200);
    await hooks.make();
    expect(await hooks.count()).toBe(17);
  });
});

describe('GET /partner/webhooks', () => {
  it('lists the webhooks newest first, in pages, and those of one key [C-12.4]', async ({ hooks, other }) => {
    const another = await hooks.team.newKey();
    const ids: string[] = [];
    vi.useFakeTimers({ toFake: ['Date'] });
    const now = Date.now();
    for (const [index, keyId] of [hooks.key.id, another.id, hooks.key.id].entries()) {
      vi.setSystemTime(now + index);
      ids.unshift((await hooks.make({ keyId })).webhook.id);
    }
    expect((await hooks.list()).map(({ id }) => id)).toEqual(ids);
    expect((await hooks.list('?page=2&limit=2')).map(({ id }) => id)).toEqual(ids.slice(2));
    expect((await hooks.list(`?keyId=${another.id}`)).map(({ id }) => id)).toEqual([ids[1]]);
    const foreign = await other.newKey();
    for (const keyId of [ABSENT, foreign.id]) expect(await hooks.list(`?keyId=${keyId}`)).toEqual([]);
    for (const query of ['keyId=x', 'limit=0', 'limit=101', 'page=0'])
      await expectInvalid(await hooks.ask(`?${query}`), query.slice(0, query.indexOf('=')));
  });
});

describe('a webhook whose key has ended', () => {
  async function expectEnded(hooks: WebhookAdmin, id: string): Promise<void> {
    const ended = { status: 'DISABLED', statusReason: 'KEY_ENDED', statusAt: INSTANT };
    expect(await hooks.list()).toMatchObject([ended]);
    expect(await hooks.read(id)).toMatchObject({ ...ended, delivery: null });
    for (const action of ['test', 'enable', 'recover'])
      await expectError(
        await hooks.act(id, action, action === 'recover' ? SINCE : undefined),
        409,
        'CONFLICT',
      );
    await expectError(await hooks.ask(`/${id}/attempts`), 409, 'CONFLICT');
    await expectError(await hooks.patch(id, { description: 'x' }), 409, 'CONFLICT');
    expect((await hooks.ask(`/${id}`, { method: 'DELETE' })).status).toBe(200);
    expect(await hooks.count()).toBe(0);
  }

  it('is DISABLED with the reason KEY_ENDED after the key was revoked, and can be deleted [C-12.4]', async ({
    hooks,
  }) => {
    const id = await hooks.makeEnabled();
    await revokeKey(hooks);
    await expectEnded(hooks, id);
  });

  it('is DISABLED with the reason KEY_ENDED after the key has expired, and can be deleted [C-12.4]', async ({
    hooks,
  }) => {
    const expiresAtMs = Date.now() + 60_000;
    const key = await createKey(hooks.team.organization, { expiresAtMs });
    const id = await hooks.makeEnabled({ keyId: key.id });
    vi.useFakeTimers({ toFake: ['Date'] });
    vi.setSystemTime(expiresAtMs);
    await expectEnded(hooks, id);
  });
});

describe('DELETE /partner/webhooks/{id}', () => {
  it('deletes the webhook: it is absent afterwards, and gets no event [C-12.4]', async ({
    hooks,
    receiver,
  }) => {
    const [id, kept] = [await hooks.makeEnabled(), await hooks.makeEnabled({ url: `${receiver.url}/kept` })];
    const deleted = await hooks.ask(`/${id}`, { method: 'DELETE' });
    expect([deleted.status, await deleted.json()]).toEqual([200, { id, deleted: true }]);
    for (const [path, options] of OF_ONE)
      await expectError(await hooks.ask(`/${id}${path}`, options), 404, 'NOT_FOUND');
    const sent = await hooks.send();
    expect(await receiver.ids(1)).toEqual([sent]);
    expect(receiver.events[0]?.path).toBe('/hook/kept');
    expect((await hooks.list()).map((one) => one.id)).toEqual([kept]);
  });

  it('an organization that the operator deletes leaves no webhook [C-12.4] [C-14.1]', async ({ hooks }) => {
    const { id } = hooks.team;
    for (let left = 2; left > 0; left--) await hooks.makeEnabled();
    const path = `/platform/organizations/${id}`;
    expect((await operator.post(`${path}/suspend`, { reason: 'the contract has ended' })).status).toBe(200);
    expect((await operator.delete(path)).status).toBe(200);
    for (let round = 0; round < 4; round++) await eraseRemains(env);
    expect(await hooks.count()).toBe(0);
  });
});
