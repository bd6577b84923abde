/** P6: whether a command waits longer for its confirm and its end when the command log of its plant grows. */
import type { BenchStack } from './bench-stack.ts';
import { exponent, percentile } from './figures.ts';
import { connectInstantDevice } from './instant-device.ts';
import { CommandingPartner, repeat } from './plant-load.ts';
import { alone, type Measured } from './runner.ts';

/** Logged commands at which the time is measured; the smaller sizes also serve as warm-up. */
const SIZES = [3_000, 10_000, 30_000, 100_000];
const SAMPLES = 1_000;
/** Commands in flight while the log is filled. */
const FILLERS = 64;

export const growth = alone({
  title: 'one plant whose command log grows, one command in flight',
  aims: { 'exponent of': '0' },
  stack: { plants: 1 },
  measure: fill,
});

async function fill(stack: BenchStack): Promise<Measured> {
  const [plant] = stack.plants;
  if (!plant) throw new Error('The stack of this benchmark has no plant: a bug of the benchmark');
  const device = await connectInstantDevice(stack, plant);
  const partner = await CommandingPartner.start(await stack.partner(), 'acme');
  let logged = 0;
  const complete = async () => {
    logged += 1;
    await partner.complete(plant);
  };
  const points: { size: number; confirm: number; ended: number }[] = [];
  for (const size of SIZES) {
    await repeat(FILLERS, () => logged >= size, complete);
    points.push({ size, ...(await measure(partner, plant)) });
    logged += SAMPLES;
  }
  await partner.partner.close();
  device.end(true);
  const slope = (of: 'confirm' | 'ended') => exponent(points.map((point) => [point.size, point[of]]));
  const medians = points.flatMap(({ size, confirm, ended }) => [
    [`publish → confirm p50, ${size} logged`, { value: confirm, unit: 'ms' }],
    [`publish → COMPLETED p50, ${size} logged`, { value: ended, unit: 'ms' }],
  ]);
  return {
    ...Object.fromEntries(medians),
    'exponent of the confirm': { value: slope('confirm'), unit: '' },
    'exponent of COMPLETED': { value: slope('ended'), unit: '' },
  };
}

async function measure(
  partner: CommandingPartner,
  plant: BenchStack['plants'][number],
): Promise<{ confirm: number; ended: number }> {
  const [confirms, ends]: [number[], number[]] = [[], []];
  for (let count = 0; count < SAMPLES; count++) {
    const sentAt = performance.now();
    const { confirmed, ended } = partner.command(plant);
    await confirmed;
    confirms.push(performance.now() - sentAt);
    await ended;
    ends.push(performance.now() - sentAt);
  }
  return { confirm: percentile(confirms, 0.5), ended: percentile(ends, 0.5) };
}
