/** P6, second part: whether a read of the last hour takes longer when the plant has more telemetry. */
import { join } from 'node:path';
import { type BenchStack, startBenchStack } from './bench-stack.ts';
import { exponent, type Figure, percentile, report } from './figures.ts';
import { FILL_PATH, type Filling, SIGNALS } from './filling.ts';

const ENTRY = join(import.meta.dirname, 'workerd', 'filled-worker.ts');
const HOUR = 3_600_000;
const STEP_MS = 5_000;
/**
 * Stored points at which the time is measured. The smallest size is two hours, which a read with 1h buckets
 * needs.
 */
const SIZES = [2 * 24 * 720, 100_000, 1_000_000, 10_000_000];
const HOURS_PER_CALL = 24;
const READS = 300;

const RANGES = [
  { name: 'raw, 1 h', granularity: 'raw', hours: 1 },
  { name: '5m, 1 h', granularity: '5m', hours: 1 },
  { name: '1h, 2 h', granularity: '1h', hours: 2 },
] as const;
/** Ranges that only the plant with the most telemetry has. */
const LONG_RANGES = [
  { name: '5m, 7 d', granularity: '5m', hours: 7 * 24 },
  { name: '1d, 24 d', granularity: '1d', hours: 24 * 24 },
] as const;

export async function benchHistory(): Promise<void> {
  const stack = await startBenchStack({ plants: SIZES.length, entry: ENTRY });
  const endMs = Math.floor(Date.now() / HOUR) * HOUR - HOUR;
  const figures: Figure[] = [];
  const p50 = new Map<string, [size: number, ms: number][]>();
  const sites: { siteId: string; points: number; bytes: Record<string, number> }[] = [];
  for (const [index, size] of SIZES.entries()) {
    const plant = stack.plants[index];
    if (!plant) throw new Error('the stack has fewer plants than sizes to measure: a bug of the benchmark');
    sites.push({ siteId: plant.id, ...(await fill(stack, plant.id, size, endMs)) });
  }
  // The plants are read in turn, so that a disturbance on the machine affects the times of all of them.
  const times = new Map<string, number[]>();
  for (let count = -50; count < READS; count++) {
    for (const { siteId, points } of sites) {
      for (const range of points === sites.at(-1)?.points ? [...RANGES, ...LONG_RANGES] : RANGES) {
        const ms = await read(stack, siteId, range, endMs);
        const name = `${range.name}, ${points} points`;
        if (count >= 0) times.set(name, [...(times.get(name) ?? []), ms]);
      }
    }
  }
  for (const { points } of sites) {
    for (const { name } of RANGES) {
      const ms = percentile(times.get(`${name}, ${points} points`) ?? [], 0.5);
      p50.set(name, [...(p50.get(name) ?? []), [points, ms]]);
    }
  }
  for (const [name, own] of times)
    figures.push({ name: `${name}, p50`, value: percentile(own, 0.5), unit: 'ms' });
  for (const [name, own] of p50) {
    figures.push({ name: `exponent of ${name}`, value: exponent(own), unit: '', target: '≤ 0.1' });
  }
  const last = sites.at(-1);
  for (const level of ['raw', '5m', '1h', '1d']) {
    const value = (last?.bytes[level] ?? 0) / (last?.points ?? 1);
    const target = level === 'raw' ? { target: '≤ 12' } : {};
    figures.push({ name: `bytes stored per sample, ${level}`, value, unit: 'B', ...target });
  }
  await stack.stop();
  report('p6-history', 'reads of a plant whose telemetry grows, one request at a time', figures);
}

async function fill(stack: BenchStack, siteId: string, size: number, endMs: number) {
  const hours = Math.ceil(size / (SIGNALS.length * (HOUR / STEP_MS)));
  let bytes: Record<string, number> = {};
  for (let hour = 0; hour < hours; hour += HOURS_PER_CALL) {
    const fromMs = endMs - (hours - hour) * HOUR;
    const toMs = Math.min(endMs, fromMs + HOURS_PER_CALL * HOUR);
    const filling: Filling = { siteId, fromMs, toMs, stepMs: STEP_MS, isLast: toMs === endMs };
    const body = JSON.stringify(filling);
    const response = await fetch(`${stack.edge.url}${FILL_PATH}`, { method: 'POST', body });
    bytes = (await response.json()) as Record<string, number>;
  }
  return { points: hours * SIGNALS.length * (HOUR / STEP_MS), bytes };
}

async function read(
  stack: BenchStack,
  siteId: string,
  { granularity, hours }: { granularity: string; hours: number },
  endMs: number,
): Promise<number> {
  const [from, to] = [endMs - hours * HOUR, endMs].map((atMs) => new Date(atMs).toISOString());
  const path = `/api/v1/vcp/sites/${siteId}/telemetry?metric=ASSET-2/powerKw&from=${from}&to=${to}&granularity=${granularity}`;
  const startedAt = performance.now();
  const response = await fetch(`${stack.edge.url}${path}`, { headers: { 'x-api-key': stack.key } });
  const { readings } = (await response.json()) as { readings: unknown[] };
  const ms = performance.now() - startedAt;
  if (response.status !== 200 || readings.length === 0)
    throw new Error(`the read returned no points: status ${response.status}`);
  return ms;
}
