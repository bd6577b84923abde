/**
 * A stack of `npm start` whose parts are killed: what can start again does so on the same port, and what cannot ends
 * the stack with the reason.
 */
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import {
  childrenOf,
  cleanUp,
  commandOf,
  expectGone,
  newFolder,
  type StartedStack,
  start,
} from '#support/dev-stack.ts';
import { eventually } from '#support/stack.ts';

const servers: Server[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) server.close();
  await cleanUp();
});

/** A stack that cannot be brought back must end in this time. */
const ENDS_WITHIN_MS = 60_000;
const BACK_WITHIN_MS = 30_000;

/** The runtime of a stack that has another pid than these. It is returned before it listens. */
async function nextRuntime(stackPid: number, known: readonly number[]): Promise<number> {
  return await eventually(
    () => childrenOf(stackPid).find((pid) => !known.includes(pid) && commandOf(pid).includes('workerd')),
    BACK_WITHIN_MS,
  );
}

/** Kills the runtime of a stack, and each of the next `again` ones while it starts. */
async function killRuntimes({ described }: StartedStack, again: number): Promise<void> {
  const killed = [described.pids.edge ?? 0];
  process.kill(described.pids.edge ?? 0, 'SIGKILL');
  for (let count = 0; count < again; count++) {
    const pid = await nextRuntime(described.pids.stack, killed);
    process.kill(pid, 'SIGKILL');
    killed.push(pid);
  }
}

async function isServing(baseUrl: string): Promise<true | undefined> {
  const response = await fetch(`${baseUrl}/healthz`).catch(() => undefined);
  return response?.ok || undefined;
}

/** Listens on a port as soon as the process that had it is gone. */
async function occupy(port: number): Promise<void> {
  for (;;) {
    const server = createServer((socket) => socket.destroy());
    const taken = once(server, 'listening').then(
      () => true,
      () => false,
    );
    server.listen(port, '127.0.0.1');
    if (await taken) return void servers.push(server);
  }
}

describe('an edge that is killed', () => {
  it.each([1, 3])(
    'comes back on its port, also after its runtime is killed %i times more while it starts',
    async (again) => {
      const started = await start(newFolder());
      const { stack, described } = started;
      await killRuntimes(started, again);
      await eventually(() => isServing(described.baseUrl), BACK_WITHIN_MS);
      expect(stack.process.exitCode).toBeNull();
      // Bridge and simulator reach it again: new telemetry is stored.
      const { apiKey, plants } = described;
      const latest = async () => {
        const path = `${described.baseUrl}/api/v1/vcp/sites/${plants[0]?.id}/telemetry/latest`;
        const response = await fetch(path, { headers: { 'x-api-key': apiKey.key } });
        return ((await response.json()) as { timestamp: string }).timestamp;
      };
      const before = await latest();
      await eventually(async () => (await latest()) > before || undefined, BACK_WITHIN_MS);
    },
    120_000,
  );

  it('ends the stack with exit code 1 and names its port when another program has taken it', async () => {
    const { stack, described } = await start(newFolder());
    const port = Number(new URL(described.baseUrl).port);
    process.kill(described.pids.edge ?? 0, 'SIGKILL');
    await occupy(port);
    await eventually(() => stack.process.exitCode !== null || undefined, ENDS_WITHIN_MS);
    expect(stack.process.exitCode).toBe(1);
    expect(stack.output()).toMatch(new RegExp(`^Sitewire ends: .*port ${port} is in use.*$`, 'm'));
    // The reason is the last thing that a person reads, and no trace of the code hides it.
    expect(stack.output().trimEnd().split('\n').at(-1)).toMatch(/^Sitewire ends: /);
    await expectGone(described.pids.bridge, described.pids.simulator);
  }, 150_000);
});

describe('a bridge that is killed', () => {
  it('comes back on its ports', async () => {
    const { stack, described } = await start(newFolder());
    process.kill(described.pids.bridge ?? 0, 'SIGKILL');
    const isReady = async () => (await fetch(described.metricsUrl).catch(() => undefined))?.ok || undefined;
    await eventually(isReady, BACK_WITHIN_MS);
    expect(stack.process.exitCode).toBeNull();
  }, 120_000);

  it('ends the stack with exit code 1 and names its port when another program has taken it', async () => {
    const { stack, described } = await start(newFolder());
    process.kill(described.pids.bridge ?? 0, 'SIGKILL');
    await occupy(described.mqtt.port);
    await eventually(() => stack.process.exitCode !== null || undefined, ENDS_WITHIN_MS);
    expect(stack.process.exitCode).toBe(1);
    expect(stack.output()).toMatch(new RegExp(`^Sitewire ends: .*${described.mqtt.port}.*$`, 'm'));
    await expectGone(described.pids.edge, described.pids.simulator);
  }, 150_000);
});
