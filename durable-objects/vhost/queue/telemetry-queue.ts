/**
 * The queue of telemetry events: memory first, many events to a row. An event that is taken and acknowledged within
 * a minute is never written; what is unsettled then is stored as a chunk, leases included. So a crash may lose up to
 * a minute of telemetry events [C-6.4], and a steady consumer costs no row at all.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import { deliveryBytes } from '../../../protocol/link/vhost.ts';
import type { Turn } from '../../object/turn.ts';
import { type DeadLetter, type Lease, limitsOf, type Queue, type Taken } from './queue.ts';
import type { Message, Owner, QueueRows } from './rows.ts';

/** A chunk takes no more than this of a row, and events of no more than an hour: it is dropped as a whole. */
const CHUNK_CHARS = 256 * 1024;
const CHUNK_MS = 3_600_000;
/** An entry's JSON beside its message: deliveries, lease, owner. */
const ENTRY_CHARS = 220;

interface Entry {
  message: Message;
  deliveries: number;
  lease: Lease | null;
}

interface Chunk {
  position: number;
  createdAtMs: number;
  /** Unsettled events; null while they are only in storage. */
  entries: Entry[] | null;
  messages: number;
  bytes: number;
  /** What its row will hold, while it is being filled. */
  chars: number;
  leased: number;
  dirty: boolean;
  stored: boolean;
}

export class TelemetryQueue implements Queue {
  readonly name = 'event.telemetry';
  readonly #rows: QueueRows;
  readonly #deadLetter: DeadLetter;
  readonly #limits = limitsOf('event.telemetry');
  readonly #leases = new Map<number, { chunk: Chunk; owner: Owner }>();
  #chunks: Chunk[];
  /** Stored chunks of which nothing is left: deleted with the next write. */
  #emptied: number[] = [];
  #lastPosition: number;
  #dropped: number;
  #droppedChanged = false;

  constructor(rows: QueueRows, deadLetter: DeadLetter, isConnected: (connectionId: string) => boolean) {
    this.#rows = rows;
    this.#deadLetter = deadLetter;
    this.#dropped = rows.counts(this.name)?.dropped_count ?? 0;
    this.#chunks = rows.chunks().map((head) => ({
      position: head.position,
      createdAtMs: head.created_at_ms,
      entries: null,
      messages: head.message_count,
      bytes: head.byte_count,
      chars: CHUNK_CHARS,
      leased: head.leased_count,
      dirty: false,
      stored: true,
    }));
    this.#lastPosition = this.#chunks.at(-1)?.position ?? 0;
    for (const chunk of this.#chunks) if (chunk.leased > 0) this.#restoreLeases(chunk, isConnected);
  }

  get readyCount(): number {
    return this.#chunks.reduce((count, chunk) => count + chunk.messages, 0) - this.#leases.size;
  }

  /** Whether something would be lost if the object stopped now. */
  get hasUnstored(): boolean {
    return this.#chunks.some((chunk) => chunk.dirty);
  }

  get isDirty(): boolean {
    return this.#droppedChanged || this.#emptied.length > 0;
  }

  push(turn: Turn, message: Message): void {
    const { now } = turn;
    let tail = this.#chunks.at(-1);
    const chars = JSON.stringify(message).length + ENTRY_CHARS;
    const isFull =
      tail !== undefined && (tail.chars + chars > CHUNK_CHARS || now - tail.createdAtMs >= CHUNK_MS);
    if (!tail?.entries || (isFull && tail.messages > 0)) {
      if (tail) this.#save(turn, tail);
      this.#lastPosition += 1;
      tail = {
        position: this.#lastPosition,
        createdAtMs: now,
        entries: [],
        messages: 0,
        bytes: 0,
        chars: 0,
        leased: 0,
        dirty: true,
        stored: false,
      };
      this.#chunks.push(tail);
      this.#unloadIdle();
    }
    tail.entries?.push({ message, deliveries: 0, lease: null });
    tail.messages += 1;
    tail.bytes += deliveryBytes(message);
    tail.chars += chars;
    tail.dirty = true;
    this.#enforceLimits(now);
  }

  take(turn: Turn, owner: Owner, lease: number | null): Taken | undefined {
    const { now } = turn;
    this.#enforceLimits(now);
    for (const chunk of [...this.#chunks]) {
      if (chunk.messages === chunk.leased) continue;
      for (const entry of this.#load(chunk).filter((candidate) => candidate.lease === null)) {
        if (now - entry.message.createdAtMs >= this.#limits.maxAgeMs) {
          this.#remove(chunk, entry);
          this.#drop(1);
          continue;
        }
        if (entry.deliveries >= LIMIT.deliveriesPerMessage) {
          this.#remove(chunk, entry);
          this.#deadLetter(turn, entry.message, 'delivery_limit');
          continue;
        }
        const taken = { message: entry.message, redelivered: entry.deliveries > 0 };
        if (lease === null) this.#remove(chunk, entry);
        else this.#lease(chunk, entry, { id: lease, owner });
        return taken;
      }
    }
    return undefined;
  }

  acknowledge(lease: number): void {
    const held = this.#leases.get(lease);
    const entry = held && this.#putBack(lease, held.chunk);
    if (entry) this.#remove(held.chunk, entry);
  }

  requeue(_turn: Turn, lease: number): void {
    const held = this.#leases.get(lease);
    if (held) this.#putBack(lease, held.chunk);
  }

  discard(turn: Turn, lease: number): void {
    const held = this.#leases.get(lease);
    const entry = held && this.#putBack(lease, held.chunk);
    if (!entry) return;
    this.#remove(held.chunk, entry);
    this.#deadLetter(turn, entry.message, 'rejected');
  }

  release(_turn: Turn, holds: (owner: Owner) => boolean): void {
    for (const [lease, { chunk, owner }] of this.#leases) if (holds(owner)) this.#putBack(lease, chunk);
  }

  *leases(): Iterable<Lease> {
    for (const [id, { owner }] of this.#leases) yield { id, owner };
  }

  save(turn: Turn): void {
    for (const position of this.#emptied) this.#rows.deleteChunk(turn, position);
    this.#emptied = [];
    if (!this.#droppedChanged) return;
    this.#droppedChanged = false;
    this.#rows.setCounts(turn, {
      name: this.name,
      message_count: 0,
      byte_count: 0,
      dropped_count: this.#dropped,
    });
  }

  /** Stores what has changed. */
  flush(turn: Turn): void {
    for (const chunk of this.#chunks) this.#save(turn, chunk);
    this.#unloadIdle();
  }

  #lease(chunk: Chunk, entry: Entry, lease: Lease): void {
    const { connectionId, channel, tag } = lease.owner;
    entry.deliveries += 1;
    entry.lease = { id: lease.id, owner: { connectionId, channel, tag } };
    chunk.leased += 1;
    chunk.dirty = true;
    this.#leases.set(lease.id, { chunk, owner: entry.lease.owner });
  }

  #putBack(lease: number, chunk: Chunk): Entry | undefined {
    this.#leases.delete(lease);
    const entry = this.#load(chunk).find((candidate) => candidate.lease?.id === lease);
    if (!entry) return undefined;
    entry.lease = null;
    chunk.leased -= 1;
    chunk.dirty = true;
    return entry;
  }

  #remove(chunk: Chunk, entry: Entry): void {
    const entries = this.#load(chunk);
    entries.splice(entries.indexOf(entry), 1);
    chunk.messages -= 1;
    chunk.bytes -= deliveryBytes(entry.message);
    chunk.dirty = true;
    if (chunk.messages === 0) this.#forget(chunk);
  }

  #forget(chunk: Chunk): void {
    this.#chunks = this.#chunks.filter((other) => other !== chunk);
    if (chunk.stored) this.#emptied.push(chunk.position);
  }

  #drop(messages: number): void {
    this.#dropped += messages;
    this.#droppedChanged = true;
  }

  #load(chunk: Chunk): Entry[] {
    chunk.entries ??= JSON.parse(this.#rows.chunkData(chunk.position) ?? '[]') as Entry[];
    return chunk.entries;
  }

  #restoreLeases(chunk: Chunk, isConnected: (connectionId: string) => boolean): void {
    for (const entry of this.#load(chunk)) {
      if (!entry.lease) continue;
      if (isConnected(entry.lease.owner.connectionId)) {
        this.#leases.set(entry.lease.id, { chunk, owner: entry.lease.owner });
      } else {
        entry.lease = null;
        chunk.leased -= 1;
        chunk.dirty = true;
      }
    }
  }

  #save(turn: Turn, chunk: Chunk): void {
    if (!chunk.dirty || !chunk.entries) return;
    this.#rows.putChunk(
      turn,
      {
        position: chunk.position,
        message_count: chunk.messages,
        byte_count: chunk.bytes,
        leased_count: chunk.leased,
        created_at_ms: chunk.createdAtMs,
      },
      JSON.stringify(chunk.entries),
    );
    chunk.dirty = false;
    chunk.stored = true;
  }

  /** Keeps in memory only what is being delivered or filled: what is all handed out is read back when it is settled. */
  #unloadIdle(): void {
    const tail = this.#chunks.at(-1);
    for (const chunk of this.#chunks) {
      const isWaiting = chunk.leased === 0 || chunk.leased === chunk.messages;
      if (chunk !== tail && chunk.stored && !chunk.dirty && isWaiting) chunk.entries = null;
    }
  }

  /** Drops whole chunks from the head; what is handed out of them can no longer come back. */
  #enforceLimits(now: number): void {
    for (;;) {
      const [oldest] = this.#chunks;
      if (!oldest || this.#chunks.length === 1) return;
      const messages = this.#chunks.reduce((sum, chunk) => sum + chunk.messages, 0);
      const bytes = this.#chunks.reduce((sum, chunk) => sum + chunk.bytes, 0);
      const tooOld = now - oldest.createdAtMs >= this.#limits.maxAgeMs;
      if (!tooOld && messages <= this.#limits.maxMessages && bytes <= this.#limits.maxBytes) return;
      for (const [lease, { chunk }] of this.#leases) if (chunk === oldest) this.#leases.delete(lease);
      this.#forget(oldest);
      this.#drop(oldest.messages);
    }
  }
}
