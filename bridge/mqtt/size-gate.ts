/**
 * Limits for connections before the MQTT engine reads them, because Aedes has no such limits. Reads only the
 * fixed headers of packets. Closes a connection if a packet is too large or has a malformed length, if the
 * first packet is not CONNECT or a later one is, or if CONNECT does not arrive completely in time.
 */
import { Duplex } from 'node:stream';
import { LIMIT } from '../../protocol/limits.ts';
import type { OwnReason } from '../reasons.ts';

const CONNECT = 1;
/**
 * How often `onHeld` is called while reading is stopped; shorter than the shortest keep-alive, which is one
 * second.
 */
const HELD_BEAT_MS = 500;

/** `bytes`: the length of a packet that is too large. */
type Verdict = { ok: true } | { ok: false; why: string; bytes?: number };

/** Follows packet boundaries through a byte stream without storing the bytes. */
export class PacketGate {
  #sawConnect = false;
  #connectDone = false;
  /** Bytes of the current packet that are still to come. */
  #remaining = 0;
  /** The length bytes of a header read so far; undefined between headers. */
  #header: { type: number; length: number; shift: number } | undefined;

  /** Whether the first packet, a CONNECT, has arrived completely. */
  get connectDone(): boolean {
    return this.#connectDone;
  }

  take(chunk: Buffer): Verdict {
    let offset = 0;
    while (offset < chunk.length) {
      if (this.#remaining > 0) {
        const step = Math.min(this.#remaining, chunk.length - offset);
        this.#remaining -= step;
        offset += step;
        if (this.#remaining === 0) this.#connectDone = true;
        continue;
      }
      const verdict = this.#takeHeaderByte(chunk.readUInt8(offset));
      if (!verdict.ok) return verdict;
      offset += 1;
    }
    return { ok: true };
  }

  #takeHeaderByte(byte: number): Verdict {
    if (!this.#header) {
      const type = byte >>> 4;
      if (!this.#sawConnect && type !== CONNECT) return { ok: false, why: 'the first packet is not CONNECT' };
      if (this.#sawConnect && type === CONNECT) return { ok: false, why: 'a second CONNECT' };
      this.#header = { type, length: 0, shift: 0 };
      return { ok: true };
    }
    const header = this.#header;
    header.length += (byte & 0x7f) * 2 ** header.shift;
    header.shift += 7;
    if ((byte & 0x80) !== 0) {
      return header.shift >= 28 ? { ok: false, why: 'a malformed packet length' } : { ok: true };
    }
    const limit = header.type === CONNECT ? LIMIT.mqttConnectBytes : LIMIT.mqttPacketBytes;
    if (header.length > limit)
      return {
        ok: false,
        why: `packet of ${header.length} bytes exceeds the limit of ${limit}`,
        bytes: header.length,
      };
    this.#sawConnect = true;
    this.#remaining = header.length;
    this.#header = undefined;
    return { ok: true };
  }
}

/** The stream that the MQTT engine reads and writes: the client's stream behind a PacketGate. */
export class SizeGate extends Duplex {
  readonly #stream: Duplex;
  readonly #gate = new PacketGate();
  readonly #timer: NodeJS.Timeout;
  #lastByteMs = Date.now();
  #isHeld = false;
  #heldBeat: NodeJS.Timeout | undefined;
  /** Whether the MQTT engine accepts more bytes. */
  #isWanted = true;
  /** Called once, when the client next sends bytes. */
  #onBytes: (() => void) | undefined;

  constructor(stream: Duplex, onRefused: (why: string, reason: OwnReason, bytes?: number) => void) {
    super({ allowHalfOpen: false });
    this.#stream = stream;
    this.#timer = setTimeout(() => {
      onRefused('no CONNECT in time', 'timeout');
      this.destroy();
    }, LIMIT.mqttConnectMs);
    stream.on('data', (chunk: Buffer) => {
      this.#noteBytes();
      const verdict = this.#gate.take(chunk);
      if (!verdict.ok) {
        onRefused(verdict.why, 'protocol', verdict.bytes);
        this.destroy();
        return;
      }
      if (this.#gate.connectDone) clearTimeout(this.#timer);
      this.#isWanted = this.push(chunk);
      if (!this.#isWanted || this.#isHeld) stream.pause();
    });
    stream.on('end', () => this.push(null));
    stream.on('error', (error) => this.destroy(error));
    stream.on('close', () => this.destroy());
    stream.on('drain', () => this.#drained());
  }

  /** Stops or resumes reading the client; calls `onHeld` repeatedly while reading is stopped. */
  hold(isHeld: boolean, onHeld: () => void): void {
    clearInterval(this.#heldBeat);
    this.#isHeld = isHeld;
    if (isHeld) {
      this.#stream.pause();
      this.#heldBeat = setInterval(onHeld, HELD_BEAT_MS);
    } else if (this.#isWanted) this._read();
  }

  /** Milliseconds since the client last sent anything; 0 while the bridge does not read it. */
  quietMs(now: number): number {
    return this.#stream.isPaused() ? 0 : now - this.#lastByteMs;
  }

  /** Calls `onBytes` once, when the client next sends anything. */
  untilBytes(onBytes: () => void): void {
    this.#onBytes = onBytes;
  }

  #noteBytes(): void {
    this.#lastByteMs = Date.now();
    const onBytes = this.#onBytes;
    this.#onBytes = undefined;
    onBytes?.();
  }

  #onDrain: (() => void) | undefined;

  #drained(): void {
    const resume = this.#onDrain;
    this.#onDrain = undefined;
    resume?.();
  }

  override _read(): void {
    // The time in which the bridge did not read does not count as quiet.
    if (this.#stream.isPaused()) this.#lastByteMs = Date.now();
    this.#isWanted = true;
    if (!this.#isHeld) this.#stream.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    if (this.#stream.destroyed) done(new Error('cannot send to the client: it has disconnected'));
    else if (this.#stream.write(chunk)) done();
    else this.#onDrain = done;
  }

  override _final(done: () => void): void {
    this.#stream.end();
    done();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    clearTimeout(this.#timer);
    clearInterval(this.#heldBeat);
    this.#stream.destroy();
    this.#drained();
    done(error);
  }
}
