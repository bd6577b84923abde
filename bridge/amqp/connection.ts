/**
 * One AMQP client: its byte stream, its handshake, its channels, its link. When the link closes the client is closed
 * with 320 "try again"; when the client goes the link closes. Takes any duplex stream and imports no socket.
 *
 *   header ─► handshake ─► running ─► closing (close sent, close-ok awaited) ─► closed
 */
import type { Duplex } from 'node:stream';
import { CLOSE_CODES, deliveryBytes, type VhostLinkDown } from '../../protocol/link.ts';
import { Channel, type ChannelHost } from './channel.ts';
import {
  FRAME_MAX,
  FRAME_MIN,
  Handshake,
  PROTOCOL_HEADER,
  type Session,
  type VhostDial,
} from './handshake.ts';
import { Uplink } from './uplink.ts';
import { AmqpError, connectionError, SilentClose } from './wire/amqp-error.ts';
import { decodeMethod, encodeMethod, type Fields, isKnownMethod, METHOD } from './wire/codec.ts';
import { FRAME, type Frame, FrameReader } from './wire/frame-reader.ts';
import { Output } from './wire/output.ts';

const HANDSHAKE_TIMEOUT_MS = 10_000;
const CLOSE_TIMEOUT_MS = 3_000;
const HEARTBEAT_FRAME = Buffer.from([FRAME.heartbeat, 0, 0, 0, 0, 0, 0, FRAME.end]);

/** What the process wants to know of a connection. */
export interface ConnectionEvents {
  opened(details: { username: string; vhost: string }): void;
  closed(why: string): void;
  published(count: number): void;
  delivered(count: number): void;
}

type State = 'header' | 'handshake' | 'running' | 'closing' | 'closed';

export class AmqpConnection implements ChannelHost {
  vhost = '';
  username = '';
  frameMax = FRAME_MAX;
  readonly #stream: Duplex;
  readonly #output: Output;
  readonly #events: ConnectionEvents;
  readonly #reader = new FrameReader(FRAME_MIN);
  readonly #handshake: Handshake;
  readonly #channels = new Map<number, Channel>();
  #state: State = 'header';
  #why = 'client closed';
  #header = Buffer.alloc(0);
  /** Frames that are read and not taken yet: no more than one chunk holds. */
  readonly #backlog: Frame[] = [];
  #isBusy = false;
  /** What still comes in is not read: there are no frames in it any more. */
  #isDeaf = false;
  #uplink: Uplink | undefined;
  #channelMax = 0;
  #heartbeatSeconds = 0;
  #lastReadMs = Date.now();
  #lastWriteMs = Date.now();
  #timer: NodeJS.Timeout;
  #heartbeat: NodeJS.Timeout | undefined;

  constructor(stream: Duplex, dial: VhostDial, events: ConnectionEvents) {
    this.#stream = stream;
    this.#events = events;
    this.#output = new Output(stream);
    this.#output.beforeFlush = () => this.#beforeFlush();
    this.#handshake = new Handshake(dial, (method, fields) => this.#sendMethod(method, fields));
    this.#timer = setTimeout(() => this.#destroy('handshake timeout'), HANDSHAKE_TIMEOUT_MS);
    stream.on('data', (chunk: Buffer) => this.#receive(chunk));
    stream.on('drain', () => this.#proceed());
    stream.on('error', (error) => this.#destroy(error.message));
    stream.on('end', () => this.#destroy(this.#why));
    stream.on('close', () => this.#destroy(this.#why));
  }

  /** Ends the connection for a reason of ours: 320, so that a client comes back. */
  shutdown(reason: string): void {
    this.#fail(connectionError(320, reason));
  }

  // bytes and frames from the client

  #receive(chunk: Buffer): void {
    this.#lastReadMs = Date.now();
    if (this.#state === 'closed' || this.#isDeaf) return;
    let broken: unknown;
    try {
      const rest = this.#state === 'header' ? this.#readHeader(chunk) : chunk;
      if (rest) for (const frame of this.#reader.push(rest)) this.#backlog.push(frame);
    } catch (error) {
      // No frame is found behind one that is broken.
      this.#isDeaf = true;
      broken = error;
    }
    this.#proceed();
    if (broken !== undefined) this.#fail(broken);
  }

  /** Takes frames while nothing holds them back; the socket is read no further meanwhile. */
  #proceed(): void {
    for (let frame = this.#nextFrame(); frame; frame = this.#nextFrame()) {
      try {
        this.#take(frame);
      } catch (error) {
        this.#fail(error);
      }
    }
    if (this.#isHeld()) this.#stream.pause();
    else if (this.#stream.isPaused()) this.#stream.resume();
  }

  #nextFrame(): Frame | undefined {
    return this.#isHeld() ? undefined : this.#backlog.shift();
  }

  /** A handshake step under way, too much unanswered, or a client that does not read what it asked for. */
  #isHeld(): boolean {
    if (this.#state === 'closing' || this.#state === 'closed') return false;
    return this.#isBusy || this.#uplink?.isFull === true || this.#stream.writableNeedDrain;
  }

  /** What follows the protocol header, once it is whole and right. */
  #readHeader(chunk: Buffer): Buffer | undefined {
    this.#header = Buffer.concat([this.#header, chunk]);
    const seen = Math.min(this.#header.length, PROTOCOL_HEADER.length);
    if (!this.#header.subarray(0, seen).equals(PROTOCOL_HEADER.subarray(0, seen))) {
      this.#why = 'another protocol';
      this.#isDeaf = true;
      this.#header = Buffer.alloc(0);
      this.#output.write(PROTOCOL_HEADER);
      this.#output.end();
      return undefined;
    }
    if (seen < PROTOCOL_HEADER.length) return undefined;
    this.#state = 'handshake';
    this.#handshake.begin();
    const rest = this.#header.subarray(PROTOCOL_HEADER.length);
    this.#header = Buffer.alloc(0);
    return rest;
  }

  #take(frame: Frame): void {
    if (frame.type === FRAME.heartbeat) return;
    switch (this.#state) {
      case 'handshake':
        this.#takeInHandshake(frame);
        return;
      case 'running':
        this.#takeInChannel(frame);
        return;
      case 'closing':
        this.#takeWhileClosing(frame);
    }
  }

  #takeInHandshake(frame: Frame): void {
    if (frame.type !== FRAME.method || frame.channel !== 0) {
      throw new SilentClose('no method on channel 0 in the handshake');
    }
    const { method, fields } = readMethod(frame);
    if (method === METHOD.connectionClose) {
      this.#closeOk();
      return;
    }
    this.#isBusy = true;
    this.#handshake
      .take(method, fields)
      .then((session) => {
        if (session && this.#state === 'handshake') this.#run(session);
      })
      .catch((error: unknown) => this.#fail(error))
      .finally(() => {
        this.#isBusy = false;
        if (this.#state !== 'closed') this.#proceed();
      });
  }

  #run(session: Session): void {
    clearTimeout(this.#timer);
    this.#state = 'running';
    this.#uplink = new Uplink(session.link, () => this.#output.schedule());
    this.vhost = session.vhost;
    this.username = session.username;
    this.frameMax = session.frameMax;
    this.#channelMax = session.channelMax;
    this.#reader.maxPayload = session.frameMax;
    this.#startHeartbeat(session.heartbeatSeconds);
    this.#events.opened({ username: session.username, vhost: session.vhost });
    session.link.attach({
      frames: (frames) => this.#receiveFromLink(frames),
      closed: (code, reason) => this.#linkClosed(code, reason),
    });
  }

  #takeInChannel(frame: Frame): void {
    if (frame.channel === 0) {
      this.#takeOnConnection(frame);
      return;
    }
    if (frame.channel > this.#channelMax) {
      throw connectionError(504, `channel number ${frame.channel} is above the maximum ${this.#channelMax}`);
    }
    const channel = this.#channels.get(frame.channel);
    if (!channel) {
      this.#openChannel(frame);
      return;
    }
    try {
      if (frame.type === FRAME.header) channel.takeHeader(frame.payload);
      else if (frame.type === FRAME.body) channel.takeBody(frame.payload);
      else channel.takeMethod(frame.payload.readUInt32BE(0), frame.payload.subarray(4));
    } catch (error) {
      if (!(error instanceof AmqpError) || error.severity === 'connection') throw error;
      channel.fail(error);
    }
  }

  #openChannel(frame: Frame): void {
    const method = frame.type === FRAME.method ? frame.payload.readUInt32BE(0) : 0;
    // A close or close-ok may cross ours.
    if (method === METHOD.channelCloseOk) return;
    if (method !== METHOD.channelOpen) throw connectionError(504, "expected 'channel.open'", method);
    if (!this.#uplink) return;
    this.#channels.set(frame.channel, new Channel(frame.channel, this, this.#uplink));
    this.write(encodeMethod(METHOD.channelOpenOk, frame.channel, { channelId: Buffer.alloc(0) }));
  }

  #takeOnConnection(frame: Frame): void {
    if (frame.type !== FRAME.method) {
      throw connectionError(505, 'expected method frame, got non method frame instead');
    }
    const { method } = readMethod(frame);
    if (method === METHOD.connectionClose) this.#closeOk();
    else if (method === METHOD.connectionUpdateSecret) throw connectionError(540, 'update-secret', method);
    else throw connectionError(504, 'unexpected method in connection state running', method);
  }

  #takeWhileClosing(frame: Frame): void {
    if (frame.type !== FRAME.method || frame.channel !== 0) return;
    const method = frame.payload.readUInt32BE(0);
    if (method === METHOD.connectionClose) this.#sendMethod(METHOD.connectionCloseOk, {});
    if (method === METHOD.connectionCloseOk || method === METHOD.connectionClose) this.#output.end();
  }

  #closeOk(): void {
    this.#sendMethod(METHOD.connectionCloseOk, {});
    this.#enterClosing();
    this.#output.end();
  }

  // frames from the object

  #receiveFromLink(frames: readonly VhostLinkDown[]): void {
    try {
      for (const frame of frames) this.#takeFromLink(frame);
    } catch (error) {
      this.#fail(error);
    }
    this.#proceed();
  }

  #takeFromLink(frame: VhostLinkDown): void {
    if (frame.kind === 'deliver') {
      this.#deliver(frame);
      return;
    }
    this.#uplink?.take(frame);
    // A confirm goes out before the acknowledgement event that came with it.
    if (frame.kind === 'stored' || frame.kind === 'unstored') this.#flushConfirms();
  }

  #deliver(frame: Extract<VhostLinkDown, { kind: 'deliver' }>): void {
    this.#events.delivered(1);
    const channel = this.#channels.get(frame.channel);
    if (channel) channel.deliver(frame.tag, frame.delivery);
    else this.#uplink?.drained(deliveryBytes(frame.delivery));
  }

  #linkClosed(code: number, reason: string): void {
    const texts: Record<number, string> = {
      [CLOSE_CODES.revoked]: 'the API key was revoked',
      [CLOSE_CODES.expired]: 'the API key has expired',
    };
    this.#fail(
      connectionError(320, texts[code] ?? 'the service was interrupted, try again'),
      `link ${code} ${reason}`,
    );
  }

  // what channels ask for

  write(bytes: Buffer, onTaken?: () => void): void {
    this.#lastWriteMs = Date.now();
    this.#output.write(bytes, onTaken);
  }

  schedule(): void {
    this.#output.schedule();
  }

  published(): void {
    this.#events.published(1);
  }

  closed(channel: number): void {
    this.#channels.delete(channel);
  }

  #beforeFlush(): void {
    this.#uplink?.flush();
    this.#flushConfirms();
  }

  #flushConfirms(): void {
    for (const channel of this.#channels.values()) channel.flushConfirms();
  }

  // heartbeats

  /** Sent at half the interval when nothing else was; a client silent for three intervals is gone. */
  #startHeartbeat(seconds: number): void {
    this.#heartbeatSeconds = seconds;
    if (seconds === 0) return;
    this.#heartbeat = setInterval(() => this.#beat(), seconds * 500);
  }

  #beat(): void {
    const now = Date.now();
    const intervalMs = this.#heartbeatSeconds * 1_000;
    if (!this.#stream.isPaused() && now - this.#lastReadMs >= 3 * intervalMs) {
      this.#destroy('missed heartbeats');
      return;
    }
    if (now - this.#lastWriteMs >= intervalMs / 2 - 50) this.write(HEARTBEAT_FRAME);
  }

  // ends

  #fail(error: unknown, why?: string): void {
    if (this.#state === 'closing' || this.#state === 'closed') return;
    if (error instanceof SilentClose) {
      this.#why = error.message;
      this.#enterClosing(error.delayMs);
      if (error.delayMs === 0) this.#destroy(error.message);
      return;
    }
    const close = toAmqpError(error);
    this.#why = why ?? (error instanceof Error ? error.message : String(error));
    if (this.#state === 'header') {
      this.#destroy(this.#why);
      return;
    }
    this.#flushConfirms();
    this.#sendMethod(METHOD.connectionClose, {
      replyCode: close.code,
      replyText: close.text,
      classId: close.classId,
      methodId: close.methodId,
    });
    this.#enterClosing();
  }

  /** Nothing more reaches the object; the socket gets a while for its goodbye. */
  #enterClosing(timeoutMs = CLOSE_TIMEOUT_MS): void {
    this.#uplink?.flush();
    this.#state = 'closing';
    clearTimeout(this.#timer);
    clearInterval(this.#heartbeat);
    this.#handshake.abandon();
    this.#uplink?.close();
    this.#stream.resume();
    this.#timer = setTimeout(() => this.#destroy(this.#why), timeoutMs);
  }

  #destroy(why: string): void {
    if (this.#state === 'closed') return;
    const wasRunning = this.#uplink !== undefined;
    if (this.#state !== 'closing') this.#uplink?.flush();
    this.#state = 'closed';
    clearTimeout(this.#timer);
    clearInterval(this.#heartbeat);
    this.#handshake.abandon();
    this.#uplink?.close();
    this.#stream.destroy();
    this.#events.closed(wasRunning || this.#why === 'client closed' ? why : this.#why);
  }

  #sendMethod(method: number, fields: Fields): void {
    this.write(encodeMethod(method, 0, fields));
  }
}

/** Arguments that end before they should are the client's fault; anything else that is unexpected is ours. */
function toAmqpError(error: unknown): AmqpError {
  if (error instanceof AmqpError) return error;
  return error instanceof RangeError
    ? connectionError(501, 'cannot decode')
    : connectionError(541, 'internal error');
}

function readMethod(frame: Frame): { method: number; fields: Fields } {
  const method = frame.payload.readUInt32BE(0);
  if (!isKnownMethod(method)) throw new SilentClose(`unknown method ${method}`);
  return { method, fields: decodeMethod(method, frame.payload.subarray(4)) };
}
