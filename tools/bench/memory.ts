/**
 * Memory of the edge for each command while its objects stay awake, and for each kind of operation of the runtime
 * alone. The second part says whether a growth in the first one can be the runtime's.
 */
import { type BenchStack, startBenchStack } from './bench-stack.ts';
import { type Figure, report, slope } from './figures.ts';
import { connectInstantDevice } from './instant-device.ts';
import { measureOperations } from './operations.ts';
import { CommandingPartner, repeat } from './plant-load.ts';
import { descriptorsOf, edgeHeap, memoryOf, nativeMemory } from './process-figures.ts';

/** So few that the page caches of their databases are full after the warm-up. */
const PLANTS = 4;
/** With few in flight, hardly any commands share a turn, a call or a message. */
const IN_FLIGHT = 10;
const WARM_UP = 25_000;
const MEASURED = 50_000;
const STEP = 5_000;
const PER_COMMANDS = 100_000;

interface Sample {
  commands: number;
  rss: number;
  native: number;
  heap: number;
  descriptors: number;
}

export async function benchMemory(): Promise<void> {
  const samples = await measureCommands();
  report(
    'memory',
    `${PLANTS} plants, ${IN_FLIGHT} commands in flight, ${MEASURED} commands after ${WARM_UP}`,
    figuresOf(samples),
  );
  report(
    'memory-runtime',
    'one operation again and again, a Worker without logic',
    await measureOperations(),
  );
}

/** The samples after the warm-up. */
async function measureCommands(): Promise<Sample[]> {
  const stack = await startBenchStack({ plants: PLANTS, inspector: true });
  const devices = [];
  for (const plant of stack.plants) devices.push(await connectInstantDevice(stack, plant));
  const partner = await CommandingPartner.start(await stack.partner(), 'acme');
  const run = async (from: number, to: number) => {
    let next = from;
    await repeat(
      IN_FLIGHT,
      () => next >= to,
      async () => {
        const plant = stack.plants[next++ % PLANTS];
        if (plant) await partner.complete(plant);
      },
    );
  };
  console.log('\n commands  RSS, MiB  outside the heaps  heap  descriptors');
  await run(0, WARM_UP);
  const samples = [await sample(stack, 0)];
  for (let commands = 0; commands < MEASURED; commands += STEP) {
    await run(commands, commands + STEP);
    samples.push(await sample(stack, commands + STEP));
  }
  await partner.partner.close();
  for (const device of devices) device.end(true);
  await stack.stop();
  return samples;
}

async function sample(stack: BenchStack, commands: number): Promise<Sample> {
  const pid = stack.edge.pid() ?? 0;
  const { rss } = memoryOf(pid);
  const native = await nativeMemory(stack.edge.miniflare, pid);
  const [heap, descriptors] = [await edgeHeap(stack.edge), descriptorsOf(pid)];
  const cells = [rss.toFixed(1).padStart(9), native.toFixed(1).padStart(18), heap.toFixed(0).padStart(5)];
  console.log(`${String(commands).padStart(9)} ${cells.join(' ')} ${String(descriptors).padStart(12)}`);
  return { commands, rss, native, heap, descriptors };
}

function figuresOf(samples: readonly Sample[]): Figure[] {
  const unit = `MiB per ${PER_COMMANDS}`;
  const grown = (what: 'rss' | 'native') =>
    PER_COMMANDS * slope(samples.map((one) => [one.commands, one[what]] as const));
  return [
    { name: 'edge RSS', value: grown('rss'), unit, target: '≤ 5' },
    { name: 'edge memory outside the JavaScript heaps', value: grown('native'), unit },
    { name: 'edge RSS at the end', value: samples.at(-1)?.rss ?? 0, unit: 'MiB' },
  ];
}
