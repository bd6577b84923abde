/** PUBLISH from a device: acknowledged when its site has stored it, and never routed to anybody. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { TestEdge } from '../../support/bridge-edge.ts';
import { DEVICE_ID } from '../../support/bridge-link.ts';
import {
  COMMANDS,
  type OpenMqttClient,
  OTHER_ID,
  sentToObject,
  TELEMETRY,
  TestBroker,
} from '../../support/bridge-mqtt.ts';
import {
  acknowledgement,
  PACKET,
  prefixed,
  publishPacket,
  subscribePacket,
} from '../../support/bridge-mqtt-peer.ts';
import { turns } from '../../support/bridge-signal.ts';

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

/** Once to the object and back: nothing else came to the client in between. */
async function throughLink({ peer, link }: OpenMqttClient): Promise<void> {
  peer.write(publishPacket(TELEMETRY, 'barrier', { id: 999 }));
  let frame = await link.take('publish');
  while (frame.payload !== 'barrier') frame = await link.take('publish');
  link.send({ kind: 'stored', seqs: [frame.seq] });
  expect(await peer.takeId(PACKET.puback)).toBe(999);
}

describe('a PUBLISH', () => {
  it.each(['telemetry', 'status', 'ack'])(
    'to its own %s topic reaches the object as it was sent',
    async (name) => {
      const { peer, link } = await mqtt.open();
      const payload = '{"ts":1,"data":{"10":5.0,"2":1e-05,"č":"\\u010d"}}';
      peer.write(publishPacket(`cpi/${DEVICE_ID}/${name}`, payload));
      expect(await link.take('publish')).toMatchObject({ kind: 'publish', topic: name, payload });
      expect(mqtt.events.publishedCount).toBe(1);
    },
  );

  it.each([
    ['nothing', ''],
    ['NUL', '\0'],
    ['100 KB', 'x'.repeat(100_000)],
  ])('may carry %s', async (_title, payload) => {
    const { peer, link } = await mqtt.open();
    peer.write(publishPacket(TELEMETRY, payload));
    expect((await link.take('publish')).payload).toBe(payload);
  });

  it('at QoS 1 is acknowledged when it is stored, never before (rule 3)', async () => {
    const { peer, link } = await mqtt.open();
    peer.write(publishPacket(TELEMETRY, 'a', { id: 7 }));
    const { seq } = await link.take('publish');
    await peer.ping();
    link.send({ kind: 'stored', seqs: [seq] });
    expect(await peer.takeId(PACKET.puback)).toBe(7);
  });

  it('is acknowledged by its own sequence, in whatever order they are stored (rule 4)', async () => {
    const { peer, link } = await mqtt.open();
    for (const id of [1, 2, 3]) peer.write(publishPacket(TELEMETRY, `${id}`, { id }));
    const seqs = [await link.take('publish'), await link.take('publish'), await link.take('publish')].map(
      ({ seq }) => seq,
    );
    link.send({ kind: 'stored', seqs: [seqs[2] ?? 0, 77] });
    expect(await peer.takeId(PACKET.puback)).toBe(3);
    link.send({ kind: 'stored', seqs: [seqs[0] ?? 0, seqs[1] ?? 0] });
    expect([await peer.takeId(PACKET.puback), await peer.takeId(PACKET.puback)]).toEqual([1, 2]);
  });

  it('at QoS 0 is passed on and answered nothing', async () => {
    const client = await mqtt.open();
    client.peer.write(publishPacket(TELEMETRY, 'a', { qos: 0 }));
    client.link.send({ kind: 'stored', seqs: [(await client.link.take('publish')).seq] });
    await throughLink(client);
  });

  it('at QoS 2 is received when it is stored, and completed', async () => {
    const { peer, link } = await mqtt.open();
    peer.write(publishPacket(TELEMETRY, 'a', { qos: 2, id: 5 }));
    const { seq } = await link.take('publish');
    await peer.ping();
    link.send({ kind: 'stored', seqs: [seq] });
    expect(await peer.takeId(PACKET.pubrec)).toBe(5);
    peer.write(acknowledgement(PACKET.pubrel, 5));
    expect(await peer.takeId(PACKET.pubcomp)).toBe(5);
    expect(link.received.length).toBe(1);
  });

  it('sent again as a duplicate is passed on again: its nonce tells [C-3.8]', async () => {
    const { peer, link } = await mqtt.open();
    peer.write(publishPacket(TELEMETRY, 'a', { id: 7 }), publishPacket(TELEMETRY, 'a', { id: 7, dup: true }));
    const seqs = [(await link.take('publish')).seq, (await link.take('publish')).seq];
    link.send({ kind: 'stored', seqs });
    expect([await peer.takeId(PACKET.puback), await peer.takeId(PACKET.puback)]).toEqual([7, 7]);
  });

  it.each([1, 2])('at QoS %d that is refused is not acknowledged, and the session lives', async (qos) => {
    const client = await mqtt.open();
    const { peer, link } = client;
    peer.write(publishPacket(TELEMETRY, 'a', { qos, id: 4 }));
    link.send({ kind: 'refused', seq: (await link.take('publish')).seq, reason: 'too many' });
    await throughLink(client);
    expect(link.closedWith).toBeUndefined();
    expect(mqtt.events.results.refused).toBe(1);
  });

  it('of which the object never speaks again ends with the link', async () => {
    const { peer, link } = await mqtt.open();
    peer.write(publishPacket(TELEMETRY, 'a'));
    await link.take('publish');
    link.socket.terminate();
    await peer.untilEnded();
    expect(peer.packets.length).toBe(1);
    expect(await mqtt.events.untilClosed()).toMatch(/^link 1006/);
  });
});

describe('a retained flag', () => {
  it('is cleared and the message processed [C-3.6]', async () => {
    const { peer, link } = await mqtt.open();
    peer.write(publishPacket(TELEMETRY, 'a', { retain: true, id: 3 }));
    link.send({ kind: 'stored', seqs: [(await link.take('publish')).seq] });
    expect(await peer.takeId(PACKET.puback)).toBe(3);
    peer.write(subscribePacket(4, COMMANDS));
    await peer.take(PACKET.suback);
    await peer.ping();
  });
});

describe('a PUBLISH to a topic that is not the device’s', () => {
  it.each<[string, string | Buffer]>([
    ['another device’s telemetry', `cpi/${OTHER_ID}/telemetry`],
    ['its own commands', COMMANDS],
    ['another device’s commands', `cpi/${OTHER_ID}/commands`],
    ['its own, in upper case', `cpi/${DEVICE_ID.toUpperCase()}/telemetry`],
    ['its own, a level deeper', `${TELEMETRY}/x`],
    ['its own, with a slash before it', `/${TELEMETRY}`],
    ['its own, with NUL behind it', `${TELEMETRY}\0`],
    ['NUL', '\0'],
    ['a lone surrogate', Buffer.from([0xed, 0xa0, 0x80])],
    ['the broker’s own', '$SYS/x/heartbeat'],
    ['a wildcard', '#'],
    ['a wildcard within', `cpi/+/telemetry`],
    ['no topic', ''],
    ['101 levels', Array(101).fill('a').join('/')],
    ['65 535 bytes', 'a'.repeat(65_535)],
  ])(
    '(%s) closes the client, and of it the object is told its topic alone [C-3.8]',
    async (_title, topic) => {
      for (const qos of [0, 1]) {
        const { peer, link } = await mqtt.open();
        peer.write(publishPacket(topic, '{}', { qos }));
        await peer.untilEnded();
        await link.untilClosed();
        // A packet that is none of MQTT's has no topic.
        const strayed = { kind: 'strayed', act: 'publish', topic: expect.any(String) };
        expect([[], [strayed]]).toContainEqual(link.received);
        expect(peer.packets.length).toBe(1);
      }
    },
  );

  it('leaves every other device as it was', async () => {
    const [bad, good] = [await mqtt.open(), await mqtt.open({ username: OTHER_ID })];
    bad.peer.write(publishPacket(`cpi/${OTHER_ID}/telemetry`, '{}'));
    await bad.peer.untilEnded();
    expect(await sentToObject(good, OTHER_ID)).toEqual([]);
  });
});

describe('what devices send', () => {
  it('reaches no other device, whatever that one listens on', async () => {
    const [sender, listener] = [await mqtt.open(), await mqtt.open({ username: OTHER_ID })];
    listener.peer.write(subscribePacket(1, `cpi/${OTHER_ID}/commands`, '#', TELEMETRY, '$SYS/#'));
    expect([...(await listener.peer.take(PACKET.suback))].slice(2)).toEqual([1, 0x80, 0x80, 0x80]);
    sender.peer.write(publishPacket(TELEMETRY, 'a'));
    sender.link.send({ kind: 'stored', seqs: [(await sender.link.take('publish')).seq] });
    await sender.peer.take(PACKET.puback);
    await listener.peer.ping();
  });

  it('over what a packet may hold closes the client at its header', async () => {
    const { peer, link } = await mqtt.open();
    peer.write(publishPacket(TELEMETRY, Buffer.alloc(131_072 - prefixed(TELEMETRY).length - 1)));
    await peer.untilEnded();
    await link.untilClosed();
    await turns();
    expect(link.received).toEqual([]);
  });
});
