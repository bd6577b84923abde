/**
 * The product's Worker with Sites that can be filled with past telemetry, which no device may send. The
 * store's own code writes it, one hour at a time, as if it had arrived at that time.
 */

import type { Env } from '../../../durable-objects/env.ts';
import { Clock } from '../../../durable-objects/object/clock.ts';
import { KeyValues } from '../../../durable-objects/object/key-values.ts';
import { Sql } from '../../../durable-objects/object/sql.ts';
import { type Turn, Turns } from '../../../durable-objects/object/turn.ts';
import {
  type Bucket,
  bucketStart,
  bucketsOf,
  mergeBuckets,
  type Series,
} from '../../../durable-objects/site/telemetry/bucket.ts';
import { packSamples } from '../../../durable-objects/site/telemetry/segment.ts';
import { SegmentRows } from '../../../durable-objects/site/telemetry/segment-rows.ts';
import { BASE_MS, ofLevels } from '../../../durable-objects/site/telemetry/storage-levels.ts';
import { Site as ProductSite } from '../../../durable-objects/site.ts';
import { BUCKET_MS, GRANULARITIES } from '../../../protocol/telemetry.ts';
import worker from '../../../worker/index.ts';
import { FILL_PATH, type Filling, SIGNALS } from '../filling.ts';

export { Metrics, RequestCounter, Vhost } from '../../../worker/index.ts';

const HOUR = BUCKET_MS['1h'];
const ROLL_UPS = GRANULARITIES.filter((level) => level !== 'raw');

export class Site extends ProductSite {
  /** Fills the time between two whole hours; returns the bytes of each level. */
  fill({ fromMs, toMs, stepMs }: Filling): Record<string, number> {
    const sql = new Sql(this.ctx.storage);
    const turns = new Turns(this.ctx, new Clock(), { ending: () => {}, ended: () => {} });
    const facts = new KeyValues<'telemetry'>(sql);
    const known = facts.get<{ bytes: Record<string, number> }>('telemetry');
    const bytes: Record<string, number> = known?.bytes ?? ofLevels(() => 0);
    turns.run((turn) => {
      for (let hourMs = fromMs; hourMs < toMs; hourMs += HOUR) {
        this.#fillHour(turn, sql, bytes, hourMs, stepMs);
      }
      facts.set(turn, 'telemetry', {
        packedToMs: toMs,
        packedBlock: 1,
        rolledToMs: bucketStart(toMs, BUCKET_MS['1d']),
        rolledMetric: '',
        bytes,
        registers: {},
      });
    });
    return bytes;
  }

  #fillHour(turn: Turn, sql: Sql, bytes: Record<string, number>, hourMs: number, stepMs: number): void {
    const samples = new Map(SIGNALS.map((metric, index) => [metric, seriesOf(hourMs, stepMs, index)]));
    bytes.raw =
      (bytes.raw ?? 0) + new SegmentRows(sql, 'raw').add(turn, hourMs, hourMs + HOUR, packSamples(samples));
    for (const level of ROLL_UPS) {
      const widthMs = BUCKET_MS[level];
      const buckets = new Map<string, Bucket[]>();
      for (const [metric, series] of samples) {
        buckets.set(metric, mergeBuckets(bucketsOf(series, BASE_MS), [], widthMs));
      }
      bytes[level] = (bytes[level] ?? 0) + new SegmentRows(sql, level).merge(turn, hourMs, buckets);
    }
  }

  /** Restarts the object, so that it loads the filled data from storage. */
  restart(): void {
    this.ctx.abort('filled');
  }
}

/** Power values as from a meter: a random walk in steps of 0.01 kW; timestamps with a jitter of some ms. */
function seriesOf(hourMs: number, stepMs: number, index: number): Series {
  const series: Series = { atMs: [], values: [] };
  let random = (hourMs / HOUR) * 31 + index + 1;
  const next = () => {
    random = (random * 48_271) % 2_147_483_647;
    return random / 2_147_483_647;
  };
  let jitter = (hourMs / HOUR) * 17 + 1;
  for (let atMs = hourMs, value = 20 + index; atMs < hourMs + HOUR; atMs += stepMs) {
    jitter = (jitter * 48_271) % 2_147_483_647;
    value += next() - 0.5;
    series.atMs.push(atMs + (jitter % 40));
    series.values.push(Math.round(value * 100) / 100);
  }
  return series;
}

type FilledSite = Pick<Site, 'fill' | 'restart'>;

export default {
  fetch: async (request: Request, env: Env, context: ExecutionContext) => {
    if (new URL(request.url).pathname !== FILL_PATH) return await worker.fetch(request, env, context);
    const filling = (await request.json()) as Filling;
    const site = env.SITE.get(env.SITE.idFromName(filling.siteId)) as unknown as FilledSite;
    const bytes = await site.fill(filling);
    if (filling.isLast) await Promise.resolve(site.restart()).catch(() => {});
    return Response.json(bytes);
  },
};
