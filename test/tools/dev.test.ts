/** `npm start` and `npm run demo` as a stranger runs them, but for the ports. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import type { Stack } from '../../tools/stack-file.ts';
import { eventually } from '../support/stack.ts';

const TOOLS = join(import.meta.dirname, '..', '..', 'tools');
const ANY_PORT = {
  SITEWIRE_HTTP_PORT: '0',
  SITEWIRE_AMQPS_PORT: '0',
  SITEWIRE_MQTTS_PORT: '0',
  SITEWIRE_METRICS_PORT: '0',
};

interface Run {
  process: ChildProcess;
  output: () => string;
  ended: Promise<number | null>;
}

const runs: Run[] = [];
const folders: string[] = [];

function run(script: string, folder: string, env: Record<string, string> = {}): Run {
  const child = spawn(process.execPath, [join(TOOLS, script)], {
    env: { ...process.env, SITEWIRE_DATA_DIR: folder, ...ANY_PORT, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (part: Buffer) => (output += part));
  const ended = once(child, 'exit').then(([code]) => code as number | null);
  const started = { process: child, output: () => output, ended };
  runs.push(started);
  return started;
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sitewire-dev-'));
  folders.push(folder);
  return folder;
}

async function start(folder: string): Promise<{ stack: Run; described: Stack }> {
  const stack = run('dev.ts', folder);
  const isReady = () => stack.output().includes('Sitewire is ready') || stack.process.exitCode !== null;
  await eventually(() => isReady() || undefined, 30_000);
  expect(stack.output()).toContain('Sitewire is ready');
  return { stack, described: JSON.parse(readFileSync(join(folder, 'stack.json'), 'utf8')) };
}

function isAlive(pid: number | null): boolean {
  try {
    return pid !== null && process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function expectGone(...pids: (number | null)[]): Promise<void> {
  for (const pid of pids) expect(pid).toBeGreaterThan(0);
  await eventually(() => !pids.some(isAlive) || undefined);
}

afterEach(async () => {
  for (const { process: child, ended } of runs.splice(0)) {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM');
    await ended;
  }
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

describe('npm start', () => {
  it('brings up a stack that the demo holds on, and takes all of it down at a signal', async () => {
    const folder = newFolder();
    const { stack, described } = await start(folder);
    const demo = run('demo.ts', folder);
    expect(await demo.ended, demo.output()).toBe(0);
    expect(demo.output()).toContain('The main loop holds.');

    stack.process.kill('SIGTERM');
    expect(await stack.ended).toBe(0);
    expect(existsSync(join(folder, 'stack.json'))).toBe(false);
    const { edge, bridge, simulator } = described.pids;
    await expectGone(edge, bridge, simulator);
  }, 60_000);

  it('starts again on what it kept when it was killed, and nothing of the killed one runs on', async () => {
    const folder = newFolder();
    const first = await start(folder);
    first.stack.process.kill('SIGKILL');
    await first.stack.ended;
    const { edge, bridge, simulator } = first.described.pids;
    await expectGone(bridge, simulator);
    const second = await start(folder);
    await expectGone(edge);
    expect(second.described.apiKey).toEqual(first.described.apiKey);
    const demo = run('demo.ts', folder);
    expect(await demo.ended, demo.output()).toBe(0);
  }, 60_000);

  it.each(['SITEWIRE_HTTP_PORT', 'SITEWIRE_MQTTS_PORT'])(
    'says which port is taken and what to do, and starts nothing (%s)',
    async (name) => {
      const server = createServer().listen(0, '127.0.0.1');
      await once(server, 'listening');
      const { port } = server.address() as { port: number };
      const folder = newFolder();
      const stack = run('dev.ts', folder, { [name]: String(port) });
      expect(await stack.ended).toBe(1);
      server.close();
      expect(stack.output()).toBe(
        `Sitewire cannot start: port ${port} is taken: stop what listens there, or choose another with ${name}\n`,
      );
      expect(existsSync(join(folder, 'edge'))).toBe(false);
    },
  );

  it('refuses a folder that another stack runs on', async () => {
    const folder = newFolder();
    const { described } = await start(folder);
    const second = run('dev.ts', folder);
    expect(await second.ended).toBe(1);
    expect(second.output()).toContain(`a stack is running on ${folder} (process ${described.pids.stack})`);
    expect(isAlive(described.pids.edge)).toBe(true);
  }, 60_000);

  it('refuses what is no port', async () => {
    const stack = run('dev.ts', newFolder(), { SITEWIRE_AMQPS_PORT: 'amqps' });
    expect(await stack.ended).toBe(1);
    expect(stack.output()).toBe('Sitewire cannot start: SITEWIRE_AMQPS_PORT must be a port, not "amqps"\n');
  });
});

describe('npm run demo', () => {
  it('says what to do when there is no stack', async () => {
    const demo = run('demo.ts', newFolder());
    expect(await demo.ended).toBe(1);
    expect(demo.output()).toContain('npm start');
    expect(demo.output()).not.toContain('    at ');
  });
});
