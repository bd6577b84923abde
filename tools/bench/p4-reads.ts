/**
 * P4: REST reads of 32 connections while 50 devices send readings at a fixed rate, the same on both sides. Each plant of
 * a read has the same data on both sides: 10 000 commands, and an hour with 720 readings.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { MqttClient } from 'mqtt';
import { deviceTopic } from '../../protocol/topics.ts';
import type { SeededPlant } from '../seed.ts';
import { CommandLoad } from './command-load.ts';
import { percentile } from './figures.ts';
import { connectInstantDevice } from './instant-device.ts';
import { telemetryText } from './plant-load.ts';
import { readFor } from './rest-load.ts';
import { compared, type Measured, ROUNDS } from './runner.ts';
import { againstBaseline, type Side } from './sides.ts';
import { connectSenders, type Sender } from './telemetry-load.ts';

const DEVICES = 50;
/** Readings per second meanwhile. */
const RATE = Number(process.env.SITEWIRE_BENCH_RATE ?? 5_000);
const TICK_MS = 5;
const CONNECTIONS = 32;
const READ_MS = 2_000;
const COMMANDS = 10_050;
const COMMANDS_IN_FLIGHT = 100;
/** One each five seconds of an hour. */
const READINGS = 720;
const READINGS_PER_SECOND = 400;
const HOUR = 3_600_000;

interface Loaded {
  side: Side;
  senders: Sender[];
  devices: MqttClient[];
  /** Has the commands. */
  commanded: SeededPlant;
  /** Has the hour of readings, and sends nothing else. */
  read: SeededPlant;
}

export const reads = compared({
  title: `REST reads beside ${RATE} readings per second, ${ROUNDS} rounds in turn`,
  aims: { 'reads per second': '≥ 1.0', 'p50, ': '≤ 1.0', 'p99, ': '≤ 1.0' },
  other: 'baseline',
  start: () => againstBaseline(DEVICES + 2),
  load,
  measure,
  end: ({ senders, devices }) => {
    for (const { client } of senders) client.end(true);
    for (const device of devices) device.end(true);
  },
});

async function load(side: Side): Promise<Loaded> {
  const [commanded, read, ...others] = side.plants as [SeededPlant, SeededPlant, ...SeededPlant[]];
  const devices = [await connectInstantDevice(side, commanded)];
  const partner = await side.partner();
  await (await CommandLoad.start(partner)).run([commanded], COMMANDS_IN_FLIGHT, COMMANDS);
  await partner.close();
  const [gateway] = await connectSenders(side, [read]);
  for (let sent = 0; sent < READINGS; sent++) {
    gateway?.client.publish(deviceTopic(read.gateway.id, 'telemetry'), telemetryText(read.gateway), {
      qos: 1,
    });
    await pause(1_000 / READINGS_PER_SECOND);
  }
  gateway?.client.end(false);
  return { side, devices, commanded, read, senders: await connectSenders(side, others) };
}

async function measure(loaded: Loaded): Promise<Measured> {
  const stopReadings = sendReadings(loaded.senders);
  const measured: Record<string, { value: number; unit: string }> = {};
  let failed = 0;
  for (const [name, path] of Object.entries(pathsOf(loaded))) {
    const samples = await readFor(loaded.side.rest, `/api/v1/vcp/sites${path}`, CONNECTIONS, READ_MS);
    failed += samples.failed;
    Object.assign(measured, {
      [`reads per second, ${name}`]: { value: samples.perSecond, unit: '1/s' },
      [`p50, ${name}`]: { value: percentile(samples.latencies, 0.5), unit: 'ms' },
      [`p99, ${name}`]: { value: percentile(samples.latencies, 0.99), unit: 'ms' },
    });
  }
  const unanswered = await stopReadings();
  return {
    ...measured,
    'answers other than 2xx': { value: failed, unit: '' },
    'readings without a PUBACK': { value: unanswered, unit: '' },
  };
}

function pathsOf({ commanded, read }: Loaded): Record<string, string> {
  const [from, to] = [Date.now() - HOUR, Date.now() + HOUR].map((atMs) => new Date(atMs).toISOString());
  return {
    'site list': '',
    configuration: `/${commanded.id}/config`,
    'commands, page 1': `/${commanded.id}/commands?page=1`,
    'commands, page 200': `/${commanded.id}/commands?page=200`,
    'telemetry raw, 1 h': `/${read.id}/telemetry?metric=gridPowerKw&from=${from}&to=${to}&granularity=raw`,
  };
}

/** Sends readings at the fixed rate until the returned function is called, which resolves to how many got no PUBACK. */
function sendReadings(senders: readonly Sender[]): () => Promise<number> {
  let [sent, answered] = [0, 0];
  const startedAt = performance.now();
  const timer = setInterval(() => {
    const due = Math.floor(((performance.now() - startedAt) / 1_000) * RATE);
    for (; sent < due; sent++) {
      const { client, topic, plant } = senders[sent % senders.length] as Sender;
      client.publish(topic, telemetryText(plant.gateway), { qos: 1 }, (error) => {
        if (!error) answered += 1;
      });
    }
  }, TICK_MS);
  return async () => {
    clearInterval(timer);
    for (let waited = 0; answered < sent && waited < 100; waited++) await pause(100);
    return sent - answered;
  };
}
