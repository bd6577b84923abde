/**
 * A cold start: how large the deployed Worker is, the CPU time until it answers its first request, and how often REST
 * requests wait for D1. An empty Worker starts in turn with it, because most of the time is the runtime's.
 */
import { gzipSync } from 'node:zlib';
import { workerdPid } from '../edge.ts';
import { workerOptions } from '../edge-workers.ts';
import { deployedModules, type WorkerModule } from '../worker-build.ts';
import { type Figure, median, report } from './figures.ts';
import { ageMs, threadsCpuMs } from './process-figures.ts';
import { countRoundTrips } from './round-trips.ts';

const ROUNDS = 11;
const KB = 1_024;

/** The classes of the product without anything in them. */
const EMPTY: WorkerModule = {
  name: 'index.mjs',
  text: `import { DurableObject } from 'cloudflare:workers';
    export class Site extends DurableObject {}
    export class Vhost extends DurableObject {}
    export class RequestCounter extends DurableObject {}
    export class Metrics extends DurableObject {}
    export default { fetch: () => new Response() };`,
};

/** Imports the module that a request names. */
const IMPORTER: WorkerModule = {
  name: 'importer.mjs',
  text: `export default {
    async fetch(request) {
      const name = new URL(request.url).pathname.slice(1);
      if (name) await import(name);
      return new Response();
    },
  };`,
};

export async function benchColdStart(): Promise<void> {
  // Before anything loads Miniflare, which reads only once which authorities it trusts.
  const roundTrips = await countRoundTrips();
  const modules = await deployedModules();
  const started = await startInTurn({ product: modules, empty: [EMPTY] });
  report('start', `the Worker as deployed, ${ROUNDS} rounds`, [
    ...sizesOf(modules),
    ...startFigures(started),
    ...(await evaluationFigures(modules)),
  ]);
  report('start-d1', 'round trips to D1 of a request', roundTrips);
}

function sizesOf(modules: readonly WorkerModule[]): Figure[] {
  const sizes = modules.map(({ name, text }) => ({ name, bytes: text.length, gzip: gzipSync(text).length }));
  const [entry] = sizes;
  const sum = (of: 'bytes' | 'gzip') => sizes.reduce((total, size) => total + size[of], 0) / KB;
  return [
    { name: 'index.mjs, size', value: (entry?.bytes ?? 0) / KB, unit: 'KiB' },
    ...sizes.map(({ name, gzip }) => ({
      name: `${withoutHash(name)}, gzip`,
      value: gzip / KB,
      unit: 'KiB',
      ...(name === entry?.name ? { target: '≤ 250' } : {}),
    })),
    { name: 'all modules, size', value: sum('bytes'), unit: 'KiB' },
    { name: 'all modules, gzip', value: sum('gzip'), unit: 'KiB' },
  ];
}

/** The names of modules end with a hash of their content. */
function withoutHash(name: string): string {
  return name.replace(/-[0-9A-Z]{8}(?=\.mjs$)/, '');
}

type Side = 'product' | 'empty';
interface Start {
  cpuMs: number;
  wallMs: number;
}

async function startInTurn(sides: Record<Side, WorkerModule[]>): Promise<Record<Side, Start[]>> {
  const starts: Record<Side, Start[]> = { product: [], empty: [] };
  for (let round = 0; round <= ROUNDS; round++) {
    for (const side of ['product', 'empty'] as const) {
      const start = await startOf(sides[side]);
      // The first round reads the files of the runtime from disk.
      if (round > 0) starts[side].push(start);
    }
  }
  return starts;
}

/** Time from the start of the process until the first answer, with an empty D1 and no object. */
async function startOf(modules: WorkerModule[]): Promise<Start> {
  const { fetchPath, pid, stop } = await startRuntime(modules);
  await fetchPath('healthz');
  const start = { cpuMs: threadsCpuMs(pid), wallMs: ageMs(pid) };
  await stop();
  return start;
}

function startFigures({ product, empty }: Record<Side, Start[]>): Figure[] {
  const added = product.map(({ cpuMs }, round) => cpuMs - (empty[round]?.cpuMs ?? Number.NaN));
  return [
    spread(
      'start to the first /healthz, time',
      product.map(({ wallMs }) => wallMs),
      'ms',
    ),
    spread(
      'the same of an empty Worker',
      empty.map(({ wallMs }) => wallMs),
      'ms',
    ),
    spread(
      'start to the first /healthz, CPU of workerd',
      product.map(({ cpuMs }) => cpuMs),
      'ms',
    ),
    spread(
      'the same of an empty Worker',
      empty.map(({ cpuMs }) => cpuMs),
      'ms',
    ),
    spread('CPU that the product adds', added, 'ms'),
  ];
}

/** CPU time of evaluating each module with what it imports, in a runtime that has started. */
async function evaluationFigures(modules: readonly WorkerModule[]): Promise<Figure[]> {
  // Chunks that several modules share are evaluated with the first of them.
  const names = modules.map(({ name }) => name).filter((name) => !name.startsWith('chunk-'));
  const times = new Map<string, number[]>(names.map((name) => [name, []]));
  for (let round = 0; round < ROUNDS; round++) {
    const { fetchPath, pid, stop } = await startRuntime([IMPORTER, ...modules], false);
    for (let warmUp = 0; warmUp < 5; warmUp++) await fetchPath('');
    for (const name of names) {
      const before = threadsCpuMs(pid);
      await fetchPath(name);
      times.get(name)?.push(threadsCpuMs(pid) - before);
    }
    await stop();
  }
  return names.map((name) => spread(`evaluation of ${withoutHash(name)}, CPU`, times.get(name) ?? [], 'ms'));
}

async function startRuntime(modules: WorkerModule[], hasClasses = true) {
  const { convertV4MiniflareOptions, Miniflare } = await import('miniflare');
  const { durableObjects, ...options } = workerOptions(modules);
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      host: '127.0.0.1',
      port: 0,
      ...options,
      ...(hasClasses ? { durableObjects } : {}),
    }),
  );
  const url = await miniflare.ready;
  return {
    pid: workerdPid() ?? 0,
    fetchPath: async (path: string) => {
      const response = await fetch(new URL(`/${path}`, url));
      await response.arrayBuffer();
      if (!response.ok) throw new Error(`/${path} answered ${response.status}`);
    },
    stop: () => miniflare.dispose(),
  };
}

function spread(name: string, values: readonly number[], unit: string): Figure {
  return { name, value: median(values), unit, least: Math.min(...values), most: Math.max(...values) };
}
