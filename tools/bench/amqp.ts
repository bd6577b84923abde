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
import { durableQueue, measureRound, type Side } from './amqp-sides.ts';
import { rowsOfPublishes, throughVhost } from './amqp-vhost.ts';
import { GENERATOR_CORE, pin, SYSTEM_CORE } from './cores.ts';
import { startDurableRabbitMq } from './rabbitmq.ts';
import { compared, ROUNDS, type Sides } from './runner.ts';

const LOAD = { messages: 40_000, warmUp: 10_000, inFlight: 1_000 };
const BODY_BYTES = 300;
const VHOST = 'partner-bench';
const OURS = {
  route: { exchange: 'vcp', routingKey: 'acme.command.device' },
  queues: ['vcp.acme.event.status'],
  bodies,
};

type Transport = 'tcp' | 'tls';

export const amqp = [
  ...(['tcp', 'tls'] as const).map((transport) =>
    compared({
      title: `the AMQP listener over ${transport} against durable RabbitMQ, ${ROUNDS} rounds`,
      aims: { 'confirmed publishes': '≥ 5', deliveries: '≥ 3' },
      other: 'RabbitMQ',
      start: () => startLayers(transport),
      load: async (side) => side,
      warmUp: (side) => measureRound(side, LOAD.warmUp, LOAD.inFlight),
      measure: (side) => measureRound(side, LOAD.messages, LOAD.inFlight),
    }),
  ),
  throughVhost,
  rowsOfPublishes,
];

/** The protocol layer only, with a queue in memory. */
async function startLayers(transport: Transport): Promise<Sides<Side>> {
  const folder = mkdtempSync(join(tmpdir(), 'sitewire-bench-amqp-'));
  const certificates = await ensureCertificates(folder);
  const rabbitMq = await startDurableRabbitMq(certificates);
  const { broker, addresses } = await startOurs(certificates);
  pin(process.pid, GENERATOR_CORE);
  const theirs = await durableQueue(rabbitMq[transport], bodies);
  return {
    sides: [{ address: addresses[transport], ...OURS }, theirs],
    stop: async () => {
      const exited = once(broker, 'exit');
      broker.kill('SIGTERM');
      await exited;
      await rabbitMq.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
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
