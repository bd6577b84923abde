/**
 * A test's AMQP client: it sends any frames, valid or not, and keeps those that it receives. It has its own
 * frame reader and uses amqplib's tables, so that it shares no code with the bridge's codec.
 */
import { METHOD } from '../../bridge/amqp/wire/codec.ts';
import { BASIC, definitions, type Fields, methodFrame, PROTOCOL_HEADER } from './bridge-amqp-frames.ts';
import { TestPeer } from './bridge-peer.ts';

/** The close of a rejected PLAIN login. */
export const LOGIN_REFUSED =
  '403 ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile. [0/0]';

export type PeerFrame =
  | { type: 'method'; channel: number; method: number; fields: Fields }
  | { type: 'header'; channel: number; size: number; properties: Fields }
  | { type: 'body'; channel: number; content: Buffer };

export class AmqpPeer extends TestPeer<PeerFrame> {
  readonly frames = this.items;
  heartbeats = 0;

  send(method: number, fields: Fields = {}, channel = 0): void {
    this.write(methodFrame(method, fields, channel));
  }

  /** Resolves with the fields of the next frame, which must be this method. */
  async takeMethod(method: number): Promise<Fields & { channel: number }> {
    const next = await this.next();
    if (next.type === 'method' && next.method === method) return { ...next.fields, channel: next.channel };
    const got = next.type === 'method' ? describe(next) : next.type;
    throw new Error(`expected ${definitions.info(method).name}, got ${got}`);
  }

  /** Takes a frame of each of these methods, in this order. */
  async takeMethods(...methods: number[]): Promise<void> {
    for (const method of methods) await this.takeMethod(method);
  }

  /** Sends a request and takes its answer, whose id follows that of the request. */
  request(method: number, fields: Fields = {}, channel = 1): Promise<Fields & { channel: number }> {
    this.send(method, fields, channel);
    return this.takeMethod(method + 1);
  }

  /** The number of received frames with this method. */
  countOf(method: number): number {
    return this.frames.filter((one) => one.type === 'method' && one.method === method).length;
  }

  /** The next frame, which must close the connection, as `code text [class/method]`. */
  async takeConnectionClose(): Promise<string> {
    return describeClose(await this.takeMethod(METHOD.connectionClose));
  }

  async takeChannelClose(): Promise<string> {
    return describeClose(await this.takeMethod(METHOD.channelClose));
  }

  /** Takes a message: its method's fields, its properties and its whole body. */
  async takeContent(method: number): Promise<{ fields: Fields; properties: Fields; body: Buffer }> {
    const fields = await this.takeMethod(method);
    const header = await this.next();
    if (header.type !== 'header') throw new Error(`expected a header, got ${header.type}`);
    const parts: Buffer[] = [];
    for (let size = 0; size < header.size; ) {
      const body = await this.next();
      if (body.type !== 'body') throw new Error(`expected a body, got ${body.type}`);
      parts.push(body.content);
      size += body.content.length;
    }
    return { fields, properties: header.properties, body: Buffer.concat(parts) };
  }

  /** The whole handshake. */
  async handshake(options: HandshakeOptions = {}): Promise<void> {
    await this.logIn(options);
    await this.openVhost(options.vhost, options.tune);
    await this.takeMethod(METHOD.connectionOpenOk);
  }

  /** The handshake up to start-ok. */
  async logIn(options: HandshakeOptions = {}): Promise<void> {
    this.write(PROTOCOL_HEADER);
    await this.takeMethod(METHOD.connectionStart);
    this.startOk(options);
  }

  /** Takes the tune, accepts it with these changes, and sends connection.open. */
  async openVhost(virtualHost = 'partner-k1', tune: HandshakeOptions['tune'] = {}): Promise<void> {
    const offer = await this.takeMethod(METHOD.connectionTune);
    this.send(METHOD.connectionTuneOk, { ...offer, ...tune });
    this.send(METHOD.connectionOpen, { virtualHost });
  }

  startOk({ username = 'acme', password = 'key', ...options }: HandshakeOptions = {}): void {
    this.send(METHOD.connectionStartOk, {
      clientProperties: { capabilities: options.capabilities ?? { authentication_failure_close: true } },
      mechanism: options.mechanism ?? 'PLAIN',
      response: options.response ?? Buffer.from(`\0${username}\0${password}`),
      locale: 'en_US',
    });
  }

  /** Answers the bridge's close, and waits for the end of the connection. */
  async acceptClose(): Promise<void> {
    this.send(METHOD.connectionCloseOk);
    await this.untilEnded();
  }

  async openChannel(channel = 1): Promise<void> {
    await this.request(METHOD.channelOpen, {}, channel);
  }

  /** Answers the bridge's close of a channel, and opens the channel again. */
  async reopenChannel(channel = 1): Promise<void> {
    this.send(METHOD.channelCloseOk, {}, channel);
    await this.openChannel(channel);
  }

  /** All received bytes that are not a whole frame. */
  get unframed(): Buffer {
    return this.rest;
  }

  protected override keepFirst(): number {
    if (this.rest.length < 8 || this.rest.readUInt8(0) === 0x41) return 0;
    const end = this.rest.readUInt32BE(3) + 8;
    if (this.rest.length < end) return 0;
    if (this.rest.readUInt8(end - 1) !== 0xce) throw new Error('a frame without its end');
    this.#keep(this.rest.subarray(0, end));
    return end;
  }

  #keep(bytes: Buffer): void {
    const channel = bytes.readUInt16BE(1);
    const payload = bytes.subarray(7, -1);
    switch (bytes.readUInt8(0)) {
      case 1: {
        const method = payload.readUInt32BE(0);
        const fields = definitions.decode(method, payload.subarray(4));
        this.frames.push({ type: 'method', channel, method, fields });
        return;
      }
      case 2: {
        const size = Number(payload.readBigUInt64BE(4));
        const properties = definitions.decode(BASIC, payload.subarray(12));
        this.frames.push({ type: 'header', channel, size, properties });
        return;
      }
      case 3:
        this.frames.push({ type: 'body', channel, content: payload });
        return;
      case 8:
        this.heartbeats += 1;
    }
  }
}

export interface HandshakeOptions {
  username?: string;
  password?: string;
  mechanism?: string;
  response?: Buffer;
  capabilities?: Fields;
  tune?: { frameMax?: number; channelMax?: number; heartbeat?: number };
  vhost?: string;
}

function describe({ method, fields }: Extract<PeerFrame, { type: 'method' }>): string {
  const text = fields.replyText === undefined ? '' : ` ${describeClose(fields)}`;
  return `${definitions.info(method).name}${text}`;
}

function describeClose({ replyCode, replyText, classId, methodId }: Fields): string {
  return `${replyCode} ${replyText} [${classId}/${methodId}]`;
}
