/** Reads the meters of the metered Worker, which counts what the product's objects do. */
import { join } from 'node:path';
import type { BenchStack } from './bench-stack.ts';
import { METERS_PATH, type MeterReport, type ObjectKind } from './meter-report.ts';

export const METERED_ENTRY = join(import.meta.dirname, 'workerd', 'metered-worker.ts');
export const OBJECT_KINDS: readonly ObjectKind[] = ['Site', 'Vhost'];

/** Returns a report for each object that has been called. */
export async function readMeters(stack: BenchStack): Promise<Record<ObjectKind, MeterReport[]>> {
  const response = await fetch(`${stack.edge.url}${METERS_PATH}`);
  return (await response.json()) as Record<ObjectKind, MeterReport[]>;
}

/** Rows as they are billed: each `setAlarm` counts as a row. */
export function rowsOf(meter: MeterReport): number {
  return sum(Object.values(meter.rows)) + meter.alarmsSet;
}

export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
