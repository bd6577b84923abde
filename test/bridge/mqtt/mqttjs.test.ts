/** The stock client, over a real socket, with the engine and a test's edge. */
import { type EventEmitter, once } from 'node:events';
import { createServer } from 'node:net';
import { connectAsync, type ErrorWithReasonCode, type IClientOptions, type MqttClient } from 'mqtt';
import { describe, expect } from 'vitest';
import { envelope } from '#support/bridge-edge.ts';
import { DEVICE_ID } from '#support/bridge-link.ts';
import { COMMANDS, mqttTest, OTHER_ID, TELEMETRY } from '#support/bridge-mqtt.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';

/** `client` is mqtt.js with a session, `site` is its link. */
const it = mqttTest
  .extend('connectClient', async ({ mqtt, serve }, { onCleanup }) => {
    const clients: MqttClient[] = [];
    onCleanup(async () => {
      for (const client of clients) await client.endAsync(true);
    });
    const port = await serve(
      createServer((socket) => mqtt.engine.accept(socket, { address: socket.remoteAddress ?? '' })),
    );
    const login = {
      protocol: 'mqtt',
      host: '127.0.0.1',
      port,
      clientId: DEVICE_ID,
      username: DEVICE_ID,
    } as const;
    return async (options: IClientOptions = {}) => {
      const client = await connectAsync({ ...login, password: 'token', reconnectPeriod: 0, ...options });
      clients.push(client);
      return client;
    };
  })
  .extend('client', ({ connectClient }) => connectClient())
  .extend('site', ({ client: _client, edge }) => edge.deviceLink());

describe('the client mqtt.js', () => {
  it('gets its acknowledgement when the message is stored, not before', async ({ client, site }) => {
    let isAcknowledged = false;
    const publishing = client.publishAsync(TELEMETRY, '{"a":1}', { qos: 1 }).then(() => {
      isAcknowledged = true;
    });
    const { seq, payload } = await site.take('publish');
    expect(payload).toBe('{"a":1}');
    expect(isAcknowledged).toBe(false);
    site.send({ kind: 'stored', seqs: [seq] });
    await publishing;
  });

  it('gets an acknowledgement for each of 300 publishes', async ({ client, site }) => {
    const publishing = Promise.all(
      Array.from({ length: 300 }, (_, index) => client.publishAsync(TELEMETRY, `${index}`, { qos: 1 })),
    );
    for (let index = 0; index < 300; index++) expect((await site.store()).payload).toBe(`${index}`);
    await publishing;
  });

  it('publishes at QoS 2', async ({ client, site }) => {
    const publishing = client.publishAsync(TELEMETRY, 'twice sure', { qos: 2 });
    await site.store();
    await publishing;
    expect(site.received.length).toBe(1);
  });

  it('gets code 5 for a rejected login, 4 for a bad user name, 3 without the edge (spec: Broker and device errors)', async ({
    edge,
    connectClient,
  }) => {
    const codeOf = (options: IClientOptions) =>
      connectClient(options).then(
        () => 0,
        (error: ErrorWithReasonCode) => error.code,
      );
    edge.answer = () => envelope('UNAUTHORIZED');
    expect(await codeOf({})).toBe(5);
    expect(await codeOf({ username: 'gateway' })).toBe(4);
    edge.answer = () => envelope('SERVICE_UNAVAILABLE');
    expect(await codeOf({})).toBe(3);
  });

  it('can subscribe to its commands and to nothing else', async ({ client, site }) => {
    expect(await client.subscribeAsync(COMMANDS, { qos: 1 })).toMatchObject([{ topic: COMMANDS, qos: 1 }]);
    await site.take('subscribed');
    const received = once(client as unknown as EventEmitter, 'message');
    site.send({ kind: 'command', payload: '{"cmdId":"1"}' });
    const [topic, payload] = await received;
    expect([topic, String(payload)]).toEqual([COMMANDS, '{"cmdId":"1"}']);
    for (const foreign of ['#', `cpi/${OTHER_ID}/commands`, '$SYS/#'])
      await expect(client.subscribeAsync(foreign, { qos: 1 })).rejects.toThrow();
    await client.unsubscribeAsync(COMMANDS);
    expect(await site.take('subscribed')).toEqual({ kind: 'subscribed', commands: false });
  });

  it('keeps its session if another device uses its client id [C-3.6]', async ({
    client,
    site,
    connectClient,
  }) => {
    const second = await connectClient({ username: OTHER_ID });
    const publishing = client.publishAsync(TELEMETRY, 'still here', { qos: 1 });
    await site.store();
    await publishing;
    expect(second.connected).toBe(true);
  });

  it.for([
    ['taken over', CLOSE_CODES.takenOver],
    ['revoked', CLOSE_CODES.revoked],
    ['expired', CLOSE_CODES.expired],
  ] as const)('is closed when its session is %s', async ([_, code], { client, site }) => {
    const closing = once(client as unknown as EventEmitter, 'close');
    site.close(code);
    await closing;
  });

  it('is closed when it publishes to a foreign topic', async ({ client, site }) => {
    const closing = once(client as unknown as EventEmitter, 'close');
    client.publish(`cpi/${OTHER_ID}/telemetry`, '{}', { qos: 0 });
    await closing;
    await site.untilClosed();
    expect(site.received.map(({ kind }) => kind)).toEqual(['foreign-topic']);
  });

  it('closes its link when it disconnects', async ({ client, site }) => {
    await client.endAsync();
    await site.untilClosed();
  });
});
