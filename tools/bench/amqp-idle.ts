/**
 * Memory of the bridge per idle AMQP client, with TLS to the client and both plain HTTP and TLS to the edge.
 * Then runs 500 idle and 50 busy clients for the given minutes and prints a line per minute: no number in it
 * should grow.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { Partner } from '../partner.ts';
import { type BenchStack, startBenchStack } from './bench-stack.ts';
import { type Figure, report } from './figures.ts';
import { repeat } from './plant-load.ts';
import { bridgeHeap, descriptorsOf, memoryOf } from './process-figures.ts';

const COUNTS = [100, 500];
const BUSY = 50;
/** A key allows ten connections. */
const PER_KEY = 10;
const KEYS = (Math.max(...COUNTS) + BUSY) / PER_KEY;
/** The bridge opens at most eight links at once for one address. */
const AT_ONCE = 8;
const MINUTES = 10;
const MINUTE_MS = 60_000;
/** Wait until the work that the connects have started has ended. */
const SETTLE_MS = 20_000;
/** Time for a garbage collection and for the process to return the freed memory. */
const COLLECT_MS = 5_000;
/** Pause between two publishes of a busy client. */
const BUSY_PAUSE_MS = 1_000;
/** Minutes of warm-up, in which the process compiles code and fills its caches. */
const WARM_MINUTES = 2;

export async function benchAmqpIdle(minutes: number = MINUTES): Promise<void> {
  const figures: Figure[] = [];
  for (const edgeTls of [false, true]) {
    const stack = await startBenchStack({
      organizations: [{ slug: 'acme', plants: 1, moreKeys: KEYS }],
      pinned: false,
      edgeTls,
    });
    const idle: Partner[] = [];
    const leg = edgeTls ? 'TLS to edge' : 'HTTP to edge';
    for (const count of COUNTS) figures.push(...(await grow(stack, idle, count, leg)));
    if (edgeTls) figures.push(...(await stay(stack, minutes)));
    for (const partner of idle) await partner.close();
    await stack.stop();
  }
  report(
    'amqp-idle',
    `idle partners with a consumer each, TLS to the bridge, ${minutes} minutes with ${BUSY} busy`,
    figures,
  );
}

/** Opens the connection with that index, with its API key. */
async function connect(stack: BenchStack, index: number): Promise<Partner> {
  const [organization] = stack.organizations;
  const apiKey = organization?.moreKeys[Math.floor(index / PER_KEY)];
  if (!organization || !apiKey)
    throw new Error(`the stack has no API key for connection ${index}: a bug of the benchmark`);
  const partner = await Partner.connect(stack.partnerOptions({ ...organization, apiKey }));
  await partner.consume('event.status');
  return partner;
}

async function grow(stack: BenchStack, idle: Partner[], count: number, leg: string): Promise<Figure[]> {
  const edgePid = stack.edge.pid() ?? 0;
  const before = { count: idle.length, ...(await memoryOfBridge(stack)), edge: memoryOf(edgePid).rss };
  let next = idle.length;
  await repeat(
    AT_ONCE,
    () => next >= count,
    async () => {
      const index = next++;
      idle.push(await connect(stack, index));
    },
  );
  await pause(SETTLE_MS);
  const perClient = (now: number, then: number) => ((now - then) * 1_024) / (idle.length - before.count);
  const { asItStands, collected } = await memoryOfBridge(stack);
  return [
    {
      name: `bridge per added client up to ${count}, ${leg}`,
      value: perClient(asItStands, before.asItStands),
      unit: 'KB',
      target: '≤ 120',
    },
    {
      name: `the same, after a garbage collection`,
      value: perClient(collected, before.collected),
      unit: 'KB',
    },
    {
      name: `workerd per added client up to ${count}, ${leg}`,
      value: perClient(memoryOf(edgePid).rss, before.edge),
      unit: 'KB',
    },
  ];
}

/** RSS in MiB, before and after a garbage collection. */
async function memoryOfBridge({ bridgePid }: BenchStack): Promise<{ asItStands: number; collected: number }> {
  const asItStands = memoryOf(bridgePid).rss;
  process.kill(bridgePid, 'SIGUSR2');
  await pause(COLLECT_MS);
  return { asItStands, collected: memoryOf(bridgePid).rss };
}

/**
 * Each busy client publishes about once a second and consumes the events; the other clients of its key get
 * events, too.
 */
async function stay(stack: BenchStack, minutes: number): Promise<Figure[]> {
  const siteId = stack.plants[0]?.id ?? '';
  const busy: Partner[] = [];
  for (let count = 0; count < BUSY; count++) busy.push(await connect(stack, Math.max(...COUNTS) + count));
  const commands = [
    { deviceId: 'BESS-0', assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw: 5 } },
  ];
  const untilMs = Date.now() + minutes * MINUTE_MS;
  let published = 0;
  const working = Promise.all(
    busy.map((partner) =>
      repeat(
        1,
        () => Date.now() >= untilMs,
        async () => {
          await partner.publish('device', siteId, { commands });
          published += 1;
          await pause(BUSY_PAUSE_MS);
        },
      ),
    ),
  );
  const rows: { minute: number; rss: number; heap: number; descriptors: number }[] = [];
  for (let minute = 0; minute <= minutes; minute++) {
    if (minute > 0) await Promise.race([pause(MINUTE_MS), working]);
    const { rss } = memoryOf(stack.bridgePid);
    const heap = await bridgeHeap(stack.ports.metrics);
    const descriptors = descriptorsOf(stack.bridgePid);
    rows.push({ minute, rss, heap, descriptors });
    console.log(
      `minute ${minute}: bridge ${rss.toFixed(0)} MiB, heap ${heap.toFixed(0)} MiB, ${descriptors} descriptors, ${published} published`,
    );
  }
  await working;
  for (const partner of busy) await partner.close();
  const last = rows.at(-1);
  const warm = rows[Math.min(WARM_MINUTES, Math.floor(minutes / 2))];
  if (!last || !warm) throw new Error('the run ended before its first measurement: run it for more minutes');
  const span = Math.max(1, last.minute - warm.minute);
  return [
    { name: 'commands published', value: published, unit: '' },
    { name: 'bridge RSS at the end', value: last.rss, unit: 'MiB' },
    {
      name: 'bridge RSS growth after warm-up',
      value: (last.rss - warm.rss) / span,
      unit: 'MiB/min',
      target: '0',
    },
    {
      name: 'bridge descriptors added after warm-up',
      value: last.descriptors - warm.descriptors,
      unit: '',
      target: '0',
    },
  ];
}
