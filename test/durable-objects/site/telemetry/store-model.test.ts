/**
 * The telemetry store compared with a model of the sent data: late, out of order, across midnights, gaps and
 * wakes [C-4.5].
 */
import type { TelemetrySite } from '#workerd/scene.ts';
import { boundSite } from '#workerd/site-bounds.ts';
import { HOUR, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import {
  partCounts,
  readOfDevice,
  readPoints,
  type TelemetryMessage,
  untilPacked,
} from '#workerd/telemetry-site.ts';
import { AGGREGATES, BUCKETS, GRANULARITIES } from '../../../../protocol/telemetry.ts';

const TOLERANCE = 5 * MINUTE;
const NAMES = [
  'gridPowerKw',
  'BESS-1/powerKw',
  'METER-1/importRegisterKwh',
  'constructor',
  '10',
  '9',
  'ﬀ',
  '😀/č',
];

/** The same pseudo-random numbers in each run. */
function dice(seed: number): (sides: number) => number {
  let state = seed;
  return (sides) => {
    state = (state * 48_271) % 2_147_483_647;
    return state % sides;
  };
}

/**
 * The messages of one batch, dated anywhere within the tolerance: late, early, at the limits, or twice the
 * same moment.
 */
function someMessages(roll: (sides: number) => number): TelemetryMessage[] {
  const now = Date.now();
  const messages: TelemetryMessage[] = [];
  for (let count = 3 + roll(12); count > 0; count--) {
    const edges = [now - TOLERANCE, now + TOLERANCE, now, messages.at(-1)?.ts ?? now];
    const ts = roll(4) === 0 ? (edges[roll(4)] ?? now) : now - TOLERANCE + roll(2 * TOLERANCE + 1);
    const names = NAMES.filter(() => roll(3) > 0);
    messages.push({
      ts,
      data: Object.fromEntries(names.map((name) => [name, roll(2_000_001) - 1_000_000] as const)),
    });
  }
  return messages;
}

/**
 * Compares every granularity, bucket and aggregate with the model, for the whole history and for a part of
 * it.
 */
async function expectAsSent(scene: TelemetrySite, roll: (sides: number) => number): Promise<void> {
  const { plant, gateway, model } = scene;
  const [first = 0, last = 0] = [model.moments[0], model.moments.at(-1)];
  const within = first + roll(last - first);
  const ranges = [
    [first, last + 1],
    [within, Math.min(within + 1 + roll(6 * HOUR), last)],
  ] as const;
  for (const range of ranges) {
    for (const metric of NAMES) {
      for (const granularity of GRANULARITIES) {
        const points = await readPoints(plant.id, metric, granularity, range);
        expect(points, `${metric} ${granularity}`).toEqual(model.points(metric, granularity, range));
      }
    }
    for (const bucket of BUCKETS) {
      for (const aggregate of AGGREGATES) {
        const [fromMs, toMs] = range;
        const { rows, total } = await readOfDevice(plant.id, gateway.id, { fromMs, toMs, bucket, aggregate });
        const expected = NAMES.flatMap((metric) =>
          model.points(metric, bucket, range, aggregate).map((point) => ({ ...point, metric })),
        ).sort((left, right) => (order(left) < order(right) ? -1 : 1));
        expect(rows, `${bucket} ${aggregate}`).toEqual(expected);
        expect(total).toBe(expected.length);
      }
    }
  }
}

function order({ timestamp, metric }: { timestamp: string; metric: string }): string {
  return `${timestamp} ${metric}`;
}

describe('a history', () => {
  it.for<[string, number, Parameters<typeof boundSite>[1]]>([
    ['as the product packs it', 1, {}],
    ['in stretches of some minutes', 2, { unpackedBlocks: 2, blockChars: 600, packMs: 7 * MINUTE }],
    ['a few messages at a time', 3, { unpackedBlocks: 1, blockChars: 300, packChars: 1_500 }],
    ['late, in large blocks', 4, { unpackedBlocks: 1_000, blockChars: 100_000, packMs: 2 * HOUR }],
  ])(
    'packed %s equals the sent data, before and after packing, over days with gaps and wakes [C-4.5]',
    async ([_what, seed, bounds], { telemetrySite: { scene, plant, send } }) => {
      const roll = dice(seed);
      await boundSite(plant.id, bounds);
      setClock(START_MS + 10 * HOUR);
      for (let step = 0; step < 28; step++) {
        await send(...someMessages(roll));
        if (roll(6) === 0) await evictSite(plant.id);
        const gaps = [30 * HOUR, 5 * HOUR, HOUR];
        const pause = roll(10) === 0 ? (gaps[roll(3)] ?? HOUR) : roll(20 * MINUTE);
        setClock(Date.now() + pause);
        await passTime(plant.id, SECOND);
      }
      await expectAsSent(scene, roll);
      await untilPacked(plant.id);
      await evictSite(plant.id);
      const { raw, '5m': fives, '1h': hours, '1d': days } = await partCounts(plant.id);
      expect(Math.min(raw ?? 0, fives ?? 0, hours ?? 0, days ?? 0)).toBeGreaterThan(0);
      await expectAsSent(scene, roll);
    },
  );
});
