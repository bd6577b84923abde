/** The consumers of a vhost, in the order in which they are served, and the shared prefetch of channels. */
import type { Turn } from '../../object/turn.ts';
import type { QueueKey, Taken } from '../queue/queue.ts';
import type { Owner } from '../queue/rows.ts';
import { channelKey } from './leases.ts';
import type { ConsumerRows } from './rows.ts';

/**
 * Gets the deliveries of a consumer. The broker uses only this interface, so a consumer need not be an AMQP
 * connection.
 */
export interface Receiver {
  /** Whether this receiver can take one more delivery of the consumer now. */
  hasRoom(consumer: Consumer): boolean;
  /** Delivers a message with the id of its lease; 0 = it has no lease. Returns the bytes of the delivery. */
  deliver(consumer: Consumer, lease: number, taken: Taken): number;
  /** The queue of the consumer has been deleted. */
  cancel(consumer: Consumer): void;
}

export interface Consumer extends Owner {
  tag: string;
  queue: QueueKey;
  noAck: boolean;
  exclusive: boolean;
  /** Maximum number of leases of the consumer; 0 = no limit. */
  prefetch: number;
  /** A message goes to the available consumer with the highest priority. */
  priority: number;
  receiver: Receiver;
}

export class Consumers {
  readonly #rows: ConsumerRows;
  readonly #consumers: Consumer[];
  readonly #channelLimits = new Map<string, number>();

  /** `links`: the receiver of the stored consumers, which are those of AMQP clients. */
  constructor(rows: ConsumerRows, links: Receiver) {
    this.#rows = rows;
    this.#consumers = rows.all().map((row) => ({
      readerId: row.connection_id,
      channel: row.channel,
      tag: row.tag,
      queue: row.queue as QueueKey,
      noAck: row.no_ack === 1,
      exclusive: row.exclusive === 1,
      prefetch: row.prefetch,
      priority: row.priority,
      receiver: links,
    }));
    for (const limit of rows.channelLimits()) {
      this.#channelLimits.set(channelKey(limit.connection_id, limit.channel), limit.prefetch);
    }
  }

  all(): readonly Consumer[] {
    return this.#consumers;
  }

  /** The consumers of a queue in serving order: by priority, round-robin among equals. */
  ofQueue(queue: QueueKey): Consumer[] {
    const own = this.#consumers.filter((consumer) => consumer.queue === queue);
    return own.sort((one, other) => other.priority - one.priority);
  }

  countOf(readerId: string): number {
    return this.#consumers.filter((one) => one.readerId === readerId).length;
  }

  has(readerId: string, channel: number, tag: string): boolean {
    return this.#consumers.some((one) => isOne(one, readerId, channel, tag));
  }

  /** The shared prefetch of a channel; 0 = none. */
  channelLimit(readerId: string, channel: number): number {
    return this.#channelLimits.get(channelKey(readerId, channel)) ?? 0;
  }

  /** Adds a consumer that is not stored: its owner adds it again after a restart. */
  attach(consumer: Consumer): void {
    this.#consumers.push(consumer);
  }

  add(turn: Turn, consumer: Consumer): void {
    this.#rows.insert(turn, {
      connection_id: consumer.readerId,
      channel: consumer.channel,
      tag: consumer.tag,
      queue: consumer.queue,
      no_ack: consumer.noAck ? 1 : 0,
      exclusive: consumer.exclusive ? 1 : 0,
      prefetch: consumer.prefetch,
      priority: consumer.priority,
    });
    this.attach(consumer);
  }

  setChannelLimit(turn: Turn, readerId: string, channel: number, prefetch: number): void {
    this.#channelLimits.set(channelKey(readerId, channel), prefetch);
    this.#rows.setChannelLimit(turn, { connection_id: readerId, channel, prefetch });
  }

  // the end of consumers; each method returns the consumers that it removed

  remove(turn: Turn, readerId: string, channel: number, tag: string): Consumer[] {
    this.#rows.delete(turn, readerId, channel, tag);
    return this.#drop((one) => isOne(one, readerId, channel, tag));
  }

  closeChannel(turn: Turn, readerId: string, channel: number): Consumer[] {
    this.#rows.deleteChannel(turn, readerId, channel);
    this.#channelLimits.delete(channelKey(readerId, channel));
    return this.#drop((one) => one.readerId === readerId && one.channel === channel);
  }

  closeReader(turn: Turn, readerId: string): Consumer[] {
    this.#rows.deleteConnection(turn, readerId);
    for (const key of this.#channelLimits.keys()) {
      if (key.startsWith(`${readerId}|`)) this.#channelLimits.delete(key);
    }
    return this.#drop((one) => one.readerId === readerId);
  }

  closeQueue(turn: Turn, queue: QueueKey): Consumer[] {
    this.#rows.deleteQueue(turn, queue);
    return this.#drop((one) => one.queue === queue);
  }

  /** Round-robin: moves a consumer that received a message to the end. */
  moveLast(consumer: Consumer): void {
    this.#consumers.splice(this.#consumers.indexOf(consumer), 1);
    this.#consumers.push(consumer);
  }

  #drop(leaves: (consumer: Consumer) => boolean): Consumer[] {
    const dropped = this.#consumers.filter(leaves);
    for (const consumer of dropped) this.#consumers.splice(this.#consumers.indexOf(consumer), 1);
    return dropped;
  }
}

function isOne(consumer: Consumer, readerId: string, channel: number, tag: string): boolean {
  return consumer.readerId === readerId && consumer.channel === channel && consumer.tag === tag;
}
