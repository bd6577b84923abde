/**
 * P2 over MQTT in an open loop: the rate rises until messages wait for more than a second, then the highest rate that
 * passed is sent half and twice as fast. A PUBACK means stored.
 */
import type { SeededPlant } from '../seed.ts';
import { type BenchStack, startBenchStack } from './bench-stack.ts';
import { type Figure, processCpuMs, report } from './figures.ts';
import { connectSenders, type Observed, passes, rounded, step } from './telemetry-load.ts';

/** Each at a plant of its own. */
const DEVICES = [50, 500];
const FIRST_RATE = 1_000;
const RISE = 1.25;

export async function benchTelemetryOpenLoop(): Promise<void> {
  const figures: Figure[] = [];
  for (const devices of DEVICES) {
    const stack = await startBenchStack({ organizations: [{ slug: 'mqtt', plants: devices }] });
    figures.push(...(await ramp(stack, stack.plants)));
    await stack.stop();
  }
  report('p2-open', 'telemetry over MQTT, open loop, 8 metrics, PUBACK = stored', figures);
}

async function ramp(stack: BenchStack, plants: readonly SeededPlant[]): Promise<Figure[]> {
  const senders = await connectSenders(stack, plants);
  const edge: Observed = { cpuMs: () => processCpuMs(stack.edge.pid() ?? 0) };
  await step(edge, senders, FIRST_RATE);
  let passed = 0;
  for (let rate = FIRST_RATE; ; rate *= RISE) {
    const outcome = await step(edge, senders, rate);
    console.log(`  ${plants.length} devices, ${Math.round(rate)}/s: ${JSON.stringify(rounded(outcome))}`);
    if (!passes(outcome, rate)) break;
    passed = rate;
  }
  if (passed === 0) throw new Error(`not even ${FIRST_RATE} messages a second passed`);
  const half = await step(edge, senders, passed / 2);
  const twice = await step(edge, senders, passed * 2);
  console.log(`  twice: ${JSON.stringify(rounded(twice))}`);
  for (const { client } of senders) client.end(true);
  const name = (text: string) => `${plants.length} devices, ${text}`;
  return [
    { name: name('highest passing rate'), value: passed, unit: 'messages/s' },
    { name: name('PUBACK p50 at half of it'), value: half.p50, unit: 'ms', target: '≤ 20' },
    { name: name('edge CPU at half of it'), value: half.cpuMs * 1_000, unit: 'µs/message' },
    {
      name: name('acknowledged at twice of it'),
      value: twice.storedPerSecond / passed,
      unit: 'of it',
      target: '≥ 0.8',
    },
    { name: name('links cut at twice of it'), value: twice.cuts, unit: 'links', target: '0' },
    { name: name('lost at twice of it'), value: twice.lost, unit: 'messages' },
  ];
}
