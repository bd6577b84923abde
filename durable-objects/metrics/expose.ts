/** Formats the ledger for Prometheus in its text format, version 0.0.4: one family after another. Pure. */
import {
  AWAKE,
  BUILD,
  COUNTED,
  type CountFamily,
  type Counts,
  type Family,
  QUEUE_AGE,
  QUEUE_DROPPED,
  QUEUE_DROPS,
  QUEUE_MESSAGES,
} from './families.ts';
import type { Ledger } from './ledger.ts';

export const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

const AWAKE_MS = 5 * 60_000;

interface Sample {
  /** Label values, in the order of the family's labels. */
  values: readonly string[];
  value: number;
}

/** `others`: counts that are not in the ledger. */
export function expose(ledger: Ledger, version: string, now: number, others: readonly Counts[] = []): string {
  const totals = new Map(ledger.totals);
  for (const counts of others)
    for (const [key, by] of Object.entries(counts)) totals.set(key, (totals.get(key) ?? 0) + by);
  const queues = ledger
    .queues()
    .flatMap(({ organization, key, queues }) =>
      queues.map((queue) => ({ ...queue, labels: [organization, key, queue.queue] })),
    );
  const messages = queues.flatMap(({ labels, ready, unacked }) => [
    { values: [...labels, 'ready'], value: ready },
    { values: [...labels, 'unacked'], value: unacked },
  ]);
  const ages = queues.map(({ labels, oldestMs }) => ({
    values: labels,
    value: oldestMs === null ? 0 : Math.max(0, now - oldestMs) / 1_000,
  }));
  const drops = queues.flatMap(({ labels, drops }) =>
    QUEUE_DROPS.map((reason) => ({ values: [...labels, reason], value: drops[reason] ?? 0 })),
  );
  const awake = (['Site', 'Vhost'] as const).map((of) => ({
    values: [of],
    value: ledger.seenSince(of, now - AWAKE_MS),
  }));
  return [
    ...COUNTED.map((family) => familyText(family, countSamples(family, totals))),
    familyText(QUEUE_MESSAGES, messages),
    familyText(QUEUE_AGE, ages),
    familyText(QUEUE_DROPPED, drops),
    familyText(AWAKE, awake),
    familyText(BUILD, [{ values: [version], value: 1 }]),
  ].join('');
}

/**
 * Samples for all values in the family's list, and for values that newer code has sent and this code does not
 * know.
 */
function countSamples({ key, values }: CountFamily, totals: ReadonlyMap<string, number>): Sample[] {
  const known = values.map((own) => [key, ...own].join('/'));
  const reported = [...totals.keys()].filter((one) => one.startsWith(`${key}/`));
  return [...new Set([...known, ...reported])].map((one) => ({
    values: one.split('/').slice(1),
    value: totals.get(one) ?? 0,
  }));
}

/** Formats one family, in the order of its samples. */
export function familyText({ name, type, help, labels }: Family, samples: Iterable<Sample>): string {
  const lines = [`# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n`];
  for (const { values, value } of samples) lines.push(`${name}${labelText(labels, values)} ${value}\n`);
  return lines.join('');
}

function labelText(labels: readonly string[], values: readonly string[]): string {
  if (labels.length === 0) return '';
  return `{${labels.map((label, index) => `${label}="${escapeValue(values[index] ?? '')}"`).join(',')}}`;
}

function escapeHelp(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
}

function escapeValue(text: string): string {
  return escapeHelp(text).replaceAll('"', '\\"');
}
