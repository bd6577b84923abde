/**
 * P2 over MQTT in an open loop: devices send at a fixed rate, whether or not their messages are acknowledged, as meters
 * do. The rate rises until messages wait for more than a second, then the highest rate that passed is sent half and
 * twice as fast. A PUBACK means stored.
 */
import { connectAsync, type MqttClient } from 'mqtt';
import { deviceTopic } from '../../protocol/topics.ts';
import type { SeededPlant } from '../seed.ts';
import { type BenchStack, startBenchStack } from './bench-stack.ts';
import { type Figure, percentile, processCpuMs, report } from './figures.ts';
import { telemetryText } from './plant-load.ts';

/** Each at a plant of its own. */
const DEVICES = [50, 500];
/** How many connect at the same time. */
const CONNECTING = 20;
const FIRST_RATE = 1_000;
const RISE = 1.25;
const STEP_SECONDS = 4;
const TICK_MS = 5;
/** How long a step waits for the acknowledgements that are missing at its end. */
const DRAIN_MS = 20_000;
const MAX_P99_MS = 1_000;
/** A step counts only if the generator really sent at its rate. */
const LEAST_SENT = 0.97;

interface Sender {
  client: MqttClient;
  plant: SeededPlant;
  topic: string;
}

interface Outcome {
  sentPerSecond: number;
  /** Acknowledged while the step sent. */
  ackedPerSecond: number;
  p50: number;
  p99: number;
  lost: number;
  cuts: number;
  edgeCpuMs: number;
}

export async function benchTelemetryOpenLoop(): Promise<void> {
  const figures: Figure[] = [];
  for (const devices of DEVICES) {
    const stack = await startBenchStack({ organizations: [{ slug: 'mqtt', plants: devices }] });
    figures.push(...(await ramp(stack, stack.plants)));
    await stack.stop();
  }
  report('p2-open', 'telemetry over MQTT, open loop, 8 metrics, PUBACK = stored', figures);
}

async function ramp(stack: BenchStack, plants: readonly SeededPlant[]): Promise<Figure[]> {
  const senders: Sender[] = [];
  for (let start = 0; start < plants.length; start += CONNECTING) {
    const some = plants.slice(start, start + CONNECTING);
    senders.push(...(await Promise.all(some.map((plant) => connect(stack, plant)))));
  }
  await step(stack, senders, FIRST_RATE);
  let passed = 0;
  for (let rate = FIRST_RATE; ; rate *= RISE) {
    const outcome = await step(stack, senders, rate);
    console.log(`  ${plants.length} devices, ${Math.round(rate)}/s: ${JSON.stringify(rounded(outcome))}`);
    const isSent = outcome.sentPerSecond >= LEAST_SENT * rate;
    if (!isSent) console.log('  the generator cannot send faster');
    if (!isSent || outcome.p99 > MAX_P99_MS || outcome.lost > 0 || outcome.cuts > 0) break;
    passed = rate;
  }
  if (passed === 0) throw new Error(`not even ${FIRST_RATE} messages a second passed`);
  const half = await step(stack, senders, passed / 2);
  const twice = await step(stack, senders, passed * 2);
  console.log(`  twice: ${JSON.stringify(rounded(twice))}`);
  for (const { client } of senders) client.end(true);
  const name = (text: string) => `${plants.length} devices, ${text}`;
  return [
    { name: name('highest passing rate'), value: passed, unit: 'messages/s' },
    { name: name('PUBACK p50 at half of it'), value: half.p50, unit: 'ms', target: '≤ 20' },
    { name: name('edge CPU at half of it'), value: half.edgeCpuMs * 1_000, unit: 'µs/message' },
    {
      name: name('acknowledged at twice of it'),
      value: twice.ackedPerSecond / passed,
      unit: 'of it',
      target: '≥ 0.8',
    },
    { name: name('links cut at twice of it'), value: twice.cuts, unit: 'links', target: '0' },
    { name: name('lost at twice of it'), value: twice.lost, unit: 'messages' },
  ];
}

async function connect(stack: BenchStack, plant: SeededPlant): Promise<Sender> {
  const { id, token } = plant.gateway;
  const client = await connectAsync({
    ...{ protocol: 'mqtts', host: 'localhost', port: stack.ports.mqtts, ca: stack.ca },
    ...{ clientId: id, username: id, password: token, clean: true, reconnectPeriod: 0 },
  });
  return { client, plant, topic: deviceTopic(id, 'telemetry') };
}

/** Sends at that rate for `STEP_SECONDS`, in turn from all devices. */
async function step(stack: BenchStack, senders: readonly Sender[], rate: number): Promise<Outcome> {
  const total = Math.round(rate * STEP_SECONDS);
  const payloads = Array.from({ length: total }, (_, index) =>
    telemetryText((senders[index % senders.length] as Sender).plant.gateway),
  );
  const latencies: number[] = [];
  let sent = 0;
  let cuts = 0;
  const onClose = () => {
    cuts += 1;
  };
  for (const { client } of senders) client.on('close', onClose);
  const pid = stack.edge.pid() ?? 0;
  const cpuBefore = processCpuMs(pid);
  const startedAt = performance.now();
  const send = () => {
    const sender = senders[sent % senders.length] as Sender;
    const at = performance.now();
    sender.client.publish(sender.topic, payloads[sent] ?? '', { qos: 1 }, (error) => {
      if (!error) latencies.push(performance.now() - at);
    });
    sent += 1;
  };
  await new Promise<void>((resolve) => {
    const timer = setInterval(() => {
      const elapsed = performance.now() - startedAt;
      const due = Math.min(total, Math.floor((elapsed / 1_000) * rate));
      while (sent < due) send();
      if (elapsed < STEP_SECONDS * 1_000 && sent < total) return;
      clearInterval(timer);
      resolve();
    }, TICK_MS);
  });
  const seconds = (performance.now() - startedAt) / 1_000;
  const acked = latencies.length;
  const giveUpAt = performance.now() + DRAIN_MS;
  while (latencies.length < sent && performance.now() < giveUpAt)
    await new Promise((resolve) => setTimeout(resolve, 20));
  for (const { client } of senders) client.off('close', onClose);
  return {
    sentPerSecond: sent / seconds,
    ackedPerSecond: acked / seconds,
    p50: percentile(latencies, 0.5),
    p99: percentile(latencies, 0.99),
    lost: sent - latencies.length,
    cuts,
    edgeCpuMs: (processCpuMs(pid) - cpuBefore) / sent,
  };
}

function rounded(outcome: Outcome): Record<string, number> {
  return Object.fromEntries(
    Object.entries(outcome).map(([name, value]) => [name, Math.round(value * 100) / 100]),
  );
}
