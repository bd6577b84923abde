/** A test's MQTT 3.1.1 client: it sends any packets, valid or not, and keeps those that it receives. */
import { TestPeer } from './bridge-peer.ts';

export const PACKET = {
  connect: 1,
  connack: 2,
  publish: 3,
  puback: 4,
  pubrec: 5,
  pubrel: 6,
  pubcomp: 7,
  subscribe: 8,
  suback: 9,
  unsubscribe: 10,
  unsuback: 11,
  pingreq: 12,
  pingresp: 13,
  disconnect: 14,
} as const;

/** The remaining length of a packet, seven bits a byte. */
export function lengthBytes(length: number): Buffer {
  const bytes: number[] = [];
  let rest = length;
  do {
    bytes.push((rest % 128) | (rest >= 128 ? 0x80 : 0));
    rest = Math.floor(rest / 128);
  } while (rest > 0);
  return Buffer.from(bytes);
}

export function packet(type: number, flags: number, ...parts: Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([(type << 4) | flags]), lengthBytes(body.length), body]);
}

export const PINGREQ = packet(PACKET.pingreq, 0);
export const DISCONNECT = packet(PACKET.disconnect, 0);

/** The bytes after their two-byte length. */
export function prefixed(content: string | Buffer): Buffer {
  const bytes = Buffer.from(content);
  const length = Buffer.alloc(2);
  length.writeUInt16BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

function twoBytes(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(value);
  return bytes;
}

export interface ConnectOptions {
  clientId?: string;
  username?: string | undefined;
  password?: string | Buffer | undefined;
  clean?: boolean;
  keepalive?: number;
  protocol?: [name: string, level: number];
  will?: { topic: string | Buffer; payload: string; qos?: number; retain?: boolean };
}

export function connectPacket(options: ConnectOptions = {}): Buffer {
  const { clientId = 'client', clean = true, keepalive = 60, will, username, password } = options;
  const [name, level] = options.protocol ?? ['MQTT', 4];
  let flags = clean ? 2 : 0;
  const payload = [prefixed(clientId)];
  if (will) {
    flags |= 4 | ((will.qos ?? 0) << 3) | (will.retain ? 0x20 : 0);
    payload.push(prefixed(will.topic), prefixed(will.payload));
  }
  if (username !== undefined) {
    flags |= 0x80;
    payload.push(prefixed(username));
  }
  if (password !== undefined) {
    flags |= 0x40;
    payload.push(prefixed(password));
  }
  const head = [prefixed(name), Buffer.from([level, flags]), twoBytes(keepalive)];
  return packet(PACKET.connect, 0, ...head, ...payload);
}

export interface PublishOptions {
  qos?: number;
  id?: number;
  retain?: boolean;
  dup?: boolean;
}

export function publishPacket(
  topic: string | Buffer,
  payload: string | Buffer,
  options: PublishOptions = {},
): Buffer {
  const { qos = 1, id = 1, retain = false, dup = false } = options;
  const flags = (dup ? 8 : 0) | (qos << 1) | (retain ? 1 : 0);
  const idBytes = qos > 0 ? [twoBytes(id)] : [];
  return packet(PACKET.publish, flags, prefixed(topic), ...idBytes, Buffer.from(payload));
}

export function subscribePacket(id: number, ...filters: (string | Buffer)[]): Buffer {
  const entries = filters.map((filter) => Buffer.concat([prefixed(filter), Buffer.from([1])]));
  return packet(PACKET.subscribe, 2, twoBytes(id), ...entries);
}

export function unsubscribePacket(id: number, ...filters: string[]): Buffer {
  return packet(PACKET.unsubscribe, 2, twoBytes(id), ...filters.map(prefixed));
}

/** A client's acknowledgement: PUBACK, PUBREL and so on. */
export function acknowledgement(type: number, id: number): Buffer {
  return packet(type, type === PACKET.pubrel ? 2 : 0, twoBytes(id));
}

export interface PeerPacket {
  type: number;
  flags: number;
  body: Buffer;
}

export class MqttPeer extends TestPeer<PeerPacket> {
  readonly packets = this.items;

  /** Resolves with the body of the next packet, which must be of this type. */
  async take(type: number): Promise<Buffer> {
    return (await this.#takePacket(type)).body;
  }

  async #takePacket(type: number): Promise<PeerPacket> {
    const next = await this.next();
    if (next.type !== type) throw new Error(`expected a packet of type ${type}, got ${next.type}`);
    return next;
  }

  /** Resolves with the next packet, which must be a PUBLISH. */
  async takePublish(): Promise<{ topic: string; qos: number; retain: boolean; id: number; payload: string }> {
    const { flags, body } = await this.#takePacket(PACKET.publish);
    const qos = (flags >> 1) & 3;
    const topicEnd = 2 + body.readUInt16BE(0);
    const payloadStart = topicEnd + (qos > 0 ? 2 : 0);
    return {
      topic: body.toString('utf8', 2, topicEnd),
      qos,
      retain: (flags & 1) === 1,
      id: qos > 0 ? body.readUInt16BE(topicEnd) : 0,
      payload: body.toString('utf8', payloadStart),
    };
  }

  /** The return code of the next packet, which must be a CONNACK. */
  async takeConnack(): Promise<number> {
    return (await this.take(PACKET.connack)).readUInt8(1);
  }

  /** The return code of the CONNACK with which the bridge ends the connection. */
  async takeRefusal(): Promise<number> {
    const code = await this.takeConnack();
    await this.untilEnded();
    return code;
  }

  /** The bytes of the SUBACK for these filters. */
  async subscribe(id: number, ...filters: (string | Buffer)[]): Promise<number[]> {
    this.write(subscribePacket(id, ...filters));
    return [...(await this.take(PACKET.suback))];
  }

  /** The id of the next packet, which must be an acknowledgement of this type. */
  async takeId(type: number): Promise<number> {
    return (await this.take(type)).readUInt16BE(0);
  }

  /** Resolves with the answer to a ping: the bridge has then read everything that was sent before. */
  async ping(): Promise<void> {
    this.write(PINGREQ);
    await this.take(PACKET.pingresp);
  }

  protected override keepFirst(): number {
    let length = 0;
    let at = 1;
    for (; ; at++) {
      const byte = this.rest[at];
      if (byte === undefined) return 0;
      length += (byte & 0x7f) * 128 ** (at - 1);
      if (byte < 0x80) break;
    }
    const end = at + 1 + length;
    if (this.rest.length < end) return 0;
    const first = this.rest.readUInt8(0);
    this.packets.push({ type: first >> 4, flags: first & 0xf, body: this.rest.subarray(at + 1, end) });
    return end;
  }
}
