/** The load of a plant and its partner, for benchmarks: signed readings, device commands, acknowledged events. */
import { createHmac, randomUUID } from 'node:crypto';
import type { MqttClient } from 'mqtt';
import { telemetrySigningString } from '../../protocol/signing.ts';
import { deviceTopic } from '../../protocol/topics.ts';
import type { Partner } from '../partner.ts';
import type { SeededPlant } from '../seed.ts';

export const EVENT_QUEUES = ['event.status', 'event.execution', 'event.telemetry', 'event.alarm'];

/** A signed telemetry message of eight metrics, as MQTT payload. */
export function telemetryText(device: SeededPlant['gateway']): string {
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
  return signedReading(device, data);
}

/** A signed telemetry message with these metrics, as JSON text. */
export function signedReading({ id, hmacSecret }: SeededPlant['gateway'], data: string): string {
  const ts = Date.now();
  const nonce = randomUUID();
  const sig = createHmac('sha256', hmacSecret)
    .update(telemetrySigningString(id, ts, nonce, data))
    .digest('hex');
  return `{"ts":${ts},"nonce":"${nonce}","data":${data},"sig":"${sig}"}`;
}

/** Resolves at the PUBACK, when the message is stored, or dropped and counted. */
export async function publishTelemetry(client: MqttClient, plant: SeededPlant): Promise<void> {
  const topic = deviceTopic(plant.gateway.id, 'telemetry');
  await client.publishAsync(topic, telemetryText(plant.gateway), { qos: 1 });
}

/** A partner that consumes all its events and notices when its commands have ended. */
export class CommandingPartner {
  readonly partner: Partner;
  readonly #open = new Map<string, () => void>();
  readonly #unacknowledged = new Map<string, () => void>();
  #eventCount = 0;

  private constructor(partner: Partner) {
    this.partner = partner;
  }

  static async start(partner: Partner, slug: string): Promise<CommandingPartner> {
    const own = new CommandingPartner(partner);
    for (const queue of EVENT_QUEUES) {
      await partner.channel.consume(`vcp.${slug}.${queue}`, (message) => {
        if (!message) return;
        partner.channel.ack(message);
        own.#eventCount += 1;
        if (queue === 'event.execution') own.#note(message.content);
        if (queue === 'event.status') own.#noteAcknowledgement(message.content);
      });
    }
    return own;
  }

  /** Number of events received, from all queues. */
  get eventCount(): number {
    return this.#eventCount;
  }

  /**
   * Publishes a signed device command. `confirmed` resolves at its confirm, `ended` at its last execution
   * event.
   */
  command(
    plant: SeededPlant,
    correlationId: string = randomUUID(),
  ): { confirmed: Promise<unknown>; ended: Promise<void> } {
    const ended = new Promise<void>((resolve) => this.#open.set(correlationId, resolve));
    const commands = [
      { deviceId: 'BESS-1', assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw: 5 } },
    ];
    const confirmed = this.partner.publish('device', plant.id, { commands }, { correlationId });
    return { confirmed, ended };
  }

  /** Publishes a command and resolves at its acknowledgement, which may arrive before the confirm. */
  async acknowledged(plant: SeededPlant): Promise<void> {
    const correlationId = randomUUID();
    const acknowledged = new Promise<void>((resolve) => this.#unacknowledged.set(correlationId, resolve));
    const { confirmed } = this.command(plant, correlationId);
    await Promise.race([acknowledged, confirmed.then(() => acknowledged)]);
  }

  /** Resolves when the command has ended. */
  async complete(plant: SeededPlant): Promise<void> {
    const { confirmed, ended } = this.command(plant);
    await confirmed;
    await ended;
  }

  #noteAcknowledgement(content: Buffer): void {
    // Most benchmarks do not wait for acknowledgements; for them the event is not parsed, to save time.
    if (this.#unacknowledged.size === 0) return;
    const { correlationId } = JSON.parse(content.toString('utf8'));
    this.#unacknowledged.get(correlationId)?.();
    this.#unacknowledged.delete(correlationId);
  }

  #note(content: Buffer): void {
    const { correlationId, payload } = JSON.parse(content.toString('utf8'));
    if (payload.status === 'EXECUTING') return;
    this.#open.get(correlationId)?.();
    this.#open.delete(correlationId);
  }
}

/** Runs that number of workers; each repeats `work` until `isOver` returns true. */
export async function repeat(
  workers: number,
  isOver: () => boolean,
  work: () => Promise<unknown>,
): Promise<void> {
  const worker = async () => {
    while (!isOver()) await work();
  };
  await Promise.all(Array.from({ length: workers }, worker));
}
