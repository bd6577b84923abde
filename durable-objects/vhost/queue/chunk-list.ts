/**
 * The chunks of a queue in order, with the number of open events and the first waiting one. Only the chunk
 * that is being filled, the chunk that is being read, and chunks that are not stored have their lines in
 * memory.
 */
import type { Chunk } from './chunk.ts';
import type { Message } from './rows.ts';

export class ChunkList {
  readonly #read: (position: number) => string | undefined;
  #chunks: Chunk[];
  /** The chunk from which events are delivered. */
  #reading: Chunk | undefined;
  /** No earlier chunk has a waiting event. */
  #firstWaiting: Chunk | undefined;
  #ready = 0;
  #messages = 0;
  #bytes = 0;
  /** Positions of stored chunks without open events, which the next save deletes. */
  #emptied: number[] = [];

  /** `read`: reads the lines of a chunk from its row. */
  constructor(chunks: Chunk[], read: (position: number) => string | undefined) {
    this.#chunks = chunks;
    this.#read = read;
    for (const chunk of chunks) {
      this.#ready += chunk.waiting;
      if (chunk.waiting > 0) this.#noteWaiting(chunk);
      this.#messages += chunk.open;
      this.#bytes += chunk.openBytes;
    }
  }

  all(): readonly Chunk[] {
    return this.#chunks;
  }

  /** Number of waiting events. */
  get ready(): number {
    return this.#ready;
  }

  /** Events that are not settled, and their estimated bytes. */
  get open(): { messages: number; bytes: number } {
    return { messages: this.#messages, bytes: this.#bytes };
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
    this.#chunks.push(chunk);
    this.unloadIdle();
  }

  add(chunk: Chunk, message: Message): void {
    this.#change(chunk, () => chunk.add(message));
    this.#ready += 1;
    this.#noteWaiting(chunk);
  }

  /** The first waiting event. */
  firstWaiting(): { chunk: Chunk; index: number } | undefined {
    const from = this.#firstWaiting;
    if (from && from.waiting === 0) {
      this.#firstWaiting = this.#chunks.find((chunk) => chunk.position > from.position && chunk.waiting > 0);
    }
    const chunk = this.#firstWaiting;
    const index = chunk?.nextWaiting();
    return chunk && index !== undefined ? { chunk, index } : undefined;
  }

  /** The first event that is not settled. */
  firstOpen(): Message | undefined {
    const [chunk] = this.#chunks;
    return chunk && this.messageAt(chunk, chunk.firstOpen());
  }

  leased(): void {
    this.#ready -= 1;
  }

  putBack(chunk: Chunk, index: number, isRequeued: boolean): void {
    chunk.putBack(index, isRequeued);
    this.#ready += 1;
    this.#noteWaiting(chunk);
  }

  /** Settles an event that waits, or whose lease has been removed. */
  settle(chunk: Chunk, index: number): void {
    const waiting = chunk.waiting;
    this.#change(chunk, () => chunk.settle(index));
    this.#ready -= waiting - chunk.waiting;
    if (chunk.open === 0) this.#forget(chunk);
  }

  /** Drops a whole chunk. */
  drop(chunk: Chunk): void {
    this.#ready -= chunk.waiting;
    this.#messages -= chunk.open;
    this.#bytes -= chunk.openBytes;
    if (this.#firstWaiting === chunk) {
      this.#firstWaiting = this.#chunks.find((other) => other.position > chunk.position);
    }
    this.#forget(chunk);
  }

  messageAt(chunk: Chunk, index: number): Message | undefined {
    if (!chunk.messages) chunk.readLines(this.#read(chunk.position) ?? '');
    if (this.#reading !== chunk) {
      this.#reading = chunk;
      this.unloadIdle();
    }
    return chunk.messages?.[index];
  }

  unloadIdle(): void {
    const tail = this.#chunks.at(-1);
    for (const chunk of this.#chunks) {
      const isRead = chunk === this.#reading && chunk.waiting > 0;
      if (chunk !== tail && !isRead && chunk.isStored) chunk.messages = undefined;
    }
  }

  #noteWaiting(chunk: Chunk): void {
    if (!this.#firstWaiting || chunk.position < this.#firstWaiting.position) this.#firstWaiting = chunk;
  }

  /** Changes a chunk and updates the count of open events. */
  #change(chunk: Chunk, change: () => void): void {
    const [messages, bytes] = [chunk.open, chunk.openBytes];
    change();
    this.#messages += chunk.open - messages;
    this.#bytes += chunk.openBytes - bytes;
  }

  #forget(chunk: Chunk): void {
    this.#chunks = this.#chunks.filter((other) => other !== chunk);
    if (chunk.storedCount > 0) this.#emptied.push(chunk.position);
  }
}
