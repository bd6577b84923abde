/**
 * The AMQP listener's protocol layer over a queue in memory against durable RabbitMQ, amqplib on both sides and the same
 * transport, alternating in one run: confirmed publishes and deliveries a second. Then the whole way, bridge and Vhost,
 * against the same RabbitMQ.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CertificateFiles, ensureCertificates } from '../certificates.ts';
import { type BrokerAddress, LoadClient, type Route } from './amqp-load.ts';
import { GENERATOR_CORE, pin, SYSTEM_CORE } from './cores.ts';
import { type Figure, median, report } from './figures.ts';
import { startRabbitMq } from './rabbitmq.ts';

const ROUNDS = 5;
const MESSAGES = 40_000;
const WARM_UP_MESSAGES = 10_000;
const BODY_BYTES = 300;
const IN_FLIGHT = 1_000;
const VHOST = 'partner-bench';
const OURS: Route = { exchange: 'vcp', routingKey: 'acme.command.device' };
const OUR_QUEUE = 'vcp.acme.event.status';
const THEIR_QUEUE = 'bench';

type Transport = 'tcp' | 'tls';

interface Side {
  address: BrokerAddress;
  route: Route;
  queue: string;
}

interface Rates {
  publishes: number[];
  deliveries: number[];
}

export async function benchAmqp(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'sitewire-bench-amqp-'));
  const certificates = await ensureCertificates(folder);
  const rabbitMq = await startRabbitMq(certificates);
  const { broker, addresses } = await startOurs(certificates);
  pin(process.pid, GENERATOR_CORE);
  const figures: Figure[] = [];
  for (const transport of ['tcp', 'tls'] as const) {
    const ours = { address: addresses[transport], route: OURS, queue: OUR_QUEUE };
    const theirs = await declared(rabbitMq[transport]);
    figures.push(...(await compare(transport, ours, theirs)));
  }
  const exited = once(broker, 'exit');
  broker.kill('SIGTERM');
  await exited;
  await rabbitMq.stop();
  rmSync(folder, { recursive: true, force: true });
  report('amqp', `protocol layer over a queue in memory against durable RabbitMQ, ${ROUNDS} rounds`, figures);
}

async function startOurs(
  certificates: CertificateFiles,
): Promise<{ broker: ChildProcess; addresses: Record<Transport, BrokerAddress> }> {
  const given = [VHOST, certificates.certificate, certificates.key];
  const broker = fork(join(import.meta.dirname, 'amqp-broker.ts'), given);
  pin(broker.pid ?? 0, SYSTEM_CORE);
  const [ports] = (await once(broker, 'message')) as [Record<Transport, number>];
  const login = { hostname: 'localhost', username: 'acme', password: 'key', vhost: VHOST };
  return {
    broker,
    addresses: {
      tcp: { ...login, protocol: 'amqp', port: ports.tcp },
      tls: { ...login, protocol: 'amqps', port: ports.tls, ca: certificates.ca },
    },
  };
}

/** A durable queue of RabbitMQ, reached through the default exchange. */
async function declared(address: BrokerAddress): Promise<Side> {
  const client = await LoadClient.connect(address);
  await client.channel.assertQueue(THEIR_QUEUE, { durable: true });
  await client.close();
  return { address, route: { exchange: '', routingKey: THEIR_QUEUE }, queue: THEIR_QUEUE };
}

async function compare(transport: Transport, ours: Side, theirs: Side): Promise<Figure[]> {
  const [our, their]: [Rates, Rates] = [
    { publishes: [], deliveries: [] },
    { publishes: [], deliveries: [] },
  ];
  for (const side of [ours, theirs]) await round(side, WARM_UP_MESSAGES);
  for (let count = 0; count < ROUNDS; count++) {
    for (const [side, rates] of [
      [ours, our],
      [theirs, their],
    ] as const) {
      const { publishes, deliveries } = await round(side, MESSAGES);
      rates.publishes.push(publishes);
      rates.deliveries.push(deliveries);
    }
  }
  return [
    ...figuresOf(`confirmed publishes, ${transport}`, our.publishes, their.publishes, '≥ 5'),
    ...figuresOf(`deliveries, ${transport}`, our.deliveries, their.deliveries, '≥ 3'),
  ];
}

async function round(side: Side, messages: number): Promise<{ publishes: number; deliveries: number }> {
  const client = await LoadClient.connect(side.address);
  const bodies = Array.from({ length: messages }, () =>
    Buffer.from(randomBytes(BODY_BYTES / 2).toString('hex')),
  );
  const publishes = await client.publish(side.route, bodies, IN_FLIGHT);
  const deliveries = await client.take([side.queue], messages);
  await client.close();
  return { publishes, deliveries };
}

/** Medians with their ranges, and the ratio of each round. */
function figuresOf(what: string, our: readonly number[], their: readonly number[], target: string): Figure[] {
  const ratios = our.map((rate, index) => rate / (their[index] ?? Number.NaN));
  const range = (values: readonly number[]) => ({ least: Math.min(...values), most: Math.max(...values) });
  return [
    { name: `${what}, ours`, value: median(our), unit: '1/s', ...range(our) },
    { name: `${what}, RabbitMQ`, value: median(their), unit: '1/s', ...range(their) },
    { name: `${what}, ours / RabbitMQ`, value: median(ratios), unit: '×', target, ...range(ratios) },
  ];
}
