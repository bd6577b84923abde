/** A socket's output: what one turn produces goes out in one write, and each write tells when the socket took it. */
import type { Duplex } from 'node:stream';

export class Output {
  readonly #stream: Duplex;
  #parts: Buffer[] = [];
  #bytes = 0;
  #onTaken: (() => void)[] = [];
  #scheduled = false;
  /** Called before each flush: the place to add what is coalesced. */
  beforeFlush: () => void = () => {};

  constructor(stream: Duplex) {
    this.#stream = stream;
  }

  /** `onTaken` runs when the socket has taken these bytes. */
  write(part: Buffer, onTaken?: () => void): void {
    this.#parts.push(part);
    this.#bytes += part.length;
    if (onTaken) this.#onTaken.push(onTaken);
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
    if (this.#bytes === 0 || this.#stream.destroyed || this.#stream.writableEnded) return;
    const parts = this.#parts;
    const onTaken = this.#onTaken;
    this.#parts = [];
    this.#onTaken = [];
    const whole = parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts, this.#bytes);
    this.#bytes = 0;
    this.#stream.write(whole, (error) => {
      if (!error) for (const taken of onTaken) taken();
    });
  }

  end(): void {
    this.flush();
    if (!this.#stream.destroyed) this.#stream.end();
  }
}
