/**
 * AMQP against durable RabbitMQ, with amqplib on both sides and the same transport, alternating in one run:
 * confirmed publishes and deliveries per second. First the protocol layer with a queue in memory, then the
 * whole path through bridge and Vhost.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CertificateFiles, ensureCertificates } from '../certificates.ts';
import type { BrokerAddress } from './amqp-load.ts';
import { compare, durableQueue, ROUNDS } from './amqp-sides.ts';
import { benchThroughVhost } from './amqp-vhost.ts';
import { GENERATOR_CORE, pin, SYSTEM_CORE } from './cores.ts';
import { type Figure, report } from './figures.ts';
import { type RabbitMq, startDurableRabbitMq } from './rabbitmq.ts';

const LOAD = { messages: 40_000, warmUp: 10_000, inFlight: 1_000 };
const TARGETS = { publishes: '≥ 5', deliveries: '≥ 3' };
const BODY_BYTES = 300;
const VHOST = 'partner-bench';
const OURS = {
  route: { exchange: 'vcp', routingKey: 'acme.command.device' },
  queues: ['vcp.acme.event.status'],
  bodies,
};

type Transport = 'tcp' | 'tls';

export async function benchAmqp(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'sitewire-bench-amqp-'));
  const certificates = await ensureCertificates(folder);
  const rabbitMq = await startDurableRabbitMq(certificates);
  try {
    const figures = [
      ...(await compareLayers(rabbitMq, certificates)),
      ...(await benchThroughVhost(rabbitMq)),
    ];
    report('amqp', `the AMQP listener against durable RabbitMQ, ${ROUNDS} rounds`, figures);
  } finally {
    await rabbitMq.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The protocol layer only, with a queue in memory. */
async function compareLayers(rabbitMq: RabbitMq, certificates: CertificateFiles): Promise<Figure[]> {
  const { broker, addresses } = await startOurs(certificates);
  pin(process.pid, GENERATOR_CORE);
  const figures: Figure[] = [];
  try {
    for (const transport of ['tcp', 'tls'] as const) {
      const ours = { address: addresses[transport], ...OURS };
      const theirs = await durableQueue(rabbitMq[transport], bodies);
      figures.push(...(await compare(transport, ours, theirs, LOAD, TARGETS)));
    }
  } finally {
    const exited = once(broker, 'exit');
    broker.kill('SIGTERM');
    await exited;
  }
  return figures;
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

/** Bodies of random letters, each different. */
function bodies(count: number): Buffer[] {
  return Array.from({ length: count }, () => Buffer.from(randomBytes(BODY_BYTES / 2).toString('hex')));
}
