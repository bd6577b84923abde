/**
 * A queue of chunks, with many events per row: the telemetry queue and the partner queues. An event that is
 * delivered and acknowledged at once is never written. The turn that adds an event stores it if it still
 * waits, or if its site keeps it until then. Events that stay leased, and changed states of stored events,
 * are stored shortly after (`flush`). So a crash can lose only telemetry that is being delivered [C-6.4].
 * Stored lines leave memory unless their chunk is being filled or read; the states of the events stay in
 * memory.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { Turn } from '../../object/turn.ts';
import { VHOST_BOUNDS } from '../bounds.ts';
import { Chunk } from './chunk.ts';
import { ChunkList } from './chunk-list.ts';
import { Drops } from './drops.ts';
import type { DeadLetter, KeptBy, Lease, Queue, QueueKey, QueueLimits, Taken } from './queue.ts';
import type { ChunkRow, ChunkState, Message, Owner, QueueRows } from './rows.ts';

export interface ChunkedQueueParts {
  key: QueueKey;
  rows: QueueRows;
  /** The stored chunks, in order. */
  chunks: readonly ChunkRow[];
  /** The position of a new chunk; positions are unique across all queues. */
  nextPosition(): number;
  limits: QueueLimits;
  /** true: limits drop single waiting messages, the oldest first. false: whole chunks, leased messages included. */
  isExact: boolean;
  deadLetter: DeadLetter;
  isConnected(connectionId: string): boolean;
}

export class ChunkedQueue implements Queue {
  readonly key: QueueKey;
  readonly drops: Drops;
  readonly #parts: ChunkedQueueParts;
  readonly #limits: QueueLimits;
  readonly #leases = new Map<number, Chunk>();
  readonly #chunks: ChunkList;
  /** No waiting message is older than this. */
  #sinceMs = 0;

  constructor(parts: ChunkedQueueParts) {
    const { key, rows, isConnected } = parts;
    this.key = key;
    this.#parts = parts;
    this.#limits = parts.limits;
    this.drops = new Drops(rows.counts(key));
    const chunks = parts.chunks.map(({ state, queue: _queue, ...head }) =>
      Chunk.restore(head, state === null ? undefined : (JSON.parse(state) as ChunkState)),
    );
    for (const chunk of chunks) {
      for (const { lease, owner } of [...chunk.held()]) {
        if (isConnected(owner.connectionId)) this.#leases.set(lease, chunk);
        else chunk.putBack(chunk.find(lease) ?? 0, false);
      }
    }
    this.#chunks = new ChunkList(chunks, (position) => rows.chunkData(position));
  }

  get readyCount(): number {
    return this.#chunks.ready;
  }

  /** Messages that are not settled, and their estimated bytes. */
  get open(): { messages: number; bytes: number } {
    return this.#chunks.open;
  }

  get maxAgeMs(): number {
    return this.#limits.maxAgeMs;
  }

  /** Whether an event that a site keeps must be stored by the end of this turn. */
  get mustStore(): boolean {
    return this.#chunks.all().some((chunk) => chunk.isKept && !chunk.isStored);
  }

  /** Whether a leased event, or a changed state of a stored one, is not stored yet. */
  get hasUnstored(): boolean {
    return this.#chunks.all().some(needsStoring);
  }

  get isDirty(): boolean {
    return this.drops.isChanged || this.#chunks.hasEmptied;
  }

  /** If chunks are dropped as a whole, a chunk expires only when the last of its events may have expired. */
  get oldestMs(): number | undefined {
    if (this.#parts.isExact) {
      const first = this.#chunks.firstWaiting();
      return first && Math.max(first.chunk.createdAtMs, this.#sinceMs);
    }
    const [oldest] = this.#chunks.all();
    return oldest && oldest.createdAtMs + VHOST_BOUNDS.chunkMs;
  }

  get openSinceMs(): number | undefined {
    return this.#chunks.firstOpen()?.createdAtMs;
  }

  /** `keptBy`: the message is stored in this turn, because its site then deletes it. */
  push(turn: Turn, message: Message, keptBy?: KeptBy): void {
    const chars = JSON.stringify(message).length + 1;
    let tail = this.#chunks.all().at(-1);
    const isFull =
      tail !== undefined &&
      (tail.chars + chars > VHOST_BOUNDS.chunkChars || turn.now - tail.createdAtMs >= VHOST_BOUNDS.chunkMs);
    if (!tail?.messages || (isFull && tail.open > 0)) {
      tail = new Chunk(this.#parts.nextPosition(), turn.now);
      this.#chunks.append(tail);
    }
    this.#chunks.add(tail, message);
    tail.chars += chars;
    if (keptBy) tail.isKept = true;
    this.#enforceLimits(turn.now);
  }

  take(turn: Turn, owner: Owner, lease: number | null): Taken | undefined {
    this.#enforceLimits(turn.now);
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
        this.#parts.deadLetter(turn, this.key, message, 'delivery_limit');
        continue;
      }
      const redelivered = chunk.wasOut(index);
      if (lease === null) {
        this.#chunks.settle(chunk, index);
      } else {
        chunk.lease(index, lease, owner);
        this.#leases.set(lease, chunk);
        this.#chunks.leased();
      }
      return { message, redelivered };
    }
  }

  acknowledge(lease: number): void {
    const held = this.#letGo(lease);
    if (held) this.#chunks.settle(held.chunk, held.index);
  }

  requeue(_turn: Turn, lease: number): void {
    const held = this.#letGo(lease);
    if (held) this.#chunks.putBack(held.chunk, held.index, true);
  }

  discard(turn: Turn, lease: number): void {
    const held = this.#letGo(lease);
    if (!held) return;
    const message = this.#chunks.messageAt(held.chunk, held.index);
    this.#chunks.settle(held.chunk, held.index);
    this.drops.add('rejected');
    if (message) this.#parts.deadLetter(turn, this.key, message, 'rejected');
  }

  release(_turn: Turn, holds: (owner: Owner) => boolean): void {
    for (const chunk of new Set(this.#leases.values())) {
      for (const { lease, owner } of [...chunk.held()]) {
        if (!holds(owner)) continue;
        this.#leases.delete(lease);
        this.#chunks.putBack(chunk, chunk.find(lease) ?? 0, false);
      }
    }
  }

  *leases(): Iterable<Lease> {
    for (const chunk of this.#chunks.all()) {
      for (const { lease, owner } of chunk.held()) yield { id: lease, owner };
    }
  }

  /** Called last in a turn: stores waiting events and deletes chunks that are settled. */
  save(turn: Turn): void {
    const { rows } = this.#parts;
    for (const position of this.#chunks.takeEmptied()) rows.deleteChunk(turn, position);
    for (const chunk of this.#chunks.all()) {
      if (!chunk.isStored && (chunk.waiting > 0 || chunk.isKept)) this.#store(turn, chunk);
    }
    this.#chunks.unloadIdle();
    if (this.drops.isChanged)
      rows.setCounts(turn, { name: this.key, message_count: 0, byte_count: 0, ...this.drops.take() });
  }

  /** Stores leased events, and changed states of stored events. */
  flush(turn: Turn): void {
    for (const chunk of this.#chunks.all()) if (needsStoring(chunk)) this.#store(turn, chunk);
  }

  dropAged(turn: Turn): void {
    this.#enforceLimits(turn.now);
  }

  purge(_turn: Turn): number {
    const count = this.readyCount;
    for (let first = this.#chunks.firstWaiting(); first; first = this.#chunks.firstWaiting()) {
      this.#chunks.settle(first.chunk, first.index);
    }
    return count;
  }

  /** Drops the first waiting message; false if there is none. */
  dropOldest(reason: 'limit' | 'age'): boolean {
    const first = this.#chunks.firstWaiting();
    if (!first) return false;
    this.#chunks.settle(first.chunk, first.index);
    this.drops.add(reason);
    return true;
  }

  /** Deletes the queue from storage. */
  delete(turn: Turn): void {
    this.#parts.rows.deleteQueue(turn, this.key);
  }

  /** Drops the oldest chunk as a whole. Its leased messages can no longer be put back. */
  dropOldestChunk(reason: 'limit' | 'age'): boolean {
    const [oldest] = this.#chunks.all();
    if (!oldest) return false;
    for (const { lease } of oldest.held()) this.#leases.delete(lease);
    const { open } = oldest;
    this.#chunks.drop(oldest);
    this.drops.add(reason, open);
    return true;
  }

  #letGo(lease: number): { chunk: Chunk; index: number } | undefined {
    const chunk = this.#leases.get(lease);
    const index = chunk?.find(lease);
    this.#leases.delete(lease);
    return chunk && index !== undefined ? { chunk, index } : undefined;
  }

  #store(turn: Turn, chunk: Chunk): void {
    if (chunk.isStored && !chunk.isStateDirty) return;
    const { rows } = this.#parts;
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
    chunk.isStateDirty = false;
    chunk.isKept = false;
  }

  #enforceLimits(now: number): void {
    if (!this.#parts.isExact) this.#dropChunks(now);
    else {
      while (this.readyCount > this.#limits.maxMessages) this.dropOldest('limit');
      while (this.#isFirstAged(now)) this.dropOldest('age');
    }
  }

  #isFirstAged(now: number): boolean {
    const first = this.#chunks.firstWaiting();
    if (!first) return false;
    if (now - Math.max(first.chunk.createdAtMs, this.#sinceMs) <= this.#limits.maxAgeMs) return false;
    const message = this.#chunks.messageAt(first.chunk, first.index);
    this.#sinceMs = message?.createdAtMs ?? 0;
    return !message || this.#isAged(message, now);
  }

  /** A partner queue may have a TTL of 0: its messages then live until the end of their turn. */
  #isAged(message: Message, now: number): boolean {
    const ageMs = now - message.createdAtMs;
    return this.#parts.isExact ? ageMs > this.#limits.maxAgeMs : ageMs >= this.#limits.maxAgeMs;
  }

  #dropChunks(now: number): void {
    for (;;) {
      const [oldest] = this.#chunks.all();
      if (!oldest) return;
      const tooOld = now - oldest.createdAtMs >= this.#limits.maxAgeMs + VHOST_BOUNDS.chunkMs;
      if (!tooOld && (this.#chunks.all().length === 1 || !this.#isOver())) return;
      this.dropOldestChunk(tooOld ? 'age' : 'limit');
    }
  }

  #isOver(): boolean {
    const { messages, bytes } = this.open;
    return messages > this.#limits.maxMessages || bytes > this.#limits.maxBytes;
  }
}

function needsStoring(chunk: Chunk): boolean {
  return chunk.isStored ? chunk.isStateDirty : chunk.leased > 0;
}
