/**
 * How the memory of workerd grows with each kind of operation, without any code of the product: the second part of
 * `bench -- memory`. An operation that costs bytes here costs them in any Worker.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Miniflare } from 'miniflare';
import { WebSocket } from 'ws';
import { workerdPid } from '../edge.ts';
import { compatibilityDate, moduleOptions } from '../edge-workers.ts';
import { readableModules } from '../worker-build.ts';
import { type Figure, slope } from './figures.ts';
import { OPERATIONS, type Operation } from './operation-kinds.ts';
import { collectGarbage, nativeMemory } from './process-figures.ts';

/** Rounds before the measurement: the allocator gives nothing back, so a round uses what the ones before it freed. */
const WARM_UP_ROUNDS = 4;
const ROUNDS = 6;
const MIB = 1_024 * 1_024;
/** The runtime evicts an object after ten idle seconds. */
const EVICTED_AFTER_MS = 12_000;
const SOCKET_WINDOW = 100;

export async function measureOperations(): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const operation of Object.keys(OPERATIONS) as Operation[]) {
    const { perOperation, afterEviction } = await measure(operation);
    figures.push({ name: operation, value: perOperation, unit: 'B each' });
    if (afterEviction !== undefined)
      figures.push({
        name: `${operation}, in the next life of the object`,
        value: afterEviction,
        unit: 'B each',
      });
  }
  return figures;
}

/** Each kind has a workerd of its own, so that none uses what another one has freed. */
async function measure(operation: Operation): Promise<{ perOperation: number; afterEviction?: number }> {
  const folder = mkdtempSync(join(tmpdir(), 'sitewire-operations-'));
  const miniflare = await startOperations(folder);
  try {
    const times = OPERATIONS[operation];
    const round = await rounds(miniflare, operation, times);
    for (let done = 0; done < WARM_UP_ROUNDS; done++) await round();
    const perOperation = (await growth(miniflare, round)) / times;
    if (operation !== 'timer that is cancelled') return { perOperation };
    await new Promise((resolve) => setTimeout(resolve, EVICTED_AFTER_MS));
    return { perOperation, afterEviction: (await growth(miniflare, round)) / times };
  } finally {
    await miniflare.dispose();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Bytes that a round adds, from the line that fits the samples best. */
async function growth(miniflare: Miniflare, round: () => Promise<void>): Promise<number> {
  const pid = workerdPid() ?? 0;
  const points: [rounds: number, bytes: number][] = [];
  for (let done = 0; done < ROUNDS; done++) {
    await round();
    points.push([done, (await nativeMemory(miniflare, pid)) * MIB]);
  }
  return slope(points);
}

async function startOperations(folder: string): Promise<Miniflare> {
  const { convertV4MiniflareOptions, Miniflare } = await import('miniflare');
  const modules = await readableModules(join(import.meta.dirname, 'workerd', 'operations-worker.ts'));
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      host: '127.0.0.1',
      port: 0,
      inspectorPort: 0,
      resourcePersistencePath: folder,
      modules: moduleOptions(modules),
      compatibilityDate: compatibilityDate(),
      durableObjects: { LOOP: { className: 'Loop', useSQLite: true } },
      d1Databases: { DB: 'operations' },
    }),
  );
  await miniflare.ready;
  return miniflare;
}

/**
 * Returns a function that repeats the operation and then collects garbage: an operation leaves small JavaScript objects
 * behind that hold memory of the runtime, and a Worker that allocates nothing else collects them late.
 */
async function rounds(
  miniflare: Miniflare,
  operation: Operation,
  times: number,
): Promise<() => Promise<void>> {
  const url = await miniflare.ready;
  const query = new URLSearchParams({ object: 'loop', operation, times: String(times) });
  const repeated = async () => {
    const response = await fetch(new URL(`/repeat?${query}`, url), { method: 'POST' });
    if (!response.ok) throw new Error(`${operation} answered ${response.status}: ${await response.text()}`);
    await response.arrayBuffer();
  };
  const once =
    operation === 'WebSocket message' ? await echoes(new URL('/socket?object=loop', url), times) : repeated;
  return async () => {
    await once();
    await collectGarbage(miniflare);
  };
}

/** Returns a function that sends messages over a hibernatable WebSocket, which sends them back. */
async function echoes(url: URL, times: number): Promise<() => Promise<void>> {
  const socket = new WebSocket(url.href.replace(/^http/, 'ws'));
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  const text = 'x'.repeat(300);
  return () =>
    new Promise((resolve) => {
      let [sent, answered] = [0, 0];
      const send = () => {
        for (; sent < times && sent - answered < SOCKET_WINDOW; sent++) socket.send(text);
      };
      socket.removeAllListeners('message').on('message', () => {
        answered += 1;
        if (answered === times) resolve();
        else send();
      });
      send();
    });
}
