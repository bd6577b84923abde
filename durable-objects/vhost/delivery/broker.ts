/**
 * Queues, consumers and leases. Deliveries go to consumers that have room in their own prefetch, in the
 * prefetch of their channel and at their receiver (rule 9): by priority, round-robin among equals.
 * Acknowledgements and recent events may be only in memory for a while; all else is stored.
 */
import type { Delivery } from '../../../protocol/link/vhost.ts';
import { eventKind, type QueueName } from '../../../protocol/routing-keys.ts';
import type { Clock } from '../../object/clock.ts';
import type { Turn } from '../../object/turn.ts';
import { VHOST_BOUNDS } from '../bounds.ts';
import { type Confirmation, isMarked } from '../journal/marks.ts';
import type { PartnerQueue } from '../queue/partner-queues.ts';
import type { Queue, QueueKey } from '../queue/queue.ts';
import type { Queues } from '../queue/queues.ts';
import type { Message, Owner, Safety } from '../queue/rows.ts';
import { type Consumer, Consumers } from './consumers.ts';
import { Leases, type NotedMessage } from './leases.ts';
import { type Connections, LinkReceiver, toDelivery } from './receiver.ts';
import type { ConsumerRows } from './rows.ts';

export interface BrokerHost {
  queues: Queues;
  consumerRows: ConsumerRows;
  connections: Connections;
  clock: Pick<Clock, 'now'>;
  /** A client has acknowledged an event of a command, or it got one that needs no acknowledgement. */
  confirmed(confirmation: Confirmation): void;
}

export class Broker {
  readonly queues: Queues;
  readonly consumers: Consumers;
  /** The receiver of all AMQP clients. */
  readonly links: LinkReceiver;
  readonly #leases: Leases;
  readonly #host: BrokerHost;
  /** Number of events since this broker was created. */
  published = 0;

  constructor(host: BrokerHost) {
    this.#host = host;
    this.queues = host.queues;
    this.links = new LinkReceiver(host.connections);
    this.consumers = new Consumers(host.consumerRows, this.links);
    this.#leases = new Leases(host.queues.all(), host.clock.now());
  }

  /** Adds an event to its event queue and to the partner queues that are bound to its routing key. */
  publish(turn: Turn, name: QueueName, message: Message, safety?: Safety): void {
    this.published += 1;
    this.queues.ours(name).push(turn, message, safety);
    this.queues.partner.push(turn, message, safety);
  }

  /** Number of leased messages of a queue. */
  unackedCount(queue: Queue): number {
    return this.#leases.ofQueue(queue);
  }

  // the end of consumers: messages of a cancelled consumer stay leased until the client settles them or the channel
  // closes, as in RabbitMQ

  cancel(turn: Turn, readerId: string, channel: number, tag: string): void {
    this.#leave(turn, this.consumers.remove(turn, readerId, channel, tag));
  }

  closeChannel(turn: Turn, readerId: string, channel: number): void {
    this.#leave(turn, this.consumers.closeChannel(turn, readerId, channel));
    this.release((owner) => owner.readerId === readerId && owner.channel === channel);
  }

  /**
   * Called when a reader has gone: removes its consumers, puts the messages that it leased back, and deletes
   * the queues that are exclusive to it and the auto-delete queues that have no other consumer.
   */
  closeReader(turn: Turn, readerId: string): void {
    this.#leave(turn, this.consumers.closeReader(turn, readerId));
    this.release((owner) => owner.readerId === readerId);
    for (const declared of this.queues.partner.all())
      if (declared.ownerId === readerId) this.deletePartnerQueue(turn, declared);
    this.links.forget(readerId);
  }

  /** Deletes a partner queue and cancels its consumers. Returns the number of messages that waited. */
  deletePartnerQueue(turn: Turn, declared: PartnerQueue): number {
    const { queue } = declared;
    const { key, readyCount } = queue;
    for (const consumer of this.consumers.closeQueue(turn, key)) consumer.receiver.cancel(consumer);
    this.#leases.releaseQueue(queue);
    this.queues.partner.delete(turn, declared);
    return readyCount;
  }

  /** Deletes auto-delete queues whose last consumer has gone. */
  #leave(turn: Turn, gone: readonly Consumer[]): void {
    for (const key of new Set(gone.map(({ queue }) => queue))) {
      const declared = this.queues.partner.find(this.queues.fullName(key));
      if (declared?.autoDelete && this.consumers.ofQueue(key).length === 0)
        this.deletePartnerQueue(turn, declared);
    }
  }

  // settling: an operation on a lease that the reader does not hold is ignored

  acknowledge(readerId: string, leases: readonly number[]): void {
    for (const lease of leases) {
      const known = this.#leases.noted(lease);
      const queue = this.#leases.take(readerId, lease);
      if (!queue) continue;
      this.#confirm(queue, known === 'before' ? notedOf(queue.leased(lease)) : known);
      queue.acknowledge(lease);
    }
  }

  requeue(readerId: string, leases: readonly number[]): void {
    for (const lease of leases) this.#leases.take(readerId, lease)?.requeue(lease);
  }

  discard(turn: Turn, readerId: string, leases: readonly number[]): void {
    for (const lease of leases) this.#leases.take(readerId, lease)?.discard(turn, lease);
  }

  release(holds: (owner: Owner) => boolean): void {
    for (const queue of this.queues.all()) queue.release(holds);
    this.#leases.release(holds);
  }

  // deliveries

  get(turn: Turn, key: QueueKey, owner: Owner, noAck: boolean): Delivery | null {
    const lease = noAck ? null : this.#leases.mint();
    const queue = this.queues.find(key);
    const taken = queue.take(turn, owner, lease);
    if (!taken) return null;
    const noted = notedOf(taken.message);
    if (lease === null) this.#confirm(queue, noted);
    else this.#leases.hold(lease, queue, owner, noted);
    return toDelivery(lease ?? 0, taken);
  }

  /** Whether `pump` may deliver something; the messages that wait may also have expired. */
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
      const noted = notedOf(taken.message);
      if (lease === null) this.#confirm(queue, noted);
      else this.#leases.hold(lease, queue, consumer, noted);
      rest.bytes -= consumer.receiver.deliver(consumer, lease ?? 0, taken);
      this.consumers.moveLast(consumer);
      if (consumers.length > 1) consumers = this.consumers.ofQueue(queue.key);
    }
  }

  #confirm({ key }: Queue, noted: NotedMessage | undefined): void {
    if (!noted || key === 'dead-letter') return;
    const { clock, confirmed } = this.#host;
    confirmed({ ...noted, atMs: clock.now(), by: `queue ${this.queues.fullName(key)}` });
  }

  #mayTake(consumer: Consumer): boolean {
    const { readerId, channel, noAck, prefetch } = consumer;
    if (!noAck && prefetch > 0 && this.#leases.ofConsumer(consumer) >= prefetch) return false;
    const shared = this.consumers.channelLimit(readerId, channel);
    if (!noAck && shared > 0 && this.#leases.ofChannel(readerId, channel) >= shared) return false;
    return consumer.receiver.hasRoom(consumer);
  }
}

function notedOf(message: Message | undefined): NotedMessage | undefined {
  const messageId = message?.properties.messageId;
  const kind = message && eventKind(message.routingKey);
  return messageId !== undefined && kind && isMarked(kind)
    ? { messageId, madeAtMs: message.properties.timestampMs ?? message.createdAtMs }
    : undefined;
}

/** What is left of the limits of one turn. */
interface PumpRest {
  deliveries: number;
  bytes: number;
}
