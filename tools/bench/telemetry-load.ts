/**
 * The load of P2 on any side: devices send readings at a fixed rate over MQTT with TLS and QoS 1, whether or not they
 * are acknowledged, as meters do.
 */
import { connectAsync, type MqttClient } from 'mqtt';
import { deviceTopic } from '../../protocol/topics.ts';
import type { SeededPlant } from '../seed.ts';
import { percentile } from './figures.ts';
import type { DeviceSide } from './instant-device.ts';
import { telemetryText } from './plant-load.ts';

/** How many connect at the same time. */
const CONNECTING = 20;
const STEP_SECONDS = 4;
const TICK_MS = 5;
/** How long a step waits for the readings that are not stored at its end. */
const DRAIN_MS = 20_000;
const MAX_P99_MS = 1_000;
/** A step counts only if the generator really sent at its rate. */
const LEAST_SENT = 0.97;

export interface Sender {
  client: MqttClient;
  plant: SeededPlant;
  topic: string;
}

/** What a step observes of the system. */
export interface Observed {
  cpuMs(): number;
  /**
   * Calls the listener with the number of readings that were stored, in the order in which they were sent; returns how
   * to stop. Absent: a PUBACK means stored.
   */
  onStored?(listener: (count: number) => void): () => void;
}

export interface Outcome {
  sentPerSecond: number;
  /** Stored while the step sent. */
  storedPerSecond: number;
  /** Until stored, in ms. */
  p50: number;
  p99: number;
  lost: number;
  cuts: number;
  /** Of a message. */
  cpuMs: number;
}

export async function connectSenders(side: DeviceSide, plants: readonly SeededPlant[]): Promise<Sender[]> {
  const senders: Sender[] = [];
  for (let start = 0; start < plants.length; start += CONNECTING) {
    const some = plants.slice(start, start + CONNECTING);
    senders.push(...(await Promise.all(some.map((plant) => connect(side, plant)))));
  }
  return senders;
}

async function connect(side: DeviceSide, plant: SeededPlant): Promise<Sender> {
  const { id, token } = plant.gateway;
  const client = await connectAsync({
    ...{ protocol: 'mqtts', host: 'localhost', port: side.ports.mqtts, ca: side.ca },
    ...{ clientId: id, username: id, password: token, clean: true, reconnectPeriod: 0 },
  });
  return { client, plant, topic: deviceTopic(id, 'telemetry') };
}

/** Whether the system stored everything in time. Says so if the generator itself was too slow. */
export function passes(outcome: Outcome, rate: number): boolean {
  const isSent = outcome.sentPerSecond >= LEAST_SENT * rate;
  if (!isSent) console.log('  the generator cannot send faster');
  return isSent && outcome.p99 <= MAX_P99_MS && outcome.lost === 0 && outcome.cuts === 0;
}

/** Sends at that rate for `STEP_SECONDS`, in turn from all devices. */
export async function step(observed: Observed, senders: readonly Sender[], rate: number): Promise<Outcome> {
  const total = Math.round(rate * STEP_SECONDS);
  const payloads = Array.from({ length: total }, (_, index) =>
    telemetryText((senders[index % senders.length] as Sender).plant.gateway),
  );
  const latencies: number[] = [];
  const sentAt: number[] = [];
  let cuts = 0;
  const onClose = () => {
    cuts += 1;
  };
  for (const { client } of senders) client.on('close', onClose);
  const note = (at: number | undefined) => latencies.push(performance.now() - (at ?? Number.NaN));
  const stop = observed.onStored?.((count) => {
    for (let one = 0; one < count; one++) note(sentAt[latencies.length]);
  });
  const cpuBefore = observed.cpuMs();
  const startedAt = performance.now();
  const send = () => {
    const index = sentAt.length;
    const sender = senders[index % senders.length] as Sender;
    const at = performance.now();
    sentAt.push(at);
    sender.client.publish(sender.topic, payloads[index] ?? '', { qos: 1 }, (error) => {
      if (!error && !stop) note(at);
    });
  };
  await new Promise<void>((resolve) => {
    const timer = setInterval(() => {
      const elapsed = performance.now() - startedAt;
      const due = Math.min(total, Math.floor((elapsed / 1_000) * rate));
      while (sentAt.length < due) send();
      if (elapsed < STEP_SECONDS * 1_000 && sentAt.length < total) return;
      clearInterval(timer);
      resolve();
    }, TICK_MS);
  });
  const seconds = (performance.now() - startedAt) / 1_000;
  const sent = sentAt.length;
  const stored = latencies.length;
  const giveUpAt = performance.now() + DRAIN_MS;
  while (latencies.length < sent && performance.now() < giveUpAt)
    await new Promise((resolve) => setTimeout(resolve, 20));
  for (const { client } of senders) client.off('close', onClose);
  stop?.();
  return {
    sentPerSecond: sent / seconds,
    storedPerSecond: stored / seconds,
    p50: percentile(latencies, 0.5),
    p99: percentile(latencies, 0.99),
    lost: sent - latencies.length,
    cuts,
    cpuMs: (observed.cpuMs() - cpuBefore) / sent,
  };
}

export function rounded(outcome: Outcome): Record<string, number> {
  return Object.fromEntries(
    Object.entries(outcome).map(([name, value]) => [name, Math.round(value * 1_000) / 1_000]),
  );
}
