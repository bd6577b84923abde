/**
 * Queues, consumers and who holds what. Deliveries go round-robin to consumers that may take one: within their own
 * prefetch, their channel's, and their connection's byte window (rule 9). What is delivered waits as frames until
 * the turn stands. Acknowledgements and young telemetry are in memory alone for a while; all else is stored.
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

/** What a connection's bridge was sent and what its client took, in bytes since the link opened. */
export interface Window {
  sentBytes: number;
  drainedBytes: number;
  /** Its bridge is of before, and reckons by body and routing key alone. */
  isPlain: boolean;
}

/** The connections as the broker sees them; others hold the sockets. */
export interface Connections {
  isConnected(connectionId: string): boolean;
  /** Undefined while nothing may be sent: half-open, or gone. */
  window(connectionId: string): Window | undefined;
  saveWindow(connectionId: string, window: Window): void;
  /** Whether its bridge understands that a consumer was cancelled here. */
  hearsOfCancels(connectionId: string): boolean;
}

export class Broker {
  readonly queues: Queues;
  readonly consumers: Consumers;
  readonly #connections: Connections;
  readonly #leases: Leases;
  #frames = new Map<string, VhostLinkDown[]>();
  /** Events since this broker was made. */
  published = 0;

  constructor(queues: Queues, consumerRows: ConsumerRows, connections: Connections, now: number) {
    this.queues = queues;
    this.#connections = connections;
    this.consumers = new Consumers(consumerRows);
    this.#leases = new Leases(queues.all(), now);
  }

  /** An event to the queue of ours that it is for, and to the partner's own that are bound to it. */
  publish(turn: Turn, name: QueueName, message: Message, keptBy?: KeptBy): void {
    this.published += 1;
    this.queues.ours(name).push(turn, message, keptBy);
    this.queues.own.push(turn, message, keptBy);
  }

  /** How many messages of a queue clients hold. */
  unackedCount(queue: Queue): number {
    return this.#leases.ofQueue(queue);
  }

  // ends of consumers: what they hold stays held until their channel closes, as in RabbitMQ

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

  /** A queue of the partner's own goes, and whoever consumes from it is told. Answers how many messages waited. */
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

  /** Of queues that go with the last of their consumers. */
  #leave(turn: Turn, gone: readonly Consumer[]): void {
    for (const key of new Set(gone.map(({ queue }) => queue))) {
      const own = this.queues.own.find(this.queues.fullName(key));
      if (own?.autoDelete && this.consumers.ofQueue(key).length === 0) this.deleteOwn(turn, own);
    }
  }

  // settling: only a lease that its own connection holds counts; every other is ignored

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

  /** Whether `pump` would hand out anything. */
  get hasDeliverable(): boolean {
    return this.consumers
      .all()
      .some((one) => this.queues.find(one.queue).readyCount > 0 && this.#mayTake(one));
  }

  /** Hands out what consumers may take now, so much at a time: `hasDeliverable` tells whether more would go. */
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

  /** Returns what it counts as. */
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

  /** Deliveries and cancels since the last call, per connection: to be sent once the turn stands. */
  takeFrames(): Map<string, VhostLinkDown[]> {
    const frames = this.#frames;
    this.#frames = new Map();
    return frames;
  }
}

/** What is left of a pump's share. */
interface PumpRest {
  deliveries: number;
  bytes: number;
}

function toDelivery(lease: number, taken: Taken, bytes: number): Delivery {
  const { routingKey, properties, body, encoding } = taken.message;
  return { lease, redelivered: taken.redelivered, routingKey, properties, body, encoding, bytes };
}
