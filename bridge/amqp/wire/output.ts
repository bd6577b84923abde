/**
 * A socket's output: what one turn produces goes out in one write, one write is under way at a time, and each part
 * tells when the socket took it. So what waits is known, and whether anything drains at all.
 */
import type { Duplex } from 'node:stream';

/** Parts go out together up to this: progress shows even when much waits. */
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
  /** Called before each flush: the place to add what is coalesced. */
  beforeFlush: () => void = () => {};
  /** The socket has taken something. */
  onDrained: () => void = () => {};

  constructor(stream: Duplex) {
    this.#stream = stream;
  }

  /** What the socket has not taken yet. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** For how long something waits and nothing was taken; 0 while nothing waits. */
  stuckMs(now: number): number {
    return this.#waitingBytes === 0 ? 0 : now - this.#progressMs;
  }

  /** `onTaken` runs when the socket has taken these bytes. */
  write(bytes: Buffer, onTaken?: () => void): void {
    if (this.#isEnding) return;
    if (this.#waitingBytes === 0) this.#progressMs = Date.now();
    this.#parts.push({ bytes, onTaken });
    this.#waitingBytes += bytes.length;
    this.schedule();
  }

  /** Makes sure that a flush comes at the end of this turn. */
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

  /** Mostly all there is. */
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
