/** SUBSCRIBE: a device may subscribe only to its commands; and the delivery of commands. */
import { describe, expect } from 'vitest';
import { DEVICE_ID } from '#support/bridge-link.ts';
import { COMMANDS, mqttTest as it, OTHER_ID, sentToObject, TELEMETRY } from '#support/bridge-mqtt.ts';
import {
  acknowledgement,
  PACKET,
  packet,
  prefixed,
  subscribePacket,
  unsubscribePacket,
} from '#support/bridge-mqtt-peer.ts';

describe('a SUBSCRIBE', () => {
  it('to the device’s commands is granted and reported to the object', async ({ peer, link }) => {
    expect(await peer.subscribe(9, COMMANDS)).toEqual([0, 9, 1]);
    expect(await link.take('subscribed')).toEqual({ kind: 'subscribed', commands: true });
  });

  it.for([
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
  ])('to %s gets 0x80 and is reported to the object [C-3.8]', async (filter, { device }) => {
    expect(await device.peer.subscribe(9, filter)).toEqual([0, 9, 0x80]);
    expect(await sentToObject(device)).toEqual([{ kind: 'foreign-topic', act: 'subscribe', topic: filter }]);
  });

  it('to several filters gets a code for each', async ({ peer, link }) => {
    expect(await peer.subscribe(9, '#', COMMANDS, TELEMETRY)).toEqual([0, 9, 0x80, 1, 0x80]);
    await link.take('subscribed');
  });

  it.for([0, 2])('at QoS %d is granted with that QoS', async (qos, { peer }) => {
    peer.write(packet(PACKET.subscribe, 2, Buffer.from([0, 9]), prefixed(COMMANDS), Buffer.from([qos])));
    expect([...(await peer.take(PACKET.suback))]).toEqual([0, 9, qos]);
  });

  it.for<[string, string | Buffer]>([
    ['101 levels', Array(101).fill('a').join('/')],
    ['a # that is not the end', 'cpi/#/commands'],
    ['no filter', ''],
  ])('to %s closes the client', async ([_, filter], { peer, link }) => {
    peer.write(subscribePacket(9, filter));
    await peer.untilEnded();
    await link.untilClosed();
    expect(link.received).toEqual([]);
  });

  it.for<[string, string | Buffer]>([
    ['NUL', '\0'],
    ['its own commands before NUL', `${COMMANDS}\0`],
    ['a lone surrogate', Buffer.from([0xed, 0xa0, 0x80])],
  ])('to %s closes the client [MQTT-1.5.3]', async ([_, filter], { peer }) => {
    peer.write(subscribePacket(9, filter));
    expect((await peer.take(PACKET.suback).catch(() => Buffer.from('closed'))).toString()).toBe('closed');
  });
});

describe('an UNSUBSCRIBE', () => {
  it('from the commands is reported to the object', async ({ peer, link }) => {
    peer.write(subscribePacket(1, COMMANDS), unsubscribePacket(2, COMMANDS));
    await peer.take(PACKET.suback);
    expect(await peer.takeId(PACKET.unsuback)).toBe(2);
    expect(await link.take('subscribed')).toEqual({ kind: 'subscribed', commands: true });
    expect(await link.take('subscribed')).toEqual({ kind: 'subscribed', commands: false });
  });

  it('from other topics leaves the commands subscribed', async ({ device, peer, link }) => {
    await peer.subscribe(1, COMMANDS);
    peer.write(unsubscribePacket(2, TELEMETRY, '#'));
    expect(await peer.takeId(PACKET.unsuback)).toBe(2);
    link.send({ kind: 'command', payload: 'still' });
    expect((await peer.takePublish()).payload).toBe('still');
    expect(await sentToObject(device)).toEqual([{ kind: 'subscribed', commands: true }]);
  });
});

describe('a command', () => {
  it('reaches the device on its topic, at QoS 1, not retained, in order', async ({ mqtt, peer, link }) => {
    await peer.subscribe(1, COMMANDS);
    link.send({ kind: 'command', payload: '{"cmdId":"č"}' }, { kind: 'command', payload: '2' });
    link.send({ kind: 'command', payload: '3' });
    const first = await peer.takePublish();
    const second = await peer.takePublish();
    const third = await peer.takePublish();
    expect(first).toMatchObject({ topic: COMMANDS, qos: 1, retain: false, payload: '{"cmdId":"č"}' });
    expect([second.payload, third.payload]).toEqual(['2', '3']);
    expect(new Set([first.id, second.id, third.id]).size).toBe(3);
    for (const { id } of [first, second, third]) peer.write(acknowledgement(PACKET.puback, id));
    await peer.ping();
    expect(mqtt.events.deliveredCount).toBe(3);
  });

  it('reaches the device at QoS 0 if it subscribed at QoS 0', async ({ peer, link }) => {
    peer.write(packet(PACKET.subscribe, 2, Buffer.from([0, 1]), prefixed(COMMANDS), Buffer.from([0])));
    await peer.take(PACKET.suback);
    link.send({ kind: 'command', payload: 'x' });
    expect((await peer.takePublish()).qos).toBe(0);
  });

  it('from before CONNACK arrives right after it, even without SUBSCRIBE', async ({ edge, mqtt }) => {
    const { peer } = mqtt.send();
    const link = await edge.deviceLink();
    link.send({ kind: 'command', payload: 'early' });
    expect(await peer.takeConnack()).toBe(0);
    expect((await peer.takePublish()).payload).toBe('early');
  });

  it('reaches only its own device', async ({ mqtt }) => {
    const [first, second] = [await mqtt.open(), await mqtt.open({ username: OTHER_ID })];
    await first.peer.subscribe(1, COMMANDS);
    await second.peer.subscribe(1, `cpi/${OTHER_ID}/commands`);
    first.link.send({ kind: 'command', payload: 'for the first' });
    expect((await first.peer.takePublish()).payload).toBe('for the first');
    await second.peer.ping();
  });

  it('reaches the device complete if it has 100 KB', async ({ peer, link }) => {
    await peer.subscribe(1, COMMANDS);
    link.send({ kind: 'command', payload: 'x'.repeat(100_000) });
    expect((await peer.takePublish()).payload.length).toBe(100_000);
  });
});
