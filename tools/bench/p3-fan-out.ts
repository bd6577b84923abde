/**
 * P3: the events of plants to 1, 10 and 100 API keys. A gateway reports faults of its sub-devices and their ends, and each
 * is an event for every key; the product judges the faults of a plant once a second, so many plants report. First as
 * fast as all consumers receive the events, then at a fixed rate, with and without one consumer that acknowledges nothing.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { EventConsumer } from './event-consumer.ts';
import { ALARMS_OF_REPORT, FaultReporter } from './fault-reporter.ts';
import { percentile } from './figures.ts';
import { compared, type Measured, ROUNDS } from './runner.ts';
import { againstBaseline, type Side } from './sides.ts';

const KEYS = (process.env.SITEWIRE_BENCH_KEYS ?? '1,10,100').split(',').map(Number);
/** A plant is judged at the first reading that comes so long after the last judgement. */
const JUDGED_AFTER_MS = 1_100;
/**
 * The product judges a plant once more five seconds after a change. A report in the second after that would wait for the
 * next reading, so the reports at a fixed rate begin later, and each plant has more time than that between two.
 */
const SETTLED_AFTER_MS = 6_500;
interface Load {
  plants: number;
  /** Of each plant. */
  reports: number;
  /** At the fixed rate, which is far below what both sides can do: reports of all plants, and how many a second. */
  paced: number;
  perSecond: number;
}
/** By number of keys. */
const LOADS: Record<number, Load> = {
  1: { plants: 300, reports: 4, paced: 80, perSecond: 20 },
  10: { plants: 150, reports: 3, paced: 60, perSecond: 10 },
  100: { plants: 16, reports: 2, paced: 16, perSecond: 2 },
};
const FEW: Load = { plants: 16, reports: 4, paced: 32, perSecond: 2 };

interface Loaded {
  reporters: FaultReporter[];
  consumers: EventConsumer[];
}

export const fanOut = KEYS.map((keys) =>
  compared({
    title: `alarms of plants, keys: ${keys}, ${ROUNDS} rounds in turn`,
    aims: { 'deliveries per second': '≥ 1.0' },
    other: 'baseline',
    start: () => againstBaseline(loadOf(keys).plants, keys),
    load: (side) => connect(side, keys),
    warmUp: async (one) => {
      await pour(one, 2);
      await pause(SETTLED_AFTER_MS);
    },
    measure: (one) => measure(one, keys),
    end: async ({ reporters, consumers }) => {
      for (const reporter of reporters) reporter.end();
      for (const consumer of consumers) await consumer.close();
    },
  }),
);

function loadOf(keys: number): Load {
  return LOADS[keys] ?? FEW;
}

async function connect(side: Side, keys: number): Promise<Loaded> {
  const [reporters, consumers]: [FaultReporter[], EventConsumer[]] = [[], []];
  for (const plant of side.plants) reporters.push(await FaultReporter.connect(side, plant));
  for (let key = 0; key < keys; key++) consumers.push(await side.consumeAlarms(key));
  return { reporters, consumers };
}

async function measure(one: Loaded, keys: number): Promise<Measured> {
  const { reports, paced, perSecond } = loadOf(keys);
  const rate = await pour(one, reports);
  const alone = await pace(one, paced, perSecond);
  const measured = {
    'deliveries per second': { value: rate * keys, unit: '1/s' },
    'event p50 at a fixed rate': { value: percentile(alone, 0.5), unit: 'ms' },
    'event p99 at a fixed rate': { value: percentile(alone, 0.99), unit: 'ms' },
  };
  const [slow, ...fast] = one.consumers;
  // A single key has no other that it could slow down.
  if (!slow || fast.length === 0) return measured;
  slow.slowDown();
  const beside = await pace({ ...one, consumers: fast }, paced, perSecond);
  slow.catchUp();
  await Promise.all(one.reporters.map(({ siteId, alarms }) => slow.received(siteId, alarms)));
  await pause(SETTLED_AFTER_MS);
  const isolation = percentile(beside, 0.99) / percentile(alone, 0.99);
  return { ...measured, 'p99 beside a slow consumer / without': { value: isolation, unit: '×' } };
}

/** Reports as fast as all consumers receive the events; returns events per second. */
async function pour({ reporters, consumers }: Loaded, reports: number): Promise<number> {
  const startedAt = performance.now();
  await Promise.all(
    reporters.map(async (reporter) => {
      for (let left = reports; left > 0; left--) {
        const judged = pause(JUDGED_AFTER_MS);
        reporter.report();
        // A report that comes just after a judgement of the plant counts at the next reading.
        const repeating = setInterval(() => reporter.repeat(), JUDGED_AFTER_MS);
        await Promise.all(consumers.map((consumer) => consumer.received(reporter.siteId, reporter.alarms)));
        clearInterval(repeating);
        if (left > 1) await judged;
      }
    }),
  );
  const seconds = (performance.now() - startedAt) / 1_000;
  return (reports * reporters.length * ALARMS_OF_REPORT) / seconds;
}

/** Reports at a fixed rate; returns the milliseconds from each report to each delivery. */
async function pace({ reporters, consumers }: Loaded, reports: number, perSecond: number): Promise<number[]> {
  await pause(SETTLED_AFTER_MS);
  const first = new Map(reporters.map(({ siteId, sentAt }) => [siteId, sentAt.length]));
  for (let sent = 0; sent < reports; sent++) {
    reporters[sent % reporters.length]?.report();
    await pause(1_000 / perSecond);
  }
  const latencies: number[] = [];
  for (const { siteId, sentAt, alarms } of reporters) {
    for (const consumer of consumers) {
      await consumer.received(siteId, alarms);
      const receivedAt = consumer.receivedAt(siteId);
      for (let alarm = (first.get(siteId) ?? 0) * ALARMS_OF_REPORT; alarm < alarms; alarm++) {
        const at = sentAt[Math.floor(alarm / ALARMS_OF_REPORT)] ?? Number.NaN;
        latencies.push((receivedAt[alarm] ?? Number.NaN) - at);
      }
    }
  }
  return latencies;
}
