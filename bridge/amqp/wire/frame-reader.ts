/**
 * Reads frames from a byte stream: a chunk may hold a part of a frame, one frame or many. The size of a frame
 * is checked at its header, before its payload is stored. Payloads are slices of the chunk: a caller must
 * copy what it stores.
 */
import { frameError } from './octets.ts';

export const FRAME = { method: 1, header: 2, body: 3, heartbeat: 8, end: 0xce } as const;
const HEADER_BYTES = 7;
/** Bytes of a method's id. */
const METHOD_BYTES = 4;
/** Bytes of a content header without its properties: class, weight, body size. */
const CONTENT_HEADER_BYTES = 12;
/**
 * Maximum number of separately stored chunks of an incomplete frame; when it is reached, they are copied into
 * one buffer.
 */
const MAX_PARTS = 64;
/** Bytes of a frame around its payload. */
export const FRAME_OVERHEAD = 8;

export interface Frame {
  type: number;
  channel: number;
  payload: Buffer;
}

export class FrameReader {
  /** The largest payload that is accepted; small until the connection is tuned. */
  maxPayload: number;
  #rest: Buffer = Buffer.alloc(0);
  #parts: Buffer[] = [];
  /** Buffer for an incomplete frame that arrives in many chunks, allocated with the size of the frame. */
  #gathered: Buffer | undefined;
  #held = 0;
  #needed = HEADER_BYTES;

  constructor(maxPayload: number) {
    this.maxPayload = maxPayload;
  }

  /** Yields the frames that a chunk completes. Throws an AmqpError at the first invalid frame. */
  *push(chunk: Buffer): Generator<Frame> {
    if (this.#held + chunk.length < this.#needed) {
      this.#keep(chunk);
      return;
    }
    this.#parts.push(chunk);
    this.#rest = this.#takeKept();
    let offset = 0;
    try {
      for (;;) {
        const frame = this.#next(offset);
        if (!frame) return;
        offset += frame.payload.length + FRAME_OVERHEAD;
        yield frame;
      }
    } finally {
      const left = this.#rest.subarray(offset);
      this.#rest = Buffer.alloc(0);
      this.#parts = left.length > 0 ? [left] : [];
      this.#held = left.length;
      if (left.length === 0) this.#needed = HEADER_BYTES;
    }
  }

  /**
   * Stores a part of an incomplete frame. After MAX_PARTS parts it uses one buffer, so a frame that arrives
   * byte by byte does not need a buffer per byte.
   */
  #keep(chunk: Buffer): void {
    if (this.#gathered) chunk.copy(this.#gathered, this.#held);
    else this.#parts.push(chunk);
    this.#held += chunk.length;
    if (this.#gathered || this.#parts.length < MAX_PARTS) return;
    this.#gathered = Buffer.allocUnsafeSlow(this.#needed);
    Buffer.concat(this.#parts).copy(this.#gathered);
    this.#parts = [];
  }

  #takeKept(): Buffer {
    const kept = this.#gathered ? [this.#gathered.subarray(0, this.#held)] : [];
    const parts = [...kept, ...this.#parts];
    this.#gathered = undefined;
    this.#parts = [];
    return parts.length === 1 && parts[0] ? parts[0] : Buffer.concat(parts);
  }

  #next(offset: number): Frame | undefined {
    const available = this.#rest.length - offset;
    this.#needed = HEADER_BYTES;
    if (available < HEADER_BYTES) return undefined;
    const type = this.#rest.readUInt8(offset);
    const channel = this.#rest.readUInt16BE(offset + 1);
    const size = this.#rest.readUInt32BE(offset + 3);
    if (size > this.maxPayload) {
      const what = `{frame_too_large,${size},${this.maxPayload - FRAME_OVERHEAD}}`;
      throw frameError({ type, payload: Buffer.alloc(0) }, what);
    }
    this.#needed = size + FRAME_OVERHEAD;
    if (available < this.#needed) return undefined;
    const end = this.#rest.readUInt8(offset + HEADER_BYTES + size);
    const payload = this.#rest.subarray(offset + HEADER_BYTES, offset + HEADER_BYTES + size);
    if (end !== FRAME.end) throw frameError({ type, payload }, `{invalid_frame_end_marker,${end}}`);
    if (!isFrame(type, payload)) throw frameError({ type, payload }, 'unknown_frame');
    return { type, channel, payload };
  }
}

/** Whether the payload is possible for a frame of this type. */
function isFrame(type: number, payload: Buffer): boolean {
  switch (type) {
    case FRAME.method:
      return payload.length >= METHOD_BYTES;
    case FRAME.header:
      return payload.length >= CONTENT_HEADER_BYTES;
    case FRAME.heartbeat:
      return payload.length === 0;
    default:
      return type === FRAME.body;
  }
}
