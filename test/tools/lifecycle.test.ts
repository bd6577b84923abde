/** How a stack of `npm start` ends, and what the next one finds: no process and no file of an earlier one is in its way. */
import { existsSync, mkdirSync, rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { freePort } from '../../tools/ports.ts';
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
} from '../support/dev-stack.ts';
import { eventually } from '../support/stack.ts';

afterEach(cleanUp);

async function portsOfItsOwn(): Promise<Record<string, string>> {
  const names = ['HTTP', 'AMQPS', 'MQTTS', 'METRICS'];
  const entries = await Promise.all(
    names.map(async (name) => [`SITEWIRE_${name}_PORT`, String(await freePort())]),
  );
  return Object.fromEntries(entries);
}

describe('a stack that was killed', () => {
  it('whole, by a kill -9 of everything, is not in the way of the next start on the same ports', async () => {
    const folder = newFolder();
    const ports = await portsOfItsOwn();
    const { described } = await start(folder, ports);
    const { stack, edge } = described.pids;
    // The edge first, and then its successor lives when the stack goes.
    process.kill(edge ?? 0, 'SIGKILL');
    await eventually(() => runtimesOf(folder).some((pid) => pid !== edge));
    for (const pid of [...childrenOf(stack), stack]) process.kill(pid, 'SIGKILL');

    const { described: second } = await start(folder, ports);
    expect(second.baseUrl).toBe(described.baseUrl);
    expect(runtimesOf(folder)).toEqual([second.pids.edge]);
  }, 120_000);

  it('is cleared without its stack.json and with everything but the runtime gone', async () => {
    const folder = newFolder();
    const ports = await portsOfItsOwn();
    const { described } = await start(folder, ports);
    const { stack, edge } = described.pids;
    // In one breath: neither does the stack start another watchdog, nor does a watchdog see the stack go.
    const helpers = childrenOf(stack).filter((pid) => pid !== edge);
    for (const pid of [...helpers, stack]) process.kill(pid, 'SIGKILL');
    rmSync(join(folder, 'stack.json'));
    await expectGone(described.pids.bridge, described.pids.simulator);
    expect(runtimesOf(folder)).toEqual([edge]);

    const { described: second } = await start(folder, ports);
    expect(runtimesOf(folder)).toEqual([second.pids.edge]);
  }, 120_000);

  it('leaves no runtime behind, killed before it was ready', async () => {
    const folder = newFolder();
    const stack = run('dev.ts', folder);
    const pid = stack.process.pid ?? 0;
    // Its runtime has answered by then: it would run on.
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

describe('a stack that is told to end', () => {
  it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
    'ends whole when npm alone gets %s, and takes stack.json away',
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

  it('ends whole when its terminal is closed', async () => {
    const folder = newFolder();
    const { stack: npm, described } = await untilReady(runNpmStart(folder), folder);
    // What the kernel does when a terminal goes: all of its foreground group is told.
    process.kill(-(npm.process.pid ?? 0), 'SIGHUP');
    const { stack, edge, bridge, simulator } = described.pids;
    await expectGone(stack, edge, bridge, simulator);
    expect(existsSync(join(folder, 'stack.json'))).toBe(false);
  }, 120_000);
});

describe('a stack that runs', () => {
  it('has its folder alone: of two starts at once one is refused', async () => {
    const folder = newFolder();
    const both = [run('dev.ts', folder), run('dev.ts', folder)];
    const isRefused = (output: string) => output.includes(`a stack is running on ${folder} (`);
    const refused = await eventually(() => both.find((one) => isRefused(one.output())), 30_000);
    const other = both.find((one) => one !== refused);
    expect(await refused.ended).toBe(1);
    expect(refused.output()).toContain(`(process ${other?.process.pid})`);
    await eventually(() => other?.output().includes('Sitewire is ready'), 30_000);
  }, 120_000);

  it('goes on when its file cannot be written, and writes it once it can', async () => {
    const folder = newFolder();
    const inTheWay = join(folder, 'stack.json.new');
    mkdirSync(inTheWay);
    const stack = run('dev.ts', folder);
    await eventually(() => stack.output().includes('stack.json is not written'), 30_000);
    expect(isAlive(stack.process.pid ?? 0)).toBe(true);
    rmdirSync(inTheWay);
    await eventually(() => existsSync(join(folder, 'stack.json')));
  }, 120_000);
});
