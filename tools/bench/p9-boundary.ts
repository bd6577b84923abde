/**
 * P9: a thousand plants whose schedules have their boundaries at the same moment: how late each plant is told its slot,
 * from the boundary to the gateway's hands, over TLS. First each plant sends a reading now and then, as plants do, and its
 * object is in memory; then nothing comes between two boundaries, and the objects have left it.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { MqttClient } from 'mqtt';
import { formatInstant } from '../../protocol/ids.ts';
import type { SeededPlant } from '../seed.ts';
import { type BenchStack, startBenchStack } from './bench-stack.ts';
import { type Figure, percentile, report } from './figures.ts';
import { connectInstantDevice } from './instant-device.ts';
import { publishTelemetry } from './plant-load.ts';

const PLANTS = Number(process.env.SITEWIRE_BENCH_PLANTS ?? 1_000);
/** Connects, and publishes, under way at once. */
const AT_ONCE = 20;
const SLOT_MS = 60_000;
/** The first opens the windows, with an event to the partner each. */
const SLOTS = 6;
/** So many of them with readings; then a boundary that is not counted, for all have yet to leave memory. */
const AWAKE_SLOTS = 3;
/** How often each plant sends a reading: an object leaves memory 10 s behind the last. */
const READING_MS = 8_000;
/** From the last schedule that was acknowledged to the first boundary, at least: longer than an object stays awake. */
const REST_MS = 25_000;
/** How long a boundary is waited for. */
const LATEST_MS = 20_000;
const TARGET_MS = 2_000;

interface Told {
  plant: number;
  slotIndex: number;
  atMs: number;
}

export async function benchBoundary(): Promise<void> {
  const stack = await startBenchStack({ plants: PLANTS, pinned: false });
  const told: Told[] = [];
  let taken = 0;
  const clients = await connectAll(stack, (plant, action, payload) => {
    if (action === 'SCHEDULE_SET') taken += 1;
    else if (typeof payload.slotIndex === 'number')
      told.push({ plant, slotIndex: payload.slotIndex, atMs: Date.now() });
  });
  const startMs = Math.ceil((Date.now() + PLANTS * 20 + REST_MS) / SLOT_MS) * SLOT_MS;
  await publishAll(stack, startMs);
  await until(() => taken >= PLANTS, startMs - REST_MS - Date.now(), 'not all schedules were told in time');

  const readings = sendReadings(stack, clients);
  const figures: Figure[] = [];
  for (let slot = 0; slot < SLOTS; slot++) {
    if (slot === AWAKE_SLOTS) readings.stop();
    const boundaryMs = startMs + slot * SLOT_MS;
    const ofSlot = () => told.filter(({ slotIndex }) => slotIndex === slot);
    await pause(boundaryMs - Date.now());
    await until(() => ofSlot().length >= PLANTS, LATEST_MS, `boundary ${slot} did not reach all plants`);
    const lateness = ofSlot().map(({ atMs }) => atMs - boundaryMs);
    const plants = new Set(ofSlot().map(({ plant }) => plant)).size;
    if (plants !== PLANTS || ofSlot().length !== PLANTS)
      throw new Error(`boundary ${slot}: ${ofSlot().length} slots told to ${plants} plants`);
    if (slot !== AWAKE_SLOTS) figures.push(...figuresOf(slot, lateness));
  }
  readings.stop();
  for (const client of clients) client.end(true);
  await stack.stop();
  report('p9', `${PLANTS} plants with a slot boundary at the same moment`, figures);
}

function figuresOf(slot: number, lateness: readonly number[]): Figure[] {
  const name =
    slot === 0 ? 'windows open' : `boundary ${slot}, objects ${slot < AWAKE_SLOTS ? 'in memory' : 'asleep'}`;
  return [
    { name: `${name}: lateness p50`, value: percentile(lateness, 0.5), unit: 'ms' },
    {
      name: `${name}: lateness p99`,
      value: percentile(lateness, 0.99),
      unit: 'ms',
      target: `≤ ${TARGET_MS}`,
    },
    { name: `${name}: lateness, the last`, value: Math.max(...lateness), unit: 'ms' },
  ];
}

async function connectAll(
  stack: BenchStack,
  hear: (plant: number, action: string, payload: Record<string, unknown>) => void,
): Promise<MqttClient[]> {
  const clients: MqttClient[] = [];
  await inTurns(stack.plants, async (plant, index) => {
    const client = await connectInstantDevice(stack, plant);
    client.on('message', (_topic, text) => {
      const { action, payload } = JSON.parse(text.toString('utf8'));
      hear(index, action, payload);
    });
    clients[index] = client;
  });
  return clients;
}

/** All plants in turn, spread over the time between two readings of one. */
function sendReadings(stack: BenchStack, clients: readonly (MqttClient | undefined)[]): { stop(): void } {
  let next = 0;
  const timer = setInterval(() => {
    const index = next++ % PLANTS;
    const [plant, client] = [stack.plants[index], clients[index]];
    if (plant && client)
      publishTelemetry(client, plant).catch((error: unknown) => console.error(String(error)));
  }, READING_MS / PLANTS);
  return { stop: () => clearInterval(timer) };
}

async function publishAll(stack: BenchStack, startMs: number): Promise<void> {
  const partner = await stack.partner();
  const slots = Array.from({ length: SLOTS }, (_none, slotIndex) => ({
    slotIndex,
    mode: 'STANDARD',
    setpoint: { value: slotIndex + 1 },
  }));
  const payload = { startTime: formatInstant(startMs), slotDurationMinutes: SLOT_MS / 60_000, slots };
  await inTurns(stack.plants, async ({ id }) => {
    await partner.publish('schedule', id, payload);
  });
  await partner.close();
}

async function inTurns(
  plants: readonly SeededPlant[],
  work: (plant: SeededPlant, index: number) => Promise<void>,
): Promise<void> {
  const left = [...plants.entries()];
  const worker = async () => {
    for (let next = left.shift(); next; next = left.shift()) await work(next[1], next[0]);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

async function until(isSo: () => boolean, forMs: number, otherwise: string): Promise<void> {
  const endMs = Date.now() + forMs;
  while (!isSo()) {
    if (Date.now() > endMs) throw new Error(otherwise);
    await pause(20);
  }
}
