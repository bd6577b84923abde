/** The bridge's MQTT engine between a test's clients and a test's edge. */
import { type Duplex, duplexPair } from 'node:stream';
import { dial } from '../../bridge/link-dial.ts';
import { MqttEngine } from '../../bridge/mqtt/engine.ts';
import { type DeviceLinkDown, type DeviceLinkUp, deviceLinkDown } from '../../protocol/link/device.ts';
import { deviceTopic } from '../../protocol/topics.ts';
import type { DeviceEdgeLink, TestEdge } from './bridge-edge.ts';
import { SeenEvents } from './bridge-events.ts';
import { DEVICE_ID } from './bridge-link.ts';
import { type ConnectOptions, connectPacket, MqttPeer, PACKET, publishPacket } from './bridge-mqtt-peer.ts';
import { edgeTest } from './bridge-test.ts';

export const OTHER_ID = '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10';
export const COMMANDS = deviceTopic(DEVICE_ID, 'commands');
export const TELEMETRY = deviceTopic(DEVICE_ID, 'telemetry');

export interface MqttClient {
  peer: MqttPeer;
  /** The bridge's end of the client's stream. */
  stream: Duplex;
}

export interface OpenMqttClient extends MqttClient {
  link: DeviceEdgeLink;
}

type Ends = Pick<OpenMqttClient, 'peer' | 'link'>;

export class TestBroker {
  readonly events = new SeenEvents();
  readonly engine: MqttEngine;
  readonly #edge: TestEdge;

  constructor(edge: TestEdge) {
    this.#edge = edge;
    this.engine = new MqttEngine(
      (credential, { address }) =>
        dial<DeviceLinkUp, DeviceLinkDown>(
          edge.forBridge,
          'mqtt',
          { ...credential, address, fingerprint: '' },
          deviceLinkDown,
        ),
      () => this.events,
    );
  }

  /** A client that has connected its stream and sent nothing yet. */
  connect(): MqttClient {
    const [stream, clientStream] = duplexPair({ allowHalfOpen: false });
    this.engine.accept(stream, { address: '192.0.2.7' });
    return { peer: new MqttPeer(clientStream), stream };
  }

  /** A client that has sent a CONNECT, by default a valid one. */
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

/** All frames that the object has received so far; a last publish, which is left out, follows them. */
export async function sentToObject(
  { peer, link }: Ends,
  deviceId: string = DEVICE_ID,
): Promise<DeviceLinkUp[]> {
  peer.write(publishPacket(deviceTopic(deviceId, 'telemetry'), 'the last', { qos: 0 }));
  await takePayload(link, 'the last');
  return link.received.slice(0, -1);
}

/** A round trip to the object: fails if the client receives anything else before the acknowledgement. */
export async function throughLink({ peer, link }: Ends): Promise<void> {
  peer.write(publishPacket(TELEMETRY, 'barrier', { id: 999 }));
  link.send({ kind: 'stored', seqs: [await takePayload(link, 'barrier')] });
  const id = await peer.takeId(PACKET.puback);
  if (id !== 999) throw new Error(`expected the acknowledgement of 999, got ${id}`);
}

/** The sequence of the publish with this payload. */
async function takePayload(link: DeviceEdgeLink, payload: string): Promise<number> {
  let frame = await link.take('publish');
  while (frame.payload !== payload) frame = await link.take('publish');
  return frame.seq;
}

/** `device` has a session; `peer` and `link` are its two ends. */
export const mqttTest = edgeTest
  .extend('mqtt', async ({ edge }, { onCleanup }) => {
    const broker = new TestBroker(edge);
    await broker.engine.start();
    onCleanup(() => broker.engine.stop());
    return broker;
  })
  .extend('device', ({ mqtt }) => mqtt.open())
  .extend('peer', ({ device }) => device.peer)
  .extend('link', ({ device }) => device.link);
