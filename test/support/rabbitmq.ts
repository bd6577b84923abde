/**
 * A RabbitMQ of one's own, of Debian's package: its data, cookie, port mapper and ports are private, it listens on
 * loopback alone, and what it is to hold it reads at its start.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../tools/ports.ts';
import type { Broker, Lane, Rights } from '../conformance/amqp/broker.ts';
import { eventually } from './stack.ts';

const SERVER = '/usr/lib/rabbitmq/bin/rabbitmq-server';
const PORT_MAPPER = '/usr/bin/epmd';
const START_MS = 50_000;
const STOP_MS = 10_000;

/** Names as long as ours: a long text is cut. */
const USER = 'acme-rabbit';
const PASSWORD = 'a-password-of-conformance';
const OTHER_VHOST = `partner-${randomUUID()}`;
const OUR_QUEUES = [
  ...['event.alarm', 'event.status', 'event.execution', 'event.telemetry', 'dead-letter'],
  ...['command', 'schedule', 'config'],
];
/** What is published lands where a malformed publish does with us. */
const DEAD_LETTER_KEYS = ['command.#', 'schedule.#', 'config.#'];
/** The families of the routing keys that a key may publish under [C-6.2]. */
const PUBLISHED =
  '^$U\\.(command\\.(site-setpoint|emergency|mode|device(\\.[^.*#]+)?)|(schedule|config)\\.[^.*#]+)$';

export interface RabbitVhost {
  name: string;
  rights: Rights;
  maxConnections?: number;
}

/** With the name that it has. */
type OpenVhost = RabbitVhost & { vhost: string };

export function isRabbitInstalled(): boolean {
  return existsSync(SERVER) && existsSync(PORT_MAPPER);
}

export async function startRabbit(groups: readonly RabbitVhost[]): Promise<Broker> {
  const folder = mkdtempSync(join(tmpdir(), 'sitewire-conformance-'));
  const ports = { amqp: await freePort(), distribution: await freePort(), mapper: await freePort() };
  const vhosts = groups.map((group) => ({ ...group, vhost: `partner-${randomUUID()}` }));
  writeFiles(folder, ports.amqp, vhosts);
  const log = join(folder, 'log');
  const env = environment(folder, ports);
  // In the foreground, both: they end by their own ids.
  const mapper = spawn(PORT_MAPPER, ['-port', String(ports.mapper), '-address', '127.0.0.1'], {
    env,
    stdio: 'ignore',
  });
  // With the end of its input it ends, however this process does.
  const server = spawn(SERVER, [], { env, stdio: 'pipe' });
  let said = '';
  for (const stream of [server.stdout, server.stderr]) stream.on('data', (part: Buffer) => (said += part));
  const children = [mapper, server];
  const stop = async () => {
    for (const child of children.toReversed()) await end(child);
    rmSync(folder, { recursive: true, force: true });
  };
  const ended = () => children.find(({ exitCode }) => exitCode !== null);
  try {
    await eventually(async () => {
      if (ended()) throw new Error(`RabbitMQ ended: ${said}${readLog(log)}`);
      return readLog(log).includes('Server startup complete');
    }, START_MS);
  } catch (error) {
    await stop();
    throw error;
  }
  const open = async () => {
    const socket = connect({ host: '127.0.0.1', port: ports.amqp, noDelay: true });
    await once(socket, 'connect');
    return socket;
  };
  const lane = async (group: string): Promise<Lane> => ({
    user: USER,
    password: PASSWORD,
    vhost: vhosts.find(({ name }) => name === group)?.vhost ?? '',
    otherVhost: OTHER_VHOST,
    connect: open,
  });
  return { lane, stop };
}

function readLog(folder: string): string {
  const file = join(folder, 'rabbit.log');
  return existsSync(file) ? readFileSync(file, 'utf8') : '';
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  await exited;
  clearTimeout(timer);
}

function environment(
  folder: string,
  ports: { amqp: number; distribution: number; mapper: number },
): Record<string, string> {
  return {
    PATH: process.env.PATH ?? '',
    HOME: folder,
    LANG: 'C.UTF-8',
    ERL_EPMD_PORT: String(ports.mapper),
    ERL_EPMD_ADDRESS: '127.0.0.1',
    RABBITMQ_ALLOW_INPUT: 'true',
    RABBITMQ_CONF_ENV_FILE: join(folder, 'none'),
    RABBITMQ_NODENAME: `sitewire-${randomBytes(4).toString('hex')}@localhost`,
    RABBITMQ_DIST_PORT: String(ports.distribution),
    RABBITMQ_MNESIA_BASE: join(folder, 'data'),
    RABBITMQ_LOG_BASE: join(folder, 'log'),
    RABBITMQ_LOGS: join(folder, 'log', 'rabbit.log'),
    RABBITMQ_CONFIG_FILE: join(folder, 'rabbitmq.conf'),
    RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, 'enabled_plugins'),
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS:
      '-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none',
  };
}

/** Its limits are ours, so that what comes of them can be compared [C-6.3]. */
function writeFiles(folder: string, port: number, vhosts: readonly OpenVhost[]): void {
  for (const name of ['data', 'log']) mkdirSync(join(folder, name));
  const cookie = join(folder, '.erlang.cookie');
  writeFileSync(cookie, randomBytes(16).toString('hex'));
  chmodSync(cookie, 0o400);
  writeFileSync(join(folder, 'enabled_plugins'), '[].\n');
  const definitions = join(folder, 'definitions.json');
  writeFileSync(definitions, JSON.stringify(definitionsOf(vhosts)));
  const settings = {
    'listeners.tcp.1': `127.0.0.1:${port}`,
    channel_max: 64,
    max_message_size: 262_144,
    load_definitions: definitions,
    'log.file.level': 'info',
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}\n`);
  writeFileSync(join(folder, 'rabbitmq.conf'), lines.join(''));
}

function definitionsOf(vhosts: readonly OpenVhost[]): object {
  const named = (text: string) => text.replaceAll('$U', USER);
  const queueName = (name: string) => `vcp.${USER}.${name}`;
  const empty = { arguments: {} };
  const names = [...vhosts.map(({ vhost }) => vhost), OTHER_VHOST];
  const inEach = (entries: object[]) =>
    names.flatMap((vhost) => entries.map((entry) => ({ ...entry, ...empty, vhost })));
  return {
    users: [{ name: USER, ...hashOf(PASSWORD), tags: '' }],
    vhosts: names.map((name) => ({ name })),
    permissions: vhosts.map(({ vhost, rights: { configure, write, read } }) => ({
      user: USER,
      vhost,
      configure: named(configure),
      write: named(write),
      read: named(read),
    })),
    topic_permissions: vhosts.map(({ vhost }) => ({
      user: USER,
      vhost,
      exchange: 'vcp',
      write: named(PUBLISHED),
      read: named('^$U\\.event\\.'),
    })),
    parameters: vhosts.flatMap(({ vhost, maxConnections }) =>
      maxConnections === undefined
        ? []
        : { component: 'vhost-limits', name: 'limits', vhost, value: { 'max-connections': maxConnections } },
    ),
    exchanges: inEach([{ name: 'vcp', type: 'topic', durable: true, auto_delete: false, internal: false }]),
    queues: inEach(OUR_QUEUES.map((name) => ({ name: queueName(name), durable: true, auto_delete: false }))),
    bindings: inEach(
      DEAD_LETTER_KEYS.map((key) => ({
        source: 'vcp',
        destination: queueName('dead-letter'),
        destination_type: 'queue',
        routing_key: `${USER}.${key}`,
      })),
    ),
  };
}

function hashOf(password: string): object {
  const salt = randomBytes(4);
  const hash = createHash('sha256')
    .update(Buffer.concat([salt, Buffer.from(password)]))
    .digest();
  return {
    password_hash: Buffer.concat([salt, hash]).toString('base64'),
    hashing_algorithm: 'rabbit_password_hashing_sha256',
  };
}
