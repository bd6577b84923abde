/** The leases of all queues. A lease of a consumer counts toward the prefetch of the consumer and its channel. */
import type { Queue } from '../queue/queue.ts';
import type { Owner } from '../queue/rows.ts';

interface Held {
  queue: Queue;
  owner: Owner;
  count: number;
}

/** A message whose acknowledgement is noted: an event of a command. */
export interface NotedMessage {
  messageId: string;
  /** When the event was made. */
  madeAtMs: number;
}

export class Leases {
  /** The holder of each lease, by lease id. All leases of one owner in one queue share one `Held` object. */
  readonly #held = new Map<number, Held>();
  readonly #entries = new Map<string, Held>();
  /** The events of commands among the messages, by lease. */
  readonly #noted = new Map<number, NotedMessage>();
  /** Leases up to this one were given before the object woke, and `#noted` does not know them. */
  readonly #lastRestored: number;
  readonly #byQueue = new Map<string, number>();
  readonly #byConsumer = new Map<string, number>();
  readonly #byChannel = new Map<string, number>();
  #next: number;

  /**
   * Lease ids are never reused, even after a restart: they start at the clock, above every lease that is
   * still held.
   */
  constructor(queues: Iterable<Queue>, now: number) {
    let last = 0;
    for (const queue of queues) {
      for (const lease of queue.leases()) {
        this.hold(lease.id, queue, lease.owner);
        last = Math.max(last, lease.id);
      }
    }
    this.#lastRestored = last;
    this.#next = Math.max(last + 1, now * 1_000);
  }

  mint(): number {
    this.#next += 1;
    return this.#next;
  }

  hold(lease: number, queue: Queue, owner: Owner, noted?: NotedMessage): void {
    const { readerId, channel, tag } = owner;
    const key = `${queue.key}|${ownerKey(owner)}`;
    let entry = this.#entries.get(key);
    if (!entry) {
      entry = { queue, owner: { readerId, channel, tag }, count: 0 };
      this.#entries.set(key, entry);
    }
    entry.count += 1;
    this.#held.set(lease, entry);
    if (noted) this.#noted.set(lease, noted);
    bump(this.#byQueue, queue.key, 1);
    bump(this.#byConsumer, ownerKey(owner), 1);
    // A message from basic.get does not count toward a prefetch.
    if (tag !== null) bump(this.#byChannel, channelKey(readerId, channel), 1);
  }

  /** Removes a lease and returns its queue; undefined if this reader does not hold it. */
  take(readerId: string, lease: number): Queue | undefined {
    const held = this.#held.get(lease);
    if (held?.owner.readerId !== readerId) return undefined;
    this.#letGo(lease, held);
    return held.queue;
  }

  /** The event of a command that a lease holds; `before`: the lease is from before the object woke, ask its queue. */
  noted(lease: number): NotedMessage | 'before' | undefined {
    return lease <= this.#lastRestored ? 'before' : this.#noted.get(lease);
  }

  release(holds: (owner: Owner) => boolean): void {
    for (const [lease, held] of this.#held) if (holds(held.owner)) this.#letGo(lease, held);
  }

  /** Removes all leases of a deleted queue. */
  releaseQueue(queue: Queue): void {
    for (const [lease, held] of this.#held) if (held.queue === queue) this.#letGo(lease, held);
  }

  ofQueue(queue: Queue): number {
    return this.#byQueue.get(queue.key) ?? 0;
  }

  ofConsumer(owner: Owner): number {
    return this.#byConsumer.get(ownerKey(owner)) ?? 0;
  }

  ofChannel(readerId: string, channel: number): number {
    return this.#byChannel.get(channelKey(readerId, channel)) ?? 0;
  }

  #letGo(lease: number, held: Held): void {
    const { queue, owner } = held;
    this.#held.delete(lease);
    this.#noted.delete(lease);
    held.count -= 1;
    if (held.count === 0) this.#entries.delete(`${queue.key}|${ownerKey(owner)}`);
    bump(this.#byQueue, queue.key, -1);
    bump(this.#byConsumer, ownerKey(owner), -1);
    if (owner.tag !== null) bump(this.#byChannel, channelKey(owner.readerId, owner.channel), -1);
  }
}

export function channelKey(readerId: string, channel: number): string {
  return `${readerId}|${channel}`;
}

function ownerKey(owner: Owner): string {
  return `${owner.readerId}|${owner.channel}|${owner.tag ?? ''}`;
}

function bump(counts: Map<string, number>, key: string, by: number): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}
