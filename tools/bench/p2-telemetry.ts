/** P2: signed telemetry of eight metrics until it is stored: over the link at fixed batch sizes, and over MQTT. */
import { randomUUID } from 'node:crypto';
import { connectAsync } from 'mqtt';
import { deviceTopic } from '../../protocol/topics.ts';
import { siteOf } from '../objects.ts';
import type { SeededPlant } from '../seed.ts';
import type { BenchStack } from './bench-stack.ts';
import { dialDevice, type LinkSender, pour, startPulse } from './device-links.ts';
import { processCpuMs } from './figures.ts';
import { telemetryText } from './plant-load.ts';
import { alone, type Measured } from './runner.ts';

const BATCHES = [1, 10, 32, 100];
const LINK_MESSAGES: Record<number, number> = { 1: 6_000, 10: 40_000, 32: 64_000, 100: 80_000 };
/**
 * Number of devices of the plant for each batch size; each has one link. There are enough of them that each
 * stays far below its rate limit.
 */
const LINK_DEVICES: Record<number, number> = { 1: 4, 10: 16, 32: 64, 100: 64 };
const MAX_LINK_DEVICES = 64;
/** Number of devices, each at a plant of its own, and messages per device. */
const MQTT_LOADS = [
  { devices: 50, messages: 600 },
  { devices: 500, messages: 60 },
];
const MQTT_WINDOW = 10;

export const telemetry = alone({
  title: 'telemetry ingest, 8 metrics, HMAC and nonce checked, stored',
  aims: {
    'link → Site, 10 per batch': '≥ 10 000',
    'edge CPU per message, 32 per batch': '≤ 25',
    'rows written per message': '≤ 1.1',
  },
  stack: {
    organizations: [
      { slug: 'acme', plants: BATCHES.length, moreDevices: MAX_LINK_DEVICES - 1 },
      { slug: 'mqtt', plants: Math.max(...MQTT_LOADS.map(({ devices }) => devices)) },
    ],
  },
  measure: async (stack) => {
    const stopPulse = startPulse();
    let measured: Measured = {};
    for (const [index, batch] of BATCHES.entries())
      measured = { ...measured, ...(await overLink(stack, stack.plants[index] as SeededPlant, batch)) };
    const plants = stack.organizations[1]?.plants ?? [];
    for (const { devices, messages } of MQTT_LOADS)
      measured = { ...measured, ...(await overMqtt(stack, plants.slice(0, devices), messages)) };
    stopPulse();
    return measured;
  },
});

/** Uses links directly, without the bridge's batching: exactly `batch` frames per message. */
async function overLink(stack: BenchStack, plant: SeededPlant, batch: number): Promise<Measured> {
  const devices = [plant.gateway, ...(stack.organizations[0]?.moreDevices.get(plant.id) ?? [])];
  const boot = randomUUID();
  const senders: LinkSender[] = [];
  const total = LINK_MESSAGES[batch] ?? 0;
  for (const device of devices.slice(0, LINK_DEVICES[batch])) {
    senders.push({ link: await dialDevice(stack, device, boot), device, payloads: [] });
  }
  for (let made = 0; made < total; made += batch) {
    const sender = senders[(made / batch) % senders.length] as LinkSender;
    for (let count = 0; count < batch; count++) sender.payloads.push(telemetryText(sender.device));
  }
  const before = await rowsWritten(stack, plant, devices);
  const edge = stack.edge.pid() ?? 0;
  const cpuMs = processCpuMs(edge);
  const seconds = await pour(senders, total, batch);
  const edgeMs = processCpuMs(edge) - cpuMs;
  const rows = (await rowsWritten(stack, plant, devices)) - before;
  for (const { link } of senders) link.close();
  return {
    [`link → Site, ${batch} per batch`]: { value: total / seconds, unit: 'messages/s' },
    [`edge CPU per message, ${batch} per batch`]: { value: (edgeMs * 1_000) / total, unit: 'µs' },
    [`rows written per message, ${batch} per batch`]: { value: rows / total, unit: 'rows' },
  };
}

async function rowsWritten(
  stack: BenchStack,
  plant: SeededPlant,
  devices: readonly SeededPlant['gateway'][],
): Promise<number> {
  const site = await siteOf(stack.edge.miniflare, plant.id);
  let rows = 0;
  for (const { id } of devices) {
    const { rowsWritten: written, drops } = await site.diagnostics(id);
    if (Object.keys(drops).length > 0) throw new Error(`messages were dropped: ${JSON.stringify(drops)}`);
    rows = written;
  }
  return rows;
}

async function overMqtt(
  stack: BenchStack,
  plants: readonly SeededPlant[],
  messages: number,
): Promise<Measured> {
  const clients = [];
  for (const plant of plants) {
    const client = await connectAsync({
      protocol: 'mqtts',
      host: 'localhost',
      port: stack.ports.mqtts,
      ca: stack.ca,
      clientId: plant.gateway.id,
      username: plant.gateway.id,
      password: plant.gateway.token,
      clean: true,
    });
    const payloads = Array.from({ length: messages }, () => telemetryText(plant.gateway));
    clients.push({ client, payloads, topic: deviceTopic(plant.gateway.id, 'telemetry') });
  }
  const startedAt = performance.now();
  await Promise.all(
    clients.map(async ({ client, payloads, topic }) => {
      let next = 0;
      const worker = async () => {
        for (let payload = payloads[next++]; payload !== undefined; payload = payloads[next++]) {
          await client.publishAsync(topic, payload, { qos: 1 });
        }
      };
      await Promise.all(Array.from({ length: MQTT_WINDOW }, worker));
    }),
  );
  const seconds = (performance.now() - startedAt) / 1_000;
  for (const { client } of clients) client.end(true);
  const value = (plants.length * messages) / seconds;
  return { [`MQTT QoS 1, ${plants.length} devices, PUBACK = stored`]: { value, unit: 'messages/s' } };
}
