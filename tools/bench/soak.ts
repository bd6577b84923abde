/**
 * Soak: commands, readings and REST reads at once for the given minutes, then no load. Prints a line per
 * minute with the resources of edge and bridge. Resources should stay constant, and objects that are not used
 * should leave memory.
 */
import type { MqttClient } from 'mqtt';
import type { BenchStack } from './bench-stack.ts';
import { connectInstantDevice } from './instant-device.ts';
import { CommandingPartner, publishTelemetry, repeat } from './plant-load.ts';
import { bridgeHeap, descriptorsOf, diskOf, edgeHeap, memoryOf, objectsInMemory } from './process-figures.ts';
import { alone, type Measured } from './runner.ts';

const PLANTS = Number(process.env.SITEWIRE_BENCH_PLANTS ?? 100);
/** Without an argument the load ends after this number of commands. */
const COMMANDS = 200_000;
const IN_FLIGHT = 50;
const READING_WORKERS = 2;
const REST_WORKERS = 1;
/** Pauses between readings, and between REST reads, which run beside the commands. */
const READING_PAUSE_MS = 10;
const REST_PAUSE_MS = 50;
/**
 * Long enough for objects to hibernate (10 s) and for plants to become OFFLINE (90 s), with the events that
 * follow.
 */
const SILENT_MINUTES = 4;
const MINUTE_MS = 60_000;
/** Measurements before this belong to the warm-up: the process compiles and fills its caches. */
const WARM_AFTER_COMMANDS = 40_000;

interface Row {
  minute: number;
  phase: 'load' | 'idle';
  commands: number;
  readings: number;
  reads: number;
  edgeRss: number;
  edgeAnonymous: number;
  edgeHeap: number;
  bridgeRss: number;
  bridgeHeap: number;
  diskData: number;
  diskLog: number;
  edgeDescriptors: number;
  bridgeDescriptors: number;
  sites: number;
  vhosts: number;
}

interface Counts {
  commands: number;
  readings: number;
  reads: number;
}

export const soak = alone({
  title: `${PLANTS} plants, commands, readings and reads, then no load`,
  aims: { 'edge RSS growth per command': '≤ 0.05', 'objects in memory without load': '0' },
  stack: { plants: PLANTS, inspector: true },
  measure,
});

async function measure(stack: BenchStack, minutes?: number): Promise<Measured> {
  const rows: Row[] = [];
  const counts: Counts = { commands: 0, readings: 0, reads: 0 };
  const look = async (minute: number, phase: Row['phase']) => {
    const row = await sample(stack, minute, phase, counts);
    rows.push(row);
    printRow(row, rows.at(-2));
  };
  printHead();
  await look(0, 'load');

  const load = await startLoad(stack, counts);
  const untilMs = minutes === undefined ? Number.POSITIVE_INFINITY : Date.now() + minutes * MINUTE_MS;
  const isOver = () => (minutes === undefined ? counts.commands >= COMMANDS : Date.now() >= untilMs);
  let minute = 0;
  const running = load.run(isOver);
  let isRunning = true;
  void running.finally(() => {
    isRunning = false;
  });
  while (isRunning) {
    await Promise.race([pause(MINUTE_MS), running]);
    minute += 1;
    await look(minute, 'load');
  }
  await load.leave();
  for (let silent = 0; silent < SILENT_MINUTES; silent++) {
    await pause(MINUTE_MS);
    minute += 1;
    await look(minute, 'idle');
  }
  return measuredOf(rows);
}

async function startLoad(stack: BenchStack, counts: Counts) {
  const devices: MqttClient[] = [];
  for (const plant of stack.plants) devices.push(await connectInstantDevice(stack, plant));
  const partner = await CommandingPartner.start(await stack.partner(), 'acme');
  const turns = { command: 0, reading: 0, read: 0 };
  const plantAt = (turn: number) => {
    const index = turn % stack.plants.length;
    const [plant, device] = [stack.plants[index], devices[index]];
    if (!plant || !device)
      throw new Error('The stack of this benchmark has no plant: a bug of the benchmark');
    return { plant, device };
  };
  const command = async () => {
    await partner.complete(plantAt(turns.command++).plant);
    counts.commands += 1;
  };
  const reading = async () => {
    const { plant, device } = plantAt(turns.reading++);
    await publishTelemetry(device, plant);
    counts.readings += 1;
    await pause(READING_PAUSE_MS);
  };
  const read = async () => {
    const { plant } = plantAt(turns.read++);
    const page = turns.read % 2 === 0 ? 'telemetry/latest' : 'commands?pageSize=20';
    const response = await fetch(`${stack.edge.url}/api/v1/vcp/sites/${plant.id}/${page}`, {
      headers: { 'x-api-key': stack.key },
    });
    if (!response.ok) throw new Error(`${page} answered ${response.status}`);
    await response.arrayBuffer();
    counts.reads += 1;
    await pause(REST_PAUSE_MS);
  };
  return {
    run: async (isOver: () => boolean) => {
      await Promise.all([
        repeat(IN_FLIGHT, isOver, command),
        repeat(READING_WORKERS, isOver, reading),
        repeat(REST_WORKERS, isOver, read),
      ]);
    },
    leave: async () => {
      await partner.partner.close();
      for (const device of devices) device.end(true);
    },
  };
}

async function sample(stack: BenchStack, minute: number, phase: Row['phase'], counts: Counts): Promise<Row> {
  const edgePid = stack.edge.pid() ?? 0;
  const [edge, bridge] = [memoryOf(edgePid), memoryOf(stack.bridgePid)];
  const disk = diskOf(stack.dataFolder);
  return {
    minute,
    phase,
    ...counts,
    edgeRss: edge.rss,
    edgeAnonymous: edge.anonymous,
    edgeHeap: await edgeHeap(stack.edge),
    bridgeRss: bridge.rss,
    bridgeHeap: await bridgeHeap(stack.ports.metrics),
    diskData: disk.data,
    diskLog: disk.log,
    edgeDescriptors: descriptorsOf(edgePid),
    bridgeDescriptors: descriptorsOf(stack.bridgePid),
    ...objectsInMemory(edgePid),
  };
}

function printHead(): void {
  console.log(
    '\n                      in this minute       edge, MiB         bridge     disk, MiB   descriptors  objects',
  );
  console.log(
    'min  phase    commands readings  reads   RSS  anon  heap   RSS heap   data   log   edge bridge  S    V',
  );
}

function printRow(row: Row, before: Row | undefined): void {
  const since = (count: keyof Counts) => row[count] - (before?.[count] ?? 0);
  const cells: [string | number, number][] = [
    [row.minute, 3],
    [` ${row.phase.padEnd(7)}`, 9],
    [since('commands'), 8],
    [since('readings'), 8],
    [since('reads'), 6],
    [row.edgeRss, 6],
    [row.edgeAnonymous, 5],
    [row.edgeHeap, 5],
    [row.bridgeRss, 6],
    [row.bridgeHeap, 4],
    [row.diskData, 6],
    [row.diskLog, 5],
    [row.edgeDescriptors, 6],
    [row.bridgeDescriptors, 6],
    [row.sites, 3],
    [row.vhosts, 4],
  ];
  console.log(
    cells
      .map(([cell, width]) => (typeof cell === 'number' ? cell.toFixed(0) : cell).padStart(width))
      .join(' '),
  );
}

function measuredOf(rows: readonly Row[]): Measured {
  const loaded = rows.filter(({ phase }) => phase === 'load');
  const last = loaded.at(-1);
  const warm = loaded.find(({ commands }) => commands >= WARM_AFTER_COMMANDS) ?? loaded[1] ?? last;
  const end = rows.at(-1);
  if (!last || !warm || !end) return {};
  const perCommand = (value: 'edgeRss' | 'bridgeRss' | 'edgeHeap') =>
    ((last[value] - warm[value]) * 1_024) / Math.max(1, last.commands - warm.commands);
  return {
    commands: { value: last.commands, unit: '' },
    'commands per minute': { value: last.commands / last.minute, unit: '1/min' },
    'edge RSS at the start': { value: rows[0]?.edgeRss ?? 0, unit: 'MiB' },
    'edge RSS, maximum': { value: Math.max(...rows.map(({ edgeRss }) => edgeRss)), unit: 'MiB' },
    'edge RSS without load': { value: end.edgeRss, unit: 'MiB' },
    'edge heap without load': { value: end.edgeHeap, unit: 'MiB' },
    'edge RSS growth per command after warm-up': { value: perCommand('edgeRss'), unit: 'KiB' },
    'edge heap growth per command after warm-up': { value: perCommand('edgeHeap'), unit: 'KiB' },
    'bridge RSS growth per command after warm-up': { value: perCommand('bridgeRss'), unit: 'KiB' },
    'bridge RSS without load': { value: end.bridgeRss, unit: 'MiB' },
    'objects in memory without load': { value: end.sites + end.vhosts, unit: '' },
    'edge descriptors without load': { value: end.edgeDescriptors, unit: '' },
  };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
