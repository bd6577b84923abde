/** Years of a site's history at once, written as its store writes them: a device would take as long to send them. */
import { runInDurableObject } from 'cloudflare:test';
import { Facts } from '../../../durable-objects/object/facts.ts';
import { Sql } from '../../../durable-objects/object/sql.ts';
import { type Bucket, bucketsOf, mergeBuckets } from '../../../durable-objects/site/telemetry/bucket.ts';
import { packBuckets, packSamples } from '../../../durable-objects/site/telemetry/part.ts';
import { PAGE_MS, PartRows } from '../../../durable-objects/site/telemetry/part-rows.ts';
import { DAY, HOUR, MINUTE } from './site-clock.ts';
import { evictSite } from './site-rows.ts';
import { turnsOf } from './turns.ts';
import { siteOf } from './world.ts';

export interface TelemetryFilling {
  metrics: readonly string[];
  /** Whole days. */
  fromMs: number;
  untilMs: number;
  /** Readings are kept from then on; before it roll-ups alone. */
  rawFromMs: number;
  /** Between readings: a part of five minutes, or a multiple. */
  stepMs: number;
  /** The hour of its day unless told otherwise; the same of every metric. */
  valueAt?(atMs: number): number;
}

/** A site that was told nothing yet has that history, all of it packed. */
export async function fillHistory(siteId: string, filling: TelemetryFilling): Promise<void> {
  const { metrics, fromMs, untilMs, rawFromMs, stepMs, valueAt = hourOf } = filling;
  await runInDurableObject(siteOf(siteId), (_site, state) => {
    const sql = new Sql(state.storage);
    const rows = {
      '5m': new PartRows(sql, '5m'),
      '1h': new PartRows(sql, '1h'),
      '1d': new PartRows(sql, '1d'),
    };
    const raw = new PartRows(sql, 'raw');
    const bytes = { raw: 0, '5m': 0, '1h': 0, '1d': 0 };
    turnsOf(state, () => {})(Date.now(), (turn) => {
      const days: Bucket[] = [];
      const hours: Bucket[] = [];
      const named = <Own>(own: Own) => new Map(metrics.map((metric) => [metric, own]));
      for (let dayMs = fromMs; dayMs < untilMs; dayMs += DAY) {
        const atMs = Array.from({ length: DAY / stepMs }, (_none, index) => dayMs + index * stepMs);
        const values = atMs.map(valueAt);
        const fives = bucketsOf({ atMs, values }, 5 * MINUTE);
        bytes['5m'] += rows['5m'].add(turn, dayMs, dayMs + DAY, packBuckets(named(fives), 5 * MINUTE));
        hours.push(...mergeBuckets(fives, [], HOUR));
        days.push(...mergeBuckets(fives, [], DAY));
        for (let stretchMs = dayMs; stretchMs < dayMs + DAY && dayMs >= rawFromMs; stretchMs += HOUR) {
          const isWithin = (at: number) => at >= stretchMs && at < stretchMs + HOUR;
          const own = {
            atMs: atMs.filter(isWithin),
            values: values.filter((_v, index) => isWithin(atMs[index] ?? 0)),
          };
          bytes.raw += raw.add(turn, stretchMs, stretchMs + HOUR, packSamples(named(own)));
        }
      }
      for (const [level, all, widthMs] of [
        ['1h', hours, HOUR],
        ['1d', days, DAY],
      ] as const) {
        const pageMs = PAGE_MS[level];
        for (const [startMs, own] of Map.groupBy(all, (bucket) => bucket.startMs - (bucket.startMs % pageMs)))
          bytes[level] += rows[level].add(turn, startMs, startMs + pageMs, packBuckets(named(own), widthMs));
      }
      new Facts<'telemetry'>(sql).set(turn, 'telemetry', {
        packedToMs: untilMs,
        packedBlock: 1,
        rolledToMs: untilMs,
        rolledMetric: '',
        bytes,
        registers: {},
      });
    });
  });
  await evictSite(siteId);
}

function hourOf(atMs: number): number {
  return Math.floor((atMs % DAY) / HOUR);
}
