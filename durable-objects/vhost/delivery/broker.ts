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
import { QUEUE_NAMES, type QueueName } from '../../../protocol/routing-keys.ts';
import { earliest } from '../../object/agenda.ts';
import type { Turn } from '../../object/turn.ts';
import { VHOST_BOUNDS } from '../bounds.ts';
import { type DeadLetter, type KeptBy, limitsOf, type Queue, type Taken } from '../queue/queue.ts';
import type { Message, Owner, QueueRows } from '../queue/rows.ts';
import { StoredQueue } from '../queue/stored-queue.ts';
import { TelemetryQueue } from '../queue/telemetry-queue.ts';
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
}

export class Broker {
  readonly telemetry: TelemetryQueue;
  readonly consumers: Consumers;
  readonly #connections: Connections;
  readonly #queues = new Map<QueueName, Queue>();
  readonly #stored: StoredQueue[] = [];
  readonly #leases: Leases;
  #frames = new Map<string, VhostLinkDown[]>();

  constructor(queueRows: QueueRows, consumerRows: ConsumerRows, connections: Connections, now: number) {
    this.#connections = connections;
    const isConnected = (id: string) => connections.isConnected(id);
    const toDeadLetters: DeadLetter = (turn, message, reason) => this.deadLetter(turn, message, reason);
    this.telemetry = new TelemetryQueue(queueRows, toDeadLetters, isConnected);
    for (const name of QUEUE_NAMES) {
      const toNowhere = name === 'dead-letter' ? () => {} : toDeadLetters;
      if (name === 'event.telemetry') {
        this.#queues.set(name, this.telemetry);
        continue;
      }
      const queue = new StoredQueue(name, queueRows, toNowhere, isConnected);
      this.#stored.push(queue);
      this.#queues.set(name, queue);
    }
    this.consumers = new Consumers(consumerRows);
    this.#leases = new Leases(this.#queues.values(), now);
  }

  queue(name: QueueName): Queue {
    const queue = this.#queues.get(name);
    if (!queue) throw new Error(`no queue ${name}`);
    return queue;
  }

  push(turn: Turn, name: QueueName, message: Message, keptBy?: KeptBy): void {
    this.queue(name).push(turn, message, keptBy);
  }

  /** The first of a site's events that is in memory alone; undefined when none is. */
  firstKept(siteId: string): number | undefined {
    return earliest(this.#stored.map((queue) => queue.firstKept(siteId)));
  }

  /** Its time in the dead-letter queue starts now. */
  deadLetter(turn: Turn, message: Message, reason: string): void {
    const headers = { 'x-death-reason': reason, 'x-death-routing-key': message.routingKey };
    const properties = { ...message.properties, headers };
    this.push(turn, 'dead-letter', { ...message, createdAtMs: turn.now, properties });
  }

  // ends of consumers: what they hold stays held until their channel closes, as in RabbitMQ

  closeChannel(turn: Turn, connectionId: string, channel: number): void {
    this.consumers.closeChannel(turn, connectionId, channel);
    this.release(turn, (owner) => owner.connectionId === connectionId && owner.channel === channel);
  }

  closeConnection(turn: Turn, connectionId: string): void {
    this.consumers.closeConnection(turn, connectionId);
    this.release(turn, (owner) => owner.connectionId === connectionId);
    this.#frames.delete(connectionId);
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
    for (const queue of this.#queues.values()) queue.release(turn, holds);
    this.#leases.release(holds);
  }

  // deliveries

  get(turn: Turn, name: QueueName, owner: Owner, noAck: boolean): Delivery | null {
    const lease = noAck ? null : this.#leases.mint();
    const queue = this.queue(name);
    const taken = queue.take(turn, owner, lease);
    if (!taken) return null;
    if (lease !== null) this.#leases.hold(lease, queue, owner);
    return toDelivery(lease ?? 0, taken, messageBytes(taken.message));
  }

  /** Whether `pump` would hand out anything. */
  get hasDeliverable(): boolean {
    return this.consumers.all().some((one) => this.queue(one.queue).readyCount > 0 && this.#mayTake(one));
  }

  /** Hands out what consumers may take now, so much at a time: `hasDeliverable` tells whether more would go. */
  pump(turn: Turn): void {
    const rest: PumpRest = { deliveries: VHOST_BOUNDS.pumpDeliveries, bytes: VHOST_BOUNDS.pumpBytes };
    // Telemetry comes last: however much there is of it, no acknowledgement and no alarm waits behind it.
    const queues = [...this.#queues.values()].filter((queue) => queue !== this.telemetry);
    for (const queue of [...queues, this.telemetry]) {
      const consumers = this.consumers.ofQueue(queue.name);
      if (consumers.length > 0) this.#pumpQueue(turn, queue, consumers, rest);
    }
  }

  #pumpQueue(turn: Turn, queue: Queue, consumers: Consumer[], rest: PumpRest): void {
    while (rest.deliveries > 0 && rest.bytes > 0) {
      if (queue.readyCount === 0) return;
      const index = consumers.findIndex((consumer) => this.#mayTake(consumer));
      const consumer = consumers[index];
      if (!consumer) return;
      const lease = consumer.noAck ? null : this.#leases.mint();
      const taken = queue.take(turn, consumer, lease);
      if (!taken) return;
      rest.deliveries -= 1;
      rest.bytes -= this.#deliver(queue, consumer, lease, taken);
      consumers.push(...consumers.splice(index, 1));
      this.consumers.moveLast(consumer);
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
    const frame: VhostLinkDown = { kind: 'deliver', channel, tag, delivery };
    const frames = this.#frames.get(connectionId);
    if (frames) frames.push(frame);
    else this.#frames.set(connectionId, [frame]);
    return bytes;
  }

  #mayTake(consumer: Consumer): boolean {
    const { connectionId, channel, noAck, prefetch } = consumer;
    if (!noAck && prefetch > 0 && this.#leases.ofConsumer(consumer) >= prefetch) return false;
    const shared = this.consumers.channelLimit(connectionId, channel);
    if (!noAck && shared > 0 && this.#leases.ofChannel(connectionId, channel) >= shared) return false;
    const window = this.#connections.window(connectionId);
    return window !== undefined && window.sentBytes - window.drainedBytes < DELIVERY_WINDOW_BYTES;
  }

  /** Deliveries since the last call, per connection: to be sent once the turn stands. */
  takeFrames(): Map<string, VhostLinkDown[]> {
    const frames = this.#frames;
    this.#frames = new Map();
    return frames;
  }

  /** When the first message of any queue is past its age, at the earliest. */
  agedAtMs(): number | undefined {
    return earliest(
      [...this.#queues.values()].map(({ name, oldestMs }) =>
        oldestMs === undefined ? undefined : oldestMs + limitsOf(name).maxAgeMs,
      ),
    );
  }

  dropAged(turn: Turn): void {
    for (const queue of this.#queues.values()) {
      const { name, oldestMs = Number.POSITIVE_INFINITY } = queue;
      if (oldestMs + limitsOf(name).maxAgeMs <= turn.now) queue.dropAged(turn);
    }
  }

  /** Whether acknowledgements or counts wait for a turn to ride in. */
  get isDirty(): boolean {
    return [...this.#queues.values()].some((queue) => queue.isDirty);
  }

  save(turn: Turn): void {
    for (const queue of this.#queues.values()) queue.save(turn);
  }

  /** Whether something is new in memory that must not be there alone when the turn ends. */
  get mustStore(): boolean {
    return this.#stored.some((queue) => queue.mustStore);
  }

  /** Stores all that is in memory alone, but for telemetry. */
  storeNew(turn: Turn): void {
    for (const queue of this.#stored) queue.storeNew(turn);
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
