/** What comes in from a client: first the protocol header, then frames, kept until the connection takes them. */
import { LIMIT } from '../../protocol/limits.ts';
import { PROTOCOL_HEADER } from './handshake.ts';
import { type Frame, FrameReader } from './wire/frame-reader.ts';

export interface InflowHost {
  /** The protocol header is whole and right. */
  begin(): void;
  /** It is another protocol's. */
  refuse(): void;
}

export class Inflow {
  readonly #host: InflowHost;
  readonly #reader = new FrameReader(LIMIT.amqpFrameBytesMin);
  #header: Buffer | undefined = Buffer.alloc(0);
  /** Frames that are read and not taken yet: no more than one chunk holds. */
  readonly #backlog: Frame[] = [];
  /** What still comes in is not read: there are no frames in it any more. */
  #isDeaf = false;

  constructor(host: InflowHost) {
    this.#host = host;
  }

  /** As it was tuned, from here on. */
  set frameMax(bytes: number) {
    this.#reader.maxPayload = bytes;
  }

  /** The channel of the next frame that waits; undefined when none does. */
  get nextChannel(): number | undefined {
    return this.#backlog[0]?.channel;
  }

  /** The next frame that waits. */
  next(): Frame | undefined {
    return this.#backlog.shift();
  }

  /** Takes bytes in. The error is what broke: no frame is found behind it. */
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

  /** What follows the protocol header, once it is whole and right. */
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
