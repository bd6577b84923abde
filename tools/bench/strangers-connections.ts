/**
 * What silent connections cost: a process of its own opens 25 000 connections to the AMQPS port of the bridge and sends
 * nothing. Meanwhile a partner and a device log in again and again, from an address of their own. Measures the memory
 * of the bridge, and how long the logins take, compared with logins before. Nothing is pinned.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { connectAsync } from 'mqtt';
import { type BenchStack, startBenchStack } from './bench-stack.ts';
import { type Figure, percentile, report } from './figures.ts';
import { repeat } from './plant-load.ts';
import { descriptorsOf, memoryOf } from './process-figures.ts';
import type { SilentOrder, SilentWord } from './silent-clients.ts';

const CONNECTIONS = Number(process.env.SITEWIRE_BENCH_CONNECTIONS ?? 25_000);
/** So many addresses that each stays below the bridge's limit for one network. */
const MANY_ADDRESSES = 500;
const VARIANTS: { name: string; layer: SilentOrder['layer']; addresses: number }[] = [
  { name: 'TLS, 500 addresses', layer: 'tls', addresses: MANY_ADDRESSES },
  { name: 'TLS, one address', layer: 'tls', addresses: 1 },
  { name: 'TCP only, 500 addresses', layer: 'tcp', addresses: MANY_ADDRESSES },
];
const QUIET_MS = 10_000;
const LOGIN_PAUSE_MS = 100;
/** A login that takes longer counts as failed. */
const LOGIN_LIMIT_MS = 30_000;
const LOOK_EVERY_MS = 200;
/** The bridge closes clients that have not logged in after ten seconds. */
const SETTLE_MS = 15_000;
/** Time for a garbage collection and for the process to return the freed memory. */
const COLLECT_MS = 5_000;

type Client = 'partner' | 'device';
type Login = () => Promise<void>;
type Logins = Record<Client, { times: number[]; failed: number }>;

export async function benchStrangersConnections(): Promise<void> {
  const figures: Figure[] = [];
  // Each variant has its own bridge: a process returns little of the memory that it once had.
  for (const variant of VARIANTS) figures.push(...(await measure(variant)));
  report(
    'strangers-connections',
    `${CONNECTIONS} silent connections to the AMQPS port, opened as fast as this machine can`,
    figures,
  );
}

async function measure({ name, layer, addresses }: (typeof VARIANTS)[number]): Promise<Figure[]> {
  const stack = await startBenchStack({ pinned: false });
  const login = await loginsOf(stack);
  await logInFor(QUIET_MS, login);
  const quiet = await logInFor(QUIET_MS, login);
  const before = await settledMemory(stack);

  const clients = fork(join(import.meta.dirname, 'silent-clients.ts'));
  const answer = once(clients, 'message') as Promise<[SilentWord]>;
  clients.send({
    kind: 'open',
    port: stack.ports.amqps,
    layer,
    addresses,
    count: CONNECTIONS,
  } satisfies SilentOrder);
  let isOver = false;
  const over = answer.then(([word]) => {
    isOver = true;
    return word;
  });
  const peak = { rss: 0, descriptors: 0 };
  const [word, logins] = await Promise.all([
    over,
    logIn(login, () => isOver),
    repeat(
      1,
      () => isOver,
      async () => {
        peak.rss = Math.max(peak.rss, memoryOf(stack.bridgePid).rss);
        peak.descriptors = Math.max(peak.descriptors, descriptorsOf(stack.bridgePid));
        await pause(LOOK_EVERY_MS);
      },
    ),
  ]);
  await pause(SETTLE_MS);
  const after = await settledMemory(stack);
  clients.disconnect();
  await stack.stop();
  const seconds = `${word.seconds.toFixed(1)} s`;
  console.log(
    `  ${name}: ${word.opened} opened and ${word.failed} failed in ${seconds}, ${JSON.stringify(peak)}`,
  );
  return [
    { name: `${name}: tried`, value: CONNECTIONS / word.seconds, unit: '1/s', target: '2 500' },
    { name: `${name}: closed before they were open`, value: word.failed, unit: '' },
    { name: `${name}: bridge memory before`, value: before, unit: 'MiB' },
    { name: `${name}: bridge memory added, highest`, value: peak.rss - before, unit: 'MiB', target: '< 300' },
    { name: `${name}: bridge memory added, after`, value: after - before, unit: 'MiB' },
    { name: `${name}: open descriptors, highest`, value: peak.descriptors, unit: '' },
    ...(['partner', 'device'] as const).flatMap((client) => loginFigures(name, client, quiet, logins)),
  ];
}

function loginFigures(name: string, client: Client, quiet: Logins, during: Logins): Figure[] {
  const [before, now] = [percentile(quiet[client].times, 0.5), percentile(during[client].times, 0.5)];
  return [
    { name: `${name}: ${client} logins`, value: during[client].times.length, unit: '' },
    { name: `${name}: failed ${client} logins`, value: during[client].failed, unit: '', target: '0' },
    { name: `${name}: ${client} login p50, quiet`, value: before, unit: 'ms' },
    { name: `${name}: ${client} login p50`, value: now, unit: 'ms' },
    { name: `${name}: ${client} login p50, with / quiet`, value: now / before, unit: '' },
    { name: `${name}: longest ${client} login`, value: Math.max(...during[client].times), unit: 'ms' },
  ];
}

async function loginsOf(stack: BenchStack): Promise<Record<Client, Login>> {
  const [plant] = stack.plants;
  if (!plant) throw new Error('The stack of this benchmark has no plant: a bug of the benchmark');
  const { id } = plant.gateway;
  const password = await stack.token(id);
  return {
    partner: async () => {
      const partner = await stack.partner();
      await partner.close();
    },
    device: async () => {
      const client = await connectAsync({
        protocol: 'mqtts',
        host: 'localhost',
        port: stack.ports.mqtts,
        ca: stack.ca,
        clientId: id,
        username: id,
        password,
        clean: true,
        reconnectPeriod: 0,
        connectTimeout: LOGIN_LIMIT_MS,
      });
      await client.endAsync();
    },
  };
}

async function logInFor(ms: number, login: Record<Client, Login>): Promise<Logins> {
  const untilMs = performance.now() + ms;
  return await logIn(login, () => performance.now() >= untilMs);
}

/** Both clients log in, one login after the other, until `isOver`. */
async function logIn(login: Record<Client, Login>, isOver: () => boolean): Promise<Logins> {
  const logins: Logins = { partner: { times: [], failed: 0 }, device: { times: [], failed: 0 } };
  const one = (client: Client) => async () => {
    const startedAt = performance.now();
    const isIn = await Promise.race([
      login[client]().then(
        () => true,
        () => false,
      ),
      pause(LOGIN_LIMIT_MS, false, { ref: false }),
    ]);
    logins[client].times.push(performance.now() - startedAt);
    if (!isIn) logins[client].failed += 1;
    await pause(LOGIN_PAUSE_MS);
  };
  await Promise.all([repeat(1, isOver, one('partner')), repeat(1, isOver, one('device'))]);
  return logins;
}

/** RSS in MiB after a garbage collection. */
async function settledMemory({ bridgePid }: BenchStack): Promise<number> {
  process.kill(bridgePid, 'SIGUSR2');
  await pause(COLLECT_MS);
  return memoryOf(bridgePid).rss;
}
