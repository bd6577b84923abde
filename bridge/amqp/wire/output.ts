/**
 * The output of a socket. All parts of one event-loop turn are sent in one write, and only one write runs at
 * a time. A callback per part reports when the socket has accepted it, so the bridge knows how many bytes
 * wait and whether the client reads.
 */
import type { Duplex } from 'node:stream';

/**
 * One write has about this size at most, so that a client which reads slowly still finishes writes and does
 * not look stuck.
 */
const WRITE_BYTES = 64 * 1024;

interface Part {
  bytes: Buffer;
  onTaken: (() => void) | undefined;
}

export class Output {
  readonly #stream: Duplex;
  #parts: Part[] = [];
  #waitingBytes = 0;
  #isWriting = false;
  #isEnding = false;
  #scheduled = false;
  #progressMs = Date.now();
  /** Called before each flush, to add coalesced frames. */
  beforeFlush: () => void = () => {};
  /** Called when the socket has accepted bytes. */
  onDrained: () => void = () => {};

  constructor(stream: Duplex) {
    this.#stream = stream;
  }

  /** Bytes that the socket has not accepted yet. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** Milliseconds since the socket last accepted bytes; 0 if no bytes wait. */
  stuckMs(now: number): number {
    return this.#waitingBytes === 0 ? 0 : now - this.#progressMs;
  }

  /** Queues bytes for the next flush. `onTaken` runs when the socket has accepted them. */
  write(bytes: Buffer, onTaken?: () => void): void {
    if (this.#isEnding) return;
    if (this.#waitingBytes === 0) this.#progressMs = Date.now();
    this.#parts.push({ bytes, onTaken });
    this.#waitingBytes += bytes.length;
    this.schedule();
  }

  /** Schedules a flush at the end of this turn, once. */
  schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => this.flush());
  }

  flush(): void {
    this.#scheduled = false;
    this.beforeFlush();
    this.#writeNext();
  }

  end(): void {
    this.#isEnding = true;
    this.flush();
    if (!this.#isWriting) this.#endStream();
  }

  #writeNext(): void {
    if (this.#isWriting || this.#parts.length === 0) return;
    if (this.#stream.destroyed || this.#stream.writableEnded) return;
    const parts = this.#takeParts();
    const whole = wholeOf(parts);
    const bytes = whole.length;
    this.#isWriting = true;
    this.#stream.write(whole, (error) => {
      this.#isWriting = false;
      if (error) return;
      this.#waitingBytes -= bytes;
      this.#progressMs = Date.now();
      for (const { onTaken } of parts) onTaken?.();
      this.#writeNext();
      if (this.#isEnding && !this.#isWriting) this.#endStream();
      this.onDrained();
    });
  }

  /** Removes and returns the parts for the next write: all, or `WRITE_BYTES` and up to one part more. */
  #takeParts(): Part[] {
    if (this.#waitingBytes <= WRITE_BYTES) {
      const all = this.#parts;
      this.#parts = [];
      return all;
    }
    let count = 0;
    for (let bytes = 0; count < this.#parts.length && bytes < WRITE_BYTES; count++) {
      bytes += this.#parts[count]?.bytes.length ?? 0;
    }
    return this.#parts.splice(0, count);
  }

  #endStream(): void {
    if (!this.#stream.destroyed && !this.#stream.writableEnded) this.#stream.end();
  }
}

function wholeOf(parts: readonly Part[]): Buffer {
  const [first] = parts;
  if (parts.length === 1 && first) return first.bytes;
  const buffers: Buffer[] = [];
  for (const part of parts) buffers.push(part.bytes);
  return Buffer.concat(buffers);
}
