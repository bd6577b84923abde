/**
 * Input from a client: first the protocol header, then frames, which are queued until the connection handles
 * them.
 */
import { LIMIT } from '../../protocol/limits.ts';
import { PROTOCOL_HEADER } from './handshake.ts';
import { type Frame, FrameReader } from './wire/frame-reader.ts';

export interface InflowHost {
  /** Called when the protocol header is complete and valid. */
  begin(): void;
  /** Called when the header is that of another protocol. */
  refuse(): void;
}

export class Inflow {
  readonly #host: InflowHost;
  readonly #reader = new FrameReader(LIMIT.amqpFrameBytesMin);
  #header: Buffer | undefined = Buffer.alloc(0);
  /** Frames that were read and not handled yet; at most those of one chunk. */
  readonly #backlog: Frame[] = [];
  /**
   * True after an invalid frame or header: further input is ignored, because it is not known where the next
   * frame begins.
   */
  #isDeaf = false;

  constructor(host: InflowHost) {
    this.#host = host;
  }

  /** Sets the negotiated frame size for the following frames. */
  set frameMax(bytes: number) {
    this.#reader.maxPayload = bytes;
  }

  /** The channel of the next queued frame; undefined if the queue is empty. */
  get nextChannel(): number | undefined {
    return this.#backlog[0]?.channel;
  }

  /** Removes and returns the next queued frame. */
  next(): Frame | undefined {
    return this.#backlog.shift();
  }

  /** Adds bytes. Returns the error if they contain an invalid frame; all later bytes are then ignored. */
  push(chunk: Buffer): { error: unknown } | undefined {
    if (this.#isDeaf) return undefined;
    try {
      const rest = this.#header ? this.#readHeader(this.#header, chunk) : chunk;
      if (rest) for (const frame of this.#reader.push(rest)) this.#backlog.push(frame);
      return undefined;
    } catch (error) {
      this.#isDeaf = true;
      return { error };
    }
  }

  /**
   * Reads the protocol header: calls `begin` once it is complete, or `refuse` if it is not valid. Returns the bytes after
   * it; undefined before that.
   */
  #readHeader(before: Buffer, chunk: Buffer): Buffer | undefined {
    const header = Buffer.concat([before, chunk]);
    const seen = Math.min(header.length, PROTOCOL_HEADER.length);
    if (!header.subarray(0, seen).equals(PROTOCOL_HEADER.subarray(0, seen))) {
      this.#isDeaf = true;
      this.#header = undefined;
      this.#host.refuse();
      return undefined;
    }
    this.#header = header;
    if (seen < PROTOCOL_HEADER.length) return undefined;
    this.#header = undefined;
    this.#host.begin();
    return header.subarray(PROTOCOL_HEADER.length);
  }
}
