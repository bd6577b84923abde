/**
 * P2 in an open loop on both sides, in turn. A reading counts when it is stored: for this product at its PUBACK, for the
 * baseline when its transaction is committed, because mosquitto acknowledges before that.
 */
import { BaselineStack } from './baseline/stack.ts';
import { startBenchStack } from './bench-stack.ts';
import { type Figure, report } from './figures.ts';
import { alternate, baselineSide, compared, type Measured, ourSide, ROUNDS, type Side } from './sides.ts';
import { connectSenders, type Observed, passes, rounded, type Sender, step } from './telemetry-load.ts';

/** Each at a plant of its own. */
const DEVICES = (process.env.SITEWIRE_BENCH_DEVICES ?? '50,500').split(',').map(Number);
const WARM_UP_RATE = 2_000;
const FIRST_RATE = 4_000;
/** The first search takes large steps, the search of each round small ones. */
const COARSE = 1.6;
const FINE = 1.25;

interface Loaded {
  name: string;
  observed: Observed;
  senders: Sender[];
  /** Where the search of the next round begins. */
  rate: number;
}

export async function benchTelemetryOnBothSides(): Promise<void> {
  for (const devices of DEVICES) {
    const figures = await compareTelemetry(devices);
    const title = `telemetry over MQTT, open loop, 8 metrics, ${ROUNDS} rounds in turn`;
    report('p2-open-baseline', title, figures);
  }
}

async function compareTelemetry(devices: number): Promise<Figure[]> {
  const ours = await startBenchStack({ organizations: [{ slug: 'mqtt', plants: devices }] });
  const baseline = await BaselineStack.start(ours.certificates, { plants: devices });
  const loaded: Loaded[] = [];
  try {
    for (const side of [ourSide(ours), baselineSide(baseline)]) loaded.push(await loadOf(side));
    // The first readings of each device, and the first step, warm up the runtime.
    for (const one of loaded) await step(one.observed, one.senders, WARM_UP_RATE);
    for (const one of loaded) one.rate = await highestRate(one, FIRST_RATE, COARSE);
    const [mine = [], theirs = []] = await alternate(loaded, (one) => measure(one, devices));
    const counted = await baseline.readings();
    if (counted.dropped > 0) throw new Error(`the baseline dropped ${counted.dropped} readings`);
    console.log(`  the baseline can read ${counted.stored} readings over REST`);
    return compared(mine, theirs, 'baseline', { [`highest passing rate, ${devices} devices`]: '≥ 1.0' });
  } finally {
    for (const { senders } of loaded) for (const { client } of senders) client.end(true);
    await baseline.stop();
    await ours.stop();
  }
}

async function loadOf(side: Side): Promise<Loaded> {
  const senders = await connectSenders(side, side.plants);
  return { name: side.name, observed: side, senders, rate: FIRST_RATE };
}

async function attempt({ name, observed, senders }: Loaded, rate: number): Promise<boolean> {
  const outcome = await step(observed, senders, rate);
  console.log(
    `  ${name}, ${senders.length} devices, ${Math.round(rate)}/s: ${JSON.stringify(rounded(outcome))}`,
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
    if (rate < 1) throw new Error(`${one.name} does not pass at any rate`);
  } while (!(await attempt(one, rate)));
  return rate;
}

async function measure(one: Loaded, devices: number): Promise<Measured> {
  const { observed, senders } = one;
  one.rate = await highestRate(one, one.rate, FINE);
  const half = await step(observed, senders, one.rate / 2);
  const twice = await step(observed, senders, one.rate * 2);
  const name = (text: string) => `${text}, ${devices} devices`;
  return {
    [name('highest passing rate')]: { value: one.rate, unit: 'messages/s' },
    [name('stored p50 at half of it')]: { value: half.p50, unit: 'ms' },
    [name('CPU at half of it')]: { value: half.cpuMs * 1_000, unit: 'µs/message' },
    [name('stored at twice of it')]: { value: twice.storedPerSecond / one.rate, unit: 'of it' },
    [name('links cut at twice of it')]: { value: twice.cuts, unit: 'links' },
    [name('lost at twice of it')]: { value: twice.lost, unit: 'messages' },
  };
}
