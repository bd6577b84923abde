/**
 * P2 in an open loop on both sides, in turn. A reading counts when it is stored: for this product at its PUBACK, for the
 * baseline when its transaction is committed, because mosquitto acknowledges before that.
 */
import { compared, type Measured, ROUNDS } from './runner.ts';
import { againstBaseline, type Side } from './sides.ts';
import { connectSenders, passes, rounded, type Sender, step } from './telemetry-load.ts';

/** Each at a plant of its own. */
const DEVICES = (process.env.SITEWIRE_BENCH_DEVICES ?? '50,500').split(',').map(Number);
const WARM_UP_RATE = 2_000;
const FIRST_RATE = 4_000;
/** The first search takes large steps, the search of each round small ones. */
const COARSE = 1.6;
const FINE = 1.25;

interface Loaded {
  side: Side;
  senders: Sender[];
  /** Where the search of the next round begins. */
  rate: number;
}

export const telemetryOnBothSides = DEVICES.map((devices) =>
  compared({
    title: `telemetry over MQTT, open loop, ${devices} devices, 8 metrics, ${ROUNDS} rounds in turn`,
    aims: { 'highest passing rate': '≥ 1.0' },
    other: 'baseline',
    start: () => againstBaseline(devices),
    load: loadOf,
    warmUp: async (one) => {
      // The first readings of each device, and the first step, warm up the runtime.
      await step(one.side, one.senders, WARM_UP_RATE);
      one.rate = await highestRate(one, FIRST_RATE, COARSE);
    },
    measure,
    end: async ({ side, senders }) => {
      await side.checkStored?.();
      for (const { client } of senders) client.end(true);
    },
  }),
);

async function loadOf(side: Side): Promise<Loaded> {
  return { side, senders: await connectSenders(side, side.plants), rate: FIRST_RATE };
}

async function attempt({ side, senders }: Loaded, rate: number): Promise<boolean> {
  const outcome = await step(side, senders, rate);
  console.log(
    `  ${side.name}, ${senders.length} devices, ${Math.round(rate)}/s: ${JSON.stringify(rounded(outcome))}`,
  );
  return passes(outcome, rate);
}

/** Rises from that rate until a step fails, or falls until one passes. */
async function highestRate(one: Loaded, from: number, factor: number): Promise<number> {
  let rate = from;
  if (await attempt(one, rate)) {
    while (await attempt(one, rate * factor)) rate *= factor;
    return rate;
  }
  do {
    rate /= factor;
    if (rate < 1) throw new Error(`${one.side.name} does not pass at any rate`);
  } while (!(await attempt(one, rate)));
  return rate;
}

async function measure(one: Loaded): Promise<Measured> {
  const { side, senders } = one;
  one.rate = await highestRate(one, one.rate, FINE);
  const half = await step(side, senders, one.rate / 2);
  const twice = await step(side, senders, one.rate * 2);
  return {
    'highest passing rate': { value: one.rate, unit: 'messages/s' },
    'stored p50 at half of it': { value: half.p50, unit: 'ms' },
    'CPU at half of it': { value: half.cpuMs * 1_000, unit: 'µs/message' },
    'stored at twice of it': { value: twice.storedPerSecond / one.rate, unit: 'of it' },
    'links cut at twice of it': { value: twice.cuts, unit: 'links' },
    'lost at twice of it': { value: twice.lost, unit: 'messages' },
  };
}
