/** Webhooks: what a receiver that is down costs, how fast its events follow, and how an idle one waits [C-12.4]. */
import { randomUUID } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { AdminClient } from '../admin-client.ts';
import { vhostOf } from '../objects.ts';
import { startBenchStack } from './bench-stack.ts';
import { percentile, processCpuMs, report } from './figures.ts';

const EVENTS = 100_000;
const BATCH = 250;
/** How long the receiver stays down after the last event. */
const DOWN_MS = 70_000;
const DRAIN_LIMIT_MS = 15 * 60_000;
const RATE = 50;
const RATE_SECONDS = 20;

interface Received {
  id: string;
  atMs: number;
  sentAtMs: number;
}

/** A receiver that answers 500 while it is down. */
class Receiver {
  isDown = true;
  attempts = 0;
  readonly received: Received[] = [];
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<Receiver> {
    const server = createServer((request, response) => {
      let body = '';
      request.setEncoding('utf8').on('data', (text) => {
        body += text;
      });
      request.on('end', () => {
        const challenge = /"challenge":"([^"]+)"/.exec(body)?.[1];
        if (challenge !== undefined) response.end(challenge);
        else response.writeHead(receiver.#take(request.headers['webhook-id'], body)).end();
      });
    });
    const receiver = new Receiver(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return receiver;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  /** Returns the status of the answer. */
  #take(id: string | string[] | undefined, body: string): number {
    this.attempts += 1;
    if (this.isDown) return 500;
    const sentAtMs = Number(/"sentAtMs":([\d.]+)/.exec(body)?.[1]);
    this.received.push({ id: String(id), atMs: performance.timeOrigin + performance.now(), sentAtMs });
    return 204;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

export async function benchWebhooks(): Promise<void> {
  const stack = await startBenchStack({ bindings: { WEBHOOK_PRIVATE: 'allow' } });
  const receiver = await Receiver.start();
  const [organization] = stack.organizations;
  if (!organization) throw new Error('the stack has no organization');
  const admin = await AdminClient.enter(stack.edge.url, stack.login);
  admin.organizationId = organization.id;
  const { webhook } = await admin.call<{ webhook: { id: string } }>('POST', '/partner/webhooks', {
    url: receiver.url,
    keyId: organization.apiKey.id,
    types: ['alarm'],
  });
  const path = `/partner/webhooks/${webhook.id}`;
  await until(async () => (await admin.call<{ status: string }>('GET', path)).status === 'ENABLED', 10_000);
  const vhost = await vhostOf(stack.edge.miniflare, organization.apiKey.id);
  const siteId = randomUUID();
  const ids: string[] = [];
  const send = async (count: number) => {
    const events = Array.from({ length: count }, () => eventOf(ids));
    await vhost.receive(siteId, events);
  };

  // 1. the receiver is down
  for (let sent = 0; sent < EVENTS; sent += BATCH) await send(BATCH);
  await sleep(DOWN_MS);
  const attempts = receiver.attempts;

  // 2. it works again
  receiver.isDown = false;
  const pid = stack.edge.pid() ?? 0;
  const cpuMs = processCpuMs(pid);
  const beganMs = performance.now();
  await admin.call('POST', `${path}/enable`);
  await until(async () => receiver.received.length >= EVENTS, DRAIN_LIMIT_MS);
  const seconds = (performance.now() - beganMs) / 1_000;
  const drainCpuMs = processCpuMs(pid) - cpuMs;
  const places = new Map(ids.map((id, place) => [id, place]));
  const order = receiver.received.map(({ id }, index) => Math.abs((places.get(id) ?? EVENTS) - index));
  const repeats = receiver.received.length - new Set(receiver.received.map(({ id }) => id)).size;

  // 3. events at a fixed rate
  receiver.received.length = 0;
  const steadyBeganMs = performance.now();
  for (let count = 0; count < RATE * RATE_SECONDS; count++) {
    await sleep(Math.max(0, steadyBeganMs + (1_000 * count) / RATE - performance.now()));
    await send(1);
  }
  await until(async () => receiver.received.length >= RATE * RATE_SECONDS, 30_000);
  const times = receiver.received.map(({ atMs, sentAtMs }) => atMs - sentAtMs);
  await receiver.stop();
  await stack.stop();
  report('webhooks', `one webhook, ${EVENTS} events`, [
    { name: 'attempts while the receiver was down', value: attempts, unit: '', target: '≤ 10' },
    { name: 'events a second afterwards', value: EVENTS / seconds, unit: '/s', target: '≥ 200' },
    { name: 'edge CPU per event afterwards', value: drainCpuMs / EVENTS, unit: 'ms' },
    { name: 'repeated events', value: repeats, unit: '', target: '0' },
    { name: 'farthest from its place', value: Math.max(...maxima(order)), unit: 'places', target: '≤ 8' },
    { name: `event to receiver at ${RATE}/s, p50`, value: percentile(times, 0.5), unit: 'ms' },
    { name: `event to receiver at ${RATE}/s, p99`, value: percentile(times, 0.99), unit: 'ms' },
  ]);
}

/** An event with the next sequence; its messageId is added to `ids`. */
function eventOf(ids: string[]) {
  const messageId = randomUUID();
  ids.push(messageId);
  const sentAtMs = performance.timeOrigin + performance.now();
  return {
    sequence: ids.length,
    kind: 'alarm' as const,
    messageId,
    correlationId: null,
    atMs: Date.now(),
    payloadText: JSON.stringify({ sentAtMs, filler: 'x'.repeat(300) }),
  };
}

/** The highest of each thousand, because a call takes only so many arguments. */
function maxima(values: readonly number[]): number[] {
  const highest: number[] = [0];
  for (let from = 0; from < values.length; from += 1_000)
    highest.push(Math.max(...values.slice(from, from + 1_000)));
  return highest;
}

async function until(isDone: () => Promise<boolean>, limitMs: number): Promise<void> {
  for (const endMs = performance.now() + limitMs; !(await isDone()); ) {
    if (performance.now() > endMs) throw new Error(`not done within ${limitMs} ms`);
    await sleep(20);
  }
}
