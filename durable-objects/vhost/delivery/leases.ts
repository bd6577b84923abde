/** Who holds what: each delivery under a lease id of its own, counted toward the prefetch of consumer and channel. */
import type { Queue } from '../queue/queue.ts';
import type { Owner } from '../queue/rows.ts';

interface Held {
  queue: Queue;
  owner: Owner;
  count: number;
}

export class Leases {
  /** Those of one owner in one queue share their entry. */
  readonly #held = new Map<number, Held>();
  readonly #entries = new Map<string, Held>();
  readonly #byQueue = new Map<string, number>();
  readonly #byConsumer = new Map<string, number>();
  readonly #byChannel = new Map<string, number>();
  #next: number;

  /** Ids are never used again, also across wakes: they start from the clock, above all that is still held. */
  constructor(queues: Iterable<Queue>, now: number) {
    let last = 0;
    for (const queue of queues) {
      for (const lease of queue.leases()) {
        this.hold(lease.id, queue, lease.owner);
        last = Math.max(last, lease.id);
      }
    }
    this.#next = Math.max(last + 1, now * 1_000);
  }

  mint(): number {
    this.#next += 1;
    return this.#next;
  }

  hold(lease: number, queue: Queue, owner: Owner): void {
    const { connectionId, channel, tag } = owner;
    const key = `${queue.key}|${ownerKey(owner)}`;
    let entry = this.#entries.get(key);
    if (!entry) {
      entry = { queue, owner: { connectionId, channel, tag }, count: 0 };
      this.#entries.set(key, entry);
    }
    entry.count += 1;
    this.#held.set(lease, entry);
    bump(this.#byQueue, queue.key, 1);
    bump(this.#byConsumer, ownerKey(owner), 1);
    // What basic.get took counts toward no prefetch.
    if (tag !== null) bump(this.#byChannel, channelKey(connectionId, channel), 1);
  }

  /** The queue of a lease that this connection holds; from here on it is held no more. */
  take(connectionId: string, lease: number): Queue | undefined {
    const held = this.#held.get(lease);
    if (held?.owner.connectionId !== connectionId) return undefined;
    this.#letGo(lease, held);
    return held.queue;
  }

  release(holds: (owner: Owner) => boolean): void {
    for (const [lease, held] of this.#held) if (holds(held.owner)) this.#letGo(lease, held);
  }

  /** All of a queue that is no more. */
  releaseQueue(queue: Queue): void {
    for (const [lease, held] of this.#held) if (held.queue === queue) this.#letGo(lease, held);
  }

  ofQueue(queue: Queue): number {
    return this.#byQueue.get(queue.key) ?? 0;
  }

  ofConsumer(owner: Owner): number {
    return this.#byConsumer.get(ownerKey(owner)) ?? 0;
  }

  ofChannel(connectionId: string, channel: number): number {
    return this.#byChannel.get(channelKey(connectionId, channel)) ?? 0;
  }

  #letGo(lease: number, held: Held): void {
    const { queue, owner } = held;
    this.#held.delete(lease);
    held.count -= 1;
    if (held.count === 0) this.#entries.delete(`${queue.key}|${ownerKey(owner)}`);
    bump(this.#byQueue, queue.key, -1);
    bump(this.#byConsumer, ownerKey(owner), -1);
    if (owner.tag !== null) bump(this.#byChannel, channelKey(owner.connectionId, owner.channel), -1);
  }
}

export function channelKey(connectionId: string, channel: number): string {
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
