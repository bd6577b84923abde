/** The routes of webhooks while D1 or the Vhost of the key fails: nothing is half done [C-12.4] (rule 7). */
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import type { Call } from '#workerd/client.ts';
import { rowsFrom, valueFrom } from '#workerd/d1.ts';
import { type WebhookAdmin, webhookTest } from '#workerd/webhooks.ts';
import { describe, expect, expectError } from '#workerd/worker-test.ts';
import { Vhost } from '../../../durable-objects/vhost.ts';

const LOST = 'D1_ERROR: Network connection lost.';

const it = webhookTest.extend('quiet', { auto: true }, () => {
  for (const method of ['warn', 'error'] as const) vi.spyOn(console, method).mockReturnValue(undefined);
});

function d1(): D1Database {
  return Object.getPrototypeOf(env.DB) as D1Database;
}

function fail(): Promise<never> {
  return Promise.reject(new Error(LOST));
}

/** Makes every statement fail. */
function breakD1(): void {
  const statement = { bind: () => statement, first: fail, run: fail, all: fail, raw: fail };
  vi.spyOn(d1(), 'prepare').mockReturnValue(statement as unknown as D1PreparedStatement);
  vi.spyOn(d1(), 'batch').mockImplementation(fail);
}

/** What the registry has of the organization's webhooks, and their audit events. */
async function stored({ team: { id } }: WebhookAdmin): Promise<unknown[]> {
  return [
    await rowsFrom('SELECT * FROM webhooks WHERE organization_id = ? ORDER BY id', id),
    await rowsFrom(
      `SELECT event FROM audit_events WHERE organization_id = ? AND event LIKE 'webhook.%' ORDER BY id`,
      id,
    ),
  ];
}

const CREATE = 'POST a new one';
/** Routes that change a webhook in the registry, and those that ask its Vhost. */
const WRITES = ['PATCH', 'POST /rotate-secret', 'DELETE'];
const ASKS = ['GET', 'GET /attempts', 'POST /test', 'POST /enable', 'POST /recover'];

/** Calls a route by its method and the path after the id. */
function call(hooks: WebhookAdmin, id: string, name: string): Promise<Response> {
  if (name === CREATE) return hooks.post();
  const [method, path = ''] = name.split(' ') as [NonNullable<Call['method']>, string?];
  const body = method === 'PATCH' ? { description: 'x' } : { since: '2026-01-15T10:00:00Z' };
  const isSent = method === 'PATCH' || path === '/recover';
  return hooks.ask(`/${id}${path}`, { method, ...(isSent ? { body } : {}) });
}

describe('the routes of webhooks', () => {
  it.for([CREATE, ...WRITES, ...ASKS])(
    '%s answers 503 while D1 is down, and changes nothing [C-12.4]',
    async (name, { hooks, receiver }) => {
      const id = await hooks.makeEnabled();
      const [before, posts] = [await stored(hooks), receiver.received.length];
      breakD1();
      const response = await call(hooks, id, name);
      await expectError(response, 503, 'SERVICE_UNAVAILABLE');
      vi.mocked(d1().prepare).mockRestore();
      vi.mocked(d1().batch).mockRestore();
      expect(await stored(hooks)).toEqual(before);
      expect(receiver.received).toHaveLength(posts);
      expect((await call(hooks, id, name)).ok).toBe(true);
    },
  );

  it.for([CREATE, ...WRITES])(
    '%s answers 503 if its transaction fails, and changes nothing [C-12.4]',
    async (name, { hooks, receiver }) => {
      const id = await hooks.makeEnabled();
      const [before, posts] = [await stored(hooks), receiver.received.length];
      const batch = vi.spyOn(d1(), 'batch').mockImplementation(fail);
      await expectError(await call(hooks, id, name), 503, 'SERVICE_UNAVAILABLE');
      expect(batch).toHaveBeenCalled();
      batch.mockRestore();
      expect(await stored(hooks)).toEqual(before);
      const sent = await hooks.send();
      expect(await receiver.ids(1)).toEqual([sent]);
      expect(receiver.received).toHaveLength(posts + 1);
    },
  );

  it.for(ASKS)(
    '%s answers 503 while the Vhost is restarted, and changes nothing [C-12.4]',
    async (name, { hooks }) => {
      const id = await hooks.makeEnabled();
      const before = await stored(hooks);
      const reset = new Error('Internal error in Durable Object storage caused object to be reset.');
      const ask = vi.spyOn(Vhost.prototype, 'askWebhook').mockImplementation(() => {
        throw Object.assign(reset, { durableObjectReset: true, retryable: true });
      });
      await expectError(await call(hooks, id, name), 503, 'SERVICE_UNAVAILABLE');
      expect(await stored(hooks)).toEqual(before);
      ask.mockRestore();
      expect((await call(hooks, id, name)).status).toBe(200);
    },
  );
});

describe('while the Vhost does not take a change over', () => {
  function breakVhost() {
    return vi.spyOn(Vhost.prototype, 'registryChanged').mockRejectedValue(new Error('it does not answer'));
  }

  it('a webhook is not made without showing its secret [C-12.4]', async ({ hooks }) => {
    breakVhost();
    const response = await hooks.post();
    const isShown = response.status === 201;
    expect([response.status, await hooks.count()]).toEqual([response.status, isShown ? 1 : 0]);
  });

  it('a secret is not rotated without showing the new one [C-12.4]', async ({ hooks }) => {
    const id = await hooks.makeEnabled();
    const secret = () => valueFrom('SELECT secret_sealed FROM webhooks WHERE id = ?', id);
    const before = await secret();
    breakVhost();
    const { status } = await hooks.act(id, 'rotate-secret');
    expect([status, (await secret()) !== before]).toEqual([status, status === 200]);
  });
});

describe('POST /partner/webhooks/{id}/enable', () => {
  it('does not overwrite a newer status that the Vhost has written [C-12.4]', async ({ hooks, receiver }) => {
    receiver.answer = () => new Response('gone', { status: 410 });
    const { id } = (await hooks.make()).webhook;
    await hooks.until(id, 'DISABLED');
    receiver.answer = () => new Response('thanks');
    const { promise: open, resolve: release } = Promise.withResolvers<void>();
    const { batch } = d1();
    vi.spyOn(d1(), 'batch').mockImplementation(async function (this: D1Database, statements) {
      // The Vhost has answered the Worker, whose batch has three statements, and its receiver has agreed.
      if (receiver.received.length === 2 && statements.length === 3) await open;
      return await batch.call(this, statements);
    } as typeof batch);
    const enabling = hooks.act(id, 'enable');
    await vi.waitFor(async () => {
      expect(await valueFrom('SELECT status FROM webhooks WHERE id = ?', id)).toBe('ENABLED');
    });
    release();
    expect((await enabling).status).toBe(200);
    expect((await hooks.read(id)).status).toBe('ENABLED');
    expect(await hooks.list()).toMatchObject([{ status: 'ENABLED' }]);
  });
});
