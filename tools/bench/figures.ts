/** Results of a run: percentiles, a printed table, and JSON. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';

const MIN_NAME_WIDTH = 52;

export interface Figure {
  name: string;
  value: number;
  unit: string;
  /** Lowest and highest value of several rounds; `value` is the median. */
  least?: number;
  most?: number;
  /** The target, as text. */
  target?: string;
}

/** The value below which the given share of the samples lies. */
export function percentile(samples: readonly number[], share: number): number {
  const sorted = [...samples].sort((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** User and system time of a process so far, in ms. */
export function processCpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  const ticksPerSecond = 100;
  return ((Number(fields[11]) + Number(fields[12])) * 1_000) / ticksPerSecond;
}

export function report(id: string, title: string, figures: readonly Figure[]): void {
  console.log(`\n${id.toUpperCase()}  ${title}\n`);
  const width = Math.max(MIN_NAME_WIDTH, ...figures.map(({ name }) => name.length));
  for (const { name, value, unit, target = '', least, most } of figures) {
    const range = least === undefined || most === undefined ? '' : `${shown(least)} to ${shown(most)}`;
    const aim = range && target ? `${range}   ${target}` : range + target;
    console.log(`  ${name.padEnd(width)} ${shown(value).padStart(9)} ${unit.padEnd(12)} ${aim}`);
  }
  const folder = join(import.meta.dirname, '..', '..', 'bench-results');
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${id}-${new Date().toISOString().replaceAll(/[:.]/g, '-')}.json`);
  writeFileSync(
    file,
    JSON.stringify({ id, title, machine: machine(), at: new Date().toISOString(), figures }, null, 2),
  );
}

function shown(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(2);
}

function machine(): Record<string, string | number> {
  const versions = JSON.parse(readFileSync(join(import.meta.dirname, '..', '..', 'package.json'), 'utf8'));
  return {
    cores: cpus().length,
    cpu: cpus()[0]?.model ?? '',
    node: process.version,
    kernel: execFileSync('uname', ['-r'], { encoding: 'utf8' }).trim(),
    miniflare: versions.devDependencies.miniflare,
  };
}

/**
 * Exponent of the log-log fit through the points: 0 if the time does not depend on the size, 1 if it is
 * proportional to it.
 */
export function exponent(points: readonly (readonly [size: number, ms: number])[]): number {
  const logs = points.map(([size, ms]) => [Math.log(size), Math.log(ms)] as const);
  return slope(logs);
}

/** The slope of the straight line that fits the points best. */
export function slope(points: readonly (readonly [x: number, y: number])[]): number {
  const mean = (of: 0 | 1) => points.reduce((total, point) => total + point[of], 0) / points.length;
  const [meanX, meanY] = [mean(0), mean(1)];
  const covariance = points.reduce((total, [x, y]) => total + (x - meanX) * (y - meanY), 0);
  const variance = points.reduce((total, [x]) => total + (x - meanX) ** 2, 0);
  return covariance / variance;
}
