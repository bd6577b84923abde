/** Writes years of a site's history at once, as its store writes them: a device would need years to send them. */
import { runInDurableObject } from 'cloudflare:test';
import { KeyValues } from '../../../durable-objects/object/key-values.ts';
import { Sql } from '../../../durable-objects/object/sql.ts';
import { type Bucket, bucketsOf, mergeBuckets } from '../../../durable-objects/site/telemetry/bucket.ts';
import { packBuckets, packSamples } from '../../../durable-objects/site/telemetry/segment.ts';
import { SegmentRows } from '../../../durable-objects/site/telemetry/segment-rows.ts';
import { LEVELS, ofLevels, WIDER_LEVELS } from '../../../durable-objects/site/telemetry/storage-levels.ts';
import { BUCKET_MS } from '../../../protocol/telemetry.ts';
import { DAY, HOUR, MINUTE } from './site-clock.ts';
import { evictSite } from './site-rows.ts';
import { turnsOf } from './turns.ts';
import { siteOf } from './world.ts';

export interface TelemetryFilling {
  metrics: readonly string[];
  /** Whole days. */
  fromMs: number;
  untilMs: number;
  /** Raw readings are kept from this time on; before it there are only roll-ups. */
  rawFromMs: number;
  /** Between readings: a part of five minutes, or a multiple. */
  stepMs: number;
  /** By default the hour of its day; the same for every metric. */
  valueAt?(atMs: number): number;
}

/** Writes this history, packed, into a site without telemetry. */
export async function fillHistory(siteId: string, filling: TelemetryFilling): Promise<void> {
  const { metrics, fromMs, untilMs, rawFromMs, stepMs, valueAt = hourOf } = filling;
  await runInDurableObject(siteOf(siteId), (_site, state) => {
    const sql = new Sql(state.storage);
    const rows = ofLevels((level) => new SegmentRows(sql, level));
    const bytes = ofLevels(() => 0);
    turnsOf(state, () => {})(Date.now(), (turn) => {
      const rolled = ofLevels((): Bucket[] => []);
      const named = <Own>(own: Own) => new Map(metrics.map((metric) => [metric, own]));
      for (let dayMs = fromMs; dayMs < untilMs; dayMs += DAY) {
        const atMs = Array.from({ length: DAY / stepMs }, (_none, index) => dayMs + index * stepMs);
        const values = atMs.map(valueAt);
        const fives = bucketsOf({ atMs, values }, 5 * MINUTE);
        bytes['5m'] += rows['5m'].add(turn, dayMs, dayMs + DAY, packBuckets(named(fives), 5 * MINUTE));
        for (const level of WIDER_LEVELS) rolled[level].push(...mergeBuckets(fives, [], BUCKET_MS[level]));
        for (let stretchMs = dayMs; stretchMs < dayMs + DAY && dayMs >= rawFromMs; stretchMs += HOUR) {
          const isWithin = (at: number) => at >= stretchMs && at < stretchMs + HOUR;
          const own = {
            atMs: atMs.filter(isWithin),
            values: values.filter((_v, index) => isWithin(atMs[index] ?? 0)),
          };
          bytes.raw += rows.raw.add(turn, stretchMs, stretchMs + HOUR, packSamples(named(own)));
        }
      }
      for (const level of WIDER_LEVELS) {
        const { pageMs } = LEVELS[level];
        const widthMs = BUCKET_MS[level];
        for (const [startMs, own] of Map.groupBy(
          rolled[level],
          (bucket) => bucket.startMs - (bucket.startMs % pageMs),
        ))
          bytes[level] += rows[level].add(turn, startMs, startMs + pageMs, packBuckets(named(own), widthMs));
      }
      new KeyValues<'telemetry'>(sql).set(turn, 'telemetry', {
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
