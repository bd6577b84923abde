/** The life of a session: keep-alive, link, will and end. Client and link end together. */
import persistence from 'aedes-persistence';
import { describe, expect, vi } from 'vitest';
import { DEVICE_ID } from '#support/bridge-link.ts';
import { COMMANDS, mqttTest as it, OTHER_ID, sentToObject } from '#support/bridge-mqtt.ts';
import { DISCONNECT, publishPacket } from '#support/bridge-mqtt-peer.ts';
import { turns } from '#support/bridge-signal.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';

const STATUS = `cpi/${DEVICE_ID}/status`;

describe('keep-alive', () => {
  it.for([
    [60, 90_000],
    [1, 1_500],
    [300, 450_000],
    [301, 450_000],
    [65_535, 450_000],
    [0, 450_000],
  ] as const)('ends, at %d s, a silent client after %d ms', async ([keepalive, ms], { clock, mqtt }) => {
    const { peer, link } = await mqtt.open({ keepalive });
    await clock.pass(ms);
    expect(peer.ended).toBe(false);
    await clock.pass(2);
    await peer.untilEnded();
    await link.untilClosed();
    expect(await mqtt.events.untilClosed()).toBe('keep alive timeout');
  });

  it('pings and publishes keep a session alive', async ({ clock, mqtt }) => {
    const { peer, link } = await mqtt.open({ keepalive: 60 });
    for (let count = 0; count < 3; count++) {
      await clock.pass(80_000);
      await peer.ping();
      await clock.pass(80_000);
      peer.write(publishPacket(STATUS, '{}', { qos: 0 }));
      await link.store();
    }
    expect(peer.ended).toBe(false);
  });
});

describe('a session whose link closes', () => {
  it.for([
    ['another session takes over', CLOSE_CODES.takenOver],
    ['the device is revoked', CLOSE_CODES.revoked],
    ['its token expires', CLOSE_CODES.expired],
    ['the object reports a protocol error', CLOSE_CODES.protocolError],
    ['the object restarts', 1012],
  ] as const)(
    'ends immediately, without a packet, when %s [C-3.6]',
    async ([_, code], { mqtt, peer, link }) => {
      link.close(code, 'why');
      await peer.untilEnded();
      expect(await mqtt.events.untilClosed()).toBe(`link ${code} why`);
      expect(mqtt.events.closedWhy.length).toBe(1);
      expect(peer.packets.length).toBe(1);
    },
  );

  it('leaves other sessions open', async ({ mqtt }) => {
    const [first, second] = [await mqtt.open(), await mqtt.open({ username: OTHER_ID })];
    first.link.close(CLOSE_CODES.revoked);
    await first.peer.untilEnded();
    await second.peer.ping();
  });

  it('ends its client, even before CONNACK', async ({ edge, mqtt }) => {
    const { peer } = mqtt.send();
    (await edge.deviceLink()).close(CLOSE_CODES.revoked);
    await peer.untilEnded();
    expect(await mqtt.events.untilClosed()).toMatch(/^link 4003/);
  });
});

describe('a device that leaves', () => {
  it('DISCONNECT closes the link', async ({ mqtt, peer, link }) => {
    peer.write(DISCONNECT);
    await link.untilClosed();
    expect(mqtt.events.closedWhy.length).toBe(1);
  });

  it('a device that disconnects ends its link', async ({ mqtt, peer, link }) => {
    peer.stream.end();
    await link.untilClosed();
    expect(await mqtt.events.untilClosed()).toBe('client closed');
  });

  it('a device that resets its connection ends its link', async ({ mqtt, device: { stream, link } }) => {
    stream.destroy(new Error('read ECONNRESET'));
    await link.untilClosed();
    expect(await mqtt.events.untilClosed()).toBe('read ECONNRESET');
  });

  it('a publish right before DISCONNECT reaches the object', async ({ peer, link }) => {
    peer.write(publishPacket(STATUS, 'last words'), DISCONNECT);
    await link.untilClosed();
    expect(link.received).toMatchObject([{ kind: 'publish', topic: 'status', payload: 'last words' }]);
  });
});

describe('a will', () => {
  const will = { topic: STATUS, payload: '{"status":"OFFLINE"}', qos: 1, retain: true };

  it('reaches the object if its device ends without DISCONNECT [C-3.10]', async ({ mqtt }) => {
    const { peer, link } = await mqtt.open({ will });
    peer.stream.end();
    await link.untilClosed();
    expect(link.received).toMatchObject([{ kind: 'publish', topic: 'status', payload: will.payload }]);
  });

  it('is discarded by DISCONNECT', async ({ mqtt }) => {
    const { peer, link } = await mqtt.open({ will });
    peer.write(DISCONNECT);
    await link.untilClosed();
    expect(link.received).toEqual([]);
  });

  it('is discarded when the object ends the session', async ({ mqtt }) => {
    const { peer, link } = await mqtt.open({ will });
    link.close(CLOSE_CODES.takenOver);
    await peer.untilEnded();
    await turns();
    expect(link.received).toEqual([]);
  });

  it.for([
    ['its own commands', COMMANDS],
    ['another device’s status', `cpi/${OTHER_ID}/status`],
    ['a broker topic', '$SYS/x'],
    ['a wildcard', '#'],
    ['NUL', 'a\0b'],
    ['101 levels', Array(101).fill('a').join('/')],
  ] as const)(
    'to %s reaches neither its own object as a publish nor another object [C-3.8]',
    async ([_, topic], { mqtt }) => {
      const other = await mqtt.open({ username: OTHER_ID });
      const { peer, link } = await mqtt.open({ will: { ...will, topic } });
      peer.stream.end();
      await link.untilClosed();
      expect(link.received.filter(({ kind }) => kind !== 'foreign-topic')).toEqual([]);
      expect(await sentToObject(other, OTHER_ID)).toEqual([]);
    },
  );

  it('reaches the object if its device exceeds its keep-alive [MQTT-3.1.2-8]', async ({ clock, mqtt }) => {
    const { link } = await mqtt.open({ will, keepalive: 60 });
    await clock.pass(90_002);
    await link.untilClosed();
    expect(link.received.filter(({ kind }) => kind === 'publish')).toHaveLength(1);
  });
});

describe('the broker’s memory', () => {
  it('does not keep a will that was published', async ({ mqtt }) => {
    const store = Object.getPrototypeOf(persistence()) as ReturnType<typeof persistence>;
    const [put, deleted] = [vi.spyOn(store, 'putWill'), vi.spyOn(store, 'delWill')];
    const { peer, link } = await mqtt.open({ will: { topic: STATUS, payload: '{}', qos: 1 } });
    expect(put).toHaveBeenCalledTimes(1);
    deleted.mockClear();
    peer.stream.end();
    await link.untilClosed();
    await turns();
    expect(deleted).toHaveBeenCalled();
    vi.restoreAllMocks();
  });
});

describe('a broker that stops', () => {
  it('closes every client and every link', async ({ mqtt }) => {
    const clients = [await mqtt.open(), await mqtt.open({ username: OTHER_ID })];
    await mqtt.engine.stop();
    for (const { peer, link } of clients) {
      await peer.untilEnded();
      await link.untilClosed();
    }
  });
});
