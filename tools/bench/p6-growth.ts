/** P6: whether a command waits longer for its confirm and its end when the command log of its plant grows. */
import { type BenchStack, startBenchStack } from './bench-stack.ts';
import { exponent, type Figure, percentile, report } from './figures.ts';
import { connectInstantDevice } from './instant-device.ts';
import { CommandingPartner, repeat } from './plant-load.ts';

/** Logged commands at which the time is measured; the smaller sizes also serve as warm-up. */
const SIZES = [3_000, 10_000, 30_000, 100_000];
const SAMPLES = 1_000;
/** Commands in flight while the log is filled. */
const FILLERS = 64;

export async function benchGrowth(): Promise<void> {
  const stack: BenchStack = await startBenchStack({ plants: 1 });
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
  await stack.stop();
  const slope = (of: 'confirm' | 'ended') => exponent(points.map((point) => [point.size, point[of]]));
  const figures: Figure[] = points.flatMap(({ size, confirm, ended }) => [
    { name: `publish → confirm p50, ${size} logged`, value: confirm, unit: 'ms' },
    { name: `publish → COMPLETED p50, ${size} logged`, value: ended, unit: 'ms' },
  ]);
  figures.push(
    { name: 'exponent of the confirm', value: slope('confirm'), unit: '', target: '0' },
    { name: 'exponent of COMPLETED', value: slope('ended'), unit: '', target: '0' },
  );
  report('p6', 'one plant whose command log grows, one command in flight', figures);
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
