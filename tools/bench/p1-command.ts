/** P1: a signed device command, from a partner's publish to its acknowledgement and to COMPLETED. */
import { setTimeout as pause } from 'node:timers/promises';
import type { MqttClient } from 'mqtt';
import type { Partner } from '../partner.ts';
import type { BenchStack } from './bench-stack.ts';
import { CommandLoad } from './command-load.ts';
import { percentile, processCpuMs } from './figures.ts';
import { connectInstantDevice } from './instant-device.ts';
import { METERED_ENTRY, OBJECT_KINDS, readMeters, rowsOf, sum } from './meters.ts';
import { CommandingPartner } from './plant-load.ts';
import { alone, type Measured } from './runner.ts';

const PLANTS = Number(process.env.SITEWIRE_BENCH_PLANTS ?? 100);
const LOADS: { inFlight: number; commands: number }[] = [
  { inFlight: 1, commands: 3_000 },
  { inFlight: 10, commands: 4_000 },
  { inFlight: 100, commands: 8_000 },
];
/** Commands before the measurement: the runtime needs some thousands to compile the hot code. */
const WARM_UP = 6_000;
const ROWS_COMMANDS = 500;
const ROWS_SETTLE_MS = 8_000;

export const commands = alone({
  title: `command round trip, ${PLANTS} plants, instant devices, TLS on both sides`,
  aims: {
    'publish → ack p50, 1 in flight': '≤ 2.5',
    'publish → COMPLETED p50, 1 in flight': '≤ 5',
  },
  stack: { plants: PLANTS },
  measure: async (stack) => {
    const devices: MqttClient[] = [];
    for (const plant of stack.plants) devices.push(await connectInstantDevice(stack, plant));
    const partner = await stack.partner();
    const measured = await measure(stack, partner);
    await partner.close();
    for (const device of devices) device.end(true);
    return measured;
  },
});

/** Rows that a command writes. Counted in a separate run, because metering takes time. */
export const rowsOfCommands = alone({
  title: 'rows that a command writes',
  aims: { 'rows per command': '≤ 13' },
  stack: { plants: 1, entry: METERED_ENTRY },
  measure: measureRows,
});

async function measureRows(stack: BenchStack): Promise<Measured> {
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
  return { 'rows per command, Site and Vhost': { value: written / ROWS_COMMANDS, unit: 'rows' } };
}

async function measure(stack: BenchStack, partner: Partner): Promise<Measured> {
  const load = await CommandLoad.start(partner);
  await load.run(stack.plants, 1, WARM_UP);
  const measured: Record<string, { value: number; unit: string }> = {};
  for (const { inFlight, commands: count } of LOADS) {
    const before = cpuMs(stack);
    const { confirm, ack, completed, seconds } = await load.run(stack.plants, inFlight, count);
    const after = cpuMs(stack);
    const add = (name: string, value: number, unit = 'ms') => {
      measured[`${name}, ${inFlight} in flight`] = { value, unit };
    };
    add('publish → confirm p50', percentile(confirm, 0.5));
    add('publish → ack p50', percentile(ack, 0.5));
    add('publish → ack p99', percentile(ack, 0.99));
    add('publish → COMPLETED p50', percentile(completed, 0.5));
    add('publish → COMPLETED p99', percentile(completed, 0.99));
    add('commands per second', count / seconds, '1/s');
    add('edge CPU per command', (after.edge - before.edge) / count);
    add('bridge CPU per command', (after.bridge - before.bridge) / count);
  }
  return measured;
}

function cpuMs(stack: BenchStack): { edge: number; bridge: number } {
  return { edge: processCpuMs(stack.edge.pid() ?? 0), bridge: processCpuMs(stack.bridgePid) };
}
