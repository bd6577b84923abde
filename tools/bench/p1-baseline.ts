/** P1 on both sides: command round trips of this product and of the baseline, in turn. */
import type { MqttClient } from 'mqtt';
import { CommandLoad } from './command-load.ts';
import { percentile } from './figures.ts';
import { connectInstantDevice } from './instant-device.ts';
import { compared, type Measured, ROUNDS } from './runner.ts';
import { againstBaseline, type Side } from './sides.ts';

const PLANTS = Number(process.env.SITEWIRE_BENCH_PLANTS ?? 100);
/** `commands` of one round. */
const LOADS = [
  { name: '1 in flight', plants: PLANTS, inFlight: 1, commands: 800 },
  { name: '10 in flight', plants: PLANTS, inFlight: 10, commands: 1_500 },
  { name: '100 in flight', plants: PLANTS, inFlight: 100, commands: 3_000 },
  { name: 'one plant, 100 in flight', plants: 1, inFlight: 100, commands: 3_000 },
];
const WARM_UP = { inFlight: 10, commands: 6_000 };

interface Loaded {
  side: Side;
  load: CommandLoad;
  devices: MqttClient[];
}

export const commandsOnBothSides = compared({
  title: `command round trip, ${PLANTS} plants, ${ROUNDS} rounds in turn`,
  aims: {
    'ack p50, 1 in flight': '≤ 0.9',
    'COMPLETED p50, 1 in flight': '≤ 1.0',
    'commands per second, 1 in flight': '≥ 1.0',
    'commands per second, 10 in flight': '≥ 0.7',
    'commands per second, 100 in flight': '≥ 0.45',
    'commands per second, one plant, 100 in flight': '≥ 1.0',
  },
  other: 'baseline',
  start: () => againstBaseline(PLANTS),
  load: loadOf,
  warmUp: ({ load, side }) => load.run(side.plants, WARM_UP.inFlight, WARM_UP.commands),
  measure,
  end: ({ devices }) => {
    for (const device of devices) device.end(true);
  },
});

async function loadOf(side: Side): Promise<Loaded> {
  const devices: MqttClient[] = [];
  for (const plant of side.plants) devices.push(await connectInstantDevice(side, plant));
  return { side, devices, load: await CommandLoad.start(await side.partner()) };
}

async function measure({ side, load }: Loaded): Promise<Measured> {
  const measured: Record<string, { value: number; unit: string }> = {};
  for (const { name, plants, inFlight, commands } of LOADS) {
    const cpuBefore = side.cpuMs();
    const samples = await load.run(side.plants.slice(0, plants), inFlight, commands);
    const cpuMs = side.cpuMs() - cpuBefore;
    const ms = (value: number) => ({ value, unit: 'ms' });
    Object.assign(measured, {
      [`confirm p50, ${name}`]: ms(percentile(samples.confirm, 0.5)),
      [`ack p50, ${name}`]: ms(percentile(samples.ack, 0.5)),
      [`ack p99, ${name}`]: ms(percentile(samples.ack, 0.99)),
      [`COMPLETED p50, ${name}`]: ms(percentile(samples.completed, 0.5)),
      [`COMPLETED p99, ${name}`]: ms(percentile(samples.completed, 0.99)),
      [`commands per second, ${name}`]: { value: commands / samples.seconds, unit: '1/s' },
      [`CPU per command, ${name}`]: ms(cpuMs / commands),
    });
  }
  return measured;
}
