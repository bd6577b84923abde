/** A device over its rate: its messages are kept and sent again when its site said, and it is read no further [C-3.8]. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { TestEdge } from '../../support/bridge-edge.ts';
import { type OpenMqttClient, TELEMETRY, TestBroker } from '../../support/bridge-mqtt.ts';
import { PACKET, packet, publishPacket } from '../../support/bridge-mqtt-peer.ts';
import { takeAtRate } from '../../support/bridge-rated.ts';
import { CLOCK, turns } from '../../support/bridge-signal.ts';

const WAIT_MS = 1_000;
const PINGREQ = packet(PACKET.pingreq, 0);

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
  edge.reset();
});
afterAll(() => edge.stop());

async function pass(ms: number): Promise<void> {
  await turns();
  await vi.advanceTimersByTimeAsync(ms);
  await turns(50);
}

/** The publishes that reached the site since it was last asked. */
function news({ link }: OpenMqttClient): { payloads: string[]; seqs: number[] } {
  const publishes = link.batches
    .splice(0)
    .flat()
    .filter((one) => one.kind === 'publish');
  return { payloads: publishes.map(({ payload }) => payload), seqs: publishes.map(({ seq }) => seq) };
}

/** A device whose messages `1` to `count` the site lets wait, one a turn. */
async function heldDevice(
  count: number,
  options: { qos?: number; keepalive?: number; ms?: number } = {},
): Promise<OpenMqttClient> {
  const { qos = 1, keepalive = 300, ms = WAIT_MS } = options;
  const client = await mqtt.open({ keepalive });
  const packets = Array.from({ length: count }, (_, index) =>
    publishPacket(TELEMETRY, `${index + 1}`, { qos, id: index + 1 }),
  );
  client.peer.write(...packets);
  await pass(5);
  const { payloads, seqs } = news(client);
  expect(payloads.length).toBe(count);
  client.link.send({ kind: 'wait', seqs, ms, count: 1 });
  await turns(50);
  return client;
}

describe('messages that are to wait', () => {
  it.each([0, 1, 2])(
    'come again one by one at QoS %d, with their sequences, and are answered when stored',
    async (qos) => {
      const client = await heldDevice(3, { qos });
      await pass(WAIT_MS - 10);
      expect(news(client).payloads).toEqual([]);
      await pass(10);
      for (const id of [1, 2, 3]) {
        const { payloads, seqs } = news(client);
        expect(payloads).toEqual([`${id}`]);
        expect(client.peer.packets.length).toBe(qos === 0 ? 1 : id);
        client.link.send({ kind: 'stored', seqs });
        if (qos === 1) expect(await client.peer.takeId(PACKET.puback)).toBe(id);
        if (qos === 2) expect(await client.peer.takeId(PACKET.pubrec)).toBe(id);
        await turns(50);
        await pass(WAIT_MS);
      }
      expect(news(client).payloads).toEqual([]);
    },
  );

  it('and are to wait again stand before those behind them', async () => {
    const client = await heldDevice(3);
    await pass(WAIT_MS);
    client.link.send({ kind: 'wait', seqs: news(client).seqs, ms: WAIT_MS, count: 3 });
    await turns(50);
    await pass(WAIT_MS);
    expect(news(client).payloads).toEqual(['1', '2', '3']);
  });

  it.each([
    ['a message a segment', 1],
    ['many messages a segment', 50],
  ])(
    'keep the bridge from reading on, and what was not read comes after them: %s',
    async (_title, together) => {
      const total = 3_000;
      const client = await heldDevice(1);
      const packets = Array.from({ length: total - 1 }, (_, index) =>
        publishPacket(TELEMETRY, `${index + 2}`, { qos: 0 }),
      );
      for (let start = 0; start < packets.length; start += together) {
        client.peer.write(...packets.slice(start, start + together));
        await turns(1);
      }
      expect(mqtt.events.publishedCount).toBeLessThan(total / 2);
      const taking = takeAtRate(client.link, total, { burst: 200, perMessage: 100, ms: 1 });
      let taken: Awaited<typeof taking> | undefined;
      void taking.then((all) => {
        taken = all;
      });
      while (!taken) await pass(WAIT_MS);
      expect(taken.map(({ payload }) => Number(payload))).toEqual(
        Array.from({ length: total }, (_, index) => index + 1),
      );
    },
  );

  it('are no reason to cut their device, which pings and is not read', async () => {
    const client = await heldDevice(1, { keepalive: 10, ms: 30_000 });
    for (let seconds = 0; seconds < 30; seconds += 5) {
      client.peer.write(PINGREQ);
      await pass(5_000);
    }
    expect(mqtt.events.closedWhy).toEqual([]);
    expect(client.peer.ended).toBe(false);
    expect(news(client).payloads).toEqual(['1']);
  });

  it('go with their device, and leave no timer behind', async () => {
    const timers = vi.getTimerCount();
    const client = await heldDevice(3);
    client.stream.destroy();
    await client.link.untilClosed();
    await turns();
    expect(vi.getTimerCount()).toBe(timers);
    await pass(10 * WAIT_MS);
    expect(news(client).payloads).toEqual([]);
  });
});

describe('a flood of a device', () => {
  it.each([0, 1])('reaches its site whole and in order at QoS %d', async (qos) => {
    vi.useRealTimers();
    const total = 600;
    const client = await mqtt.open({ keepalive: 300 });
    for (let id = 1; id <= total; id++) client.peer.write(publishPacket(TELEMETRY, `${id}`, { qos, id }));
    const taken = await takeAtRate(client.link, total, { burst: 50, perMessage: 5, ms: 1 });
    expect(taken.map(({ payload }) => Number(payload))).toEqual(
      Array.from({ length: total }, (_, index) => index + 1),
    );
    if (qos === 0) return;
    const acknowledged = new Set<number>();
    while (acknowledged.size < total) acknowledged.add(await client.peer.takeId(PACKET.puback));
  });
});
