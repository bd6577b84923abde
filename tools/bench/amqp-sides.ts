/**
 * Compares two brokers, alternating A B A B: publishes with confirms and deliveries per second, and the ratio
 * of each round.
 */
import { type BrokerAddress, LoadClient, type Route } from './amqp-load.ts';
import { type Figure, median } from './figures.ts';

export const ROUNDS = 5;
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

interface Rates {
  publishes: number;
  deliveries: number;
}

/** A durable RabbitMQ queue, addressed through the default exchange. */
export async function durableQueue(address: BrokerAddress, bodies: Side['bodies']): Promise<Side> {
  const client = await LoadClient.connect(address);
  await client.channel.assertQueue(QUEUE, { durable: true });
  await client.close();
  return { address, route: { exchange: '', routingKey: QUEUE }, queues: [QUEUE], bodies };
}

export async function compare(
  what: string,
  ours: Side,
  theirs: Side,
  { messages, warmUp, inFlight }: Load,
  targets: { publishes?: string; deliveries?: string } = {},
): Promise<Figure[]> {
  for (const side of [ours, theirs]) await round(side, warmUp, inFlight);
  const rounds: { our: Rates; their: Rates }[] = [];
  for (let count = 0; count < ROUNDS; count++) {
    const our = await round(ours, messages, inFlight);
    const their = await round(theirs, messages, inFlight);
    rounds.push({ our, their });
  }
  const figures = (name: string, kind: keyof Rates) => [
    figure(
      `${name}, ${what}, ours`,
      '1/s',
      rounds.map(({ our }) => our[kind]),
    ),
    figure(
      `${name}, ${what}, RabbitMQ`,
      '1/s',
      rounds.map(({ their }) => their[kind]),
    ),
    figure(
      `${name}, ${what}, ratio`,
      '×',
      rounds.map(({ our, their }) => our[kind] / their[kind]),
      targets[kind],
    ),
  ];
  return [...figures('confirmed publishes', 'publishes'), ...figures('deliveries', 'deliveries')];
}

/** Publishes everything with confirms before it consumes the first message. */
async function round(side: Side, messages: number, inFlight: number): Promise<Rates> {
  const client = await LoadClient.connect(side.address);
  const publishes = await client.publish(side.route, side.bodies(messages), inFlight);
  const deliveries = await client.take(side.queues, messages);
  await client.close();
  return { publishes, deliveries };
}

function figure(name: string, unit: string, values: readonly number[], target?: string): Figure {
  const range = { least: Math.min(...values), most: Math.max(...values) };
  return { name, value: median(values), unit, ...range, ...(target ? { target } : {}) };
}
