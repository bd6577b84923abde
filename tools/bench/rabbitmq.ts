/**
 * Debian's RabbitMQ as the other side of a benchmark: a node of its own in private directories on loopback ports, with
 * an epmd of its own, both ended by their process ids. The durable broker as it is installed, Nagle off.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'amqplib';
import type { CertificateFiles } from '../certificates.ts';
import { freePort } from '../ports.ts';
import type { BrokerAddress } from './amqp-load.ts';
import { pinnedTo, SYSTEM_CORE } from './cores.ts';

const SERVER = '/usr/lib/rabbitmq/bin/rabbitmq-server';
const START_TIMEOUT_MS = 60_000;
const LOOK_EVERY_MS = 250;

export interface RabbitMq {
  tcp: BrokerAddress;
  tls: BrokerAddress;
  stop(): Promise<void>;
}

/** Throws a sentence for a person where the package is missing. */
export async function startRabbitMq(certificates: CertificateFiles): Promise<RabbitMq> {
  if (!existsSync(SERVER)) throw new Error("this benchmark needs RabbitMQ: install Debian's rabbitmq-server");
  const folder = mkdtempSync(join(tmpdir(), 'sitewire-rabbitmq-'));
  const [tcpPort, tlsPort, epmdPort, nodePort] = [
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
  ];
  writeFileSync(
    join(folder, 'rabbitmq.conf'),
    [
      `listeners.tcp.1 = 127.0.0.1:${tcpPort}`,
      `listeners.ssl.1 = 127.0.0.1:${tlsPort}`,
      `ssl_options.cacertfile = ${certificates.ca}`,
      `ssl_options.certfile = ${certificates.certificate}`,
      `ssl_options.keyfile = ${certificates.key}`,
      'tcp_listen_options.nodelay = true',
      'log.file.level = error',
    ].join('\n'),
  );
  writeFileSync(join(folder, 'enabled_plugins'), '[].\n');
  writeFileSync(join(folder, '.erlang.cookie'), randomBytes(16).toString('hex'), { mode: 0o400 });
  const env = {
    ...process.env,
    HOME: folder,
    ERL_EPMD_PORT: String(epmdPort),
    ERL_EPMD_ADDRESS: '127.0.0.1',
    RABBITMQ_NODENAME: `bench-${randomBytes(3).toString('hex')}@localhost`,
    RABBITMQ_DIST_PORT: String(nodePort),
    RABBITMQ_CONF_ENV_FILE: join(folder, 'no-environment.conf'),
    RABBITMQ_CONFIG_FILE: join(folder, 'rabbitmq.conf'),
    RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, 'enabled_plugins'),
    RABBITMQ_MNESIA_BASE: join(folder, 'mnesia'),
    RABBITMQ_LOG_BASE: join(folder, 'log'),
  };
  const epmd = spawn('epmd', ['-port', String(epmdPort)], { env, stdio: 'ignore' });
  // The script becomes the runtime: this process is the broker.
  const broker = spawn(...pinnedTo(SYSTEM_CORE, SERVER), { env, stdio: ['ignore', 'pipe', 'inherit'] });
  broker.stdout?.resume();
  const stop = async () => {
    await ended(broker, 'SIGTERM');
    await ended(epmd, 'SIGTERM');
    rmSync(folder, { recursive: true, force: true });
  };
  const login = { hostname: 'localhost', username: 'guest', password: 'guest', vhost: '/' };
  const tcp = { ...login, protocol: 'amqp', port: tcpPort };
  const tls = { ...login, protocol: 'amqps', port: tlsPort, ca: certificates.ca };
  try {
    await untilReady(tcp, broker);
  } catch (error) {
    await stop();
    throw error;
  }
  return { tcp, tls, stop };
}

async function untilReady(address: BrokerAddress, broker: ChildProcess): Promise<void> {
  const giveUpAt = Date.now() + START_TIMEOUT_MS;
  for (;;) {
    try {
      const connection = await connect(address);
      await connection.close();
      return;
    } catch (error) {
      if (broker.exitCode !== null) throw new Error(`rabbitmq-server ended with ${broker.exitCode}`);
      if (Date.now() > giveUpAt) throw new Error('rabbitmq-server does not listen', { cause: error });
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
    }
  }
}

async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill(signal);
  await exited;
}
