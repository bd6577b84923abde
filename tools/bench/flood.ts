/**
 * Flood: the partner of one organization publishes as fast as it can; the benchmark measures how long the
 * clients of another organization wait, without and with the flood, alternating in one run. Nothing is
 * pinned. It runs once with the highest publish rate, so that no rate limit protects the others, and once
 * with the default rate.
 *
 * Requests are sent at fixed times even if earlier ones are still open: a standstill counts with its full
 * length.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { MqttClient } from 'mqtt';
import type { SeededPlant } from '../seed.ts';
import { type BenchStack, startBenchStack } from './bench-stack.ts';
import { type Figure, percentile, report } from './figures.ts';
import type { FlooderOrder, FlooderStart, FlooderWord } from './flooder.ts';
import { connectInstantDevice } from './instant-device.ts';
import { publishTelemetry } from './plant-load.ts';
import { ReturningPartner } from './returning-partner.ts';

const ROUNDS = 5;
const PHASE_MS = Number(process.env.SITEWIRE_BENCH_PHASE_MS ?? 10_000);
const ASK_EVERY_MS = 100;
const WARM_UP_MS = 10_000;
const SETTLE_MS = 2_000;
/** A request that takes longer counts with this time. */
const LONGEST_MS = 60_000;
const FLOODED_PLANTS = 10;
const TABLES = [
  { name: 'rate 10 000/s', settings: { publishRatePerSecond: 10_000, deviceRatePerSecond: 1_000 } },
  { name: 'default rate', settings: {} },
];

type Question = 'confirm' | 'PUBACK' | 'REST read';
const QUESTIONS: Question[] = ['confirm', 'PUBACK', 'REST read'];
type Waits = Record<Question, number[]> & { failed: number };
type Ask = Record<Question, () => Promise<unknown>>;

export async function benchFlood(): Promise<void> {
  const figures: Figure[] = [];
  for (const { name, settings } of TABLES) figures.push(...(await measure(name, settings)));
  report('flood', 'how long others wait while one partner publishes as fast as it can', figures);
}

async function measure(name: string, settings: Record<string, number>): Promise<Figure[]> {
  const organizations = [
    { slug: 'acme', plants: 1, settings },
    { slug: 'flood', plants: FLOODED_PLANTS, settings },
  ];
  const stack = await startBenchStack({ organizations, pinned: false });
  const [plant] = stack.plants;
  if (!plant) throw new Error('The stack of this benchmark has no plant: a bug of the benchmark');
  const device = await connectInstantDevice(stack, plant);
  const partner = await ReturningPartner.start(stack.partnerOptions());
  const flooder = await startFlooder(stack);
  const ask = questions(stack, plant, device, partner);
  await Promise.all(await askFor(WARM_UP_MS, ask, noWaits()));

  const [quiet, flooded] = [noWaits(), noWaits()];
  const rates: number[] = [];
  const drains: number[] = [];
  let lostByFlooder = 0;
  for (let round = 0; round < ROUNDS; round++) {
    await Promise.all(await askFor(PHASE_MS, ask, quiet));
    flooder.send({ kind: 'flood' });
    const open = await askFor(PHASE_MS, ask, flooded);
    const stopped = flooder.message('stopped');
    const idle = flooder.message('idle');
    flooder.send({ kind: 'stop' });
    const { confirmed, seconds, lost } = await stopped;
    rates.push(confirmed / seconds);
    lostByFlooder = lost;
    await Promise.all(open);
    drains.push((await idle).drainSeconds);
    console.log(
      `  ${name}, round ${round + 1} of ${ROUNDS}: ${rates.at(-1)?.toFixed(0)} confirmed per second`,
    );
    await pause(SETTLE_MS);
  }
  flooder.process.disconnect();
  await partner.close().catch(() => {});
  device.end(true);
  await stack.stop();
  return [
    ...QUESTIONS.flatMap((question) => ratioOf(name, question, quiet[question], flooded[question])),
    { name: `${name}: confirmed publishes of the flood`, value: percentile(rates, 0.5), unit: '1/s' },
    {
      name: `${name}: failed requests of the others`,
      value: quiet.failed + flooded.failed,
      unit: '',
      target: '0',
    },
    { name: `${name}: lost AMQP connections, others`, value: partner.lost, unit: '', target: '0' },
    { name: `${name}: lost AMQP connections, flood`, value: lostByFlooder, unit: '', target: '0' },
    { name: `${name}: until the flood is answered`, value: percentile(drains, 0.5), unit: 's' },
  ];
}

function questions(
  stack: BenchStack,
  plant: SeededPlant,
  device: MqttClient,
  partner: ReturningPartner,
): Ask {
  return {
    confirm: () => partner.confirmed(plant),
    PUBACK: () => publishTelemetry(device, plant),
    'REST read': async () => {
      const response = await fetch(`${stack.edge.url}/api/v1/vcp/sites/${plant.id}/telemetry/latest`, {
        headers: { 'x-api-key': stack.key },
      });
      if (!response.ok) throw new Error(`a read answered ${response.status}`);
      await response.arrayBuffer();
    },
  };
}

/**
 * Sends each kind of request at its fixed times. Returns the promises of all answers; some of them may still
 * be pending.
 */
async function askFor(ms: number, ask: Ask, waits: Waits): Promise<Promise<void>[]> {
  const startedAt = performance.now();
  const open: Promise<void>[] = [];
  for (let moment = 0; moment < ms; moment += ASK_EVERY_MS) {
    await pause(startedAt + moment - performance.now());
    for (const question of QUESTIONS) open.push(askOnce(ask[question], waits, question));
  }
  await pause(startedAt + ms - performance.now());
  return open;
}

async function askOnce(ask: () => Promise<unknown>, waits: Waits, question: Question): Promise<void> {
  const askedAt = performance.now();
  let limit: NodeJS.Timeout | undefined;
  const longest = new Promise((_resolve, reject) => {
    limit = setTimeout(() => reject(new Error('no answer')), LONGEST_MS);
  });
  try {
    await Promise.race([ask(), longest]);
  } catch {
    waits.failed += 1;
  } finally {
    clearTimeout(limit);
    waits[question].push(performance.now() - askedAt);
  }
}

function ratioOf(name: string, question: Question, quiet: number[], flooded: number[]): Figure[] {
  const [quietHalf, floodHalf] = [percentile(quiet, 0.5), percentile(flooded, 0.5)];
  const [quietMost, floodMost] = [percentile(quiet, 0.99), percentile(flooded, 0.99)];
  const figure = (what: string, value: number, unit: string, target?: string): Figure => ({
    name: `${name}: ${question} ${what}`,
    value,
    unit,
    ...(target ? { target } : {}),
  });
  return [
    figure('p50, quiet', quietHalf, 'ms'),
    figure('p50, flood', floodHalf, 'ms'),
    figure('p50, flood / quiet', floodHalf / quietHalf, '', '≤ 3'),
    figure('p99, quiet', quietMost, 'ms'),
    figure('p99, flood', floodMost, 'ms'),
    figure('p99 flood / p50 quiet', floodMost / quietHalf, ''),
    figure('longest, flood', Math.max(...flooded), 'ms'),
  ];
}

interface Flooder {
  process: ChildProcess;
  send(order: FlooderOrder): void;
  /** The next message of that kind. */
  message<Kind extends FlooderWord['kind']>(kind: Kind): Promise<Extract<FlooderWord, { kind: Kind }>>;
}

async function startFlooder(stack: BenchStack): Promise<Flooder> {
  const organization = stack.organizations[1];
  if (!organization)
    throw new Error('The stack of this benchmark has no second organization: a bug of the benchmark');
  const child = fork(join(import.meta.dirname, 'flooder.ts'));
  const ended = once(child, 'exit').then(() => {
    throw new Error('the process of the flooding partner exited before it sent its message');
  });
  ended.catch(() => {});
  const flooder: Flooder = {
    process: child,
    send: (order) => {
      child.send(order);
    },
    message: <Kind extends FlooderWord['kind']>(kind: Kind) =>
      Promise.race([ended, messageOf<Kind>(child, kind)]),
  };
  const plants: FlooderStart['plants'] = [];
  for (const plant of organization.plants) {
    plants.push({ plant, token: await stack.token(plant.gateway.id) });
  }
  const ready = flooder.message('ready');
  const partner = stack.partnerOptions(organization);
  flooder.send({ kind: 'start', partner, mqttsPort: stack.ports.mqtts, ca: stack.ca, plants });
  await ready;
  return flooder;
}

function messageOf<Kind extends FlooderWord['kind']>(
  child: ChildProcess,
  kind: Kind,
): Promise<Extract<FlooderWord, { kind: Kind }>> {
  return new Promise((resolve) => {
    const listen = (word: FlooderWord) => {
      if (word.kind !== kind) return;
      child.off('message', listen);
      resolve(word as Extract<FlooderWord, { kind: Kind }>);
    };
    child.on('message', listen);
  });
}

function noWaits(): Waits {
  return { confirm: [], PUBACK: [], 'REST read': [], failed: 0 };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));
}
