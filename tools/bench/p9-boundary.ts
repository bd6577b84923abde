/**
 * P9: how late a thousand plants get their slot when all schedules have a boundary at the same time: from the
 * boundary to the gateway, over TLS. At the first boundaries each plant sends readings, so its object is in
 * memory; at the later ones nothing arrives between two boundaries, and the objects have left memory.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { MqttClient } from 'mqtt';
import { formatInstant } from '../../protocol/ids.ts';
import type { SeededPlant } from '../seed.ts';
import type { BenchStack } from './bench-stack.ts';
import { percentile } from './figures.ts';
import { connectInstantDevice } from './instant-device.ts';
import { publishTelemetry } from './plant-load.ts';
import { alone, type Measured } from './runner.ts';

const PLANTS = Number(process.env.SITEWIRE_BENCH_PLANTS ?? 1_000);
/** Concurrent connects and publishes. */
const AT_ONCE = 20;
const SLOT_MS = 60_000;
/** Number of slots. At the first boundary each schedule starts, with an event to the partner. */
const SLOTS = 6;
/** Slots with readings. The boundary after them is not counted, because some objects are still in memory. */
const AWAKE_SLOTS = 3;
/** Interval of a plant's readings: an object leaves memory 10 s after its last event. */
const READING_MS = 8_000;
/**
 * Minimum time from the last acknowledged schedule to the first boundary: longer than an object stays in
 * memory.
 */
const REST_MS = 25_000;
/** How long to wait for all plants after a boundary. */
const LATEST_MS = 20_000;

interface SlotArrival {
  plant: number;
  slotIndex: number;
  atMs: number;
}

export const boundary = alone({
  title: `${PLANTS} plants with a slot boundary at the same moment`,
  aims: { 'lateness p99': '≤ 2000' },
  stack: { plants: PLANTS, pinned: false },
  measure,
});

async function measure(stack: BenchStack): Promise<Measured> {
  const arrivals: SlotArrival[] = [];
  let taken = 0;
  const clients = await connectAll(stack, (plant, action, payload) => {
    if (action === 'SCHEDULE_SET') taken += 1;
    else if (typeof payload.slotIndex === 'number')
      arrivals.push({ plant, slotIndex: payload.slotIndex, atMs: Date.now() });
  });
  const startMs = Math.ceil((Date.now() + PLANTS * 20 + REST_MS) / SLOT_MS) * SLOT_MS;
  await publishAll(stack, startMs);
  await until(
    () => taken >= PLANTS,
    startMs - REST_MS - Date.now(),
    'not all schedules reached their gateways in time',
  );

  const readings = sendReadings(stack, clients);
  let measured: Measured = {};
  for (let slot = 0; slot < SLOTS; slot++) {
    if (slot === AWAKE_SLOTS) readings.stop();
    const boundaryMs = startMs + slot * SLOT_MS;
    const ofSlot = () => arrivals.filter(({ slotIndex }) => slotIndex === slot);
    await pause(boundaryMs - Date.now());
    await until(() => ofSlot().length >= PLANTS, LATEST_MS, `boundary ${slot} did not reach all plants`);
    const lateness = ofSlot().map(({ atMs }) => atMs - boundaryMs);
    const plants = new Set(ofSlot().map(({ plant }) => plant)).size;
    if (plants !== PLANTS || ofSlot().length !== PLANTS)
      throw new Error(
        `boundary ${slot}: ${plants} plants got ${ofSlot().length} slots; expected one slot for each of ${PLANTS} plants`,
      );
    if (slot !== AWAKE_SLOTS) measured = { ...measured, ...measuredOf(slot, lateness) };
  }
  readings.stop();
  for (const client of clients) client.end(true);
  return measured;
}

function measuredOf(slot: number, lateness: readonly number[]): Measured {
  const name =
    slot === 0
      ? 'schedules start'
      : `boundary ${slot}, objects ${slot < AWAKE_SLOTS ? 'in memory' : 'hibernated'}`;
  return {
    [`${name}: lateness p50`]: { value: percentile(lateness, 0.5), unit: 'ms' },
    [`${name}: lateness p99`]: { value: percentile(lateness, 0.99), unit: 'ms' },
    [`${name}: lateness, maximum`]: { value: Math.max(...lateness), unit: 'ms' },
  };
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

/** Sends a reading of one plant after the other, evenly over the interval. */
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
