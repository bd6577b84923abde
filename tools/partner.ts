/** A partner's client for tools and tests: amqplib without changes, and signed envelopes. */
import { createHmac, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type ChannelModel, type ConfirmChannel, connect } from 'amqplib';
import { type CommandFamily, commandRoutingKey, EXCHANGE } from '../protocol/routing-keys.ts';
import { envelopeSigningString } from '../protocol/signing.ts';

export interface PartnerOptions {
  host: string;
  port: number;
  /** PEM file of the authority to trust, or its text; without both, those of the operating system. */
  ca?: string;
  caText?: string;
  slug: string;
  key: string;
  signingKey: string;
  vhost: string;
}

/** An event with the time of its arrival. */
export interface ReceivedEvent {
  queue: string;
  correlationId: string | undefined;
  messageId: string;
  payload: Record<string, unknown>;
  redelivered: boolean;
  atMs: number;
}

/** The authorities that a connection trusts. */
export function trustOf({ ca, caText }: PartnerOptions): { ca?: (string | Buffer)[] } {
  const text = caText ?? (ca === undefined ? undefined : readFileSync(ca));
  return text === undefined ? {} : { ca: [text] };
}

export class Partner {
  readonly connection: ChannelModel;
  readonly channel: ConfirmChannel;
  readonly #options: PartnerOptions;
  readonly events: ReceivedEvent[] = [];
  readonly #listeners = new Set<(event: ReceivedEvent) => void>();

  private constructor(options: PartnerOptions, connection: ChannelModel, channel: ConfirmChannel) {
    this.#options = options;
    this.connection = connection;
    this.channel = channel;
  }

  static async connect(options: PartnerOptions): Promise<Partner> {
    const connection = await connect(
      {
        protocol: 'amqps',
        hostname: options.host,
        port: options.port,
        username: options.slug,
        password: options.key,
        vhost: options.vhost,
      },
      { ...trustOf(options), noDelay: true },
    );
    const channel = await connection.createConfirmChannel();
    return new Partner(options, connection, channel);
  }

  /** Consumes the event queue `vcp.{slug}.{name}` and acknowledges each event. */
  async consume(name: string): Promise<void> {
    await this.#take(`vcp.${this.#options.slug}.${name}`, name);
  }

  /**
   * Receives the events with the routing key `{slug}.{key}` from now on. Declares a separate queue for them,
   * so that other clients of the API key still get all events.
   */
  async watch(key: string): Promise<void> {
    const { queue } = await this.channel.assertQueue('', { exclusive: true });
    await this.channel.bindQueue(queue, EXCHANGE, `${this.#options.slug}.${key}`);
    await this.#take(queue, key);
  }

  async #take(queue: string, name: string): Promise<void> {
    await this.channel.consume(queue, (message) => {
      if (!message) return;
      this.channel.ack(message);
      const body = JSON.parse(message.content.toString('utf8'));
      const event: ReceivedEvent = {
        queue: name,
        correlationId: body.correlationId,
        messageId: body.messageId,
        payload: body.payload,
        redelivered: message.fields.redelivered,
        atMs: performance.now(),
      };
      this.events.push(event);
      for (const listener of this.#listeners) listener(event);
    });
  }

  /** Resolves with the first matching event, among those received and those to come. */
  async waitFor(fits: (event: ReceivedEvent) => boolean, timeoutMs = 10_000): Promise<ReceivedEvent> {
    const known = this.events.find(fits);
    if (known) return known;
    return await new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#listeners.delete(listener);
        reject(new Error(`no matching event within ${timeoutMs} ms`));
      }, timeoutMs);
      const listener = (event: ReceivedEvent) => {
        if (!fits(event)) return;
        clearTimeout(timer);
        this.#listeners.delete(listener);
        resolve(event);
      };
      this.#listeners.add(listener);
    });
  }

  /**
   * Publishes a command, signed unless `signed` is false, and resolves at its confirm. `word` replaces the last
   * word of the routing key.
   */
  async publish(
    family: CommandFamily,
    siteId: string,
    payload: object,
    options: { correlationId?: string; messageId?: string; signed?: boolean; word?: string } = {},
  ): Promise<{ correlationId: string; messageId: string }> {
    const { slug, signingKey } = this.#options;
    const { envelope, routingKey, body } = signedPublish(slug, signingKey, family, siteId, payload, options);
    await this.publishText(routingKey, body);
    return envelope;
  }

  /** Publishes any text, and resolves at its confirm. */
  async publishText(routingKey: string, body: string): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.channel.publish(
        EXCHANGE,
        routingKey,
        Buffer.from(body),
        { contentType: 'application/json', persistent: true },
        (error) => (error ? reject(error) : resolve()),
      );
    });
  }

  async close(): Promise<void> {
    await this.connection.close();
  }
}

/** A command's message with its routing key: a signed envelope, unless `signed` is false. */
export function signedPublish(
  slug: string,
  signingKey: string,
  family: CommandFamily,
  siteId: string,
  payload: object,
  options: { correlationId?: string; messageId?: string; signed?: boolean; word?: string } = {},
) {
  const usual = commandRoutingKey(slug, family);
  const routingKey = options.word ? usual.replace(/[^.]+$/, options.word) : usual;
  const envelope = {
    version: '1.1',
    messageId: options.messageId ?? randomUUID(),
    correlationId: options.correlationId ?? randomUUID(),
    timestamp: new Date().toISOString(),
    source: 'acme-trader',
    siteId,
  };
  const payloadText = JSON.stringify(payload);
  const signature = createHmac('sha256', signingKey)
    .update(envelopeSigningString(envelope, routingKey, payloadText) ?? '')
    .digest('hex');
  const body = JSON.stringify({ ...envelope, payload, ...(options.signed === false ? {} : { signature }) });
  return { envelope, routingKey, body };
}
