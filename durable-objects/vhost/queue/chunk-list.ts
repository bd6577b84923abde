/**
 * The chunks of a queue in order, with their totals, the first waiting message, and the chunks whose stored
 * state is out of date. Only three kinds of chunks have their lines in memory: the one that is being filled,
 * the one that is being read, and those that are not stored.
 */
import type { Chunk } from './chunk.ts';
import type { Message, Owner, Safety } from './rows.ts';

export class ChunkList {
  readonly #read: (position: number) => string | undefined;
  readonly #chunks = new Set<Chunk>();
  #tail: Chunk | undefined;
  /** The chunk from which messages are delivered. */
  #reading: Chunk | undefined;
  /** The chunk from which the search for a waiting message starts; no earlier chunk has one. */
  #firstWaiting: Chunk | undefined;
  /** Chunks with lines in memory. */
  readonly #loaded = new Set<Chunk>();
  /** Chunks with messages or states that are not stored. */
  readonly unsaved = new Set<Chunk>();
  /** Positions of stored chunks that were settled completely or dropped; the next save deletes their rows. */
  #emptied: number[] = [];
  /** Number of waiting messages. */
  ready = 0;
  /** Number of messages that are not settled. */
  open = 0;
  /** Bytes of all chunks. */
  bytes = 0;

  /** `read`: reads the lines of a chunk from its row. */
  constructor(chunks: Iterable<Chunk>, read: (position: number) => string | undefined) {
    this.#read = read;
    for (const chunk of chunks) {
      this.append(chunk);
      this.ready += chunk.waiting;
      this.open += chunk.open;
      this.bytes += chunk.bytes;
      if (chunk.waiting > 0) this.#noteWaiting(chunk);
    }
  }

  all(): Iterable<Chunk> {
    return this.#chunks;
  }

  first(): Chunk | undefined {
    return this.#chunks.values().next().value;
  }

  /** The chunk to which messages are appended; undefined if its lines are only in storage. */
  get tail(): Chunk | undefined {
    return this.#tail?.messages && this.#tail;
  }

  get hasEmptied(): boolean {
    return this.#emptied.length > 0;
  }

  takeEmptied(): number[] {
    const emptied = this.#emptied;
    this.#emptied = [];
    return emptied;
  }

  append(chunk: Chunk): void {
    this.#chunks.add(chunk);
    this.#tail = chunk;
    if (chunk.messages) this.#loaded.add(chunk);
    this.unloadIdle();
  }

  add(chunk: Chunk, message: Message, safety: Safety | undefined): void {
    const before = chunk.bytes;
    chunk.add(message, safety);
    this.bytes += chunk.bytes - before;
    this.ready += 1;
    this.open += 1;
    this.unsaved.add(chunk);
    this.#noteWaiting(chunk);
  }

  /** The first waiting message. */
  firstWaiting(): { chunk: Chunk; index: number } | undefined {
    const from = this.#firstWaiting;
    if (from?.waiting === 0) this.#firstWaiting = this.#nextWaiting(from.position);
    const chunk = this.#firstWaiting;
    const index = chunk?.nextWaiting();
    return chunk && index !== undefined ? { chunk, index } : undefined;
  }

  lease(chunk: Chunk, index: number, lease: number, owner: Owner): void {
    chunk.lease(index, lease, owner);
    this.ready -= 1;
    this.unsaved.add(chunk);
  }

  putBack(chunk: Chunk, index: number, isRequeued: boolean): void {
    chunk.putBack(index, isRequeued);
    this.ready += 1;
    this.unsaved.add(chunk);
    this.#noteWaiting(chunk);
  }

  settle(chunk: Chunk, index: number): void {
    const { waiting } = chunk;
    chunk.settle(index);
    this.ready -= waiting - chunk.waiting;
    this.open -= 1;
    this.unsaved.add(chunk);
    if (chunk.open === 0) this.drop(chunk);
  }

  /** Drops a whole chunk. */
  drop(chunk: Chunk): void {
    this.ready -= chunk.waiting;
    this.open -= chunk.open;
    this.bytes -= chunk.bytes;
    this.#chunks.delete(chunk);
    this.#loaded.delete(chunk);
    this.unsaved.delete(chunk);
    if (this.#tail === chunk) this.#tail = undefined;
    if (this.#firstWaiting === chunk) this.#firstWaiting = this.#nextWaiting(chunk.position);
    if (chunk.storedCount > 0) this.#emptied.push(chunk.position);
  }

  messageAt(chunk: Chunk, index: number): Message | undefined {
    if (!chunk.messages) {
      chunk.readLines(this.#read(chunk.position) ?? '');
      this.#loaded.add(chunk);
    }
    if (this.#reading !== chunk) {
      this.#reading = chunk;
      this.unloadIdle();
    }
    return chunk.messages?.[index];
  }

  unloadIdle(): void {
    for (const chunk of this.#loaded) {
      const isRead = chunk === this.#reading && chunk.waiting > 0;
      if (chunk === this.#tail || isRead || chunk.unstoredCount > 0) continue;
      chunk.messages = undefined;
      this.#loaded.delete(chunk);
    }
  }

  #noteWaiting(chunk: Chunk): void {
    if (!this.#firstWaiting || chunk.position < this.#firstWaiting.position) this.#firstWaiting = chunk;
  }

  #nextWaiting(after: number): Chunk | undefined {
    for (const chunk of this.#chunks) if (chunk.position > after && chunk.waiting > 0) return chunk;
    return undefined;
  }
}
