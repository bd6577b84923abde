/**
 * How the memory of workerd grows with each kind of operation, without any code of the product: the second part of
 * `bench -- memory`. An operation that costs bytes here costs them in any Worker.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Miniflare } from 'miniflare';
import { WebSocket } from 'ws';
import { moduleOptions, workerdPid } from '../edge.ts';
import { readableModules } from '../worker-build.ts';
import { type Figure, slope } from './figures.ts';
import { OPERATIONS, type Operation } from './operation-kinds.ts';
import { nativeMemory } from './process-figures.ts';

/** Operations between two samples. */
const STEP = 5_000;
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
    const step = await stepper(miniflare, operation);
    const times = OPERATIONS[operation];
    for (let done = 0; done < times; done += STEP) await step();
    const perOperation = await growth(miniflare, times, step);
    if (operation !== 'timer that is cancelled') return { perOperation };
    await new Promise((resolve) => setTimeout(resolve, EVICTED_AFTER_MS));
    return { perOperation, afterEviction: await growth(miniflare, times, step) };
  } finally {
    await miniflare.dispose();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Bytes that each operation adds, from the line that fits the samples best. */
async function growth(miniflare: Miniflare, times: number, step: () => Promise<void>): Promise<number> {
  const pid = workerdPid() ?? 0;
  const points: [operations: number, bytes: number][] = [];
  for (let done = 0; done <= times; done += STEP) {
    points.push([done, (await nativeMemory(miniflare, pid)) * MIB]);
    await step();
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
      compatibilityDate: '2026-08-15',
      durableObjects: { LOOP: { className: 'Loop', useSQLite: true } },
      d1Databases: { DB: 'operations' },
    }),
  );
  await miniflare.ready;
  return miniflare;
}

/** Returns a function that repeats the operation STEP times. */
async function stepper(miniflare: Miniflare, operation: Operation): Promise<() => Promise<void>> {
  const url = await miniflare.ready;
  if (operation === 'WebSocket message') return await echoes(new URL('/socket?object=loop', url));
  const query = new URLSearchParams({ object: 'loop', operation, times: String(STEP) });
  return async () => {
    const response = await fetch(new URL(`/repeat?${query}`, url), { method: 'POST' });
    if (!response.ok) throw new Error(`${operation} answered ${response.status}: ${await response.text()}`);
    await response.arrayBuffer();
  };
}

/** Returns a function that sends one step of messages over a hibernatable WebSocket, which sends them back. */
async function echoes(url: URL): Promise<() => Promise<void>> {
  const socket = new WebSocket(url.href.replace(/^http/, 'ws'));
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  const text = 'x'.repeat(300);
  return () =>
    new Promise((resolve) => {
      let [sent, answered] = [0, 0];
      const send = () => {
        for (; sent < STEP && sent - answered < SOCKET_WINDOW; sent++) socket.send(text);
      };
      socket.removeAllListeners('message').on('message', () => {
        answered += 1;
        if (answered === STEP) resolve();
        else send();
      });
      send();
    });
}
