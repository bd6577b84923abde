/**
 * Checks what the bridge writes against the protocol: whole frames, methods that decode, contents without
 * interruption.
 */
import { decodeMethod, decodeProperties, type Fields, METHOD } from '../../bridge/amqp/wire/codec.ts';

const MAX_PAYLOAD = 131_072 - 8;
const INTERNAL_ERROR = 541;

export interface BridgeMethod {
  channel: number;
  method: number;
  fields: Fields;
}

/** Throws at the first byte that is not valid AMQP, and at an internal error of the bridge. */
export class OutputCheck {
  #rest: Buffer = Buffer.alloc(0);
  /**
   * Content in progress: its channel and how many body bytes are missing (undefined until its header has
   * arrived).
   */
  #content: { channel: number; missing: number | undefined } | undefined;

  /** Whether the output ends with a whole frame and a whole content. */
  get isWhole(): boolean {
    return this.#rest.length === 0 && this.#content === undefined;
  }

  /** Returns the methods in the chunk. */
  push(chunk: Buffer): BridgeMethod[] {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const methods: BridgeMethod[] = [];
    let at = 0;
    while (bytes.length - at >= 8) {
      const size = bytes.readUInt32BE(at + 3);
      if (size > MAX_PAYLOAD) throw new Error(`the bridge wrote a frame of ${size} bytes`);
      if (bytes.length - at < size + 8) break;
      if (bytes.readUInt8(at + 7 + size) !== 0xce)
        throw new Error('the bridge wrote a frame without its end byte');
      const method = this.#take(
        bytes.readUInt8(at),
        bytes.readUInt16BE(at + 1),
        bytes.subarray(at + 7, at + 7 + size),
      );
      if (method) methods.push(method);
      at += size + 8;
    }
    this.#rest = bytes.subarray(at);
    return methods;
  }

  #take(type: number, channel: number, payload: Buffer): BridgeMethod | undefined {
    if (type === 8 && channel === 0 && payload.length === 0) return undefined;
    if (this.#content) {
      this.#takeContent(this.#content, type, channel, payload);
      return undefined;
    }
    if (type !== 1) throw new Error(`the bridge wrote a frame of type ${type} outside a content`);
    const method = payload.readUInt32BE(0);
    const fields = decodeMethod(method, payload.subarray(4));
    if (fields.replyCode === INTERNAL_ERROR) throw new Error(`internal error: ${JSON.stringify(fields)}`);
    if (method === METHOD.basicDeliver || method === METHOD.basicGetOk)
      this.#content = { channel, missing: undefined };
    return { channel, method, fields };
  }

  #takeContent(
    content: { channel: number; missing: number | undefined },
    type: number,
    channel: number,
    payload: Buffer,
  ): void {
    const isExpected = channel === content.channel && type === (content.missing === undefined ? 2 : 3);
    if (!isExpected)
      throw new Error(`the bridge wrote a frame of type ${type} on channel ${channel} inside a content`);
    if (content.missing === undefined) {
      decodeProperties(payload.subarray(12));
      content.missing = Number(payload.readBigUInt64BE(4));
    } else content.missing -= payload.length;
    if (content.missing < 0) throw new Error('the bridge wrote a longer body than it announced');
    if (content.missing === 0) this.#content = undefined;
  }
}
