/**
 * The end of a stack of `npm start`, and the next start: no process or file of an earlier stack blocks it.
 */
import { existsSync, mkdirSync, rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import {
  childrenOf,
  cleanUp,
  commandOf,
  expectGone,
  isAlive,
  newFolder,
  run,
  runNpmStart,
  runtimesOf,
  start,
  untilReady,
} from '#support/dev-stack.ts';
import { eventually } from '#support/stack.ts';
import { freePort } from '../../tools/ports.ts';

afterEach(cleanUp);

async function portsOfItsOwn(): Promise<Record<string, string>> {
  const names = ['HTTP', 'AMQPS', 'MQTTS', 'METRICS'];
  const entries = await Promise.all(
    names.map(async (name) => [`SITEWIRE_${name}_PORT`, String(await freePort())]),
  );
  return Object.fromEntries(entries);
}

describe('a stack that was killed', () => {
  it('entirely, by kill -9 of every process, does not block the next start on the same ports', async () => {
    const folder = newFolder();
    const ports = await portsOfItsOwn();
    const { described } = await start(folder, ports);
    const { stack, edge } = described.pids;
    // The edge first, whose successor survives when the stack ends.
    process.kill(edge ?? 0, 'SIGKILL');
    await eventually(() => runtimesOf(folder).some((pid) => pid !== edge));
    for (const pid of [...childrenOf(stack), stack]) process.kill(pid, 'SIGKILL');

    const { described: second } = await start(folder, ports);
    expect(second.baseUrl).toBe(described.baseUrl);
    expect(runtimesOf(folder)).toEqual([second.pids.edge]);
  }, 120_000);

  it('is cleaned up without its stack.json when only the runtime is left', async () => {
    const folder = newFolder();
    const ports = await portsOfItsOwn();
    const { described } = await start(folder, ports);
    const { stack, edge } = described.pids;
    // Both at once: the stack cannot start another watchdog, and the watchdog cannot see the stack end.
    const helpers = childrenOf(stack).filter((pid) => pid !== edge);
    for (const pid of [...helpers, stack]) process.kill(pid, 'SIGKILL');
    rmSync(join(folder, 'stack.json'));
    await expectGone(described.pids.bridge, described.pids.simulator);
    expect(runtimesOf(folder)).toEqual([edge]);

    const { described: second } = await start(folder, ports);
    expect(runtimesOf(folder)).toEqual([second.pids.edge]);
  }, 120_000);

  it('before it was ready leaves no runtime', async () => {
    const folder = newFolder();
    const stack = run('dev.ts', folder);
    const pid = stack.process.pid ?? 0;
    // Its runtime has answered by then, so it would survive.
    await eventually(
      () => childrenOf(pid).some((child) => commandOf(child).includes('bridge/index.ts')),
      30_000,
    );
    expect(runtimesOf(folder)).toHaveLength(1);
    stack.process.kill('SIGKILL');
    expect(stack.output()).not.toContain('Sitewire is ready');
    await eventually(() => runtimesOf(folder).length === 0);
    expect(existsSync(join(folder, 'stack.json'))).toBe(false);
  }, 120_000);
});

describe('a stack that receives an end signal', () => {
  it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
    'ends completely when only npm gets %s, and deletes stack.json',
    async (signal) => {
      const folder = newFolder();
      const { stack: npm, described } = await untilReady(runNpmStart(folder), folder);
      npm.process.kill(signal);
      await npm.ended;
      const { stack, edge, bridge, simulator } = described.pids;
      await expectGone(stack, edge, bridge, simulator);
      expect(existsSync(join(folder, 'stack.json'))).toBe(false);
    },
    120_000,
  );

  it('ends completely when its terminal is closed', async () => {
    const folder = newFolder();
    const { stack: npm, described } = await untilReady(runNpmStart(folder), folder);
    // The kernel signals the whole foreground group when a terminal closes.
    process.kill(-(npm.process.pid ?? 0), 'SIGHUP');
    const { stack, edge, bridge, simulator } = described.pids;
    await expectGone(stack, edge, bridge, simulator);
    expect(existsSync(join(folder, 'stack.json'))).toBe(false);
  }, 120_000);
});

describe('a stack that runs', () => {
  it('holds its folder exclusively: of two simultaneous starts one is refused', async () => {
    const folder = newFolder();
    const both = [run('dev.ts', folder), run('dev.ts', folder)];
    const isRefused = (output: string) => output.includes(`a stack is running on ${folder} (`);
    const refused = await eventually(() => both.find((one) => isRefused(one.output())), 60_000);
    const other = both.find((one) => one !== refused);
    expect(await refused.ended).toBe(1);
    expect(refused.output()).toContain(`(process ${other?.process.pid})`);
    await eventually(() => other?.output().includes('Sitewire is ready'), 30_000);
  }, 120_000);

  it('continues when its file cannot be written, and writes it once it can', async () => {
    const folder = newFolder();
    const inTheWay = join(folder, 'stack.json.new');
    mkdirSync(inTheWay);
    const stack = run('dev.ts', folder);
    await eventually(() => stack.output().includes('cannot write stack.json'), 30_000);
    expect(isAlive(stack.process.pid ?? 0)).toBe(true);
    rmdirSync(inTheWay);
    await eventually(() => existsSync(join(folder, 'stack.json')));
  }, 120_000);
});
