/** Event streams: the edge's memory for an idle one, and how long an event takes to reach one [C-12.3]. */
import { randomUUID } from 'node:crypto';
import { type ClientRequest, get } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { vhostOf } from '../objects.ts';
import type { BenchKey } from './bench-seed.ts';
import { type BenchStack, startBenchStack } from './bench-stack.ts';
import { type Figure, percentile, report } from './figures.ts';
import { collectGarbage, memoryOf } from './process-figures.ts';

const KEYS = 100;
const STREAMS_PER_KEY = 10;
const STEPS = [200, 600, 1_000];
const AT_ONCE = 20;
/** The runtime evicts an idle object after ten seconds. */
const SETTLE_MS = 15_000;
const EVENTS_PER_SECOND = 100;
const EVENT_SECONDS = 20;
const KIB_PER_MIB = 1_024;

export async function benchStreams(): Promise<void> {
  const stack = await startBenchStack({
    organizations: [{ slug: 'acme', plants: 1, moreKeys: KEYS - 1 }],
    bindings: { ADDRESS_RATE_PER_MINUTE: '1000000' },
    // Garbage does not count.
    inspector: true,
  });
  const [organization] = stack.organizations;
  const keys = organization ? [organization.apiKey, ...organization.moreKeys] : [];
  const times: number[] = [];
  const open: ClientRequest[] = [];
  const figures: Figure[] = [];
  // Each Vhost is loaded once before the first measurement.
  for (const { key } of keys) await readOnce(stack, key);
  await sleep(SETTLE_MS);
  const memory = async () => {
    await collectGarbage(stack.edge.miniflare);
    return memoryOf(stack.edge.pid() ?? 0).rss;
  };
  let before = await memory();
  for (const count of STEPS) {
    const opened = count - open.length;
    while (open.length < count) {
      const batch = Array.from({ length: Math.min(AT_ONCE, count - open.length) }, (_, index) => {
        const at = open.length + index;
        return openStream(stack, keys[at % KEYS] as BenchKey, (ms) => times.push(ms));
      });
      open.push(...(await Promise.all(batch)));
    }
    await sleep(SETTLE_MS);
    const after = await memory();
    const kib = ((after - before) * KIB_PER_MIB) / opened;
    before = after;
    const target = count === STEPS.at(-1) ? '≤ 60' : '';
    figures.push({
      name: `edge memory for one more idle stream, up to ${count}`,
      value: kib,
      unit: 'KiB',
      target,
    });
  }
  await sendEvents(stack, keys);
  const expected = EVENTS_PER_SECOND * EVENT_SECONDS * STREAMS_PER_KEY;
  figures.push(
    { name: 'event to stream, p50', value: percentile(times, 0.5), unit: 'ms' },
    { name: 'event to stream, p99', value: percentile(times, 0.99), unit: 'ms', target: '≤ 50' },
    { name: 'events that did not arrive', value: expected - times.length, unit: '', target: '0' },
  );
  for (const request of open) request.destroy();
  await stack.stop();
  report(
    'streams',
    `${KEYS * STREAMS_PER_KEY} streams of ${KEYS} keys, ${EVENTS_PER_SECOND} events a second`,
    figures,
  );
}

async function readOnce(stack: BenchStack, key: string): Promise<void> {
  const answer = await fetch(`${stack.edge.url}/api/v1/vcp/events?limit=1`, {
    headers: { 'x-api-key': key },
  });
  if (!answer.ok) throw new Error(`a page of events: ${answer.status} ${await answer.text()}`);
  await answer.arrayBuffer();
}

/** Opens a stream; `arrived` is called with the time that each event took. */
async function openStream(
  stack: BenchStack,
  { key }: BenchKey,
  arrived: (ms: number) => void,
): Promise<ClientRequest> {
  return await new Promise((resolve, reject) => {
    const headers = { 'x-api-key': key };
    const request = get(`${stack.edge.url}/api/v1/vcp/events/stream`, { headers, agent: false }, (answer) => {
      if (answer.statusCode !== 200) reject(new Error(`a stream was refused: ${answer.statusCode}`));
      answer.setEncoding('utf8');
      answer.on('error', () => {});
      answer.on('data', (text: string) => {
        const now = performance.timeOrigin + performance.now();
        for (const [, sent] of text.matchAll(/"sentAtMs":([\d.]+)/g)) arrived(now - Number(sent));
      });
      answer.once('data', () => resolve(request));
    });
    request.on('error', reject);
  });
}

/** Sends events at a fixed rate, each to the next key. */
async function sendEvents(stack: BenchStack, keys: readonly BenchKey[]): Promise<void> {
  const { miniflare } = stack.edge;
  const vhosts = await Promise.all(keys.map(({ id }) => vhostOf(miniflare, id)));
  const siteId = randomUUID();
  const calls: Promise<unknown>[] = [];
  const began = performance.now();
  for (let count = 0; count < EVENTS_PER_SECOND * EVENT_SECONDS; count++) {
    await sleep(Math.max(0, began + (1_000 * count) / EVENTS_PER_SECOND - performance.now()));
    const sentAtMs = performance.timeOrigin + performance.now();
    const event = {
      sequence: count + 1,
      kind: 'alarm' as const,
      messageId: randomUUID(),
      correlationId: null,
      atMs: Date.now(),
      payloadText: JSON.stringify({ sentAtMs, filler: 'x'.repeat(300) }),
    };
    calls.push(vhosts[count % KEYS]?.receive(siteId, [event]) ?? Promise.resolve());
  }
  await Promise.all(calls);
  await sleep(1_000);
}
