/**
 * A private PostgreSQL of Debian's package. It listens only on a socket in its own folder, and a commit is on disk
 * before it is answered.
 */
import { execFileSync } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { asUser, idsOf, isRoot, startServer } from './private-process.ts';

const PROGRAMS = '/usr/lib/postgresql/15/bin';
/** PostgreSQL refuses to run as root. */
const USER = 'postgres';
const PORT = 5432;

const SETTINGS = {
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
  listen_addresses: '',
  shared_buffers: '256MB',
  // No replica follows it, so its log need not contain what one would need.
  wal_level: 'minimal',
  max_wal_senders: '0',
  max_wal_size: '4GB',
  jit: 'off',
};

export interface Postgres {
  pid: number;
  /** The folder of the socket, as `host` for `pg`. */
  socketFolder: string;
  stop(): Promise<void>;
}

export function isPostgresInstalled(): boolean {
  return existsSync(join(PROGRAMS, 'postgres'));
}

export async function startPostgres(): Promise<Postgres> {
  if (!isPostgresInstalled())
    throw new Error("PostgreSQL is not installed: install Debian's package postgresql");
  const folder = mkdtempSync(join(tmpdir(), 'sitewire-postgres-'));
  const [data, socketFolder] = [join(folder, 'data'), join(folder, 'socket')];
  for (const path of [data, socketFolder]) mkdirSync(path, { mode: 0o700 });
  if (isRoot()) for (const path of [folder, data, socketFolder]) chownSync(path, ...idsOf(USER));
  const initdb = [join(PROGRAMS, 'initdb'), '--pgdata', data, '--auth', 'trust', '--username', USER];
  const [program = '', ...given] = [...asUser(USER), ...initdb, '--encoding', 'UTF8', '--no-locale'];
  execFileSync(program, given, { stdio: ['ignore', 'ignore', 'pipe'] });
  const settings = { ...SETTINGS, port: String(PORT), unix_socket_directories: socketFolder };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const statusFile = join(data, 'postmaster.pid');
  const server = await startServer({
    name: 'PostgreSQL',
    command: [join(PROGRAMS, 'postgres'), '-D', data, ...flags],
    user: USER,
    // Ends the connections and writes a checkpoint.
    signal: 'SIGINT',
    isReady: () => existsSync(statusFile) && readFileSync(statusFile, 'utf8').includes('ready'),
  });
  return {
    pid: server.pid,
    socketFolder,
    stop: async () => {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
