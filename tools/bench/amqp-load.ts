/**
 * The load of a partner on any broker, with amqplib: it publishes with a limited number of unconfirmed
 * messages, and consumes and acknowledges deliveries.
 */
import { readFileSync } from 'node:fs';
import { type ChannelModel, type ConfirmChannel, connect } from 'amqplib';

export interface BrokerAddress {
  protocol: string;
  hostname: string;
  port: number;
  username: string;
  password: string;
  vhost: string;
  /** PEM file. */
  ca?: string;
}

export interface Route {
  exchange: string;
  routingKey: string;
}

const PREFETCH = 1_000;

/** A connection with one confirm channel. Errors of the connection are not handled: they end the benchmark. */
export class LoadClient {
  readonly channel: ConfirmChannel;
  readonly #connection: ChannelModel;

  private constructor(connection: ChannelModel, channel: ConfirmChannel) {
    this.#connection = connection;
    this.channel = channel;
  }

  static async connect(address: BrokerAddress): Promise<LoadClient> {
    const { ca, ...target } = address;
    const connection = await connect(target, { noDelay: true, ...(ca ? { ca: [readFileSync(ca)] } : {}) });
    return new LoadClient(connection, await connection.createConfirmChannel());
  }

  /** Publishes the bodies with at most `window` unconfirmed messages; returns confirms per second. */
  publish({ exchange, routingKey }: Route, bodies: readonly Buffer[], window: number): Promise<number> {
    const options = { persistent: true, contentType: 'application/json' };
    return new Promise((resolve, reject) => {
      let sent = 0;
      let confirmed = 0;
      const startedAt = performance.now();
      const send = () => {
        const body = bodies[sent++];
        if (body) this.channel.publish(exchange, routingKey, body, options, onConfirm);
      };
      const onConfirm = (error: unknown) => {
        if (error) reject(error);
        confirmed += 1;
        if (confirmed === bodies.length) resolve(perSecond(confirmed, startedAt));
        else send();
      };
      for (let open = 0; open < window; open++) send();
    });
  }

  /** Consumes `count` messages from the queues and acknowledges each separately; returns deliveries per second. */
  async take(queues: readonly string[], count: number): Promise<number> {
    await this.channel.prefetch(PREFETCH);
    const tags: string[] = [];
    const rate = await new Promise<number>((resolve, reject) => {
      let taken = 0;
      const startedAt = performance.now();
      for (const queue of queues) {
        const consuming = this.channel.consume(queue, (message) => {
          if (!message) {
            reject(new Error(`the consumer of ${queue} was cancelled`));
            return;
          }
          this.channel.ack(message);
          taken += 1;
          if (taken === count) resolve(perSecond(taken, startedAt));
        });
        consuming.then(({ consumerTag }) => tags.push(consumerTag), reject);
      }
    });
    for (const tag of tags) await this.channel.cancel(tag);
    return rate;
  }

  async close(): Promise<void> {
    await this.#connection.close();
  }
}

function perSecond(count: number, startedAt: number): number {
  return (count * 1_000) / (performance.now() - startedAt);
}
