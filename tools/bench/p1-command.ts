/** P1: a signed device command, from a partner's publish to its acknowledgement and to COMPLETED. */
import { setTimeout as pause } from 'node:timers/promises';
import type { MqttClient } from 'mqtt';
import type { Partner } from '../partner.ts';
import type { SeededPlant } from '../seed.ts';
import { type BenchStack, startBenchStack } from './bench-stack.ts';
import { CommandLoad } from './command-load.ts';
import { type Figure, percentile, processCpuMs, report } from './figures.ts';
import { connectInstantDevice } from './instant-device.ts';
import { METERED_ENTRY, OBJECT_KINDS, readMeters, rowsOf, sum } from './meters.ts';
import { CommandingPartner } from './plant-load.ts';

const PLANTS = Number(process.env.SITEWIRE_BENCH_PLANTS ?? 100);
const ROUNDS: { inFlight: number; commands: number }[] = [
  { inFlight: 1, commands: 3_000 },
  { inFlight: 10, commands: 4_000 },
  { inFlight: 100, commands: 8_000 },
];
/** Commands before the measurement: the runtime needs some thousands to compile the hot code. */
const WARM_UP = 6_000;
const ROWS_COMMANDS = 500;
const ROWS_SETTLE_MS = 8_000;

export async function benchCommands(): Promise<void> {
  const stack = await startBenchStack({ plants: PLANTS });
  const devices: MqttClient[] = [];
  const { plants } = stack;
  for (const plant of plants) devices.push(await connectInstantDevice(stack, plant));
  const partner = await stack.partner();
  const figures = await measure(stack, partner, plants);
  await partner.close();
  for (const device of devices) device.end(true);
  await stack.stop();
  figures.push(await measureRows());
  report('p1', `command round trip, ${PLANTS} plants, instant devices, TLS on both sides`, figures);
}

/** Rows that a command writes. Counted in a separate run, because metering takes time. */
async function measureRows(): Promise<Figure> {
  const stack = await startBenchStack({ plants: 1, entry: METERED_ENTRY });
  const [plant] = stack.plants;
  if (!plant) throw new Error('The stack of this benchmark has no plant: a bug of the benchmark');
  const device = await connectInstantDevice(stack, plant);
  const partner = await CommandingPartner.start(await stack.partner(), 'acme');
  const rows = async () => {
    // Waits, so that rows that are written with a delay are counted, too.
    await pause(ROWS_SETTLE_MS);
    const meters = await readMeters(stack);
    return sum(OBJECT_KINDS.flatMap((kind) => meters[kind].map(rowsOf)));
  };
  await partner.complete(plant);
  const before = await rows();
  for (let count = 0; count < ROWS_COMMANDS; count++) await partner.complete(plant);
  const written = (await rows()) - before;
  await partner.partner.close();
  device.end(true);
  await stack.stop();
  return {
    name: 'rows per command, Site and Vhost',
    value: written / ROWS_COMMANDS,
    unit: 'rows',
    target: '≤ 13',
  };
}

async function measure(
  stack: BenchStack,
  partner: Partner,
  plants: readonly SeededPlant[],
): Promise<Figure[]> {
  const load = await CommandLoad.start(partner);
  await load.run(plants, 1, WARM_UP);
  const figures: Figure[] = [];
  for (const { inFlight, commands } of ROUNDS) {
    const cpuBefore = cpuMs(stack);
    const samples = await load.run(plants, inFlight, commands);
    const cpu = cpuMs(stack);
    const alone = inFlight === 1;
    figures.push(
      {
        name: `publish → confirm p50, ${inFlight} in flight`,
        value: percentile(samples.confirm, 0.5),
        unit: 'ms',
      },
      {
        name: `publish → ack p50, ${inFlight} in flight`,
        value: percentile(samples.ack, 0.5),
        unit: 'ms',
        ...(alone ? { target: '≤ 2.5' } : {}),
      },
      { name: `publish → ack p99, ${inFlight} in flight`, value: percentile(samples.ack, 0.99), unit: 'ms' },
      {
        name: `publish → COMPLETED p50, ${inFlight} in flight`,
        value: percentile(samples.completed, 0.5),
        unit: 'ms',
        ...(alone ? { target: '≤ 5' } : {}),
      },
      {
        name: `publish → COMPLETED p99, ${inFlight} in flight`,
        value: percentile(samples.completed, 0.99),
        unit: 'ms',
      },
      { name: `commands per second, ${inFlight} in flight`, value: commands / samples.seconds, unit: '1/s' },
      {
        name: `edge CPU per command, ${inFlight} in flight`,
        value: (cpu.edge - cpuBefore.edge) / commands,
        unit: 'ms',
      },
      {
        name: `bridge CPU per command, ${inFlight} in flight`,
        value: (cpu.bridge - cpuBefore.bridge) / commands,
        unit: 'ms',
      },
    );
  }
  return figures;
}

function cpuMs(stack: BenchStack): { edge: number; bridge: number } {
  return { edge: processCpuMs(stack.edge.pid() ?? 0), bridge: processCpuMs(stack.bridgePid) };
}
