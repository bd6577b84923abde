/** A session's life: keep-alive, its link, its will, its end; client and link end together. */
import persistence from 'aedes-persistence';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import { TestEdge } from '../../support/bridge-edge.ts';
import { DEVICE_ID } from '../../support/bridge-link.ts';
import { COMMANDS, OTHER_ID, sentToObject, TestBroker } from '../../support/bridge-mqtt.ts';
import { PACKET, packet, publishPacket } from '../../support/bridge-mqtt-peer.ts';
import { CLOCK, turns } from '../../support/bridge-signal.ts';

const STATUS = `cpi/${DEVICE_ID}/status`;
const DISCONNECT = packet(PACKET.disconnect, 0);

let edge: TestEdge;
let mqtt: TestBroker;

beforeAll(async () => {
  edge = await TestEdge.start();
});
beforeEach(async () => {
  vi.useFakeTimers(CLOCK);
  mqtt = await TestBroker.start(edge);
});
afterEach(async () => {
  await mqtt.engine.stop();
  vi.useRealTimers();
  vi.restoreAllMocks();
  edge.reset();
});
afterAll(() => edge.stop());

async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
  await turns();
}

describe('keep-alive', () => {
  it.each([
    [60, 90_000],
    [1, 1_500],
    [300, 450_000],
    [301, 450_000],
    [65_535, 450_000],
    [0, 450_000],
  ])('of %d s ends a silent client after %d ms: at most five minutes are granted', async (keepalive, ms) => {
    const { peer, link } = await mqtt.open({ keepalive });
    await pass(ms);
    expect(peer.ended).toBe(false);
    await pass(2);
    await peer.untilEnded();
    await link.untilClosed();
    expect(await mqtt.events.untilClosed()).toBe('keep alive timeout');
  });

  it('is kept by pings and by publishes', async () => {
    const { peer, link } = await mqtt.open({ keepalive: 60 });
    for (let count = 0; count < 3; count++) {
      await pass(80_000);
      await peer.ping();
      await pass(80_000);
      peer.write(publishPacket(STATUS, '{}', { qos: 0 }));
      await link.take('publish');
      link.send({ kind: 'stored', seqs: [count + 1] });
    }
    expect(peer.ended).toBe(false);
  });
});

describe('a session whose link closes', () => {
  it.each([
    ['another session took over', CLOSE_CODES.takenOver],
    ['the device was revoked', CLOSE_CODES.revoked],
    ['its token expired', CLOSE_CODES.expired],
    ['the object had no more of it', CLOSE_CODES.protocolError],
    ['the object went away', 1012],
  ])('because %s ends at once [C-3.6]', async (_title, code) => {
    const { peer, link } = await mqtt.open();
    link.close(code, 'why');
    await peer.untilEnded();
    expect(await mqtt.events.untilClosed()).toBe(`link ${code} why`);
    expect(mqtt.events.closedWhy.length).toBe(1);
    expect(peer.packets.length).toBe(1);
  });

  it('leaves every other session as it was', async () => {
    const [first, second] = [await mqtt.open(), await mqtt.open({ username: OTHER_ID })];
    first.link.close(CLOSE_CODES.revoked);
    await first.peer.untilEnded();
    await second.peer.ping();
  });

  it('before it was accepted is never accepted', async () => {
    const { peer } = mqtt.send();
    (await edge.deviceLink()).close(CLOSE_CODES.revoked);
    await peer.untilEnded();
    expect(await mqtt.events.untilClosed()).toMatch(/^link 4003/);
  });
});

describe('a device that goes', () => {
  it('with DISCONNECT takes its link with it', async () => {
    const { peer, link } = await mqtt.open();
    peer.write(DISCONNECT);
    await link.untilClosed();
    expect(mqtt.events.closedWhy.length).toBe(1);
  });

  it('without a word takes its link with it', async () => {
    const { peer, link } = await mqtt.open();
    peer.stream.end();
    await link.untilClosed();
    expect(await mqtt.events.untilClosed()).toBe('client closed');
  });

  it('with a reset takes its link with it', async () => {
    const { stream, link } = await mqtt.open();
    stream.destroy(new Error('read ECONNRESET'));
    await link.untilClosed();
    expect(await mqtt.events.untilClosed()).toBe('read ECONNRESET');
  });

  it('right after a publish loses nothing that it sent', async () => {
    const { peer, link } = await mqtt.open();
    peer.write(publishPacket(STATUS, 'last words'), DISCONNECT);
    await link.untilClosed();
    expect(link.received).toMatchObject([{ kind: 'publish', topic: 'status', payload: 'last words' }]);
  });
});

describe('a will', () => {
  const will = { topic: STATUS, payload: '{"status":"OFFLINE"}', qos: 1, retain: true };

  it('reaches the object as a publish when the device goes without a word: it decides [C-3.10]', async () => {
    const { peer, link } = await mqtt.open({ will });
    peer.stream.end();
    await link.untilClosed();
    expect(link.received).toMatchObject([{ kind: 'publish', topic: 'status', payload: will.payload }]);
  });

  it('is forgotten with DISCONNECT', async () => {
    const { peer, link } = await mqtt.open({ will });
    peer.write(DISCONNECT);
    await link.untilClosed();
    expect(link.received).toEqual([]);
  });

  it('is forgotten when the object ended the session', async () => {
    const { peer, link } = await mqtt.open({ will });
    link.close(CLOSE_CODES.takenOver);
    await peer.untilEnded();
    await turns();
    expect(link.received).toEqual([]);
  });

  it.each([
    ['its own commands', COMMANDS],
    ['another device’s', `cpi/${OTHER_ID}/status`],
    ['the broker’s own', '$SYS/x'],
    ['a wildcard', '#'],
    ['NUL', 'a\0b'],
    ['101 levels', Array(101).fill('a').join('/')],
  ])(
    'to a topic that is not the device’s (%s) reaches nobody; its object is told of it at most [C-3.8]',
    async (_title, topic) => {
      const other = await mqtt.open({ username: OTHER_ID });
      const { peer, link } = await mqtt.open({ will: { ...will, topic } });
      peer.stream.end();
      await link.untilClosed();
      expect(link.received.filter(({ kind }) => kind !== 'strayed')).toEqual([]);
      expect(await sentToObject(other, OTHER_ID)).toEqual([]);
    },
  );

  it('reaches the object too when the device falls silent [MQTT-3.1.2-8]', async () => {
    const { link } = await mqtt.open({ will, keepalive: 60 });
    await pass(90_002);
    await link.untilClosed();
    expect(link.received.filter(({ kind }) => kind === 'publish')).toHaveLength(1);
  });
});

describe('the broker’s memory', () => {
  it('lets go of a will once it was handed over', async () => {
    const store = Object.getPrototypeOf(persistence()) as ReturnType<typeof persistence>;
    const [kept, forgotten] = [vi.spyOn(store, 'putWill'), vi.spyOn(store, 'delWill')];
    const { peer, link } = await mqtt.open({ will: { topic: STATUS, payload: '{}', qos: 1 } });
    expect(kept).toHaveBeenCalledTimes(1);
    forgotten.mockClear();
    peer.stream.end();
    await link.untilClosed();
    await turns();
    expect(forgotten).toHaveBeenCalled();
  });
});

describe('a broker that stops', () => {
  it('closes every client and every link', async () => {
    const clients = [await mqtt.open(), await mqtt.open({ username: OTHER_ID })];
    await mqtt.engine.stop();
    for (const { peer, link } of clients) {
      await peer.untilEnded();
      await link.untilClosed();
    }
  });
});
