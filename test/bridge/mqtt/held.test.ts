/** A device over its rate: its messages are held and sent again later, and it is not read meanwhile [C-3.8]. */
import { describe, expect } from 'vitest';
import { mqttTest, type OpenMqttClient, TELEMETRY } from '#support/bridge-mqtt.ts';
import { PACKET, PINGREQ, publishPacket } from '#support/bridge-mqtt-peer.ts';
import { takeAtRate } from '#support/bridge-rated.ts';
import { turns } from '#support/bridge-signal.ts';

const WAIT_MS = 1_000;

/** The payloads and sequences of the publishes that the site received since the last call. */
function news({ link }: OpenMqttClient): { payloads: string[]; seqs: number[] } {
  const publishes = link.takePublishes();
  return { payloads: publishes.map(({ payload }) => payload), seqs: publishes.map(({ seq }) => seq) };
}

function upTo(total: number): number[] {
  return Array.from({ length: total }, (_, index) => index + 1);
}

/** `hold` opens a device whose messages 1 to `count` the site holds and then accepts one at a time. */
const it = mqttTest.extend('hold', ({ clock, mqtt }) => {
  return async (count: number, { qos = 1, keepalive = 300, ms = WAIT_MS } = {}) => {
    const client = await mqtt.open({ keepalive });
    client.peer.write(...upTo(count).map((id) => publishPacket(TELEMETRY, `${id}`, { qos, id })));
    await clock.pass(5);
    const { payloads, seqs } = news(client);
    expect(payloads.length).toBe(count);
    client.link.send({ kind: 'wait', seqs, ms, count: 1 });
    await turns(50);
    return client;
  };
});

describe('held messages', () => {
  it.for([0, 1, 2])(
    'at QoS %d are sent again one by one, and acknowledged only when they are stored',
    async (qos, { clock, hold }) => {
      const client = await hold(3, { qos });
      await clock.pass(WAIT_MS - 10);
      expect(news(client).payloads).toEqual([]);
      await clock.pass(10);
      for (const id of [1, 2, 3]) {
        const { payloads, seqs } = news(client);
        expect(payloads).toEqual([`${id}`]);
        expect(client.peer.packets.length).toBe(qos === 0 ? 1 : id);
        client.link.send({ kind: 'stored', seqs });
        if (qos === 1) expect(await client.peer.takeId(PACKET.puback)).toBe(id);
        if (qos === 2) expect(await client.peer.takeId(PACKET.pubrec)).toBe(id);
        await turns(50);
        await clock.pass(WAIT_MS);
      }
      expect(news(client).payloads).toEqual([]);
    },
  );

  it('keep their order when the site holds one of them again', async ({ clock, hold }) => {
    const client = await hold(3);
    await clock.pass(WAIT_MS);
    client.link.send({ kind: 'wait', seqs: news(client).seqs, ms: WAIT_MS, count: 3 });
    await turns(50);
    await clock.pass(WAIT_MS);
    expect(news(client).payloads).toEqual(['1', '2', '3']);
  });

  it.for([
    ['a message a segment', 1],
    ['many messages a segment', 50],
  ] as const)(
    'stop the bridge from reading; later, all messages reach the site in order: %s',
    async ([_, together], { clock, mqtt, hold }) => {
      const client = await hold(1);
      const later = upTo(3_000).slice(1);
      const packets = later.map((id) => publishPacket(TELEMETRY, `${id}`, { qos: 0 }));
      for (let start = 0; start < packets.length; start += together) {
        client.peer.write(...packets.slice(start, start + together));
        await turns(1);
      }
      expect(mqtt.events.publishedCount).toBeLessThan(1_500);
      let isTaken = false;
      const taking = takeAtRate(client.link, 3_000, { burst: 200, perMessage: 100, ms: 1 }).finally(() => {
        isTaken = true;
      });
      while (!isTaken) await clock.pass(WAIT_MS);
      expect((await taking).map(({ payload }) => Number(payload))).toEqual(upTo(3_000));
    },
  );

  it('do not end the session of a device that keeps pinging', async ({ clock, mqtt, hold }) => {
    const client = await hold(1, { keepalive: 10, ms: 30_000 });
    for (let seconds = 0; seconds < 30; seconds += 5) {
      client.peer.write(PINGREQ);
      await clock.pass(5_000);
    }
    expect(mqtt.events.closedWhy).toEqual([]);
    expect(client.peer.ended).toBe(false);
    expect(news(client).payloads).toEqual(['1']);
  });

  it('are dropped with their timer when the device disconnects', async ({ clock, hold }) => {
    const { timers } = clock;
    const client = await hold(3);
    client.stream.destroy();
    await client.link.untilClosed();
    await turns();
    expect(clock.timers).toBe(timers);
    await clock.pass(10 * WAIT_MS);
    expect(news(client).payloads).toEqual([]);
  });
});

describe('a flood of a device', () => {
  it.for([0, 1])('reaches the site complete and in order at QoS %d', async (qos, { mqtt }) => {
    const total = 600;
    const client = await mqtt.open({ keepalive: 300 });
    for (let id = 1; id <= total; id++) client.peer.write(publishPacket(TELEMETRY, `${id}`, { qos, id }));
    const taken = await takeAtRate(client.link, total, { burst: 50, perMessage: 5, ms: 1 });
    expect(taken.map(({ payload }) => Number(payload))).toEqual(upTo(total));
    if (qos === 0) return;
    const acknowledged = new Set<number>();
    while (acknowledged.size < total) acknowledged.add(await client.peer.takeId(PACKET.puback));
  });
});
