/**
 * Receivers of webhooks that do harm, by mistake or on purpose. Each gets an attempt that ends in bounded time, and the
 * other webhook of the same key gets its events meanwhile.
 */
import { randomUUID } from 'node:crypto';
import { createServer as httpsServer } from 'node:https';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bytesOfEndless, HOSTILE, selfSigned } from '#support/hostile-receivers.ts';
import { residentMib } from '#support/process-memory.ts';
import { chargeOrder, ReturningPartner } from '#support/returning-partner.ts';
import { eventually } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';
import { VhostCaller } from '#support/vhost-caller.ts';
import { RawReceiver, WebhookReceiver, WebhookRoutes } from '#support/webhook-receiver.ts';
import { SecretBox } from '../../durable-objects/secrets/secret-box.ts';
import type { WebhookAttempt } from '../../protocol/webhook.ts';
import type { SeededKey } from '../../tools/seed.ts';

const ALLOWED = { bindings: { WEBHOOK_PRIVATE: 'allow' } };
/** An attempt may take 20 s; the rest is for a busy machine. */
const ATTEMPT_MS = 25_000;
const CLOSED_MS = 10_000;
const MAX_GROWTH_MIB = 128;
/** How many bytes of an endless answer the buffers of both sockets may hold. */
const MAX_SENT_BYTES = 32 * 1_024 * 1_024;

interface Egress {
  fetch(url: string, init: RequestInit): Promise<Response>;
}

describe('a receiver', () => {
  const stack = suiteStack(ALLOWED);
  const healthy = new WebhookReceiver();
  let key: SeededKey;
  let vhost: VhostCaller;
  let routes: WebhookRoutes;

  beforeAll(async () => {
    key = await stack.addKey();
    vhost = await VhostCaller.of(stack, key.id);
    routes = new WebhookRoutes(stack.admin);
    await healthy.listen();
    const { id, secret } = await routes.create(key.id, healthy.url, ['alarm']);
    healthy.verifyWith(secret);
    await routes.untilEnabled(id);
  });

  afterAll(() => healthy.stop());

  /** Tests a webhook, and meanwhile sends an event, which the other webhook of the key must get. */
  async function testBesideHealthy(id: string): Promise<WebhookAttempt> {
    const before = healthy.events.length;
    const answer = routes.test(id);
    await vhost.events('alarm', 1, 10);
    await eventually(() => healthy.events.length > before || undefined);
    const attempt = await answer;
    expect(healthy.faults).toEqual([]);
    expect(attempt.durationMs).toBeLessThan(ATTEMPT_MS);
    return attempt;
  }

  /** Its error must be a text for people: no reference of the runtime to its own log, and no object. */
  function expectFailed(attempt: WebhookAttempt, status: number | null = null, error = /^\w.{10}/): void {
    expect([attempt.isDelivered, attempt.status]).toEqual([false, status]);
    expect(attempt.error).toMatch(error);
    expect(attempt.error).not.toMatch(/internal error|reference =|undefined|\[object|^Error/);
  }

  it.each(HOSTILE)(
    'keeps no other webhook from its events if it $that [C-12.4]',
    async (hostile) => {
      const { behave, atOnce, isDelivered, status, error } = hostile;
      const receiver = await RawReceiver.start(behave, atOnce);
      const before = residentMib(stack.edge.pid());
      const { id } = await routes.create(key.id, receiver.url, ['alarm']);
      try {
        await routes.untilEnabled(id);
        const attempt = await testBesideHealthy(id);
        if (isDelivered)
          expect([attempt.isDelivered, attempt.status, attempt.error]).toEqual([true, 200, null]);
        else expectFailed(attempt, status, error);
        // The event that was sent meanwhile gets the same attempt.
        const ofEvent = await eventually(
          async () => (await routes.attempts(id)).find(({ type }) => type === 'alarm'),
          ATTEMPT_MS,
        );
        expect([ofEvent.isDelivered, ofEvent.error]).toEqual([isDelivered, attempt.error]);
        await eventually(() => receiver.open.size === 0 || undefined, CLOSED_MS);
        expect(receiver.requests).toBeGreaterThanOrEqual(2);
        expect(residentMib(stack.edge.pid()) - before).toBeLessThan(MAX_GROWTH_MIB);
      } finally {
        await routes.delete(id);
        await receiver.stop();
      }
    },
    90_000,
  );

  it('can send little of an answer without end [C-12.4]', () => {
    expect(bytesOfEndless.sent).toBeGreaterThan(0);
    expect(bytesOfEndless.sent).toBeLessThan(MAX_SENT_BYTES);
  });

  it('does not lead the message to another server by a redirect [C-12.4]', async () => {
    const other = await WebhookReceiver.start();
    const receiver = await WebhookReceiver.start(({ type }) =>
      type === 'webhook.verify' ? undefined : { status: 302, headers: { location: other.url } },
    );
    const { id } = await routes.create(key.id, receiver.url, ['alarm']);
    try {
      await routes.untilEnabled(id);
      const { isDelivered, status, error } = await testBesideHealthy(id);
      expect([isDelivered, status]).toEqual([false, 302]);
      expect(error).toMatch(/redirect/);
      await eventually(() => receiver.events.length > 0 || undefined);
      expect(other.messages).toEqual([]);
    } finally {
      await routes.delete(id);
      await Promise.all([receiver.stop(), other.stop()]);
    }
  }, 60_000);

  it('gets no message with a certificate that it has signed itself [C-12.4]', async () => {
    const requests: unknown[] = [];
    const server = httpsServer(await selfSigned(), (request, response) => {
      requests.push(request.url);
      response.end();
    });
    const connections: unknown[] = [];
    server.on('connection', (socket) => connections.push(socket)).on('tlsClientError', () => {});
    server.listen(0, '127.0.0.1');
    await eventually(() => server.listening || undefined);
    const { port } = server.address() as { port: number };
    const { id } = await routes.create(key.id, `https://localhost:${port}/hook`, ['alarm']);
    try {
      expectFailed(await testBesideHealthy(id));
      expect(connections.length).toBeGreaterThan(0);
      expect(requests).toEqual([]);
      expect((await routes.item(id)).status).toBe('PENDING');
    } finally {
      await routes.delete(id);
      server.close();
      server.closeAllConnections();
    }
  }, 60_000);

  it('gets no message if it speaks plain HTTP at an https URL [C-12.4]', async () => {
    const receiver = await WebhookReceiver.start();
    const { id } = await routes.create(key.id, `https://localhost:${receiver.port}/hook`, ['alarm']);
    try {
      expectFailed(await testBesideHealthy(id));
      expect(receiver.messages).toEqual([]);
    } finally {
      await routes.delete(id);
      await receiver.stop();
    }
  }, 60_000);

  it('gets its answers if it calls the REST API before it answers [C-12.4]', async () => {
    const calls: unknown[] = [];
    const receiver = await WebhookReceiver.start(async ({ type }) => {
      if (type === 'webhook.verify') return undefined;
      const { status } = await stack.rest('/vcp/events?limit=1', key.key);
      const changed = await routes.change(id, { description: `changed for ${randomUUID()}` });
      calls.push([status, changed.id]);
      return undefined;
    });
    const { id } = await routes.create(key.id, receiver.url, ['alarm']);
    try {
      await routes.untilEnabled(id);
      const { isDelivered, status } = await testBesideHealthy(id);
      expect([isDelivered, status]).toEqual([true, 200]);
      await eventually(() => calls.length >= 2 || undefined);
      expect(calls[0]).toEqual([200, id]);
    } finally {
      await routes.delete(id);
      await receiver.stop();
    }
  }, 60_000);

  it('does not delay the confirms of its key if it never answers [C-12.4]', async () => {
    const receiver = await RawReceiver.start(() => {});
    const keys = { without: await stack.addKey(), with: await stack.addKey() };
    const { id } = await routes.create(keys.with.id, receiver.url, ['ack', 'execution']);
    await routes.untilEnabled(id);
    const partners = {
      without: new ReturningPartner(stack.partnerOptions(keys.without)),
      with: new ReturningPartner(stack.partnerOptions(keys.with)),
    };
    const took = { without: [] as number[], with: [] as number[] };
    const plant = await stack.addPlant();
    const device = await stack.gateway(plant.gateway);
    try {
      await eventually(() => (partners.without.connected && partners.with.connected) || undefined);
      expect(await partners.with.publish(chargeOrder(plant.id))).toBe(true);
      await eventually(() => receiver.requests > 0 || undefined);
      for (let count = 0; count < 100; count++)
        for (const side of ['without', 'with'] as const) {
          const from = performance.now();
          expect(await partners[side].publish(chargeOrder(plant.id))).toBe(true);
          took[side].push(performance.now() - from);
        }
      expect(receiver.open.size).toBeGreaterThan(0);
      const p50 = (all: number[]) => all.toSorted((one, other) => one - other)[all.length / 2] ?? 0;
      const [without, hanging] = [p50(took.without), p50(took.with)];
      console.log(
        `confirms, p50 in ms: ${without.toFixed(2)} without, ${hanging.toFixed(2)} with`,
        hanging / without,
      );
    } finally {
      await Promise.all([partners.without.stop(), partners.with.stop(), device.stop(), routes.delete(id)]);
      await receiver.stop();
    }
  }, 60_000);
});

describe('without WEBHOOK_PRIVATE', () => {
  const stack = suiteStack();
  const open = suiteStack(ALLOWED);

  it.each(['http', 'https'])(
    'no message is posted to an address of this machine by %s [C-12.4]',
    async (scheme) => {
      const receiver = await RawReceiver.start(() => {});
      try {
        const url = `${scheme}://127.0.0.1:${receiver.port}/hook`;
        const key = await stack.addKey();
        const routes = new WebhookRoutes(stack.admin);
        await expect(routes.create(key.id, url, ['alarm'])).rejects.toThrow(/answered 400.*url/);
        const id = randomUUID();
        const sealed = new SecretBox(stack.credentials.dataKeys).seal(
          `webhook:${id}`,
          `whsec_${'A'.repeat(32)}`,
        );
        const database = await stack.edge.miniflare.getD1Database('DB');
        const row = [
          id,
          stack.credentials.organization.id,
          key.id,
          url,
          '["alarm"]',
          '',
          sealed,
          'PENDING',
          0,
          0,
          0,
        ];
        await database
          .prepare(
            `INSERT INTO webhooks (id, organization_id, key_id, url, types, description, secret_sealed, status,
           status_at_ms, created_at_ms, updated_at_ms) VALUES (${row.map(() => '?').join(', ')})`,
          )
          .bind(...row)
          .run();
        const attempt = await routes.test(id);
        expect(attempt).toMatchObject({
          isDelivered: false,
          status: null,
          error: expect.stringMatching(/^url: must /),
        });
        await (await VhostCaller.of(stack, key.id)).events('alarm', 3, 10);
        const verify = await eventually(async () =>
          (await routes.attempts(id)).find(({ type }) => type === 'webhook.verify'),
        );
        expect(verify.error).toBe(attempt.error);
        expect([receiver.connections, receiver.requests]).toEqual([0, 0]);
      } finally {
        await receiver.stop();
      }
    },
  );

  it('the way out of the Worker itself refuses addresses of this machine [C-12.4]', async () => {
    const receiver = await WebhookReceiver.start();
    const ask = async ({ edge }: typeof stack, url: string) => {
      const { WEBHOOK_EGRESS: egress } = await edge.miniflare.getBindings<{ WEBHOOK_EGRESS: Egress }>();
      return (await egress.fetch(url, { method: 'POST', body: '{"type":"webhook.verify","data":{}}' }))
        .status;
    };
    try {
      for (const host of ['127.0.0.1', 'localhost'])
        await expect(ask(stack, `http://${host}:${receiver.port}/`)).rejects.toThrow();
      expect(receiver.messages).toEqual([]);
      expect(await ask(open, receiver.url)).toBe(200);
      expect(receiver.messages).toHaveLength(1);
    } finally {
      await receiver.stop();
    }
  });
});
