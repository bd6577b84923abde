/** Event streams: the edge's memory for an idle one, and how long an event takes to reach one [C-12.3]. */
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { type ClientRequest, get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Miniflare } from 'miniflare';
import { workerdPid } from '../edge.ts';
import { compatibilityDate, moduleOptions } from '../edge-workers.ts';
import { vhostOf } from '../objects.ts';
import { readableModules } from '../worker-build.ts';
import type { BenchKey } from './bench-seed.ts';
import { type BenchStack, startBenchStack } from './bench-stack.ts';
import { type Figure, percentile, report } from './figures.ts';
import { collectGarbage, memoryInUse } from './process-figures.ts';

const KEYS = 100;
const STREAMS_PER_KEY = 10;
const STEPS = [200, 600, 1_000];
const AT_ONCE = 20;
/** The runtime evicts an idle object after ten seconds. */
const SETTLE_MS = 15_000;
const EVENTS_PER_SECOND = 100;
const EVENT_SECONDS = 20;
const KIB_PER_MIB = 1_024;

/** What opens streams: the product, or a Worker without logic. */
interface Side {
  name: string;
  miniflare: Miniflare;
  pid: number;
  /** Opens the stream of this number. */
  open(at: number): Promise<ClientRequest>;
}

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
  const keyOf = (at: number) => keys[at % KEYS]?.key ?? '';
  const product: Side = {
    ...{ name: 'edge', miniflare: stack.edge.miniflare, pid: stack.edge.pid() ?? 0 },
    open: (at) =>
      openStream(`${stack.edge.url}/api/v1/vcp/events/stream`, { 'x-api-key': keyOf(at) }, (ms) =>
        times.push(ms),
      ),
  };
  // Each Vhost is loaded once before the first measurement.
  for (const { key } of keys) await readOnce(stack, key);
  const figures: Figure[] = [];
  const open = await measureMemory(product, figures);
  await sendEvents(stack, keys);
  const expected = EVENTS_PER_SECOND * EVENT_SECONDS * STREAMS_PER_KEY;
  figures.push(
    { name: 'event to stream, p50', value: percentile(times, 0.5), unit: 'ms' },
    { name: 'event to stream, p99', value: percentile(times, 0.99), unit: 'ms', target: '≤ 50' },
    { name: 'events that did not arrive', value: expected - times.length, unit: '', target: '0' },
  );
  for (const request of open) request.destroy();
  await stack.stop();
  await measureFloor(figures);
  report(
    'streams',
    `${KEYS * STREAMS_PER_KEY} streams of ${KEYS} keys, ${EVENTS_PER_SECOND} events a second`,
    figures,
  );
}

/** Opens all streams in steps, and notes the memory that each step has taken, without garbage. */
async function measureMemory(side: Side, figures: Figure[]): Promise<ClientRequest[]> {
  const open: ClientRequest[] = [];
  const memory = async () => {
    await sleep(SETTLE_MS);
    await collectGarbage(side.miniflare);
    return await memoryInUse(side.miniflare, side.pid);
  };
  const first = await memory();
  let before = first;
  const note = (name: string, mib: number, streams: number, target = '') =>
    figures.push({
      name: `${side.name}, ${name}`,
      value: (mib * KIB_PER_MIB) / streams,
      unit: 'KiB',
      target,
    });
  for (const count of STEPS) {
    const opened = count - open.length;
    while (open.length < count) {
      const batch = Array.from({ length: Math.min(AT_ONCE, count - open.length) }, (_, index) =>
        side.open(open.length + index),
      );
      open.push(...(await Promise.all(batch)));
    }
    const after = await memory();
    note(`memory for one more idle stream, up to ${count}`, after - before, opened);
    before = after;
  }
  note('memory for an idle stream, of all', before - first, open.length, '≤ 60');
  return open;
}

/** The same streams of a Worker without logic. */
async function measureFloor(figures: Figure[]): Promise<void> {
  const { convertV4MiniflareOptions, Miniflare } = await import('miniflare');
  const folder = mkdtempSync(join(tmpdir(), 'sitewire-streams-'));
  const modules = await readableModules(join(import.meta.dirname, 'workerd', 'stream-floor-worker.ts'));
  const before = workerdPid();
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      ...{ host: '127.0.0.1', port: 0, inspectorPort: 0, resourcePersistencePath: folder },
      ...{ compatibilityDate: compatibilityDate(), compatibilityFlags: ['enable_request_signal'] },
      modules: moduleOptions(modules),
      durableObjects: { STREAMED: { className: 'Streamed', useSQLite: true } },
    }),
  );
  try {
    const url = await miniflare.ready;
    const open = (at: number) => openStream(new URL(`/${at % KEYS}`, url).href, {});
    // Each object is loaded once before the first measurement.
    for (let at = 0; at < KEYS; at++) (await open(at)).destroy();
    const side = { name: 'a Worker without logic', miniflare, pid: workerdPid(before) ?? 0, open };
    for (const request of await measureMemory(side, figures)) request.destroy();
  } finally {
    await miniflare.dispose();
    rmSync(folder, { recursive: true, force: true });
  }
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
  url: string,
  headers: Record<string, string>,
  arrived?: (ms: number) => void,
): Promise<ClientRequest> {
  return await new Promise((resolve, reject) => {
    const request = get(url, { headers, agent: false }, (answer) => {
      if (answer.statusCode !== 200) reject(new Error(`a stream was refused: ${answer.statusCode}`));
      answer.setEncoding('utf8');
      answer.on('error', () => {});
      answer.on('data', (text: string) => {
        const now = performance.timeOrigin + performance.now();
        for (const [, sent] of text.matchAll(/"sentAtMs":([\d.]+)/g)) arrived?.(now - Number(sent));
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
