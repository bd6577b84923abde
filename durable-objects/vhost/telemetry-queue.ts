/**
 * The queue of telemetry events: memory first, many events to a row. An event that is taken and acknowledged within
 * a minute is never written; what is unsettled then is stored as a chunk, leases included. So a crash may lose up to
 * a minute of telemetry events [C-6.4], and a steady consumer costs no row at all.
 */
import { deliveryBytes } from '../../protocol/link.ts';
import {
  type DeadLetter,
  type Lease,
  limitsOf,
  MAX_DELIVERIES,
  type Queue,
  type SettleOutcome,
  type Taken,
} from './queue.ts';
import type { Message, Owner } from './schema.ts';
import type { VhostStorage } from './storage.ts';

const CHUNK_BYTES = 256 * 1024;

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
  leased: number;
  dirty: boolean;
  stored: boolean;
}

export class TelemetryQueue implements Queue {
  readonly name = 'event.telemetry';
  readonly #storage: VhostStorage;
  readonly #deadLetter: DeadLetter;
  readonly #limits = limitsOf('event.telemetry');
  readonly #leases = new Map<number, { chunk: Chunk; entry: Entry }>();
  #chunks: Chunk[];
  #lastPosition: number;
  #dropped: number;
  #droppedChanged = false;

  constructor(storage: VhostStorage, deadLetter: DeadLetter, isConnected: (connectionId: string) => boolean) {
    this.#storage = storage;
    this.#deadLetter = deadLetter;
    this.#dropped = storage.queue(this.name)?.dropped_count ?? 0;
    this.#chunks = storage.chunks().map((head) => ({
      position: head.position,
      createdAtMs: head.created_at_ms,
      entries: null,
      messages: head.message_count,
      bytes: head.byte_count,
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

  push(message: Message, now: number): void {
    let tail = this.#chunks.at(-1);
    if (!tail?.entries || tail.bytes >= CHUNK_BYTES) {
      if (tail) this.#save(tail);
      this.#lastPosition += 1;
      tail = {
        position: this.#lastPosition,
        createdAtMs: now,
        entries: [],
        messages: 0,
        bytes: 0,
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
    tail.dirty = true;
    this.#enforceLimits(now);
  }

  take(owner: Owner, lease: number | null, now: number): Taken | undefined {
    this.#enforceLimits(now);
    for (const chunk of this.#chunks) {
      if (chunk.messages === chunk.leased) continue;
      const entry = this.#load(chunk).find((candidate) => candidate.lease === null);
      if (!entry) continue;
      if (entry.deliveries >= MAX_DELIVERIES) {
        this.#remove(chunk, entry);
        this.#deadLetter(entry.message, 'delivery_limit');
        return this.take(owner, lease, now);
      }
      const taken = { message: entry.message, redelivered: entry.deliveries > 0 };
      if (lease === null) {
        this.#remove(chunk, entry);
        return taken;
      }
      entry.deliveries += 1;
      entry.lease = { id: lease, owner };
      chunk.leased += 1;
      chunk.dirty = true;
      this.#leases.set(lease, { chunk, entry });
      return taken;
    }
    return undefined;
  }

  settle(lease: number, outcome: SettleOutcome): void {
    const held = this.#leases.get(lease);
    if (!held) return;
    const { chunk, entry } = held;
    this.#putBack(lease, chunk, entry);
    if (outcome === 'requeue') return;
    this.#remove(chunk, entry);
    if (outcome === 'discard') this.#deadLetter(entry.message, 'rejected');
  }

  release(holds: (owner: Owner) => boolean): void {
    for (const [lease, { chunk, entry }] of this.#leases) {
      if (entry.lease && holds(entry.lease.owner)) this.#putBack(lease, chunk, entry);
    }
  }

  *leases(): Iterable<Lease> {
    for (const { entry } of this.#leases.values()) if (entry.lease) yield entry.lease;
  }

  get isDirty(): boolean {
    return this.#droppedChanged;
  }

  save(): void {
    if (!this.#droppedChanged) return;
    this.#droppedChanged = false;
    this.#storage.setQueueCounts(this.name, 0, 0, this.#dropped);
  }

  /** Stores what has changed. Runs inside the caller's transaction. */
  flush(): void {
    for (const chunk of this.#chunks) this.#save(chunk);
    this.#unloadIdle();
  }

  #putBack(lease: number, chunk: Chunk, entry: Entry): void {
    this.#leases.delete(lease);
    entry.lease = null;
    chunk.leased -= 1;
    chunk.dirty = true;
  }

  #remove(chunk: Chunk, entry: Entry): void {
    const entries = this.#load(chunk);
    entries.splice(entries.indexOf(entry), 1);
    chunk.messages -= 1;
    chunk.bytes -= deliveryBytes(entry.message);
    chunk.dirty = true;
    if (chunk.messages > 0) return;
    this.#chunks = this.#chunks.filter((other) => other !== chunk);
    if (chunk.stored) this.#storage.deleteChunk(chunk.position);
  }

  #load(chunk: Chunk): Entry[] {
    chunk.entries ??= JSON.parse(this.#storage.chunkData(chunk.position) ?? '[]') as Entry[];
    return chunk.entries;
  }

  #restoreLeases(chunk: Chunk, isConnected: (connectionId: string) => boolean): void {
    for (const entry of this.#load(chunk)) {
      if (!entry.lease) continue;
      if (isConnected(entry.lease.owner.connectionId)) {
        this.#leases.set(entry.lease.id, { chunk, entry });
      } else {
        entry.lease = null;
        chunk.leased -= 1;
        chunk.dirty = true;
      }
    }
  }

  #save(chunk: Chunk): void {
    if (!chunk.dirty || !chunk.entries) return;
    this.#storage.putChunk(
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

  /** Keeps in memory only what is being delivered or filled. */
  #unloadIdle(): void {
    const tail = this.#chunks.at(-1);
    for (const chunk of this.#chunks) {
      if (chunk !== tail && chunk.stored && !chunk.dirty && chunk.leased === 0) chunk.entries = null;
    }
  }

  /** Drops whole chunks from the head, never one that is being delivered. */
  #enforceLimits(now: number): void {
    const oldest = this.#chunks[0];
    if (!oldest || oldest.leased > 0 || this.#chunks.length === 1) return;
    let messages = 0;
    let bytes = 0;
    for (const chunk of this.#chunks) {
      messages += chunk.messages;
      bytes += chunk.bytes;
    }
    const tooOld = now - oldest.createdAtMs >= this.#limits.maxAgeMs;
    if (!tooOld && messages <= this.#limits.maxMessages && bytes <= this.#limits.maxBytes) return;
    this.#chunks.shift();
    if (oldest.stored) this.#storage.deleteChunk(oldest.position);
    this.#dropped += oldest.messages;
    this.#droppedChanged = true;
    this.#enforceLimits(now);
  }
}
