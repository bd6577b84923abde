/** P2: telemetry of eight metrics, signed, stored: over the link alone at fixed batch sizes, and over MQTT. */
import { createHmac, randomUUID } from 'node:crypto';
import { connectAsync } from 'mqtt';
import { dial, type Link, startPulse } from '../../bridge/link.ts';
import { type DeviceLinkDown, type DeviceLinkUp, deviceLinkDown } from '../../protocol/link/device.ts';
import { telemetrySigningString } from '../../protocol/signing.ts';
import { deviceTopic } from '../../protocol/topics.ts';
import { siteOf } from '../objects.ts';
import type { PlantSeed } from '../seed.ts';
import { type BenchStack, startBenchStack } from './bench-stack.ts';
import { type Figure, report } from './figures.ts';

const BATCHES = [1, 10, 100];
const LINK_MESSAGES: Record<number, number> = { 1: 6_000, 10: 40_000, 100: 80_000 };
/** Batches under way at once: enough to keep the link busy, far from its answer timeout. */
const OPEN_BATCHES = 4;
const MQTT_DEVICES = 50;
const MQTT_MESSAGES_PER_DEVICE = 600;
const MQTT_WINDOW = 10;

export async function benchTelemetry(): Promise<void> {
  const stack = await startBenchStack();
  const stopPulse = startPulse();
  const figures: Figure[] = [];
  for (const batch of BATCHES) figures.push(...(await overLink(stack, batch)));
  figures.push(await overMqtt(stack));
  stopPulse();
  await stack.stop();
  report('p2', 'telemetry ingest, 8 metrics, HMAC and nonce checked, stored', figures);
}

function telemetry(plant: PlantSeed): string {
  const { id, hmacSecret } = plant.gateway;
  const ts = Date.now();
  const nonce = randomUUID();
  const reading = () => Math.round(Math.random() * 100_000) / 1_000;
  const data = JSON.stringify({
    gridPowerKw: reading(),
    fvePowerKw: reading(),
    'BESS-1/powerKw': reading(),
    'BESS-1/socPercent': reading(),
    'FVE-1/powerKw': reading(),
    'METER-1/powerKw': reading(),
    'METER-1/importRegisterKwh': reading(),
    'METER-1/exportRegisterKwh': reading(),
  });
  const sig = createHmac('sha256', hmacSecret)
    .update(telemetrySigningString(id, ts, nonce, data))
    .digest('hex');
  return `{"ts":${ts},"nonce":"${nonce}","data":${data},"sig":"${sig}"}`;
}

/** One device's link without the bridge's own batching: exactly `batch` frames to a message. */
async function overLink(stack: BenchStack, batch: number): Promise<Figure[]> {
  const plant = await stack.addPlant();
  const total = LINK_MESSAGES[batch] ?? 0;
  const payloads = Array.from({ length: total }, () => telemetry(plant));
  const dialed = await dial<DeviceLinkUp, DeviceLinkDown>(
    {
      url: stack.edge.url,
      secret: stack.credentials.bridgeSecret,
      bridge: 'bench-link',
      boot: randomUUID(),
    },
    'mqtt',
    {
      username: plant.gateway.id,
      password: await stack.token(plant.gateway.id),
      address: '127.0.0.1',
      fingerprint: '',
    },
    deviceLinkDown,
  );
  if (dialed.outcome !== 'accepted') throw new Error(`the link was not accepted: ${JSON.stringify(dialed)}`);
  const before = await rowsWritten(stack, plant);
  const seconds = await pour(dialed.link, payloads, batch);
  const rows = (await rowsWritten(stack, plant)) - before;
  dialed.link.close();
  const figures: Figure[] = [
    {
      name: `link → Site, ${batch} per batch`,
      value: total / seconds,
      unit: 'messages/s',
      ...(batch === 10 ? { target: '≥ 10 000' } : {}),
    },
    {
      name: `rows written per message, ${batch} per batch`,
      value: rows / total,
      unit: 'rows',
      target: '≤ 1.1',
    },
  ];
  return figures;
}

function pour(
  link: Link<DeviceLinkUp, DeviceLinkDown>,
  payloads: readonly string[],
  batch: number,
): Promise<number> {
  return new Promise((resolve, reject) => {
    let next = 0;
    let stored = 0;
    const startedAt = performance.now();
    const sendBatch = () => {
      for (const payload of payloads.slice(next, next + batch)) {
        const seq = link.nextSeq();
        link.send({ kind: 'publish', seq, topic: 'telemetry', payload }, seq);
      }
      next += batch;
      link.flush();
    };
    link.attach({
      frames: (frames) => {
        for (const frame of frames) {
          if (frame.kind === 'refused') reject(new Error(`refused: ${frame.reason}`));
          if (frame.kind !== 'stored') continue;
          stored += frame.seqs.length;
          if (next < payloads.length) sendBatch();
        }
        if (stored === payloads.length) resolve((performance.now() - startedAt) / 1_000);
      },
      closed: (code, reason) => reject(new Error(`the link closed: ${code} ${reason}`)),
    });
    for (let open = 0; open < OPEN_BATCHES; open++) sendBatch();
  });
}

async function rowsWritten(stack: BenchStack, plant: PlantSeed): Promise<number> {
  const site = await siteOf(stack.edge.miniflare, plant.id);
  const { rowsWritten: rows, dropped } = await site.diagnostics(plant.gateway.id);
  if (dropped.length > 0) throw new Error(`messages were dropped: ${JSON.stringify(dropped)}`);
  return rows;
}

async function overMqtt(stack: BenchStack): Promise<Figure> {
  const clients = [];
  for (let count = 0; count < MQTT_DEVICES; count++) {
    const plant = await stack.addPlant();
    const client = await connectAsync({
      protocol: 'mqtts',
      host: 'localhost',
      port: stack.ports.mqtts,
      ca: stack.ca,
      clientId: plant.gateway.id,
      username: plant.gateway.id,
      password: await stack.token(plant.gateway.id),
      clean: true,
    });
    const payloads = Array.from({ length: MQTT_MESSAGES_PER_DEVICE }, () => telemetry(plant));
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
  const total = MQTT_DEVICES * MQTT_MESSAGES_PER_DEVICE;
  return {
    name: `MQTT QoS 1, ${MQTT_DEVICES} devices, PUBACK = stored`,
    value: total / seconds,
    unit: 'messages/s',
  };
}
