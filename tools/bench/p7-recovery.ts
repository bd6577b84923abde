/**
 * P7: kill -9 with 1 000 commands in flight, of this product's bridge and of the baseline's application, and a restart at
 * once: seconds until 95 % and all commands have completed, and how many were lost or executed twice.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { MqttClient } from 'mqtt';
import type { Partner } from '../partner.ts';
import { connectInstantDevice } from './instant-device.ts';
import { compared, type Measured, ROUNDS } from './runner.ts';
import { againstBaseline, type Side } from './sides.ts';

const DEVICES = Number(process.env.SITEWIRE_BENCH_PLANTS ?? 500);
const CONNECTING = 20;
const IN_FLIGHT = 1_000;
/** Commands in flight before the crash: they are published, and some have been acknowledged. */
const CRASH_AFTER_MS = 200;
const RETRY_MS = 100;
const GIVE_UP_MS = 60_000;
const COMMANDS = [{ deviceId: 'BESS-1', assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw: 5 } }];

interface Loaded {
  side: Side;
  devices: MqttClient[];
  /** How often each command reached its device. */
  executed: Map<string, number>;
}

export const recovery = compared({
  title: `kill -9 with ${IN_FLIGHT} commands in flight, ${DEVICES} devices, ${ROUNDS} rounds in turn`,
  aims: { 'have completed': '≤ 1.0' },
  other: 'baseline',
  start: () => againstBaseline(DEVICES),
  load,
  measure,
  end: ({ devices }) => {
    for (const device of devices) device.end(true);
  },
});

async function load(side: Side): Promise<Loaded> {
  const executed = new Map<string, number>();
  const devices: MqttClient[] = [];
  for (let start = 0; start < side.plants.length; start += CONNECTING) {
    const some = side.plants.slice(start, start + CONNECTING);
    devices.push(...(await Promise.all(some.map((plant) => connectInstantDevice(side, plant)))));
  }
  for (const device of devices) {
    device.on('error', () => {});
    device.on('message', (_topic, payload) => {
      const { cmdId } = JSON.parse(payload.toString('utf8')) as { cmdId: string };
      executed.set(cmdId, (executed.get(cmdId) ?? 0) + 1);
    });
  }
  return { side, devices, executed };
}

async function measure({ side, executed }: Loaded): Promise<Measured> {
  executed.clear();
  const partner = new PersistentPartner(side);
  await partner.connect();
  for (let sent = 0; sent < IN_FLIGHT; sent++)
    partner.command(side.plants[sent % side.plants.length]?.id ?? '');
  await pause(CRASH_AFTER_MS);
  const before = partner.completed;
  const crashedAt = performance.now();
  const secondsSince = () => (performance.now() - crashedAt) / 1_000;
  const restarted = side.crash();
  const most = before + Math.ceil((IN_FLIGHT - before) * 0.95);
  let [seconds95, secondsAll] = [Number.NaN, Number.NaN];
  while (partner.completed < IN_FLIGHT && secondsSince() * 1_000 < GIVE_UP_MS) {
    await pause(5);
    if (Number.isNaN(seconds95) && partner.completed >= most) seconds95 = secondsSince();
  }
  secondsAll = secondsSince();
  await restarted;
  const lost = IN_FLIGHT - partner.completed;
  await partner.close();
  // A second round must not meet devices that are still away.
  await pause(2_000);
  return {
    'completed before the crash': { value: before, unit: '' },
    'until 95 % have completed': { value: seconds95, unit: 's' },
    'until all have completed': { value: secondsAll, unit: 's' },
    lost: { value: lost, unit: 'commands' },
    'sent to a device twice': {
      value: [...executed.values()].filter((times) => times > 1).length,
      unit: 'commands',
    },
    'events that came twice': { value: partner.repeated, unit: 'events' },
  };
}

/** A partner that connects again, and publishes what is not confirmed again with its messageId. */
class PersistentPartner {
  completed = 0;
  /** Events with an id that had already come; RabbitMQ and we mark most of them as redelivered. */
  repeated = 0;
  readonly #side: Side;
  readonly #unconfirmed = new Map<string, { siteId: string; correlationId: string }>();
  readonly #open = new Set<string>();
  readonly #events = new Set<string>();
  #partner: Partner | undefined;
  #isOver = false;

  constructor(side: Side) {
    this.#side = side;
  }

  async connect(): Promise<void> {
    const partner = await this.#side.partner();
    this.#partner = partner;
    partner.connection.on('error', () => {});
    partner.channel.on('error', () => {});
    partner.connection.on('close', () => {
      this.#partner = undefined;
      if (!this.#isOver) void this.#reconnect();
    });
    for (const queue of ['event.status', 'event.execution']) {
      await partner.channel.consume(`vcp.acme.${queue}`, (message) => {
        if (!message) return;
        partner.channel.ack(message);
        this.#receive(message.content);
      });
    }
    for (const messageId of this.#unconfirmed.keys()) this.#publish(messageId);
  }

  command(siteId: string): void {
    const [messageId, correlationId] = [randomUUID(), randomUUID()];
    this.#open.add(correlationId);
    this.#unconfirmed.set(messageId, { siteId, correlationId });
    this.#publish(messageId);
  }

  async close(): Promise<void> {
    this.#isOver = true;
    await this.#partner?.close();
  }

  #publish(messageId: string): void {
    const command = this.#unconfirmed.get(messageId);
    if (!this.#partner || !command) return;
    const { siteId, correlationId } = command;
    // Rejects when the connection ends first; then the next connection publishes it again.
    this.#partner.publish('device', siteId, { commands: COMMANDS }, { messageId, correlationId }).then(
      () => this.#unconfirmed.delete(messageId),
      () => {},
    );
  }

  #receive(content: Buffer): void {
    const { messageId, correlationId, payload } = JSON.parse(content.toString('utf8'));
    if (this.#events.has(messageId)) this.repeated += 1;
    this.#events.add(messageId);
    if (payload.status === 'COMPLETED' && this.#open.delete(correlationId)) this.completed += 1;
  }

  async #reconnect(): Promise<void> {
    while (!this.#isOver && !this.#partner) {
      await pause(RETRY_MS);
      await this.connect().catch(() => {});
    }
  }
}
