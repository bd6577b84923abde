/**
 * How long a partner's commands take while twenty clients without a credential send requests as fast as they can,
 * compared with the same partner without them, alternating in one run. Nothing is pinned.
 *
 * The edge sees client addresses as on Cloudflare, with the default limit of requests per address. The clients either
 * have an address each, new in every phase, so that most of them stay below the limit; or share one address, which
 * reaches the limit within a second.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { SeededPlant } from '../seed.ts';
import { type BenchStack, startBenchStack } from './bench-stack.ts';
import { type Figure, median, percentile, report } from './figures.ts';
import { connectInstantDevice } from './instant-device.ts';
import { CommandingPartner } from './plant-load.ts';
import type { Attack, RequesterOrder, RequesterWord } from './requester.ts';

const ATTACKS: readonly Attack[] = ['openapi.json', 'wrong passwords', 'unknown API keys', '1 MiB bodies'];
const ROUNDS = 3;
const CLIENTS = 20;
const PHASE_MS = Number(process.env.SITEWIRE_BENCH_PHASE_MS ?? 8_000);
const COMMAND_EVERY_MS = 100;
const SETTLE_MS = 1_000;
/** Commands before the measurement: the runtime needs some thousands to compile the hot code. */
const WARM_UP = 3_000;
/** How long each kind of request is sent before the measurement. */
const ATTACK_WARM_UP_MS = 2_000;
/** A command that takes longer counts with this time. */
const LONGEST_MS = 60_000;

type Addresses = 'an address each' | 'one address';

/** The p50 of one quiet phase and of the phase with strangers that followed it. */
interface Round {
  quietMs: number;
  attackedMs: number;
  longestMs: number;
  /** Time until a new connection of the partner was open; undefined if the connection failed. */
  quietConnectMs: number | undefined;
  connectMs: number | undefined;
  answers: RequesterWord['answers'];
  seconds: number;
}

interface Sides {
  stack: BenchStack;
  plant: SeededPlant;
  partner: CommandingPartner;
  requester: ChildProcess;
}

export async function benchStrangersRequests(): Promise<void> {
  const stack = await startBenchStack({ pinned: false, bindings: { CLIENT_ADDRESS: 'platform' } });
  const [plant] = stack.plants;
  if (!plant) throw new Error('The stack of this benchmark has no plant: a bug of the benchmark');
  const device = await connectInstantDevice(stack, plant);
  const partner = await CommandingPartner.start(await stack.partner(), 'acme');
  const requester = fork(join(import.meta.dirname, 'requester.ts'));
  const sides: Sides = { stack, plant, partner, requester };
  for (let count = 0; count < WARM_UP; count++) await partner.complete(plant);
  for (const attack of ATTACKS)
    await attacked(sides, attack, addressesOf('an address each'), ATTACK_WARM_UP_MS);

  const figures: Figure[] = [];
  for (const kind of ['an address each', 'one address'] as const) {
    const rounds = new Map<Attack, Round[]>(ATTACKS.map((attack) => [attack, []]));
    for (let round = 0; round < ROUNDS; round++) {
      for (const attack of ATTACKS) {
        const measured = await measure(sides, attack, kind);
        rounds.get(attack)?.push(measured);
        console.log(
          `  ${kind}, round ${round + 1} of ${ROUNDS}, ${attack}: ${measured.quietMs.toFixed(1)} → ${measured.attackedMs.toFixed(1)} ms, ${JSON.stringify(measured.answers)}`,
        );
      }
    }
    for (const [attack, some] of rounds) figures.push(...figuresOf(`${kind}, ${attack}`, some));
  }
  requester.disconnect();
  await partner.partner.close();
  device.end(true);
  await stack.stop();
  report(
    'strangers-requests',
    `a partner's commands while ${CLIENTS} clients without a credential send requests`,
    figures,
  );
}

async function measure(sides: Sides, attack: Attack, kind: Addresses): Promise<Round> {
  const quiet = await commandsFor(sides, PHASE_MS);
  const { waits, connectMs, word } = await attacked(sides, attack, addressesOf(kind), PHASE_MS);
  await pause(SETTLE_MS);
  return {
    quietMs: percentile(quiet.waits, 0.5),
    attackedMs: percentile(waits, 0.5),
    longestMs: Math.max(...waits),
    quietConnectMs: quiet.connectMs,
    connectMs,
    answers: word.answers,
    seconds: word.seconds,
  };
}

async function attacked(sides: Sides, attack: Attack, addresses: string[], ms: number) {
  const { requester, stack } = sides;
  const give = (order: RequesterOrder) => requester.send(order);
  give({ kind: 'run', url: stack.edge.url, attack, addresses });
  const measured = await commandsFor(sides, ms);
  const stopped = once(requester, 'message') as Promise<[RequesterWord]>;
  give({ kind: 'stop' });
  const [word] = await stopped;
  return { ...measured, word };
}

interface Measured {
  waits: number[];
  connectMs: number | undefined;
}

/**
 * Publishes at fixed times even if earlier commands are unanswered, so that a standstill counts with its full
 * length.
 */
async function commandsFor({ stack, plant, partner }: Sides, ms: number): Promise<Measured> {
  const startedAt = performance.now();
  const waits: Promise<number>[] = [];
  let connecting: Promise<number | undefined> | undefined;
  for (let moment = 0; moment < ms; moment += COMMAND_EVERY_MS) {
    await pause(Math.max(0, startedAt + moment - performance.now()));
    if (moment >= ms / 2) connecting ??= connect(stack);
    waits.push(timed(partner.acknowledged(plant)));
  }
  return { waits: await Promise.all(waits), connectMs: await connecting };
}

/** Measures the time until a new connection of the partner's key is open, including the dial of its link. */
async function connect(stack: BenchStack): Promise<number | undefined> {
  const startedAt = performance.now();
  try {
    const partner = await stack.partner();
    const ms = performance.now() - startedAt;
    await partner.close();
    return ms;
  } catch (error) {
    console.log(`  a new connection failed: ${(error as Error).message}`);
    return undefined;
  }
}

async function timed(work: Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await Promise.race([work, pause(LONGEST_MS, undefined, { ref: false })]);
  return performance.now() - startedAt;
}

let phase = 0;

function addressesOf(kind: Addresses): string[] {
  if (kind === 'one address') return Array.from({ length: CLIENTS }, () => '198.51.100.1');
  phase += 1;
  return Array.from({ length: CLIENTS }, (_, client) => `10.0.${phase}.${client + 1}`);
}

function figuresOf(name: string, rounds: readonly Round[]): Figure[] {
  const middle = (of: (round: Round) => number) => median(rounds.map(of));
  const quietConnects = rounds.flatMap(({ quietConnectMs }) => quietConnectMs ?? []);
  const connects = rounds.flatMap(({ connectMs }) => connectMs ?? []);
  const ratios = rounds.map(({ quietMs, attackedMs }) => attackedMs / quietMs);
  // Requests whose connection the edge closed are not counted: the edge refuses a request over the limit
  // before it reads the body.
  const answered = rounds.map(({ answers }) =>
    Object.entries(answers).reduce((sum, [status, count]) => sum + (status === '0' ? 0 : count), 0),
  );
  const perSecond = rounds.map(({ seconds }, index) => (answered[index] ?? 0) / seconds);
  const limited = rounds.map(({ answers }, index) => (100 * (answers[429] ?? 0)) / (answered[index] || 1));
  return [
    { name: `${name}: ack p50, quiet`, value: middle(({ quietMs }) => quietMs), unit: 'ms' },
    { name: `${name}: ack p50`, value: middle(({ attackedMs }) => attackedMs), unit: 'ms' },
    {
      name: `${name}: p50, with / quiet`,
      value: median(ratios),
      unit: '',
      least: Math.min(...ratios),
      most: Math.max(...ratios),
      target: '≤ 3',
    },
    {
      name: `${name}: longest ack`,
      value: Math.max(...rounds.map(({ longestMs }) => longestMs)),
      unit: 'ms',
    },
    { name: `${name}: new connection, quiet`, value: median(quietConnects), unit: 'ms' },
    { name: `${name}: new connection`, value: median(connects), unit: 'ms' },
    {
      name: `${name}: failed new connections`,
      value: rounds.length - connects.length,
      unit: '',
      target: '0',
    },
    { name: `${name}: answers of the strangers`, value: median(perSecond), unit: '1/s' },
    { name: `${name}: of these 429`, value: median(limited), unit: '%' },
  ];
}
