/** The bridge's MQTT engine with clients of a test before it and an edge of a test behind it. */
import { type Duplex, duplexPair } from 'node:stream';
import { dial } from '../../bridge/link.ts';
import { MqttEngine, type MqttEvents } from '../../bridge/mqtt/engine.ts';
import type { Origin } from '../../bridge/mqtt/origins.ts';
import type { EndReason, PublishResult, RefusalReason } from '../../bridge/reasons.ts';
import { type DeviceLinkDown, type DeviceLinkUp, deviceLinkDown } from '../../protocol/link/device.ts';
import { deviceTopic } from '../../protocol/topics.ts';
import type { DeviceEdgeLink, TestEdge } from './bridge-edge.ts';
import { DEVICE_ID } from './bridge-link.ts';
import { type ConnectOptions, connectPacket, MqttPeer, publishPacket } from './bridge-mqtt-peer.ts';
import { Signal } from './bridge-signal.ts';

export const OTHER_ID = '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10';
export const COMMANDS = deviceTopic(DEVICE_ID, 'commands');
export const TELEMETRY = deviceTopic(DEVICE_ID, 'telemetry');

/** What the process was told of its devices. */
export class SeenDevices implements MqttEvents {
  readonly openedIds: string[] = [];
  readonly closedWhy: string[] = [];
  readonly endReasons: EndReason[] = [];
  readonly refusedWhy: string[] = [];
  readonly refusalReasons: RefusalReason[] = [];
  readonly results: Record<PublishResult, number> = { confirmed: 0, nacked: 0, refused: 0 };
  publishedCount = 0;
  commandedCount = 0;
  readonly #signal = new Signal();

  opened({ username }: Origin): void {
    this.openedIds.push(username.toLowerCase());
  }
  closed(_origin: Origin, why: string, reason: EndReason): void {
    this.closedWhy.push(why);
    this.endReasons.push(reason);
    this.#signal.changed();
  }
  refused(_origin: Origin, why: string, reason: RefusalReason): void {
    this.refusedWhy.push(why);
    this.refusalReasons.push(reason);
    this.#signal.changed();
  }
  settled(result: PublishResult, count: number): void {
    this.results[result] += count;
  }
  published(): void {
    this.publishedCount += 1;
  }
  commanded(): void {
    this.commandedCount += 1;
  }

  untilClosed(): Promise<string> {
    return this.#signal.until(() => this.closedWhy[0]);
  }
  untilRefused(): Promise<string> {
    return this.#signal.until(() => this.refusedWhy[0]);
  }
}

export interface MqttClient {
  peer: MqttPeer;
  /** The bridge's end of the client's stream. */
  stream: Duplex;
}

export interface OpenMqttClient extends MqttClient {
  link: DeviceEdgeLink;
}

export class TestBroker {
  readonly events = new SeenDevices();
  readonly engine: MqttEngine;
  readonly #edge: TestEdge;

  private constructor(edge: TestEdge) {
    this.#edge = edge;
    this.engine = new MqttEngine(
      (credential, { address }) =>
        dial<DeviceLinkUp, DeviceLinkDown>(
          edge.forBridge,
          'mqtt',
          { ...credential, address, fingerprint: '' },
          deviceLinkDown,
        ),
      this.events,
    );
  }

  static async start(edge: TestEdge): Promise<TestBroker> {
    const started = new TestBroker(edge);
    await started.engine.start();
    return started;
  }

  /** A client that has connected its stream and sent nothing yet. */
  connect(): MqttClient {
    const [stream, clientStream] = duplexPair({ allowHalfOpen: false });
    this.engine.accept(stream, '192.0.2.7');
    return { peer: new MqttPeer(clientStream), stream };
  }

  /** A client that has sent a CONNECT, by default one that is right. */
  send(options: ConnectOptions = {}): MqttClient {
    const client = this.connect();
    client.peer.write(connectPacket({ username: DEVICE_ID, password: 'token', ...options }));
    return client;
  }

  /** A client with a session. */
  async open(options: ConnectOptions = {}): Promise<OpenMqttClient> {
    const client = this.send(options);
    const [link, code] = await Promise.all([this.#edge.deviceLink(), client.peer.takeConnack()]);
    if (code !== 0) throw new Error(`refused with ${code}`);
    return { ...client, link };
  }
}

/** All that the object has been sent so far: a last publish, not among them, comes after it. */
export async function sentToObject(
  { peer, link }: OpenMqttClient,
  deviceId: string = DEVICE_ID,
): Promise<DeviceLinkUp[]> {
  peer.write(publishPacket(deviceTopic(deviceId, 'telemetry'), 'the last', { qos: 0 }));
  let frame = await link.take('publish');
  while (frame.payload !== 'the last') frame = await link.take('publish');
  return link.received.slice(0, -1);
}
