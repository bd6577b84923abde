/**
 * One random client session against the bridge's AMQP engine, without a socket. At its end the connection is
 * closed or still answers, no error is internal to the bridge, and no link stays open. Throws otherwise.
 */
import { duplexPair } from 'node:stream';
import { AmqpConnection } from '../../bridge/amqp/connection.ts';
import { PROTOCOL_HEADER } from '../../bridge/amqp/handshake.ts';
import { encodeMethod, METHOD } from '../../bridge/amqp/wire/codec.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { SCOPES_HEADER, VHOST_HEADER } from '../../protocol/link/proof.ts';
import { API_KEY_SCOPES } from '../../protocol/scopes.ts';
import { Chance } from './chance.ts';
import { CHANNELS, damaged, framesOf } from './frames.ts';
import { FuzzObject } from './object.ts';
import { type BridgeMethod, OutputCheck } from './output-check.ts';

const VHOST = 'partner-k1';
const FENCE_CHANNEL = 40_000;
const PATIENCE_MS = 5_000;
const TURNS_FOR_FENCE = 50;

export interface WalkSeeds {
  /** Determines how bytes are split into writes, and what the object answers. */
  seed: number;
  /** One seed for each action of the client. */
  actions: readonly number[];
}

const OPEN = [
  encodeMethod(METHOD.connectionStartOk, 0, {
    clientProperties: { capabilities: { authentication_failure_close: true, 'connection.blocked': true } },
    mechanism: 'PLAIN',
    response: Buffer.from('\0acme\0key'),
    locale: 'en_US',
  }),
  encodeMethod(METHOD.connectionTuneOk, 0, { channelMax: 64, frameMax: LIMIT.amqpFrameBytes, heartbeat: 60 }),
  encodeMethod(METHOD.connectionOpen, 0, { virtualHost: VHOST }),
  ...CHANNELS.map((channel) => encodeMethod(METHOD.channelOpen, channel, {})),
];
const FENCE = [
  encodeMethod(METHOD.channelOpen, FENCE_CHANNEL, {}),
  encodeMethod(METHOD.exchangeDeclare, FENCE_CHANNEL, { exchange: 'vcp', passive: true }),
];
/** Completes any frame that is in progress, with invalid content. */
const ZEROS = Buffer.alloc(LIMIT.amqpFrameBytes + 8);

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

class FuzzClient {
  readonly #chance: Chance;
  readonly #object: FuzzObject;
  readonly #output = new OutputCheck();
  readonly #stream;
  /** close-ok frames for channels that the bridge has closed; sent before the next frames. */
  #replies: Buffer[] = [];
  #fault: unknown;
  #isDialed = false;
  #isClosed = false;
  #isFenced = false;
  #ends = 0;

  constructor(chance: Chance) {
    this.#chance = chance;
    this.#object = new FuzzObject(chance);
    const [stream, clientStream] = duplexPair({ allowHalfOpen: false });
    this.#stream = clientStream;
    const scopes = chance.isOneIn(2) ? 'vcp:write:mode,vcp:write:setpoint' : API_KEY_SCOPES.join(',');
    const headers = { [VHOST_HEADER]: VHOST, [SCOPES_HEADER]: scopes };
    const dial = async () => {
      this.#isDialed = true;
      return { outcome: 'accepted' as const, link: this.#object.link, headers };
    };
    const count = () => {};
    const closed = () => {
      this.#ends += 1;
    };
    const counts = { opened: count, published: count, answered: count, delivered: count };
    new AmqpConnection(stream, dial, { ...counts, refused: closed, closed });
    clientStream.on('data', (chunk: Buffer) => this.#read(chunk));
    clientStream.on('error', (error) => this.#note(error));
    const ended = () => {
      this.#isClosed = true;
    };
    clientStream.on('end', ended).on('close', ended);
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Sends the frames, in one write or split into several. */
  async send(frames: readonly Buffer[]): Promise<void> {
    const bytes = Buffer.concat([...this.#replies, ...frames]);
    this.#replies = [];
    const pieces = this.#chance.pick([1, 1, 1, 2, 5, 200]);
    for (let at = 0, left = pieces; at < bytes.length && this.#stream.writable; left--) {
      const rest = bytes.length - at;
      const end =
        left <= 1 ? bytes.length : at + 1 + this.#chance.below(Math.min(rest, Math.ceil((2 * rest) / left)));
      this.#stream.write(bytes.subarray(at, end));
      at = end;
      if (pieces > 1 && left % 8 === 0) await turn();
    }
    await turn();
    this.#check();
  }

  /**
   * Checks that the connection has ended or answers. One that waits for the rest of a frame gets it and then
   * ends.
   */
  async fence(): Promise<void> {
    if (this.#isClosed) return;
    await this.send(FENCE);
    for (let count = 0; count < TURNS_FOR_FENCE && !this.#isAnswered; count++) await turn();
    if (!this.#isAnswered) await this.send([ZEROS]);
    await this.#until('the connection does not answer and does not end', () => this.#isAnswered);
  }

  /** Disconnects and checks that the bridge leaves nothing open. */
  async leave(): Promise<void> {
    this.#stream.destroy();
    await this.#until('the bridge does not notice that its client has disconnected', () => this.#ends > 0);
    await turn();
    this.#check();
    if (this.#ends > 1) throw new Error(`the connection ended ${this.#ends} times`);
    if (this.#isDialed && !this.#object.isClosed) throw new Error('the link stays open');
  }

  get #isAnswered(): boolean {
    return this.#isClosed || this.#isFenced;
  }

  #read(chunk: Buffer): void {
    if (this.#isClosed) return;
    // The bridge answers a wrong protocol header with its own, then closes.
    if (chunk.equals(PROTOCOL_HEADER)) {
      this.#isClosed = true;
      return;
    }
    try {
      for (const methods of this.#output.push(chunk)) this.#take(methods);
    } catch (error) {
      this.#note(error);
    }
  }

  #take({ channel, method }: BridgeMethod): void {
    if (method === METHOD.connectionClose || method === METHOD.connectionCloseOk) this.#isClosed = true;
    if (method === METHOD.exchangeDeclareOk && channel === FENCE_CHANNEL) this.#isFenced = true;
    if (method !== METHOD.channelClose && method !== METHOD.channelCloseOk) return;
    if (method === METHOD.channelClose) this.#replies.push(encodeMethod(METHOD.channelCloseOk, channel, {}));
    if (CHANNELS.includes(channel)) this.#replies.push(encodeMethod(METHOD.channelOpen, channel, {}));
  }

  #note(error: unknown): void {
    this.#fault ??= error;
  }

  #check(): void {
    if (this.#fault) throw this.#fault;
    if (this.#object.unreadable)
      throw new Error(`the bridge sent the object an invalid frame: ${this.#object.unreadable}`);
  }

  /**
   * Waits by turns of the event loop, so that most walks take no real time; only work that uses timers takes
   * time.
   */
  async #until(what: string, isSo: () => boolean): Promise<void> {
    for (const deadline = Date.now() + PATIENCE_MS; !isSo(); await turn()) {
      this.#check();
      if (Date.now() > deadline) throw new Error(what);
    }
    this.#check();
  }
}

/** Returns how many frames the client sent. */
export async function walk({ seed, actions }: WalkSeeds): Promise<number> {
  const chance = new Chance(seed);
  const client = new FuzzClient(chance);
  // The bridge need not answer a damaged handshake, because it ends it by a timeout.
  const isDamaged = chance.isOneIn(12);
  const opening = [PROTOCOL_HEADER, ...OPEN];
  if (isDamaged) opening.splice(chance.below(opening.length), 1, ...damaged(chance, chance.pick(opening)));
  await client.send(opening);
  let sent = OPEN.length;
  for (let next = 0; next < actions.length && !client.isClosed; ) {
    const batch = actions.slice(next, next + 1 + chance.below(12));
    const frames = batch.flatMap((action) => framesOf(action));
    next += batch.length;
    sent += frames.length;
    await client.send(frames);
  }
  if (!isDamaged) await client.fence();
  await client.leave();
  return sent;
}
