/**
 * The chunks of a queue, in order: how much is open in them, where the first that waits is, and which of them have
 * their lines in memory: what is being filled or read, and what storage does not have.
 */
import type { Chunk } from './chunk.ts';
import type { Message } from './rows.ts';

export class ChunkList {
  readonly #read: (position: number) => string | undefined;
  #chunks: Chunk[];
  /** The chunk that events are being handed out of. */
  #reading: Chunk | undefined;
  /** No chunk before it has an event that waits. */
  #firstWaiting: Chunk | undefined;
  #ready = 0;
  #messages = 0;
  #bytes = 0;
  /** Stored chunks of which nothing is left: deleted with the next write. */
  #emptied: number[] = [];

  /** `read`: the lines of a chunk's row. */
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

  /** Events that wait. */
  get ready(): number {
    return this.#ready;
  }

  /** Events that are not settled, and what they are reckoned to take. */
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

  /** The first event that waits. */
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

  /** Of an event that waits, or whose lease was let go. */
  settle(chunk: Chunk, index: number): void {
    const waiting = chunk.waiting;
    this.#change(chunk, () => chunk.settle(index));
    this.#ready -= waiting - chunk.waiting;
    if (chunk.open === 0) this.#forget(chunk);
  }

  /** A chunk goes as a whole. */
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

  /** Keeps count of what is open. */
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
