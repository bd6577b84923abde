/**
 * The application's connection to mosquitto. A message is acknowledged when the application has stored it, and not
 * when it arrives: clients that acknowledge in between take one message after the other.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { generate, type IPublishPacket, type Packet, parser } from 'mqtt-packet';
import { DEVICE_PUBLISH_TOPICS } from '../../../protocol/topics.ts';
import type { Login } from './mosquitto.ts';

const MAX_ID = 65_535;

export interface DeviceMessageText {
  /** Of the MQTT packet; acknowledges it. */
  packetId: number;
  deviceId: string;
  topic: string;
  text: string;
}

export class DeviceBroker {
  readonly #socket: Socket;
  #nextId = 1;
  #isCorked = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Keeps its session, so that mosquitto holds the messages while the application restarts. */
  static async connect(
    port: number,
    { username, password }: Login,
    receive: (message: DeviceMessageText) => void,
  ): Promise<DeviceBroker> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    const broker = new DeviceBroker(socket);
    const packets = parser({ protocolVersion: 4 });
    const subscribed = new Promise<void>((resolve) => {
      packets.on('packet', (packet) => {
        if (packet.cmd === 'publish') receive(messageOf(packet));
        if (packet.cmd === 'connack') broker.#subscribe();
        if (packet.cmd === 'suback') resolve();
      });
    });
    socket.on('data', (part) => packets.parse(part));
    broker.#write({
      cmd: 'connect',
      ...{ protocolId: 'MQTT', protocolVersion: 4, clean: false, keepalive: 0 },
      ...{ clientId: 'application', username, password: Buffer.from(password) },
    });
    await subscribed;
    return broker;
  }

  #subscribe(): void {
    const subscriptions = DEVICE_PUBLISH_TOPICS.map((name) => ({ topic: `cpi/+/${name}`, qos: 1 as const }));
    this.#write({ cmd: 'subscribe', messageId: this.#takeId(), subscriptions });
  }

  publish(topic: string, payload: string): void {
    this.#write({
      cmd: 'publish',
      ...{ qos: 1, dup: false, retain: false, messageId: this.#takeId(), topic, payload },
    });
  }

  acknowledge(packetId: number): void {
    this.#write({ cmd: 'puback', messageId: packetId });
  }

  /** Everything that is written in the same turn leaves in one write. */
  #write(packet: Packet): void {
    if (!this.#isCorked) {
      this.#isCorked = true;
      this.#socket.cork();
      setImmediate(() => {
        this.#isCorked = false;
        this.#socket.uncork();
      });
    }
    this.#socket.write(generate(packet));
  }

  #takeId(): number {
    const id = this.#nextId;
    this.#nextId = id === MAX_ID ? 1 : id + 1;
    return id;
  }
}

/** Topics are `cpi/{deviceId}/{name}`. */
function messageOf({ messageId, topic, payload }: IPublishPacket): DeviceMessageText {
  const end = topic.lastIndexOf('/');
  return {
    packetId: messageId ?? 0,
    deviceId: topic.slice('cpi/'.length, end),
    topic: topic.slice(end + 1),
    text: payload.toString('utf8'),
  };
}
