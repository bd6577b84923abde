/** CONNECT: who gets a session, and with which code everybody else is turned away. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { ApiErrorCode } from '../../../protocol/errors.ts';
import { type Answer, envelope, TestEdge } from '../../support/bridge-edge.ts';
import { DEVICE_ID } from '../../support/bridge-link.ts';
import { COMMANDS, OTHER_ID, sentToObject, TELEMETRY, TestBroker } from '../../support/bridge-mqtt.ts';
import {
  connectPacket,
  PACKET,
  packet,
  publishPacket,
  subscribePacket,
} from '../../support/bridge-mqtt-peer.ts';
import { Signal, turns } from '../../support/bridge-signal.ts';

let edge: TestEdge;
let mqtt: TestBroker;

beforeAll(async () => {
  edge = await TestEdge.start();
});
beforeEach(async () => {
  mqtt = await TestBroker.start(edge);
});
afterEach(async () => {
  await mqtt.engine.stop();
  edge.reset();
});
afterAll(() => edge.stop());

describe('a CONNECT', () => {
  it('is accepted when the edge accepts its token: code 0, no session present', async () => {
    const { peer } = mqtt.send();
    expect([...(await peer.take(PACKET.connack))]).toEqual([0, 0]);
    expect(edge.dialed).toMatchObject([
      { path: '/link/mqtt', username: DEVICE_ID, password: 'token', proof: { address: '192.0.2.7' } },
    ]);
    expect(mqtt.events.openedIds).toEqual([DEVICE_ID]);
  });

  it('may write its device in upper case', async () => {
    const { peer } = await mqtt.open({ username: DEVICE_ID.toUpperCase() });
    peer.write(subscribePacket(1, COMMANDS));
    expect([...(await peer.take(PACKET.suback))]).toEqual([0, 1, 1]);
    expect(edge.dialed[0]?.username).toBe(DEVICE_ID);
  });

  it.each([
    ['MQTT 3.1', 0, 'MQIsdp', 3],
    ['MQTT 5', 1, 'MQTT', 5],
  ])('of %s is answered %d', async (_title, code, name, level) => {
    const connect = connectPacket({ username: DEVICE_ID, password: 'token', protocol: [name, level] });
    // MQTT 5 puts properties before the payload, here none.
    const bytes =
      level === 5
        ? Buffer.concat([connect.subarray(0, 12), Buffer.from([0]), connect.subarray(12)])
        : connect;
    if (level === 5) bytes.writeUInt8(bytes.readUInt8(1) + 1, 1);
    const { peer } = mqtt.connect();
    peer.write(bytes);
    expect(await peer.takeConnack()).toBe(code);
  });

  it('with all that is sent behind it is answered in order', async () => {
    const { peer } = mqtt.connect();
    const connect = connectPacket({ username: DEVICE_ID, password: 'token' });
    peer.write(connect, subscribePacket(1, COMMANDS), publishPacket(TELEMETRY, '{}', { id: 2 }));
    const link = await edge.deviceLink();
    expect(await peer.takeConnack()).toBe(0);
    await peer.take(PACKET.suback);
    link.send({ kind: 'stored', seqs: [(await link.take('publish')).seq] });
    expect(await peer.takeId(PACKET.puback)).toBe(2);
  });
});

describe('a refused CONNECT', () => {
  it.each<[ApiErrorCode]>([['UNAUTHORIZED'], ['FORBIDDEN'], ['CONFLICT']])(
    'is answered 5 when the edge says %s, and closed (spec: Broker and device errors)',
    async (code) => {
      edge.answer = () => envelope(code);
      const { peer } = mqtt.send();
      expect(await peer.takeConnack()).toBe(5);
      await peer.untilEnded();
      expect(mqtt.events.openedIds).toEqual([]);
    },
  );

  it('is counted as refused', async () => {
    edge.answer = () => envelope('UNAUTHORIZED', 'Invalid or expired token');
    const { peer } = mqtt.send();
    await peer.takeConnack();
    await peer.untilEnded();
    await turns();
    expect(mqtt.events.refusedWhy).toEqual(['Invalid or expired token']);
  });

  it.each<[string, Answer]>([
    ['500', envelope('INTERNAL_SERVER_ERROR')],
    ['503', envelope('SERVICE_UNAVAILABLE')],
    ['429', envelope('TOO_MANY_REQUESTS')],
    ['404', envelope('NOT_FOUND')],
    ['an HTML 403', { status: 403, body: '<html>blocked</html>', contentType: 'text/html' }],
    ['a 403 of another’s JSON', { status: 403, body: '{"code":"BLOCKED"}', contentType: 'application/json' }],
  ])('is answered 3, for nobody’s fault, when the edge answers %s [C-3.11]', async (_title, answer) => {
    edge.answer = () => answer;
    const { peer } = mqtt.send();
    expect(await peer.takeConnack()).toBe(3);
    await peer.untilEnded();
  });

  it.each([
    ['no user name and no password', { username: undefined, password: undefined }],
    ['no password', { password: undefined }],
    ['an empty password', { password: '' }],
    ['an empty user name', { username: '' }],
    ['a user name that is no UUID', { username: 'gateway-1' }],
    ['a UUID with something behind it', { username: `${DEVICE_ID}\n` }],
    ['a UUID in braces', { username: `{${DEVICE_ID}}` }],
  ])('is answered 4 with %s, and nobody is asked [C-3.11]', async (_title, options) => {
    const { peer } = mqtt.connect();
    peer.write(connectPacket({ username: DEVICE_ID, password: 'token', ...options }));
    expect(await peer.takeConnack()).toBe(4);
    await peer.untilEnded();
    expect(edge.dialed).toEqual([]);
  });
});

describe('a client id', () => {
  it('equal to another device’s never ends that one’s session [C-3.6]', async () => {
    const first = await mqtt.open({ clientId: DEVICE_ID });
    const second = await mqtt.open({ clientId: DEVICE_ID, username: OTHER_ID });
    await first.peer.ping();
    await second.peer.ping();
    expect(first.link.closedWith).toBeUndefined();
    expect(mqtt.events.openedIds).toEqual([DEVICE_ID, OTHER_ID]);
  });

  it('equal to one’s own leaves it to the object which session stays [C-3.6]', async () => {
    const first = await mqtt.open({ clientId: DEVICE_ID });
    await mqtt.open({ clientId: DEVICE_ID });
    await first.peer.ping();
    first.link.close(4001, 'taken over');
    await first.peer.untilEnded();
  });

  it.each([
    ['nothing', ''],
    ['one character', 'a'],
    ['constructor', 'constructor'],
    ['__proto__', '__proto__'],
    ['5 000 characters', 'x'.repeat(5_000)],
  ])('that is %s is as good as another', async (_title, clientId) => {
    const { peer } = await mqtt.open({ clientId });
    await peer.ping();
  });

  it('that is empty without clean session is rejected: CONNACK 2 [MQTT-3.1.3-8]', async () => {
    const { peer } = mqtt.send({ clientId: '', clean: false });
    expect([...(await peer.take(PACKET.connack))]).toEqual([0, 2]);
  });

  it('without clean session brings back nothing of an earlier session', async () => {
    const first = await mqtt.open({ clientId: 'same', clean: false });
    first.peer.write(subscribePacket(1, COMMANDS));
    await first.link.take('subscribed');
    first.peer.stream.destroy();
    await first.link.untilClosed();
    const client = mqtt.send({ clientId: 'same', clean: false });
    expect([...(await client.peer.take(PACKET.connack))]).toEqual([0, 0]);
    expect(await sentToObject({ ...client, link: await edge.deviceLink() })).toEqual([]);
  });
});

describe('a client that does not connect as it should', () => {
  it.each([
    ['PUBLISH first', publishPacket(TELEMETRY, '{}')],
    ['PINGREQ first', packet(PACKET.pingreq, 0)],
    ['HTTP', Buffer.from('GET / HTTP/1.1\r\n\r\n')],
    ['256 MB announced', Buffer.from([0x10, 0xff, 0xff, 0xff, 0x7f])],
    ['an empty CONNECT', packet(PACKET.connect, 0)],
    ['another protocol in CONNECT', connectPacket({ protocol: ['AMQP', 4] })],
  ])('(%s) is closed without a word, and counted', async (_title, bytes) => {
    const { peer } = mqtt.connect();
    peer.write(bytes);
    await peer.untilEnded();
    expect(peer.packets).toEqual([]);
    expect(edge.dialed).toEqual([]);
    expect(mqtt.events.refusedWhy.length).toBe(1);
  });

  it('(a second CONNECT) loses its session and its link', async () => {
    const { peer, link } = await mqtt.open();
    peer.write(connectPacket({ username: DEVICE_ID, password: 'token' }));
    await peer.untilEnded();
    await link.untilClosed();
  });

  it.each(['end', 'reset'])('(gone while its link was dialled, by %s) leaves no link behind', async (how) => {
    const signal = new Signal();
    let accept = () => {};
    edge.answer = () =>
      new Promise((resolve) => {
        accept = () => resolve({ accept: {} });
        signal.changed();
      });
    const { peer, stream } = mqtt.send();
    await edge.untilDialed();
    if (how === 'end') peer.stream.end();
    else stream.destroy(new Error('read ECONNRESET'));
    await turns();
    accept();
    await (await edge.deviceLink()).untilClosed();
    expect(mqtt.events.closedWhy.length).toBe(mqtt.events.openedIds.length);
  });
});
