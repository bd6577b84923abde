/** The two brokers of a comparison, and one round of either: publishes with confirms and deliveries per second. */
import { type BrokerAddress, LoadClient, type Route } from './amqp-load.ts';
import type { Measured } from './runner.ts';

const QUEUE = 'bench';

/** A broker and the messages that are published to it. Each publish adds one message to one of the queues. */
export interface Side {
  address: BrokerAddress;
  route: Route;
  queues: readonly string[];
  bodies(count: number): Buffer[];
}

export interface Load {
  messages: number;
  warmUp: number;
  inFlight: number;
}

/** A durable RabbitMQ queue, addressed through the default exchange. */
export async function durableQueue(address: BrokerAddress, bodies: Side['bodies']): Promise<Side> {
  const client = await LoadClient.connect(address);
  await client.channel.assertQueue(QUEUE, { durable: true });
  await client.close();
  return { address, route: { exchange: '', routingKey: QUEUE }, queues: [QUEUE], bodies };
}

/** Publishes everything with confirms before it consumes the first message. */
export async function measureRound(side: Side, messages: number, inFlight: number): Promise<Measured> {
  const client = await LoadClient.connect(side.address);
  const publishes = await client.publish(side.route, side.bodies(messages), inFlight);
  const deliveries = await client.take(side.queues, messages);
  await client.close();
  return {
    'confirmed publishes': { value: publishes, unit: '1/s' },
    deliveries: { value: deliveries, unit: '1/s' },
  };
}
