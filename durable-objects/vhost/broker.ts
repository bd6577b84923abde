/**
 * Queues, consumers and who holds what. Deliveries go round-robin to consumers that may take one: within their own
 * prefetch, their channel's, and their connection's byte window (rule 9). Every method that writes runs inside the
 * caller's transaction and leaves its frames to be sent once that stands.
 */
import {
  DELIVERY_WINDOW_BYTES,
  type Delivery,
  deliveryBytes,
  type VhostLinkDown,
} from '../../protocol/link.ts';
import { QUEUE_NAMES, type QueueName } from '../../protocol/routing-keys.ts';
import type { Queue, SettleOutcome, Taken } from './queue.ts';
import type { Message, Owner } from './schema.ts';
import type { VhostStorage } from './storage.ts';
import { StoredQueue } from './stored-queue.ts';
import { TelemetryQueue } from './telemetry-queue.ts';

export interface Consumer {
  connectionId: string;
  channel: number;
  tag: string;
  queue: QueueName;
  noAck: boolean;
  exclusive: boolean;
  /** 0 = no limit. */
  prefetch: number;
}

/** What a connection's bridge was sent and what its client took, in bytes since the link opened. */
export interface Window {
  sentBytes: number;
  drainedBytes: number;
}

/** The connections as the broker sees them; the hub holds the sockets. */
export interface Connections {
  isConnected(connectionId: string): boolean;
  /** Undefined while nothing may be sent: half-open, or gone. */
  window(connectionId: string): Window | undefined;
  saveWindow(connectionId: string, window: Window): void;
}

export class Broker {
  readonly telemetry: TelemetryQueue;
  readonly #storage: VhostStorage;
  readonly #connections: Connections;
  readonly #queues = new Map<QueueName, Queue>();
  readonly #consumers: Consumer[];
  readonly #channelLimits = new Map<string, number>();
  /** Which queue a lease belongs to, and its holder. */
  readonly #leases = new Map<number, { queue: Queue; owner: Owner }>();
  readonly #heldByConsumer = new Map<string, number>();
  readonly #heldByChannel = new Map<string, number>();
  #frames = new Map<string, VhostLinkDown[]>();
  #nextLease: number;

  constructor(storage: VhostStorage, connections: Connections, now: () => number) {
    this.#storage = storage;
    this.#connections = connections;
    const isConnected = (id: string) => connections.isConnected(id);
    const deadLetter = (message: Message, reason: string) => this.deadLetter(message, reason, now());
    this.telemetry = new TelemetryQueue(storage, deadLetter, isConnected);
    for (const name of QUEUE_NAMES) {
      const toNowhere = name === 'dead-letter' ? () => {} : deadLetter;
      const queue =
        name === 'event.telemetry' ? this.telemetry : new StoredQueue(name, storage, toNowhere, isConnected);
      this.#queues.set(name, queue);
    }
    this.#consumers = storage.consumers().map((row) => ({
      connectionId: row.connection_id,
      channel: row.channel,
      tag: row.tag,
      queue: row.queue as QueueName,
      noAck: row.no_ack === 1,
      exclusive: row.exclusive === 1,
      prefetch: row.prefetch,
    }));
    for (const limit of storage.channelLimits()) {
      this.#channelLimits.set(channelKey(limit.connection_id, limit.channel), limit.prefetch);
    }
    let lastLease = 0;
    for (const queue of this.#queues.values()) {
      for (const lease of queue.leases()) {
        this.#hold(lease.id, queue, lease.owner);
        lastLease = Math.max(lastLease, lease.id);
      }
    }
    // Leases are never used again, also across wakes: they start from the clock, above all that is still held.
    this.#nextLease = Math.max(lastLease + 1, now() * 1_000);
  }

  queue(name: QueueName): Queue {
    const queue = this.#queues.get(name);
    if (!queue) throw new Error(`no queue ${name}`);
    return queue;
  }

  consumerCount(name: QueueName): number {
    return this.#consumers.filter((consumer) => consumer.queue === name).length;
  }

  push(name: QueueName, message: Message, now: number): void {
    this.queue(name).push(message, now);
  }

  /** Its time in the dead-letter queue starts now. */
  deadLetter(message: Message, reason: string, now: number): void {
    const headers = { 'x-death-reason': reason, 'x-death-routing-key': message.routingKey };
    this.push(
      'dead-letter',
      { ...message, createdAtMs: now, properties: { ...message.properties, headers } },
      now,
    );
  }

  // consumers

  hasExclusive(name: QueueName): boolean {
    return this.#consumers.some((consumer) => consumer.queue === name && consumer.exclusive);
  }

  hasTag(connectionId: string, channel: number, tag: string): boolean {
    return this.#consumers.some((one) => matches(one, { connectionId, channel, tag }));
  }

  consumersOf(connectionId: string): number {
    return this.#consumers.filter((one) => one.connectionId === connectionId).length;
  }

  addConsumer(consumer: Consumer): void {
    this.#storage.insertConsumer({
      connection_id: consumer.connectionId,
      channel: consumer.channel,
      tag: consumer.tag,
      queue: consumer.queue,
      no_ack: consumer.noAck ? 1 : 0,
      exclusive: consumer.exclusive ? 1 : 0,
      prefetch: consumer.prefetch,
    });
    this.#consumers.push(consumer);
  }

  /** What it holds stays held, as in RabbitMQ. */
  removeConsumer(connectionId: string, channel: number, tag: string): void {
    this.#storage.deleteConsumer(connectionId, channel, tag);
    this.#dropConsumers((one) => matches(one, { connectionId, channel, tag }));
  }

  setChannelLimit(connectionId: string, channel: number, prefetch: number): void {
    this.#channelLimits.set(channelKey(connectionId, channel), prefetch);
    this.#storage.setChannelLimit(connectionId, channel, prefetch);
  }

  closeChannel(connectionId: string, channel: number): void {
    this.#storage.deleteChannel(connectionId, channel);
    this.#channelLimits.delete(channelKey(connectionId, channel));
    this.#dropConsumers((one) => one.connectionId === connectionId && one.channel === channel);
    this.release((owner) => owner.connectionId === connectionId && owner.channel === channel);
  }

  closeConnection(connectionId: string): void {
    this.#storage.deleteConnection(connectionId);
    for (const key of this.#channelLimits.keys()) {
      if (key.startsWith(`${connectionId}|`)) this.#channelLimits.delete(key);
    }
    this.#dropConsumers((one) => one.connectionId === connectionId);
    this.release((owner) => owner.connectionId === connectionId);
    this.#frames.delete(connectionId);
  }

  // deliveries

  get(name: QueueName, owner: Owner, noAck: boolean, now: number): Delivery | null {
    const lease = noAck ? null : this.#mintLease();
    const queue = this.queue(name);
    const taken = queue.take(owner, lease, now);
    if (!taken) return null;
    if (lease !== null) this.#hold(lease, queue, owner);
    return toDelivery(lease ?? 0, taken);
  }

  /** Only a lease that its own connection holds settles anything; every other is ignored. */
  settle(connectionId: string, leases: readonly number[], outcome: SettleOutcome): void {
    for (const lease of leases) {
      const held = this.#leases.get(lease);
      if (held?.owner.connectionId !== connectionId) continue;
      held.queue.settle(lease, outcome);
      this.#letGo(lease);
    }
  }

  release(holds: (owner: Owner) => boolean): void {
    for (const queue of this.#queues.values()) queue.release(holds);
    for (const [lease, { owner }] of this.#leases) if (holds(owner)) this.#letGo(lease);
  }

  /** Whether `pump` would hand out anything. */
  get hasDeliverable(): boolean {
    return this.#consumers.some((one) => this.queue(one.queue).readyCount > 0 && this.#mayTake(one));
  }

  /** Hands out all that consumers may take now. */
  pump(now: number): void {
    for (const queue of this.#queues.values()) {
      const consumers = this.#consumers.filter((consumer) => consumer.queue === queue.name);
      if (consumers.length > 0) this.#pumpQueue(queue, consumers, now);
    }
  }

  #pumpQueue(queue: Queue, consumers: Consumer[], now: number): void {
    for (;;) {
      if (queue.readyCount === 0) return;
      const index = consumers.findIndex((consumer) => this.#mayTake(consumer));
      const consumer = consumers[index];
      if (!consumer) return;
      const lease = consumer.noAck ? null : this.#mintLease();
      const taken = queue.take(consumer, lease, now);
      if (!taken) return;
      this.#deliver(queue, consumer, lease, taken);
      // Round-robin: whoever got one goes to the end of the line.
      consumers.push(...consumers.splice(index, 1));
      this.#moveLast(consumer);
    }
  }

  #deliver(queue: Queue, consumer: Consumer, lease: number | null, taken: Taken): void {
    if (lease !== null) this.#hold(lease, queue, consumer);
    const window = this.#connections.window(consumer.connectionId);
    if (window) {
      window.sentBytes += deliveryBytes(taken.message);
      this.#connections.saveWindow(consumer.connectionId, window);
    }
    const { channel, tag } = consumer;
    this.#frame(consumer.connectionId, {
      kind: 'deliver',
      channel,
      tag,
      delivery: toDelivery(lease ?? 0, taken),
    });
  }

  #mayTake(consumer: Consumer): boolean {
    const held = this.#heldByConsumer.get(ownerKey(consumer)) ?? 0;
    if (!consumer.noAck && consumer.prefetch > 0 && held >= consumer.prefetch) return false;
    const shared = this.#channelLimits.get(channelKey(consumer.connectionId, consumer.channel)) ?? 0;
    const heldByChannel = this.#heldByChannel.get(channelKey(consumer.connectionId, consumer.channel)) ?? 0;
    if (!consumer.noAck && shared > 0 && heldByChannel >= shared) return false;
    const window = this.#connections.window(consumer.connectionId);
    return window !== undefined && window.sentBytes - window.drainedBytes < DELIVERY_WINDOW_BYTES;
  }

  #moveLast(consumer: Consumer): void {
    this.#consumers.splice(this.#consumers.indexOf(consumer), 1);
    this.#consumers.push(consumer);
  }

  #dropConsumers(leaves: (consumer: Consumer) => boolean): void {
    for (let index = this.#consumers.length - 1; index >= 0; index--) {
      const consumer = this.#consumers[index];
      if (consumer && leaves(consumer)) this.#consumers.splice(index, 1);
    }
  }

  // leases

  #mintLease(): number {
    this.#nextLease += 1;
    return this.#nextLease;
  }

  #hold(lease: number, queue: Queue, owner: Owner): void {
    const { connectionId, channel, tag } = owner;
    this.#leases.set(lease, { queue, owner: { connectionId, channel, tag } });
    bump(this.#heldByConsumer, ownerKey(owner), 1);
    // What basic.get took counts toward no prefetch.
    if (tag !== null) bump(this.#heldByChannel, channelKey(connectionId, channel), 1);
  }

  #letGo(lease: number): void {
    const held = this.#leases.get(lease);
    if (!held) return;
    this.#leases.delete(lease);
    bump(this.#heldByConsumer, ownerKey(held.owner), -1);
    const { connectionId, channel, tag } = held.owner;
    if (tag !== null) bump(this.#heldByChannel, channelKey(connectionId, channel), -1);
  }

  // frames

  #frame(connectionId: string, frame: VhostLinkDown): void {
    const frames = this.#frames.get(connectionId);
    if (frames) frames.push(frame);
    else this.#frames.set(connectionId, [frame]);
  }

  /** Deliveries since the last call, per connection: to be sent once the transaction stands. */
  takeFrames(): Map<string, VhostLinkDown[]> {
    const frames = this.#frames;
    this.#frames = new Map();
    return frames;
  }

  get isDirty(): boolean {
    return [...this.#queues.values()].some((queue) => queue.isDirty);
  }

  save(): void {
    for (const queue of this.#queues.values()) queue.save();
  }
}

function toDelivery(lease: number, taken: Taken): Delivery {
  const { routingKey, properties, body, encoding } = taken.message;
  return { lease, redelivered: taken.redelivered, routingKey, properties, body, encoding };
}

function matches(consumer: Consumer, owner: { connectionId: string; channel: number; tag: string }): boolean {
  return (
    consumer.connectionId === owner.connectionId &&
    consumer.channel === owner.channel &&
    consumer.tag === owner.tag
  );
}

function channelKey(connectionId: string, channel: number): string {
  return `${connectionId}|${channel}`;
}

function ownerKey(owner: Owner): string {
  return `${owner.connectionId}|${owner.channel}|${owner.tag ?? ''}`;
}

function bump(counts: Map<string, number>, key: string, by: number): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}
