/** The stock client, over a real socket, against the engine and an edge of the test. */
import { type AddressInfo, createServer, type Server } from 'node:net';
import { connectAsync, type ErrorWithReasonCode, type IClientOptions, type MqttClient } from 'mqtt';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import { type DeviceEdgeLink, envelope, TestEdge } from '../../support/bridge-edge.ts';
import { DEVICE_ID } from '../../support/bridge-link.ts';
import { COMMANDS, OTHER_ID, TELEMETRY, TestBroker } from '../../support/bridge-mqtt.ts';

let edge: TestEdge;
let mqtt: TestBroker;
let server: Server;
const clients = new Set<MqttClient>();

beforeAll(async () => {
  edge = await TestEdge.start();
  mqtt = await TestBroker.start(edge);
  server = createServer((socket) => mqtt.engine.accept(socket, socket.remoteAddress ?? ''));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
beforeEach(() => edge.reset());
afterEach(async () => {
  for (const client of clients) await client.endAsync(true);
  clients.clear();
});
afterAll(async () => {
  await mqtt.engine.stop();
  await new Promise<void>((resolve) => server.close(() => resolve()));
  await edge.stop();
});

async function connectClient(options: IClientOptions = {}): Promise<MqttClient> {
  const client = await connectAsync({
    protocol: 'mqtt',
    host: '127.0.0.1',
    port: (server.address() as AddressInfo).port,
    clientId: DEVICE_ID,
    username: DEVICE_ID,
    password: 'token',
    clean: true,
    reconnectPeriod: 0,
    ...options,
  });
  clients.add(client);
  return client;
}

async function openClient(
  options: IClientOptions = {},
): Promise<{ client: MqttClient; link: DeviceEdgeLink }> {
  const [client, link] = await Promise.all([connectClient(options), edge.deviceLink()]);
  return { client, link };
}

function closed(client: MqttClient): Promise<void> {
  return new Promise((resolve) => client.once('close', () => resolve()));
}

function message(client: MqttClient): Promise<{ topic: string; payload: string }> {
  return new Promise((resolve) =>
    client.once('message', (topic, payload) => resolve({ topic, payload: payload.toString() })),
  );
}

async function connectError(options: IClientOptions = {}): Promise<number | undefined> {
  const error = await connectClient(options).then(
    () => undefined,
    (reason: ErrorWithReasonCode) => reason,
  );
  return error?.code;
}

describe('mqtt.js', () => {
  it('connects, publishes and is acknowledged once its message is stored', async () => {
    const { client, link } = await openClient();
    let isAcknowledged = false;
    const publishing = client.publishAsync(TELEMETRY, '{"a":1}', { qos: 1 }).then(() => {
      isAcknowledged = true;
    });
    const { seq, payload } = await link.take('publish');
    expect(payload).toBe('{"a":1}');
    expect(isAcknowledged).toBe(false);
    link.send({ kind: 'stored', seqs: [seq] });
    await publishing;
  });

  it('publishes hundreds at once, and each is acknowledged', async () => {
    const { client, link } = await openClient();
    const publishing = Promise.all(
      Array.from({ length: 300 }, (_, index) => client.publishAsync(TELEMETRY, `${index}`, { qos: 1 })),
    );
    for (let index = 0; index < 300; index++) {
      const { seq, payload } = await link.take('publish');
      expect(payload).toBe(`${index}`);
      link.send({ kind: 'stored', seqs: [seq] });
    }
    await publishing;
  });

  it('publishes at QoS 2', async () => {
    const { client, link } = await openClient();
    const publishing = client.publishAsync(TELEMETRY, 'twice sure', { qos: 2 });
    link.send({ kind: 'stored', seqs: [(await link.take('publish')).seq] });
    await publishing;
    expect(link.received.length).toBe(1);
  });

  it('is told 5 for a bad token, 4 for a malformed name, 3 for trouble (spec: Broker and device errors)', async () => {
    edge.answer = () => envelope('UNAUTHORIZED');
    expect(await connectError()).toBe(5);
    expect(await connectError({ username: 'gateway' })).toBe(4);
    edge.answer = () => envelope('SERVICE_UNAVAILABLE');
    expect(await connectError()).toBe(3);
  });

  it('subscribes to its commands and gets them; to anything else it does not', async () => {
    const { client, link } = await openClient();
    expect(await client.subscribeAsync(COMMANDS, { qos: 1 })).toMatchObject([{ topic: COMMANDS, qos: 1 }]);
    await link.take('subscribed');
    const received = message(client);
    link.send({ kind: 'command', payload: '{"cmdId":"1"}' });
    expect(await received).toEqual({ topic: COMMANDS, payload: '{"cmdId":"1"}' });
    for (const topic of ['#', `cpi/${OTHER_ID}/commands`, '$SYS/#'])
      await expect(client.subscribeAsync(topic, { qos: 1 })).rejects.toThrow();
    await client.unsubscribeAsync(COMMANDS);
    expect(await link.take('subscribed')).toEqual({ kind: 'subscribed', commands: false });
  });

  it('stays connected beside another device with the same client id [C-3.6]', async () => {
    const first = await openClient();
    const second = await openClient({ username: OTHER_ID });
    const publishing = first.client.publishAsync(TELEMETRY, 'still here', { qos: 1 });
    first.link.send({ kind: 'stored', seqs: [(await first.link.take('publish')).seq] });
    await publishing;
    expect(second.client.connected).toBe(true);
  });

  it.each([
    ['taken over', CLOSE_CODES.takenOver],
    ['revoked', CLOSE_CODES.revoked],
    ['expired', CLOSE_CODES.expired],
  ])('is closed when its session is %s', async (_title, code) => {
    const { client, link } = await openClient();
    const closing = closed(client);
    link.close(code);
    await closing;
  });

  it('is closed for publishing where it may not', async () => {
    const { client, link } = await openClient();
    const closing = closed(client);
    client.publish(`cpi/${OTHER_ID}/telemetry`, '{}', { qos: 0 });
    await closing;
    await link.untilClosed();
    expect(link.received.map(({ kind }) => kind)).toEqual(['strayed']);
  });

  it('ends, and its link closes', async () => {
    const { client, link } = await openClient();
    await client.endAsync();
    clients.delete(client);
    await link.untilClosed();
  });
});
