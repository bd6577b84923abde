/** The readings that a test sent to a site, and the answers that its store must give, computed independently of it. */
import type { Aggregate, BucketName } from '../../../protocol/telemetry.ts';

/** As it is answered. */
export interface Answered {
  timestamp: string;
  value: number;
  count?: number;
}

const MINUTE = 60_000;
const WIDTHS = { '1m': 1, '5m': 5, '15m': 15, '1h': 60, '1d': 1_440 } as const;

export class TelemetryModel {
  /** Thousandths by moment, by metric: their sums are whole numbers, so every mean here is divided once. */
  readonly #values = new Map<string, Map<number, number>>();

  /** In the order in which it was received. */
  add(metric: string, ts: number, thousandths: number): void {
    const own = this.#values.get(metric) ?? new Map<number, number>();
    this.#values.set(metric, own.set(ts, thousandths));
  }

  get metrics(): string[] {
    return [...this.#values.keys()];
  }

  /** The moments from first to last. */
  get moments(): number[] {
    const all = [...this.#values.values()].flatMap((own) => [...own.keys()]);
    return all.sort((left, right) => left - right);
  }

  /** What belongs into [from, to): readings by their moment, buckets by their start, whole. */
  points(
    metric: string,
    bucket: BucketName,
    [fromMs, toMs]: readonly [number, number],
    aggregate: Aggregate = metric.endsWith('RegisterKwh') ? 'last' : 'avg',
  ): Answered[] {
    const own = [...(this.#values.get(metric) ?? [])].sort(([left], [right]) => left - right);
    const isWithin = (at: number) => at >= fromMs && at < toMs;
    if (bucket === 'raw') {
      return own
        .filter(([at]) => isWithin(at))
        .map(([at, thousandths]) => ({ timestamp: instant(at), value: thousandths / 1_000 }));
    }
    const widthMs = WIDTHS[bucket] * MINUTE;
    const groups = new Map<number, number[]>();
    for (const [at, thousandths] of own) {
      const start = at - (at % widthMs);
      groups.set(start, [...(groups.get(start) ?? []), thousandths]);
    }
    return [...groups]
      .filter(([start]) => isWithin(start))
      .map(([start, group]) => ({
        timestamp: instant(start),
        value: reckon(group, aggregate),
        count: group.length,
      }));
  }
}

function reckon(thousandths: readonly number[], aggregate: Aggregate): number {
  const sum = thousandths.reduce((left, right) => left + right, 0);
  switch (aggregate) {
    case 'avg':
      return sum / (1_000 * thousandths.length);
    case 'min':
      return Math.min(...thousandths) / 1_000;
    case 'max':
      return Math.max(...thousandths) / 1_000;
    case 'sum':
      return sum / 1_000;
    case 'count':
      return thousandths.length;
    case 'last':
      return (thousandths.at(-1) ?? 0) / 1_000;
  }
}

function instant(epochMs: number): string {
  return new Date(epochMs).toISOString();
}
