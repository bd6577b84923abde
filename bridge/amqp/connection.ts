/**
 * One AMQP client: byte stream, handshake, channels and link. When the link closes, the client is closed with
 * 320 and the reason; when the client disconnects, the link closes. Works with any duplex stream, so tests need
 * no socket.
 *   header ─► handshake ─► running ─► closing (close sent, waits for close-ok) ─► closed
 */
import type { Duplex } from 'node:stream';
import { LIMIT } from '../../protocol/limits.ts';
import type { VhostLinkDown } from '../../protocol/link/vhost.ts';
import type { ConnectionEvents } from '../connection-report.ts';
import { type LinkReason, linkReason, type OwnReason } from '../reasons.ts';
import type { ChannelHost } from './channel.ts';
import { Channels } from './channels.ts';
import { Handshake, PROTOCOL_HEADER, type Session, type VhostDial } from './handshake.ts';
import { Heartbeat } from './heartbeat.ts';
import { Inflow } from './inflow.ts';
import { linkEnd, Uplink } from './uplink.ts';
import { connectionError, INTERNAL_ERROR, SilentClose, toAmqpError } from './wire/amqp-error.ts';
import { encodeMethod, type Fields, METHOD, readMethod } from './wire/codec.ts';
import { FRAME, type Frame } from './wire/frame-reader.ts';
import { unexpectedFrame } from './wire/octets.ts';
import { Output } from './wire/output.ts';

type State = 'header' | 'handshake' | 'running' | 'closing' | 'closed';

export class AmqpConnection {
  readonly #stream: Duplex;
  readonly #output: Output;
  readonly #events: ConnectionEvents;
  readonly #inflow: Inflow;
  readonly #handshake: Handshake;
  #state: State = 'header';
  #why = 'client closed';
  #reason: OwnReason = 'client';
  #linkReason: LinkReason | undefined;
  #isBusy = false;
  #uplink: Uplink | undefined;
  #channels: Channels | undefined;
  #session: Session | undefined;
  /** True after connection.blocked was sent, until connection.unblocked is sent. */
  #isBlocked = false;
  readonly #heartbeat: Heartbeat;
  #timer: NodeJS.Timeout;

  constructor(stream: Duplex, dial: VhostDial, events: ConnectionEvents) {
    this.#stream = stream;
    this.#events = events;
    this.#output = new Output(stream);
    this.#output.beforeFlush = () => {
      this.#uplink?.endTurn();
      this.#channels?.flushConfirms();
    };
    this.#output.onDrained = () => this.#proceed();
    this.#handshake = new Handshake(dial, (method, fields) => this.#sendMethod(method, fields));
    this.#inflow = new Inflow({
      begin: () => {
        this.#state = 'handshake';
        this.#handshake.begin();
      },
      refuse: () => {
        this.#why = 'the protocol header is not that of AMQP 0-9-1';
        this.#reason = 'protocol';
        this.#output.write(PROTOCOL_HEADER);
        this.#output.end();
      },
    });
    this.#heartbeat = new Heartbeat({
      isPaused: () => stream.isPaused(),
      stuckMs: (now) => this.#output.stuckMs(now),
      write: (bytes) => this.#write(bytes),
      gone: (why) => this.#destroy(why, 'timeout'),
      beat: (now) => this.#channels?.endOverdue(now),
    });
    this.#timer = setTimeout(() => this.#destroy('handshake timeout', 'timeout'), LIMIT.amqpHandshakeMs);
    stream.on('data', (chunk: Buffer) => this.#receive(chunk));
    stream.on('error', (error) => this.#destroy(error.message));
    for (const end of ['end', 'close']) stream.on(end, () => this.#destroy(this.#why));
  }

  /** Closes the client with 320, so that it reconnects. */
  shutdown(reason: string): void {
    this.#fail(connectionError(320, reason), reason, 'stopping');
  }

  // bytes and frames from the client

  #receive(chunk: Buffer): void {
    this.#heartbeat.noteRead();
    if (this.#state === 'closed') return;
    const broken = this.#inflow.push(chunk);
    this.#proceed();
    if (broken) this.#fail(broken.error);
  }

  /** Handles frames until one has to wait; while it waits, the bridge does not read the socket. */
  #proceed(): void {
    for (let frame = this.#nextFrame(); frame; frame = this.#nextFrame()) {
      try {
        this.#take(frame);
      } catch (error) {
        this.#fail(error);
      }
    }
    if (this.#state === 'running') this.#updateBlocked();
    if (this.#isHeld()) this.#stream.pause();
    else if (this.#stream.isPaused()) {
      this.#heartbeat.noteRead();
      this.#stream.resume();
    }
  }

  #nextFrame(): Frame | undefined {
    return this.#isHeld() ? undefined : this.#inflow.next();
  }

  /** Whether frames wait: for a handshake step, for answers, or for a client that does not read. */
  #isHeld(): boolean {
    if (this.#state === 'closing' || this.#state === 'closed') return false;
    if (this.#output.waitingBytes >= LIMIT.amqpOutputBytes) return true;
    // A channel with an unanswered request handles no frames, so that replies are in the order of the requests.
    if (this.#channels?.isBusy(this.#inflow.nextChannel)) return true;
    return this.#isBusy || this.#uplink?.isFull === true;
  }

  #take(frame: Frame): void {
    if (frame.type === FRAME.heartbeat && frame.channel === 0) return;
    switch (this.#state) {
      case 'handshake':
        this.#takeInHandshake(frame);
        return;
      case 'running':
        if (frame.type === FRAME.heartbeat) throw unexpectedFrame(frame);
        if (frame.channel === 0) this.#takeWhileRunning(frame);
        else this.#channels?.take(frame);
        return;
      case 'closing':
        this.#takeWhileClosing(frame);
    }
  }

  #takeInHandshake(frame: Frame): void {
    if (frame.type !== FRAME.method || frame.channel !== 0) throw unexpectedFrame(frame);
    const { method, fields } = readMethod(frame.payload);
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
    this.#uplink = new Uplink(session.link, () => this.#output.schedule(), this.#events);
    this.#session = session;
    this.#channels = new Channels(this.#hostOf(session), this.#uplink, session.channelMax);
    this.#inflow.frameMax = session.frameMax;
    this.#heartbeat.start(session.heartbeatSeconds);
    this.#events.opened({ username: session.username, vhost: session.vhost });
    session.link.attach({
      frames: (frames) => this.#receiveFromLink(frames),
      closed: (code, reason) => {
        if (this.#state === 'running') this.#linkReason = linkReason(code);
        this.#fail(linkEnd(code), `link ${code} ${reason}`);
      },
    });
  }

  /** The connection as its channels see it. */
  #hostOf(session: Session): ChannelHost {
    return {
      ...session,
      hearsOfCancels: session.can('consumer_cancel_notify'),
      write: (bytes, onTaken) => this.#write(bytes, onTaken),
      schedule: () => this.#output.schedule(),
      published: () => this.#events.published(1),
      refused: () => this.#events.answered('refused', 1),
      closed: (channel) => this.#channels?.closed(channel),
    };
  }

  /** Handles a frame on channel 0 of a running connection. */
  #takeWhileRunning(frame: Frame): void {
    if (frame.type !== FRAME.method) throw unexpectedFrame(frame);
    const { method, fields } = readMethod(frame.payload);
    if (method === METHOD.connectionClose) this.#leave();
    else if (method === METHOD.connectionUpdateSecret) this.#updateSecret(fields);
    else throw connectionError(504, 'unexpected method in connection state running', method);
  }

  /** The secret of a key never changes: any other secret is rejected, with the text that RabbitMQ uses. */
  #updateSecret({ newSecret }: Fields): void {
    if (!this.#session?.isOwnSecret(newSecret as Buffer)) {
      const what = 'New secret was refused by one of the backends';
      throw connectionError(530, what, METHOD.connectionUpdateSecret);
    }
    this.#sendMethod(METHOD.connectionUpdateSecretOk, {});
  }

  /**
   * To a client that supports it, sends connection.blocked when the maximum number of its publishes is held, and
   * connection.unblocked when fewer are held.
   */
  #updateBlocked(): void {
    const isBlocked = this.#uplink?.isHoldFull === true;
    if (isBlocked === this.#isBlocked || !this.#session?.can('connection.blocked')) return;
    this.#isBlocked = isBlocked;
    if (isBlocked) this.#sendMethod(METHOD.connectionBlocked, { reason: 'publish rate' });
    else this.#sendMethod(METHOD.connectionUnblocked, {});
  }

  #takeWhileClosing(frame: Frame): void {
    if (frame.type !== FRAME.method || frame.channel !== 0) return;
    const method = frame.payload.readUInt32BE(0);
    if (method === METHOD.connectionClose) this.#sendMethod(METHOD.connectionCloseOk, {});
    if (method === METHOD.connectionCloseOk || method === METHOD.connectionClose) this.#output.end();
  }

  /**
   * Handles connection.close: answers earlier requests and publishes, and then sends close-ok. Waits longer
   * for these answers if publishes are held.
   */
  #leave(): void {
    this.#isBusy = true;
    const isHolding = this.#uplink?.isHolding === true;
    this.#timer = setTimeout(() => this.#closeOk(), isHolding ? LIMIT.amqpLeaveMs : LIMIT.amqpCloseMs);
    this.#uplink?.whenAnswered(() => this.#closeOk());
  }

  #closeOk(): void {
    if (this.#state !== 'running' && this.#state !== 'handshake') return;
    clearTimeout(this.#timer);
    this.#sendMethod(METHOD.connectionCloseOk, {});
    this.#enterClosing();
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
    const isOutcome = frame.kind === 'stored' || frame.kind === 'unstored';
    // A confirm is sent before the acknowledgement event that arrived with it; until then confirms are collected.
    if (!isOutcome) this.#channels?.flushConfirms();
    if (frame.kind === 'deliver') {
      this.#events.delivered(1);
      this.#channels?.deliver(frame);
      return;
    }
    if (frame.kind === 'cancelled') this.#channels?.cancelled(frame);
    else this.#uplink?.take(frame);
  }

  #write(bytes: Buffer, onTaken?: () => void): void {
    this.#heartbeat.noteWrite();
    this.#output.write(bytes, onTaken);
  }

  // ends

  #fail(cause: unknown, why?: string, reason?: OwnReason): void {
    if (this.#state === 'closing' || this.#state === 'closed') return;
    const error = this.#state === 'handshake' ? this.#handshake.endOf(cause) : cause;
    if (error instanceof SilentClose) {
      this.#why = error.message;
      this.#reason = 'protocol';
      this.#enterClosing(error.delayMs);
      if (error.delayMs === 0) this.#destroy(error.message);
      return;
    }
    const close = toAmqpError(error);
    this.#reason = reason ?? (close.code === INTERNAL_ERROR ? 'fault' : 'protocol');
    this.#why = why ?? (error instanceof Error ? error.message : String(error));
    if (this.#state === 'header') {
      this.#destroy(this.#why);
      return;
    }
    this.#channels?.flushConfirms();
    this.#sendMethod(METHOD.connectionClose, close.fields);
    this.#enterClosing();
  }

  /** Closes the link and gives the client `timeoutMs` to end the stream. */
  #enterClosing(timeoutMs = LIMIT.amqpCloseMs): void {
    this.#uplink?.flush();
    this.#state = 'closing';
    this.#letGo();
    this.#stream.resume();
    this.#timer = setTimeout(() => this.#destroy(this.#why), timeoutMs);
  }

  #destroy(why: string, reason = this.#reason): void {
    if (this.#state === 'closed') return;
    if (this.#state !== 'closing') this.#uplink?.flush();
    this.#state = 'closed';
    this.#letGo();
    this.#stream.destroy();
    if (this.#uplink) this.#events.closed(why, this.#linkReason ?? reason);
    else {
      const first = this.#why === 'client closed' ? why : this.#why;
      this.#events.refused({ reason, why: first, ...this.#handshake.refusal });
    }
  }

  #letGo(): void {
    clearTimeout(this.#timer);
    this.#heartbeat.stop();
    this.#handshake.abandon();
    this.#channels?.abandon();
    this.#uplink?.close();
  }

  #sendMethod(method: number, fields: Fields): void {
    this.#write(encodeMethod(method, 0, fields));
  }
}
