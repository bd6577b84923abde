/**
 * One queue: its messages are in chunks, many in a row. A message that is delivered and acknowledged at once
 * is never written: while a consumer has it leased, it may be only in memory for a second (until `flush`), if
 * its site still has it or if it is telemetry. Every other message is stored in the turn that adds it, and
 * the lease of a stored message in the turn that delivers it; acknowledgements are stored within a second. So
 * a crash loses only telemetry that is being delivered [C-6.4], and of the acknowledged messages only those
 * of the last second are delivered again.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { QueueName } from '../../../protocol/routing-keys.ts';
import type { Turn } from '../../object/turn.ts';
import { VHOST_BOUNDS } from '../bounds.ts';
import { Chunk } from './chunk.ts';
import { ChunkList } from './chunk-list.ts';
import type { QueueLimits } from './limits.ts';
import {
  type ChunkRow,
  type ChunkState,
  Drops,
  type Message,
  type Owner,
  type QueueRows,
  type Safety,
} from './rows.ts';

/** The internal key of a queue: a platform queue, or a partner queue by its name [C-6.6]. */
export type QueueKey = QueueName | `partner/${string}`;

export function partnerQueueKey(name: string): QueueKey {
  return `partner/${name}`;
}

/** One delivered message. If it was taken without a lease (no_ack), it is already removed from the queue. */
export interface Taken {
  message: Message;
  redelivered: boolean;
}

/** A message in its place; the places of all messages are in their order. */
export interface Place {
  position: number;
  index: number;
  message: Message;
  isLeased: boolean;
}

export interface Lease {
  id: number;
  owner: Owner;
}

/** Dead-letters a message that was delivered too often or rejected; one of the dead-letter queue itself is dropped. */
export type DeadLetter = (
  turn: Turn,
  from: QueueKey,
  message: Message,
  reason: 'delivery_limit' | 'rejected',
) => void;

export interface QueueHost {
  key: QueueKey;
  rows: QueueRows;
  /** The stored chunks, in order. */
  chunks: readonly ChunkRow[];
  /** The position of a new chunk; positions are unique across all queues. */
  nextPosition(): number;
  limits: QueueLimits;
  deadLetter: DeadLetter;
  /**
   * Whether a reader is still connected. When the queue is loaded, the leases of all other readers are put
   * back.
   */
  isConnected(readerId: string): boolean;
}

export class Queue {
  readonly key: QueueKey;
  readonly drops: Drops;
  readonly #host: QueueHost;
  readonly #limits: QueueLimits;
  readonly #leases = new Map<number, Chunk>();
  readonly #chunks: ChunkList;
  /** No waiting message is older than this. */
  #sinceMs = 0;

  constructor(host: QueueHost) {
    const { key, rows, isConnected } = host;
    this.key = key;
    this.#host = host;
    this.#limits = host.limits;
    this.drops = new Drops(rows.drops(key));
    const chunks = host.chunks.map(({ state, queue: _queue, ...head }) =>
      Chunk.restore(head, JSON.parse(state) as ChunkState),
    );
    for (const chunk of chunks) {
      for (const { id, owner } of [...chunk.held()]) {
        if (isConnected(owner.readerId)) this.#leases.set(id, chunk);
        else chunk.putBack(chunk.find(id) ?? 0, false);
      }
    }
    this.#chunks = new ChunkList(chunks, (position) => rows.chunkData(position));
  }

  /** Number of messages that wait for a consumer. */
  get readyCount(): number {
    return this.#chunks.ready;
  }

  /** Messages that are not settled, and the bytes of their chunks. */
  get open(): { messages: number; bytes: number } {
    return { messages: this.#chunks.open, bytes: this.#chunks.bytes };
  }

  get maxAgeMs(): number {
    return this.#limits.maxAgeMs;
  }

  /** Time of the first waiting message, or an earlier time; undefined if none waits. */
  get oldestMs(): number | undefined {
    const first = this.#chunks.firstWaiting();
    return first && Math.max(first.chunk.createdAtMs, this.#sinceMs);
  }

  /** Exact time of the first message that waits or is leased; undefined if there is none. */
  get openSinceMs(): number | undefined {
    const chunk = this.#chunks.first();
    return chunk && this.#chunks.messageAt(chunk, chunk.firstOpen())?.createdAtMs;
  }

  *leases(): Iterable<Lease> {
    for (const chunk of this.#chunks.all()) yield* chunk.held();
  }

  /** The messages that are not settled, from the one after a place on. */
  *messagesAfter(position: number, index: number): Generator<Place> {
    for (const chunk of this.#chunks.all()) {
      if (chunk.position < position) continue;
      for (let at = chunk.position === position ? index + 1 : 0; at < chunk.count; at++) {
        const message = chunk.isOpen(at) ? this.#chunks.messageAt(chunk, at) : undefined;
        if (message) yield { position: chunk.position, index: at, message, isLeased: chunk.isLeased(at) };
      }
    }
  }

  /** Removes a message that waits. */
  remove({ position, index }: Pick<Place, 'position' | 'index'>): void {
    for (const chunk of this.#chunks.all()) {
      if (chunk.position !== position) continue;
      this.#chunks.settle(chunk, index);
      return;
    }
  }

  // what is only in memory

  /**
   * Whether messages that are only in memory must be stored by the end of this turn, together with those of all
   * queues: the vhost remembers one sequence per site, which must cover all earlier events.
   */
  get mustStore(): boolean {
    let count = 0;
    for (const chunk of this.#chunks.unsaved) {
      count += chunk.unstoredCount;
      const unstored = [...chunk.unstored()];
      const isBare = unstored.some(({ safety }) => safety === undefined);
      const isPassing = unstored.every(({ safety }) => safety === 'passing');
      if (chunk.isUrgent || isBare || (!isPassing && unstored.some(({ isWaiting }) => isWaiting)))
        return true;
    }
    return count > VHOST_BOUNDS.unstoredMessages;
  }

  /** Sequence of a site's first event that is only in memory; undefined if there is none. */
  firstKept(siteId: string): number | undefined {
    for (const chunk of this.#chunks.unsaved) {
      for (const { safety } of chunk.unstored()) {
        if (typeof safety === 'object' && safety.siteId === siteId) return safety.sequence;
      }
    }
    return undefined;
  }

  /** Whether a message, or the changed state of a stored one, is only in memory. */
  get hasUnstored(): boolean {
    return this.#chunks.unsaved.size > 0;
  }

  /** Whether storage has an old state of a stored message, for example of an acknowledged one. */
  get isStale(): boolean {
    return [...this.#chunks.unsaved].some(({ storedCount }) => storedCount > 0);
  }

  /** Stores everything that is only in memory. */
  flush(turn: Turn): void {
    for (const chunk of this.#chunks.unsaved) this.#store(turn, chunk);
    this.save(turn);
  }

  /** Whether the next turn deletes rows of settled messages or writes the numbers of dropped ones. */
  get isDirty(): boolean {
    return this.drops.isChanged || this.#chunks.hasEmptied;
  }

  /**
   * Called last in a turn: stores telemetry that waits, deletes chunks that are settled or dropped, and writes
   * the numbers of dropped messages.
   */
  save(turn: Turn): void {
    const { rows } = this.#host;
    for (const position of this.#chunks.takeEmptied()) rows.deleteChunk(turn, position);
    for (const chunk of this.#chunks.unsaved) {
      if ([...chunk.unstored()].some(({ isWaiting }) => isWaiting)) this.#store(turn, chunk);
    }
    this.#chunks.unloadIdle();
    if (this.drops.isChanged) rows.setDrops(turn, { name: this.key, ...this.drops.take() });
  }

  /** Deletes the queue from storage. */
  delete(turn: Turn): void {
    this.#host.rows.deleteQueue(turn, this.key);
  }

  // messages are added, leased and settled

  /** Adds a message. `safety`: what protects it while it is only in memory; undefined = store it in this turn. */
  push(turn: Turn, message: Message, safety?: Safety): void {
    const chars = JSON.stringify(message).length + 1;
    let { tail } = this.#chunks;
    if (!tail || tail.chars + chars > VHOST_BOUNDS.chunkChars) {
      tail = new Chunk(this.#host.nextPosition(), message.createdAtMs);
      this.#chunks.append(tail);
    }
    this.#chunks.add(tail, message, safety);
    tail.chars += chars;
    while (this.#isOver() && this.dropOldest('limit'));
    this.dropAged(turn);
  }

  /** Takes the next message and leases it to the owner, or settles it at once if `lease` is null. */
  take(turn: Turn, owner: Owner, lease: number | null): Taken | undefined {
    for (;;) {
      const first = this.#chunks.firstWaiting();
      if (!first) return undefined;
      const { chunk, index } = first;
      const message = this.#chunks.messageAt(chunk, index);
      if (!message || this.#isAged(message, turn.now)) {
        this.dropOldest('age');
        continue;
      }
      if (chunk.requeues(index) >= LIMIT.deliveriesPerMessage) {
        this.#chunks.settle(chunk, index);
        this.drops.add('deliveries');
        this.#host.deadLetter(turn, this.key, message, 'delivery_limit');
        continue;
      }
      const redelivered = chunk.wasOut(index);
      if (lease === null) {
        this.#chunks.settle(chunk, index);
      } else {
        this.#chunks.lease(chunk, index, lease, owner);
        this.#leases.set(lease, chunk);
      }
      return { message, redelivered };
    }
  }

  /** The message that a lease holds. */
  leased(lease: number): Message | undefined {
    const chunk = this.#leases.get(lease);
    const index = chunk?.find(lease);
    return chunk && index !== undefined ? this.#chunks.messageAt(chunk, index) : undefined;
  }

  acknowledge(lease: number): void {
    const held = this.#letGo(lease);
    if (held) this.#chunks.settle(held.chunk, held.index);
  }

  /** Puts a message back in its place at the client's request; this counts toward the delivery limit. */
  requeue(lease: number): void {
    const held = this.#letGo(lease);
    if (held) this.#putBack(held.chunk, held.index, true);
  }

  /** Moves a message to the dead-letter queue; a message of that queue is dropped. */
  discard(turn: Turn, lease: number): void {
    const held = this.#letGo(lease);
    if (!held) return;
    const message = this.#chunks.messageAt(held.chunk, held.index);
    this.#chunks.settle(held.chunk, held.index);
    this.drops.add('rejected');
    if (message) this.#host.deadLetter(turn, this.key, message, 'rejected');
  }

  /** Puts the messages that are leased to matching owners back in their place. */
  release(holds: (owner: Owner) => boolean): void {
    for (const chunk of new Set(this.#leases.values())) {
      for (const { id, owner } of [...chunk.held()]) {
        if (!holds(owner)) continue;
        this.#leases.delete(id);
        this.#putBack(chunk, chunk.find(id) ?? 0, false);
      }
    }
  }

  /** Drops all waiting messages; returns their number. Leased messages stay leased. */
  purge(): number {
    const count = this.readyCount;
    for (let first = this.#chunks.firstWaiting(); first; first = this.#chunks.firstWaiting()) {
      this.#chunks.settle(first.chunk, first.index);
    }
    return count;
  }

  /** Drops expired messages that wait, a limited number per call. */
  dropAged(turn: Turn): void {
    for (let left: number = VHOST_BOUNDS.agedPerLook; left > 0 && this.#isFirstAged(turn.now); left--) {
      this.dropOldest('age');
    }
  }

  /** Drops the first waiting message; false if there is none. */
  dropOldest(reason: 'limit' | 'age'): boolean {
    const first = this.#chunks.firstWaiting();
    if (!first) return false;
    this.#chunks.settle(first.chunk, first.index);
    this.drops.add(reason);
    return true;
  }

  /** Drops the oldest chunk as a whole. Its leased messages can no longer be put back. */
  dropOldestChunk(reason: 'limit' | 'age'): boolean {
    const oldest = this.#chunks.first();
    if (!oldest) return false;
    for (const { id } of oldest.held()) this.#leases.delete(id);
    this.drops.add(reason, oldest.open);
    this.#chunks.drop(oldest);
    return true;
  }

  #letGo(lease: number): { chunk: Chunk; index: number } | undefined {
    const chunk = this.#leases.get(lease);
    const index = chunk?.find(lease);
    this.#leases.delete(lease);
    return chunk && index !== undefined ? { chunk, index } : undefined;
  }

  #putBack(chunk: Chunk, index: number, isRequeued: boolean): void {
    this.#chunks.putBack(chunk, index, isRequeued);
    this.#sinceMs = 0;
  }

  #store(turn: Turn, chunk: Chunk): void {
    const { rows } = this.#host;
    const isNew = chunk.storedCount === 0;
    const lines = chunk.takeLines();
    const head = {
      position: chunk.position,
      created_at_ms: chunk.createdAtMs,
      event_count: chunk.count,
      byte_count: chunk.bytes,
    };
    if (isNew) rows.insertChunk(turn, this.key, head, chunk.state(), lines);
    else rows.updateChunk(turn, head, chunk.state(), lines);
    this.#chunks.unsaved.delete(chunk);
  }

  #isOver(): boolean {
    const { maxReady, maxOpen, maxBytes } = this.#limits;
    const { ready, open, bytes } = this.#chunks;
    return ready > maxReady || open > maxOpen || bytes > maxBytes;
  }

  #isFirstAged(now: number): boolean {
    const { oldestMs } = this;
    if (oldestMs === undefined || now - oldestMs < this.#limits.maxAgeMs) return false;
    const first = this.#chunks.firstWaiting();
    const message = first && this.#chunks.messageAt(first.chunk, first.index);
    this.#sinceMs = message?.createdAtMs ?? 0;
    return !message || this.#isAged(message, now);
  }

  /** A partner queue may have a TTL of 0: its messages can then be delivered only in the millisecond of their turn. */
  #isAged(message: Message, now: number): boolean {
    return now - message.createdAtMs >= Math.max(1, this.#limits.maxAgeMs);
  }
}
