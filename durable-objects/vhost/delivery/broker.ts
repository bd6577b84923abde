/**
 * Queues, consumers and leases. Deliveries go round-robin to consumers that have room in their own prefetch,
 * in the prefetch of their channel and in the byte window of their connection (rule 9). Deliveries are
 * collected as frames and sent after the commit. Acknowledgements and recent events may be only in memory for
 * a while; all else is stored.
 */
import {
  DELIVERY_WINDOW_BYTES,
  type Delivery,
  messageBytes,
  plainDeliveryBytes,
  type VhostLinkDown,
} from '../../../protocol/link/vhost.ts';
import type { QueueName } from '../../../protocol/routing-keys.ts';
import type { Turn } from '../../object/turn.ts';
import { VHOST_BOUNDS } from '../bounds.ts';
import type { OwnQueue } from '../queue/own-queues.ts';
import type { KeptBy, Queue, QueueKey, Taken } from '../queue/queue.ts';
import type { Queues } from '../queue/queues.ts';
import type { Message, Owner } from '../queue/rows.ts';
import { type Consumer, Consumers } from './consumers.ts';
import { Leases } from './leases.ts';
import type { ConsumerRows } from './rows.ts';

/** Bytes sent to a connection's bridge, and bytes that its client has taken, since the link opened. */
export interface Window {
  sentBytes: number;
  drainedBytes: number;
  /** The bridge has link version 1, which counts only body and routing key. */
  isPlain: boolean;
}

/** The connections, as the broker needs them; `ClientSockets` has the sockets. */
export interface Connections {
  isConnected(connectionId: string): boolean;
  /** Undefined if nothing may be sent: the connection is half-open or closed. */
  window(connectionId: string): Window | undefined;
  saveWindow(connectionId: string, window: Window): void;
  /** Whether the bridge supports cancels by the server. */
  hearsOfCancels(connectionId: string): boolean;
}

export class Broker {
  readonly queues: Queues;
  readonly consumers: Consumers;
  readonly #connections: Connections;
  readonly #leases: Leases;
  #frames = new Map<string, VhostLinkDown[]>();
  /** Number of events since this broker was created. */
  published = 0;

  constructor(queues: Queues, consumerRows: ConsumerRows, connections: Connections, now: number) {
    this.queues = queues;
    this.#connections = connections;
    this.consumers = new Consumers(consumerRows);
    this.#leases = new Leases(queues.all(), now);
  }

  /** Adds an event to its event queue and to the partner queues that are bound to its routing key. */
  publish(turn: Turn, name: QueueName, message: Message, keptBy?: KeptBy): void {
    this.published += 1;
    this.queues.ours(name).push(turn, message, keptBy);
    this.queues.own.push(turn, message, keptBy);
  }

  /** Number of leased messages of a queue. */
  unackedCount(queue: Queue): number {
    return this.#leases.ofQueue(queue);
  }

  // ends of consumers: their messages stay leased until their channel closes, as in RabbitMQ

  cancel(turn: Turn, connectionId: string, channel: number, tag: string): void {
    this.#leave(turn, this.consumers.remove(turn, connectionId, channel, tag));
  }

  closeChannel(turn: Turn, connectionId: string, channel: number): void {
    this.#leave(turn, this.consumers.closeChannel(turn, connectionId, channel));
    this.release(turn, (owner) => owner.connectionId === connectionId && owner.channel === channel);
  }

  closeConnection(turn: Turn, connectionId: string): void {
    this.#leave(turn, this.consumers.closeConnection(turn, connectionId));
    this.release(turn, (owner) => owner.connectionId === connectionId);
    for (const own of this.queues.own.all()) if (own.ownerId === connectionId) this.deleteOwn(turn, own);
    this.#frames.delete(connectionId);
  }

  /** Deletes a partner queue and cancels its consumers. Returns the number of messages that waited. */
  deleteOwn(turn: Turn, own: OwnQueue): number {
    const { queue } = own;
    const { key, readyCount } = queue;
    for (const { connectionId, channel, tag } of this.consumers.closeQueue(turn, key)) {
      if (this.#connections.hearsOfCancels(connectionId))
        this.#addFrame(connectionId, { kind: 'cancelled', channel, tag });
    }
    this.#leases.releaseQueue(queue);
    this.queues.own.delete(turn, own);
    return readyCount;
  }

  /** Deletes auto-delete queues whose last consumer has gone. */
  #leave(turn: Turn, gone: readonly Consumer[]): void {
    for (const key of new Set(gone.map(({ queue }) => queue))) {
      const own = this.queues.own.find(this.queues.fullName(key));
      if (own?.autoDelete && this.consumers.ofQueue(key).length === 0) this.deleteOwn(turn, own);
    }
  }

  // settling: a lease that the connection does not hold is ignored

  acknowledge(connectionId: string, leases: readonly number[]): void {
    for (const lease of leases) this.#leases.take(connectionId, lease)?.acknowledge(lease);
  }

  requeue(turn: Turn, connectionId: string, leases: readonly number[]): void {
    for (const lease of leases) this.#leases.take(connectionId, lease)?.requeue(turn, lease);
  }

  discard(turn: Turn, connectionId: string, leases: readonly number[]): void {
    for (const lease of leases) this.#leases.take(connectionId, lease)?.discard(turn, lease);
  }

  release(turn: Turn, holds: (owner: Owner) => boolean): void {
    for (const queue of this.queues.all()) queue.release(turn, holds);
    this.#leases.release(holds);
  }

  // deliveries

  get(turn: Turn, key: QueueKey, owner: Owner, noAck: boolean): Delivery | null {
    const lease = noAck ? null : this.#leases.mint();
    const queue = this.queues.find(key);
    const taken = queue.take(turn, owner, lease);
    if (!taken) return null;
    if (lease !== null) this.#leases.hold(lease, queue, owner);
    return toDelivery(lease ?? 0, taken, messageBytes(taken.message));
  }

  /** Whether `pump` would deliver anything. */
  get hasDeliverable(): boolean {
    return this.consumers
      .all()
      .some((one) => this.queues.find(one.queue).readyCount > 0 && this.#mayTake(one));
  }

  /**
   * Delivers what consumers may take now, up to the limits of one turn; `hasDeliverable` shows whether more
   * is left.
   */
  pump(turn: Turn): void {
    const rest: PumpRest = { deliveries: VHOST_BOUNDS.pumpDeliveries, bytes: VHOST_BOUNDS.pumpBytes };
    for (const queue of this.queues.all()) {
      const consumers = this.consumers.ofQueue(queue.key);
      if (consumers.length > 0) this.#pumpQueue(turn, queue, consumers, rest);
    }
  }

  #pumpQueue(turn: Turn, queue: Queue, first: Consumer[], rest: PumpRest): void {
    let consumers = first;
    while (rest.deliveries > 0 && rest.bytes > 0) {
      if (queue.readyCount === 0) return;
      const consumer = consumers.find((one) => this.#mayTake(one));
      if (!consumer) return;
      const lease = consumer.noAck ? null : this.#leases.mint();
      const taken = queue.take(turn, consumer, lease);
      if (!taken) return;
      rest.deliveries -= 1;
      rest.bytes -= this.#deliver(queue, consumer, lease, taken);
      this.consumers.moveLast(consumer);
      if (consumers.length > 1) consumers = this.consumers.ofQueue(queue.key);
    }
  }

  /** Adds a delivery frame; returns the bytes that it counts in the window. */
  #deliver(queue: Queue, consumer: Consumer, lease: number | null, taken: Taken): number {
    if (lease !== null) this.#leases.hold(lease, queue, consumer);
    const { connectionId, channel, tag } = consumer;
    const window = this.#connections.window(connectionId);
    const bytes = (window?.isPlain ? plainDeliveryBytes : messageBytes)(taken.message);
    if (window) {
      window.sentBytes += bytes;
      this.#connections.saveWindow(connectionId, window);
    }
    const delivery = toDelivery(lease ?? 0, taken, bytes);
    this.#addFrame(connectionId, { kind: 'deliver', channel, tag, delivery });
    return bytes;
  }

  #addFrame(connectionId: string, frame: VhostLinkDown): void {
    const frames = this.#frames.get(connectionId);
    if (frames) frames.push(frame);
    else this.#frames.set(connectionId, [frame]);
  }

  #mayTake(consumer: Consumer): boolean {
    const { connectionId, channel, noAck, prefetch } = consumer;
    if (!noAck && prefetch > 0 && this.#leases.ofConsumer(consumer) >= prefetch) return false;
    const shared = this.consumers.channelLimit(connectionId, channel);
    if (!noAck && shared > 0 && this.#leases.ofChannel(connectionId, channel) >= shared) return false;
    const window = this.#connections.window(connectionId);
    return window !== undefined && window.sentBytes - window.drainedBytes < DELIVERY_WINDOW_BYTES;
  }

  /** Deliveries and cancels since the last call, per connection, to be sent after the commit. */
  takeFrames(): Map<string, VhostLinkDown[]> {
    const frames = this.#frames;
    this.#frames = new Map();
    return frames;
  }
}

/** The rest of the limits of one turn. */
interface PumpRest {
  deliveries: number;
  bytes: number;
}

function toDelivery(lease: number, taken: Taken, bytes: number): Delivery {
  const { routingKey, properties, body, encoding } = taken.message;
  return { lease, redelivered: taken.redelivered, routingKey, properties, body, encoding, bytes };
}
