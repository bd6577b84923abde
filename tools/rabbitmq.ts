/**
 * A private RabbitMQ node of Debian's package, for benchmarks and conformance tests. Its data, cookie, port
 * mapper and ports are its own, it listens only on loopback, and it loads its definitions at start. No system
 * service is needed.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort } from './ports.ts';

const SERVER = '/usr/lib/rabbitmq/bin/rabbitmq-server';
const PORT_MAPPER = '/usr/bin/epmd';
const START_MS = 60_000;
const STOP_MS = 10_000;
const LOOK_EVERY_MS = 100;
const LOOPBACK = '-kernel inet_dist_use_interface {127,0,0,1}';

export interface RabbitMqOptions {
  /** Lines of the node's rabbitmq.conf. */
  settings: Readonly<Record<string, string | number>>;
  /** Users, vhosts and queues, loaded at start. */
  definitions?: object;
  /** More arguments for the Erlang runtime. */
  runtime?: string;
  /** Builds the command that starts the server, for example to pin it to a core. */
  command?(program: string): [string, string[]];
}

export interface RabbitMqNode {
  /** Port of the TCP listener. */
  port: number;
  pid: number;
  stop(): Promise<void>;
}

export function isRabbitMqInstalled(): boolean {
  return existsSync(SERVER) && existsSync(PORT_MAPPER);
}

/** Throws a message for the user if the package is missing, or RabbitMQ's output if it does not start. */
export async function startRabbitMq(options: RabbitMqOptions): Promise<RabbitMqNode> {
  if (!isRabbitMqInstalled())
    throw new Error("RabbitMQ is not installed: install Debian's package rabbitmq-server");
  const folder = mkdtempSync(join(tmpdir(), 'sitewire-rabbitmq-'));
  const ports = { amqp: await freePort(), distribution: await freePort(), mapper: await freePort() };
  writeFiles(folder, ports.amqp, options);
  const env = environment(folder, ports, options.runtime ?? '');
  // Both run in the foreground, so that they can be ended by their process ids.
  const mapper = spawn(PORT_MAPPER, ['-port', String(ports.mapper), '-address', '127.0.0.1'], {
    env,
    stdio: 'ignore',
  });
  const [program, given] = options.command?.(SERVER) ?? [SERVER, []];
  // The server ends when its standard input closes, even if this process is killed.
  const server = spawn(program, given, { env, stdio: 'pipe' });
  let said = '';
  for (const stream of [server.stdout, server.stderr]) stream.on('data', (part: Buffer) => (said += part));
  const stop = async () => {
    for (const child of [server, mapper]) await end(child);
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    await untilStarted([server, mapper], () => readLog(folder));
  } catch (error) {
    const log = readLog(folder);
    await stop();
    throw new Error(`RabbitMQ did not start: ${said}${log}`, { cause: error });
  }
  return { port: ports.amqp, pid: server.pid ?? 0, stop };
}

async function untilStarted(children: readonly ChildProcess[], log: () => string): Promise<void> {
  for (const giveUpAt = Date.now() + START_MS; ; await pause(LOOK_EVERY_MS)) {
    if (log().includes('Server startup complete')) return;
    if (children.some(({ exitCode }) => exitCode !== null))
      throw new Error('RabbitMQ or its port mapper exited during the start');
    if (Date.now() > giveUpAt) throw new Error(`RabbitMQ was not ready within ${START_MS / 1_000} s`);
  }
}

function readLog(folder: string): string {
  const file = join(folder, 'log', 'rabbit.log');
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
  ports: { distribution: number; mapper: number },
  runtime: string,
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
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: `${LOOPBACK} ${runtime}`,
  };
}

function writeFiles(folder: string, port: number, { settings, definitions }: RabbitMqOptions): void {
  for (const name of ['data', 'log']) mkdirSync(join(folder, name));
  writeFileSync(join(folder, '.erlang.cookie'), randomBytes(16).toString('hex'), { mode: 0o400 });
  writeFileSync(join(folder, 'enabled_plugins'), '[].\n');
  const definitionsFile = join(folder, 'definitions.json');
  if (definitions) writeFileSync(definitionsFile, JSON.stringify(definitions));
  const all = {
    'listeners.tcp.1': `127.0.0.1:${port}`,
    'log.file.level': 'info',
    ...(definitions ? { load_definitions: definitionsFile } : {}),
    ...settings,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name} = ${value}\n`);
  writeFileSync(join(folder, 'rabbitmq.conf'), lines.join(''));
}
