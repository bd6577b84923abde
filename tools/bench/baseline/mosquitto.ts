/**
 * A private mosquitto of Debian's package: devices connect over TLS with their own password and use only their own
 * topics; the application connects over loopback without TLS.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CertificateFiles } from '../../certificates.ts';
import { freePort } from '../../ports.ts';
import { isRoot, startServer } from './private-process.ts';

const SERVER = '/usr/sbin/mosquitto';
const PASSWORDS = '/usr/bin/mosquitto_passwd';

export interface Login {
  username: string;
  password: string;
}

export interface Mosquitto {
  pid: number;
  ports: { tcp: number; tls: number };
  stop(): Promise<void>;
}

export function isMosquittoInstalled(): boolean {
  return existsSync(SERVER) && existsSync(PASSWORDS);
}

/** `application`: the login that may use the topics of all devices. */
export async function startMosquitto(
  certificates: CertificateFiles,
  application: Login,
  devices: readonly Login[],
): Promise<Mosquitto> {
  if (!isMosquittoInstalled())
    throw new Error("mosquitto is not installed: install Debian's package mosquitto");
  const folder = mkdtempSync(join(tmpdir(), 'sitewire-mosquitto-'));
  const ports = { tcp: await freePort(), tls: await freePort() };
  const file = (name: string) => join(folder, name);
  writeFileSync(
    file('passwords'),
    [application, ...devices].map(({ username, password }) => `${username}:${password}\n`).join(''),
    { mode: 0o600 },
  );
  // Replaces each password with its hash.
  execFileSync(PASSWORDS, ['-U', file('passwords')]);
  writeFileSync(file('rights'), rights(application));
  const settings = [
    'per_listener_settings false',
    'allow_anonymous false',
    `password_file ${file('passwords')}`,
    `acl_file ${file('rights')}`,
    'persistence true',
    `persistence_location ${folder}/`,
    'set_tcp_nodelay true',
    // By default it drops messages for a subscriber that is a thousand behind.
    'max_inflight_messages 0',
    'max_queued_messages 0',
    `log_dest file ${file('log')}`,
    `pid_file ${file('pid')}`,
    ...(isRoot() ? ['user root'] : []),
    `listener ${ports.tcp} 127.0.0.1`,
    `listener ${ports.tls} 127.0.0.1`,
    `cafile ${certificates.ca}`,
    `certfile ${certificates.certificate}`,
    `keyfile ${certificates.key}`,
  ];
  writeFileSync(file('mosquitto.conf'), `${settings.join('\n')}\n`);
  const server = await startServer({
    name: 'mosquitto',
    command: [SERVER, '-c', file('mosquitto.conf')],
    signal: 'SIGTERM',
    isReady: () => existsSync(file('log')) && readFileSync(file('log'), 'utf8').includes('running'),
  });
  return {
    pid: server.pid,
    ports,
    stop: async () => {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function rights({ username }: Login): string {
  return [
    `user ${username}`,
    'topic readwrite cpi/#',
    'pattern write cpi/%u/telemetry',
    'pattern write cpi/%u/status',
    'pattern write cpi/%u/ack',
    'pattern read cpi/%u/commands',
    '',
  ].join('\n');
}
