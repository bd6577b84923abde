/** SUBSCRIBE: a device listens on its commands and on nothing else; and commands on their way to it. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { TestEdge } from '../../support/bridge-edge.ts';
import { DEVICE_ID } from '../../support/bridge-link.ts';
import { COMMANDS, OTHER_ID, sentToObject, TELEMETRY, TestBroker } from '../../support/bridge-mqtt.ts';
import {
  acknowledgement,
  PACKET,
  packet,
  prefixed,
  subscribePacket,
  unsubscribePacket,
} from '../../support/bridge-mqtt-peer.ts';

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

describe('a SUBSCRIBE', () => {
  it('to its own commands is granted, and the object is told', async () => {
    const { peer, link } = await mqtt.open();
    peer.write(subscribePacket(9, COMMANDS));
    expect([...(await peer.take(PACKET.suback))]).toEqual([0, 9, 1]);
    expect(await link.take('subscribed')).toEqual({ kind: 'subscribed', commands: true });
  });

  it.each([
    '#',
    '+/x/commands',
    'cpi/+/commands',
    'cpi/#',
    `cpi/${DEVICE_ID}/#`,
    `cpi/${DEVICE_ID}/+`,
    '+/+/commands',
    `cpi/${OTHER_ID}/commands`,
    TELEMETRY,
    `cpi/${DEVICE_ID.toUpperCase()}/commands`,
    '$SYS/#',
    '$SYS/+/new/clients',
    `$share/group/${COMMANDS}`,
    '$share/group/#',
    `$queue/${COMMANDS}`,
    `/${COMMANDS}`,
    `${COMMANDS}/`,
    'constructor',
    '__proto__',
  ])('to %s is answered 0x80, and the object hears that it was tried [C-3.8]', async (filter) => {
    const client = await mqtt.open();
    client.peer.write(subscribePacket(9, filter));
    expect([...(await client.peer.take(PACKET.suback))]).toEqual([0, 9, 0x80]);
    expect(await sentToObject(client)).toEqual([{ kind: 'strayed', act: 'subscribe', topic: filter }]);
  });

  it('to several is answered for each', async () => {
    const { peer, link } = await mqtt.open();
    peer.write(subscribePacket(9, '#', COMMANDS, TELEMETRY));
    expect([...(await peer.take(PACKET.suback))]).toEqual([0, 9, 0x80, 1, 0x80]);
    await link.take('subscribed');
  });

  it.each([0, 2])('at QoS %d is granted that', async (qos) => {
    const { peer } = await mqtt.open();
    peer.write(packet(PACKET.subscribe, 2, Buffer.from([0, 9]), prefixed(COMMANDS), Buffer.from([qos])));
    expect([...(await peer.take(PACKET.suback))]).toEqual([0, 9, qos]);
  });

  it.each<[string, string | Buffer]>([
    ['101 levels', Array(101).fill('a').join('/')],
    ['a # that is not the end', 'cpi/#/commands'],
    ['no filter', ''],
  ])('to %s closes the client', async (_title, filter) => {
    const { peer, link } = await mqtt.open();
    peer.write(subscribePacket(9, filter));
    await peer.untilEnded();
    await link.untilClosed();
    expect(link.received).toEqual([]);
  });

  it.each<[string, string | Buffer]>([
    ['NUL', '\0'],
    ['its own commands with NUL behind', `${COMMANDS}\0`],
    ['a lone surrogate', Buffer.from([0xed, 0xa0, 0x80])],
  ])('to %s closes the client [MQTT-1.5.3]', async (_title, filter) => {
    const { peer } = await mqtt.open();
    peer.write(subscribePacket(9, filter));
    expect((await peer.take(PACKET.suback).catch(() => Buffer.from('closed'))).toString()).toBe('closed');
  });
});

describe('an UNSUBSCRIBE', () => {
  it('from its commands is told to the object', async () => {
    const { peer, link } = await mqtt.open();
    peer.write(subscribePacket(1, COMMANDS), unsubscribePacket(2, COMMANDS));
    await peer.take(PACKET.suback);
    expect(await peer.takeId(PACKET.unsuback)).toBe(2);
    expect(await link.take('subscribed')).toEqual({ kind: 'subscribed', commands: true });
    expect(await link.take('subscribed')).toEqual({ kind: 'subscribed', commands: false });
  });

  it('from anything else leaves the commands as they are', async () => {
    const client = await mqtt.open();
    const { peer, link } = client;
    peer.write(subscribePacket(1, COMMANDS));
    await peer.take(PACKET.suback);
    peer.write(unsubscribePacket(2, TELEMETRY, '#'));
    expect(await peer.takeId(PACKET.unsuback)).toBe(2);
    link.send({ kind: 'command', payload: 'still' });
    expect((await peer.takePublish()).payload).toBe('still');
    expect(await sentToObject(client)).toEqual([{ kind: 'subscribed', commands: true }]);
  });
});

describe('a command', () => {
  it('comes to the device on its topic, at QoS 1, not retained, in order', async () => {
    const { peer, link } = await mqtt.open();
    peer.write(subscribePacket(1, COMMANDS));
    await peer.take(PACKET.suback);
    link.send({ kind: 'command', payload: '{"cmdId":"č"}' }, { kind: 'command', payload: '2' });
    link.send({ kind: 'command', payload: '3' });
    const [first, second, third] = [
      await peer.takePublish(),
      await peer.takePublish(),
      await peer.takePublish(),
    ];
    expect(first).toMatchObject({ topic: COMMANDS, qos: 1, retain: false, payload: '{"cmdId":"č"}' });
    expect([second.payload, third.payload]).toEqual(['2', '3']);
    expect(new Set([first.id, second.id, third.id]).size).toBe(3);
    for (const { id } of [first, second, third]) peer.write(acknowledgement(PACKET.puback, id));
    await peer.ping();
    expect(mqtt.events.commandedCount).toBe(3);
  });

  it('comes at QoS 0 to a device that asked for that', async () => {
    const { peer, link } = await mqtt.open();
    peer.write(packet(PACKET.subscribe, 2, Buffer.from([0, 1]), prefixed(COMMANDS), Buffer.from([0])));
    await peer.take(PACKET.suback);
    link.send({ kind: 'command', payload: 'x' });
    expect((await peer.takePublish()).qos).toBe(0);
  });

  it('never comes before CONNACK, though the object was quick', async () => {
    const { peer } = mqtt.send();
    const link = await edge.deviceLink();
    link.send({ kind: 'command', payload: 'early' });
    expect(await peer.takeConnack()).toBe(0);
    expect((await peer.takePublish()).payload).toBe('early');
  });

  it('comes to its own device alone', async () => {
    const [first, second] = [await mqtt.open(), await mqtt.open({ username: OTHER_ID })];
    first.peer.write(subscribePacket(1, COMMANDS));
    second.peer.write(subscribePacket(1, `cpi/${OTHER_ID}/commands`));
    await Promise.all([first.peer.take(PACKET.suback), second.peer.take(PACKET.suback)]);
    first.link.send({ kind: 'command', payload: 'for the first' });
    expect((await first.peer.takePublish()).payload).toBe('for the first');
    await second.peer.ping();
  });

  it('of 100 KB comes whole', async () => {
    const { peer, link } = await mqtt.open();
    peer.write(subscribePacket(1, COMMANDS));
    await peer.take(PACKET.suback);
    link.send({ kind: 'command', payload: 'x'.repeat(100_000) });
    expect((await peer.takePublish()).payload.length).toBe(100_000);
  });
});
