/**
 * A partner on stock amqplib that reconnects whenever it is closed and keeps the events that it received over
 * all connections.
 */
import { createHmac, randomUUID } from 'node:crypto';
import { type ChannelModel, type ConfirmChannel, connect } from 'amqplib';
import { EXCHANGE } from '../../protocol/routing-keys.ts';
import { envelopeSigningString } from '../../protocol/signing.ts';
import { type PartnerOptions, trustOf } from '../../tools/partner.ts';

const COME_BACK_MS = 50;

/** A command as it is published, again and again with the same ids. */
export interface Order {
  family: 'device' | 'site-setpoint' | 'mode' | 'emergency';
  siteId: string;
  messageId: string;
  correlationId: string;
  payload: object;
}

export interface PartnerEvent {
  queue: string;
  messageId: string;
  correlationId: string | undefined;
  payload: Record<string, unknown>;
  redelivered: boolean;
}

/** Opens a connection that ends with a 'close' event and never with an unhandled 'error'. */
export async function openConnection(options: PartnerOptions): Promise<ChannelModel> {
  const { host: hostname, port, slug: username, key: password, vhost } = options;
  const target = { protocol: 'amqps', hostname, port, username, password, vhost };
  const connection = await connect(target, { ...trustOf(options), noDelay: true });
  connection.on('error', () => {});
  return connection;
}

/** The envelope of an order, signed now. */
export function envelopeOf(options: PartnerOptions, order: Order): { routingKey: string; body: Buffer } {
  const routingKey = `${options.slug}.command.${order.family}`;
  const { messageId, correlationId, siteId } = order;
  const timestamp = new Date().toISOString();
  const envelope = { version: '1.1', messageId, correlationId, timestamp, source: 'acme-trader', siteId };
  const signingString = envelopeSigningString(envelope, routingKey, JSON.stringify(order.payload)) ?? '';
  const signature = createHmac('sha256', options.signingKey).update(signingString).digest('hex');
  return {
    routingKey,
    body: Buffer.from(JSON.stringify({ ...envelope, payload: order.payload, signature })),
  };
}

export class ReturningPartner {
  /** In the order of their arrival, including repeats. */
  readonly events: PartnerEvent[] = [];
  /** Connections opened so far. */
  connects = 0;
  readonly #options: PartnerOptions;
  readonly #queues: readonly string[];
  #connection: ChannelModel | undefined;
  #channel: ConfirmChannel | undefined;
  #stopped = false;
  readonly #run: Promise<void>;

  constructor(options: PartnerOptions, queues: readonly string[] = ['event.status', 'event.execution']) {
    this.#options = options;
    this.#queues = queues;
    this.#run = this.#stay();
  }

  get connected(): boolean {
    return this.#channel !== undefined;
  }

  /** Whether the publish was confirmed. Never throws: a refused or interrupted publish is unconfirmed. */
  async publish(order: Order): Promise<boolean> {
    const channel = this.#channel;
    if (!channel) return false;
    const { routingKey, body } = envelopeOf(this.#options, order);
    return await new Promise((resolve) => {
      try {
        channel.publish(EXCHANGE, routingKey, body, { contentType: 'application/json' }, (error) =>
          resolve(!error),
        );
      } catch {
        resolve(false);
      }
    });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#connection?.close().catch(() => {});
    await this.#run;
  }

  async #stay(): Promise<void> {
    while (!this.#stopped) {
      try {
        await this.#session();
      } catch {
        await new Promise((resolve) => setTimeout(resolve, COME_BACK_MS));
      }
    }
  }

  /** Runs one connection from its opening to its end. */
  async #session(): Promise<void> {
    const connection = await openConnection(this.#options);
    this.#connection = connection;
    const closed = new Promise<void>((resolve) => connection.once('close', () => resolve()));
    try {
      const channel = await connection.createConfirmChannel();
      channel.on('error', () => {});
      for (const queue of this.#queues) await this.#consume(channel, queue);
      this.#channel = channel;
      this.connects += 1;
      if (this.#stopped) await connection.close().catch(() => {});
      await closed;
    } finally {
      this.#channel = undefined;
      this.#connection = undefined;
    }
  }

  async #consume(channel: ConfirmChannel, queue: string): Promise<void> {
    await channel.consume(`vcp.${this.#options.slug}.${queue}`, (message) => {
      if (!message) return;
      const { messageId, correlationId, payload } = JSON.parse(message.content.toString('utf8'));
      const { redelivered } = message.fields;
      this.events.push({ queue, messageId, correlationId, payload, redelivered });
      try {
        channel.ack(message);
      } catch {
        // The channel ended meanwhile: the event is delivered again.
      }
    });
  }
}

/** A charge whose power is unique in this process; the command that a gateway receives contains it. */
let charges = 0;
export function chargeOrder(siteId: string): Order & { powerKw: number } {
  charges += 1;
  const powerKw = charges / 1_000;
  const command = { deviceId: 'BESS-1', assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw } };
  return {
    family: 'device',
    siteId,
    messageId: randomUUID(),
    correlationId: randomUUID(),
    payload: { commands: [command] },
    powerKw,
  };
}

/** An import of 10 kW from now on, with `fields` as overrides. */
export function setpointOrder(siteId: string, fields: Record<string, unknown> = {}): Order {
  const payload = {
    type: 'POWER',
    targetValueKw: 10,
    direction: 'IMPORT',
    includeConsumption: true,
    priority: 'NORMAL',
    validFrom: new Date().toISOString(),
    ...fields,
  };
  return {
    family: 'site-setpoint',
    siteId,
    messageId: randomUUID(),
    correlationId: randomUUID(),
    payload,
  };
}
