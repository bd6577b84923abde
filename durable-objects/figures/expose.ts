/** Formats the ledger for Prometheus, one family after another. Pure. */
import { familyText, type Sample } from './exposition.ts';
import {
  AWAKE,
  BUILD,
  COUNTED,
  type CountFamily,
  QUEUE_AGE,
  QUEUE_DROPPED,
  QUEUE_DROPS,
  QUEUE_MESSAGES,
} from './families.ts';
import type { Ledger } from './ledger.ts';
import type { QueueFigures } from './report.ts';

const AWAKE_MS = 5 * 60_000;

export function expose(ledger: Ledger, version: string, now: number): string {
  const queues = ledger
    .queues()
    .flatMap(({ organization, key, queues: own }) =>
      own.map((figures) => ({ figures, labels: [organization, key, figures.queue] })),
    );
  const perQueue = (samplesOf: (figures: QueueFigures) => [...Sample['values'], Sample['value']][]) =>
    queues.flatMap(({ figures, labels }) =>
      samplesOf(figures).map((row) => ({
        values: [...labels, ...(row.slice(0, -1) as string[])],
        value: row.at(-1) as number,
      })),
    );
  return [
    ...COUNTED.map((family) => familyText(family, countSamples(family, ledger.totals))),
    familyText(
      QUEUE_MESSAGES,
      perQueue(({ ready, unacked }) => [
        ['ready', ready],
        ['unacked', unacked],
      ]),
    ),
    familyText(
      QUEUE_AGE,
      perQueue(({ oldestMs }) => [[oldestMs === null ? 0 : Math.max(0, now - oldestMs) / 1_000]]),
    ),
    familyText(
      QUEUE_DROPPED,
      perQueue(({ drops }) => QUEUE_DROPS.map((reason) => [reason, drops[reason] ?? 0])),
    ),
    familyText(
      AWAKE,
      (['Site', 'Vhost'] as const).map((of) => ({
        values: [of],
        value: ledger.seenSince(of, now - AWAKE_MS),
      })),
    ),
    familyText(BUILD, [{ values: [version], value: 1 }]),
  ].join('');
}

/** Samples for the closed list of values, and for values that only newer code knows. */
function countSamples({ key, values }: CountFamily, totals: ReadonlyMap<string, number>): Sample[] {
  const known = new Set(values.map((own) => [key, ...own].join('/')));
  const newer = [...totals.keys()].filter((one) => one.startsWith(`${key}/`) && !known.has(one));
  return [...known, ...newer].map((one) => ({
    values: one.split('/').slice(1),
    value: totals.get(one) ?? 0,
  }));
}
