/**
 * The queue of telemetry events: memory first, many events to a row. An event that is handed out and acknowledged at
 * once is never written. One that nobody took is appended in the turn that brought it, one that stays unacknowledged
 * a little later, and so is what became of those that are stored (`flush`): only what is on its way in a crash can be
 * lost [C-6.4]. Lines that are stored and not being filled or read from leave memory; what became of their events stays.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { Turn } from '../../object/turn.ts';
import { VHOST_BOUNDS } from '../bounds.ts';
import { Chunk } from './chunk.ts';
import { type DeadLetter, type Lease, limitsOf, type Queue, type Taken } from './queue.ts';
import type { ChunkState, Message, Owner, QueueRows } from './rows.ts';

export class TelemetryQueue implements Queue {
  readonly name = 'event.telemetry';
  readonly #rows: QueueRows;
  readonly #deadLetter: DeadLetter;
  readonly #limits = limitsOf('event.telemetry');
  readonly #leases = new Map<number, Chunk>();
  /** In order. */
  #chunks: Chunk[];
  /** The chunk that events are being handed out of: it alone, and the one being filled, is in memory. */
  #reading: Chunk | undefined;
  /** No chunk before it has an event that waits. */
  #firstWaiting: Chunk | undefined;
  #ready = 0;
  #messages = 0;
  #bytes = 0;
  /** Stored chunks of which nothing is left: deleted with the next write. */
  #emptied: number[] = [];
  #lastPosition: number;
  #dropped: number;
  #droppedChanged = false;

  constructor(rows: QueueRows, deadLetter: DeadLetter, isConnected: (connectionId: string) => boolean) {
    this.#rows = rows;
    this.#deadLetter = deadLetter;
    this.#dropped = rows.counts(this.name)?.dropped_count ?? 0;
    this.#chunks = rows.chunks().map(({ state, ...head }) => {
      return Chunk.restore(head, state === null ? undefined : (JSON.parse(state) as ChunkState));
    });
    this.#lastPosition = this.#chunks.at(-1)?.position ?? 0;
    for (const chunk of this.#chunks) {
      for (const { lease, owner } of [...chunk.held()]) {
        if (isConnected(owner.connectionId)) this.#leases.set(lease, chunk);
        else chunk.putBack(chunk.find(lease) ?? 0, false);
      }
      this.#ready += chunk.waiting;
      if (chunk.waiting > 0) this.#noteWaiting(chunk);
      this.#messages += chunk.open;
      this.#bytes += chunk.openBytes;
    }
  }

  get readyCount(): number {
    return this.#ready;
  }

  /** Whether storage lacks something that is handed out, or what became of something that it has. */
  get hasUnstored(): boolean {
    return this.#chunks.some(needsStoring);
  }

  get isDirty(): boolean {
    return this.#droppedChanged || this.#emptied.length > 0;
  }

  /** A chunk goes as a whole, once the last of its events may be past its age. */
  get oldestMs(): number | undefined {
    const [oldest] = this.#chunks;
    return oldest && oldest.createdAtMs + VHOST_BOUNDS.chunkMs;
  }

  push(turn: Turn, message: Message): void {
    const chars = JSON.stringify(message).length + 1;
    let tail = this.#chunks.at(-1);
    const isFull =
      tail !== undefined &&
      (tail.chars + chars > VHOST_BOUNDS.chunkChars || turn.now - tail.createdAtMs >= VHOST_BOUNDS.chunkMs);
    if (!tail?.messages || (isFull && tail.open > 0)) {
      this.#lastPosition += 1;
      tail = new Chunk(this.#lastPosition, turn.now);
      this.#chunks.push(tail);
      this.#unloadIdle();
    }
    this.#change(tail, (chunk) => chunk.add(message));
    tail.chars += chars;
    this.#ready += 1;
    this.#noteWaiting(tail);
    this.#enforceLimits(turn.now);
  }

  take(turn: Turn, owner: Owner, lease: number | null): Taken | undefined {
    this.#enforceLimits(turn.now);
    for (;;) {
      const chunk = this.#findWaiting();
      const index = chunk?.nextWaiting();
      if (!chunk || index === undefined) return undefined;
      const message = this.#messagesOf(chunk)[index];
      if (!message || turn.now - message.createdAtMs >= this.#limits.maxAgeMs) {
        this.#settle(chunk, index);
        this.#drop(1);
        continue;
      }
      if (chunk.requeues(index) >= LIMIT.deliveriesPerMessage) {
        this.#settle(chunk, index);
        this.#deadLetter(turn, message, 'delivery_limit');
        continue;
      }
      const redelivered = chunk.wasOut(index);
      if (lease === null) {
        this.#settle(chunk, index);
      } else {
        chunk.lease(index, lease, owner);
        this.#leases.set(lease, chunk);
        this.#ready -= 1;
      }
      return { message, redelivered };
    }
  }

  acknowledge(lease: number): void {
    const held = this.#letGo(lease);
    if (held) this.#settle(held.chunk, held.index);
  }

  requeue(_turn: Turn, lease: number): void {
    const held = this.#letGo(lease);
    if (held) this.#putBack(held.chunk, held.index, true);
  }

  discard(turn: Turn, lease: number): void {
    const held = this.#letGo(lease);
    if (!held) return;
    const message = this.#messagesOf(held.chunk)[held.index];
    this.#settle(held.chunk, held.index);
    if (message) this.#deadLetter(turn, message, 'rejected');
  }

  release(_turn: Turn, holds: (owner: Owner) => boolean): void {
    for (const chunk of new Set(this.#leases.values())) {
      for (const { lease, owner } of [...chunk.held()]) {
        if (!holds(owner)) continue;
        this.#leases.delete(lease);
        this.#putBack(chunk, chunk.find(lease) ?? 0, false);
      }
    }
  }

  *leases(): Iterable<Lease> {
    for (const chunk of this.#chunks) {
      for (const { lease, owner } of chunk.held()) yield { id: lease, owner };
    }
  }

  /** Last in a turn: what nobody has taken, and what is gone. */
  save(turn: Turn): void {
    for (const position of this.#emptied) this.#rows.deleteChunk(turn, position);
    this.#emptied = [];
    for (const chunk of this.#chunks) if (!chunk.isStored && chunk.waiting > 0) this.#store(turn, chunk);
    this.#unloadIdle();
    if (!this.#droppedChanged) return;
    this.#droppedChanged = false;
    const counts = { name: this.name, message_count: 0, byte_count: 0, dropped_count: this.#dropped };
    this.#rows.setCounts(turn, counts);
  }

  /** Stores what is handed out and not acknowledged, and what became of what is stored. */
  flush(turn: Turn): void {
    for (const chunk of this.#chunks) if (needsStoring(chunk)) this.#store(turn, chunk);
  }

  dropAged(turn: Turn): void {
    this.#enforceLimits(turn.now);
  }

  #letGo(lease: number): { chunk: Chunk; index: number } | undefined {
    const chunk = this.#leases.get(lease);
    const index = chunk?.find(lease);
    this.#leases.delete(lease);
    return chunk && index !== undefined ? { chunk, index } : undefined;
  }

  #putBack(chunk: Chunk, index: number, isRequeued: boolean): void {
    chunk.putBack(index, isRequeued);
    this.#ready += 1;
    this.#noteWaiting(chunk);
  }

  #noteWaiting(chunk: Chunk): void {
    if (!this.#firstWaiting || chunk.position < this.#firstWaiting.position) this.#firstWaiting = chunk;
  }

  #findWaiting(): Chunk | undefined {
    const from = this.#firstWaiting;
    if (!from || from.waiting > 0) return from;
    this.#firstWaiting = this.#chunks.find((chunk) => chunk.position > from.position && chunk.waiting > 0);
    return this.#firstWaiting;
  }

  /** Keeps count of what is open. */
  #change(chunk: Chunk, change: (chunk: Chunk) => void): void {
    const [messages, bytes] = [chunk.open, chunk.openBytes];
    change(chunk);
    this.#messages += chunk.open - messages;
    this.#bytes += chunk.openBytes - bytes;
  }

  /** Of a lease that was let go, or of one that waits. */
  #settle(chunk: Chunk, index: number): void {
    const waiting = chunk.waiting;
    this.#change(chunk, (one) => one.settle(index));
    this.#ready -= waiting - chunk.waiting;
    if (chunk.open === 0) this.#forget(chunk);
  }

  #forget(chunk: Chunk): void {
    this.#chunks = this.#chunks.filter((other) => other !== chunk);
    if (chunk.storedCount > 0) this.#emptied.push(chunk.position);
  }

  #drop(messages: number): void {
    this.#dropped += messages;
    this.#droppedChanged = true;
  }

  #messagesOf(chunk: Chunk): (Message | undefined)[] {
    if (!chunk.messages) chunk.readLines(this.#rows.chunkData(chunk.position) ?? '');
    if (this.#reading !== chunk) {
      this.#reading = chunk;
      this.#unloadIdle();
    }
    return chunk.messages ?? [];
  }

  #store(turn: Turn, chunk: Chunk): void {
    if (chunk.isStored && !chunk.isStateDirty) return;
    const isNew = chunk.storedCount === 0;
    const lines = chunk.takeLines();
    const head = {
      position: chunk.position,
      created_at_ms: chunk.createdAtMs,
      event_count: chunk.count,
      byte_count: chunk.bytes,
    };
    if (isNew) this.#rows.insertChunk(turn, head, chunk.state(), lines);
    else this.#rows.updateChunk(turn, head, chunk.state(), lines);
    chunk.isStateDirty = false;
  }

  /** In memory stays what is being filled or handed out of, and what storage does not have. */
  #unloadIdle(): void {
    const tail = this.#chunks.at(-1);
    for (const chunk of this.#chunks) {
      const isRead = chunk === this.#reading && chunk.waiting > 0;
      if (chunk !== tail && !isRead && chunk.isStored) chunk.messages = undefined;
    }
  }

  /** Drops whole chunks from the head; what is handed out of them can no longer come back. */
  #enforceLimits(now: number): void {
    for (;;) {
      const [oldest] = this.#chunks;
      if (!oldest) return;
      const tooOld = now - oldest.createdAtMs >= this.#limits.maxAgeMs + VHOST_BOUNDS.chunkMs;
      if (!tooOld && (this.#chunks.length === 1 || !this.#isOver())) return;
      for (const { lease } of oldest.held()) this.#leases.delete(lease);
      this.#ready -= oldest.waiting;
      this.#messages -= oldest.open;
      this.#bytes -= oldest.openBytes;
      if (this.#firstWaiting === oldest) this.#firstWaiting = this.#chunks[1];
      this.#forget(oldest);
      this.#drop(oldest.open);
    }
  }

  #isOver(): boolean {
    return this.#messages > this.#limits.maxMessages || this.#bytes > this.#limits.maxBytes;
  }
}

function needsStoring(chunk: Chunk): boolean {
  return chunk.isStored ? chunk.isStateDirty : chunk.leased > 0;
}
