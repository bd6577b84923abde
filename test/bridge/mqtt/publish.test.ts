/** PUBLISH of a device: acknowledged when its site has stored it, and never routed to another client. */
import { describe, expect } from 'vitest';
import { DEVICE_ID } from '#support/bridge-link.ts';
import {
  COMMANDS,
  mqttTest as it,
  type OpenMqttClient,
  OTHER_ID,
  sentToObject,
  TELEMETRY,
  throughLink,
} from '#support/bridge-mqtt.ts';
import { acknowledgement, PACKET, prefixed, publishPacket } from '#support/bridge-mqtt-peer.ts';
import { turns } from '#support/bridge-signal.ts';

describe('a PUBLISH', () => {
  it.for(['telemetry', 'status', 'ack'])(
    'to the device’s %s topic reaches the object unchanged',
    async (name, { mqtt, peer, link }) => {
      const payload = '{"ts":1,"data":{"10":5.0,"2":1e-05,"č":"\\u010d"}}';
      peer.write(publishPacket(`cpi/${DEVICE_ID}/${name}`, payload));
      expect(await link.take('publish')).toMatchObject({ kind: 'publish', topic: name, payload });
      expect(mqtt.events.publishedCount).toBe(1);
    },
  );

  it.for([
    ['nothing', ''],
    ['NUL', '\0'],
    ['100 KB', 'x'.repeat(100_000)],
  ] as const)('may have a payload of %s', async ([_, payload], { peer, link }) => {
    peer.write(publishPacket(TELEMETRY, payload));
    expect((await link.take('publish')).payload).toBe(payload);
  });

  it('at QoS 1 is acknowledged when it is stored, not before (rule 3)', async ({ peer, link }) => {
    peer.write(publishPacket(TELEMETRY, 'a', { id: 7 }));
    const { seq } = await link.take('publish');
    await peer.ping();
    link.send({ kind: 'stored', seqs: [seq] });
    expect(await peer.takeId(PACKET.puback)).toBe(7);
  });

  it('is acknowledged when it is stored, even before earlier ones (rule 4)', async ({ peer, link }) => {
    for (const id of [1, 2, 3]) peer.write(publishPacket(TELEMETRY, `${id}`, { id }));
    const [first, second, third] = await Promise.all([1, 2, 3].map(() => link.take('publish')));
    link.send({ kind: 'stored', seqs: [third?.seq ?? 0, 77] });
    expect(await peer.takeId(PACKET.puback)).toBe(3);
    link.send({ kind: 'stored', seqs: [first?.seq ?? 0, second?.seq ?? 0] });
    expect([await peer.takeId(PACKET.puback), await peer.takeId(PACKET.puback)]).toEqual([1, 2]);
  });

  it('at QoS 0 reaches the object and gets no answer', async ({ device }) => {
    device.peer.write(publishPacket(TELEMETRY, 'a', { qos: 0 }));
    await device.link.store();
    await throughLink(device);
  });

  it('at QoS 2 gets PUBREC when it is stored, and PUBCOMP after its PUBREL', async ({ peer, link }) => {
    peer.write(publishPacket(TELEMETRY, 'a', { qos: 2, id: 5 }));
    const { seq } = await link.take('publish');
    await peer.ping();
    link.send({ kind: 'stored', seqs: [seq] });
    expect(await peer.takeId(PACKET.pubrec)).toBe(5);
    peer.write(acknowledgement(PACKET.pubrel, 5));
    expect(await peer.takeId(PACKET.pubcomp)).toBe(5);
    expect(link.received.length).toBe(1);
  });

  it('reaches the object as a duplicate, too; both get PUBACK [C-3.8]', async ({ peer, link }) => {
    peer.write(publishPacket(TELEMETRY, 'a', { id: 7 }), publishPacket(TELEMETRY, 'a', { id: 7, dup: true }));
    const seqs = [(await link.take('publish')).seq, (await link.take('publish')).seq];
    link.send({ kind: 'stored', seqs });
    expect([await peer.takeId(PACKET.puback), await peer.takeId(PACKET.puback)]).toEqual([7, 7]);
  });

  it.for([1, 2])(
    'gets no answer if the object rejects it at QoS %d, and the session stays open',
    async (qos, { mqtt, peer, link }) => {
      peer.write(publishPacket(TELEMETRY, 'a', { qos, id: 4 }));
      link.send({ kind: 'refused', seq: (await link.take('publish')).seq, reason: 'too many' });
      await throughLink({ peer, link });
      expect(link.closedWith).toBeUndefined();
      expect(mqtt.events.results.refused).toBe(1);
    },
  );

  it('is not acknowledged if the link is lost before the object’s answer', async ({ mqtt, peer, link }) => {
    peer.write(publishPacket(TELEMETRY, 'a'));
    await link.take('publish');
    link.socket.terminate();
    await peer.untilEnded();
    expect(peer.packets.length).toBe(1);
    expect(await mqtt.events.untilClosed()).toMatch(/^link 1006/);
  });
});

describe('a PUBLISH with the retain flag', () => {
  it('is processed like one without it [C-3.6]', async ({ peer, link }) => {
    peer.write(publishPacket(TELEMETRY, 'a', { retain: true, id: 3 }));
    await link.store();
    expect(await peer.takeId(PACKET.puback)).toBe(3);
  });

  it('leaves no retained message: a later session that subscribes receives nothing [C-3.6]', async ({
    mqtt,
    device: { peer, link },
  }) => {
    peer.write(publishPacket(TELEMETRY, 'a', { retain: true, id: 3 }));
    await link.store();
    expect(await peer.takeId(PACKET.puback)).toBe(3);
    peer.write(publishPacket(COMMANDS, 'b', { retain: true, id: 4 }));
    await peer.untilEnded();
    const later = await mqtt.open();
    await later.peer.subscribe(1, COMMANDS, TELEMETRY, '#');
    await later.peer.ping();
    await turns();
    const types = later.peer.packets.map(({ type }) => type);
    expect(types).toEqual([PACKET.connack, PACKET.suback, PACKET.pingresp]);
  });
});

describe('a PUBLISH to a foreign topic', () => {
  it.for<[string, string | Buffer]>([
    ['another device’s telemetry', `cpi/${OTHER_ID}/telemetry`],
    ['its own commands', COMMANDS],
    ['another device’s commands', `cpi/${OTHER_ID}/commands`],
    ['its own, in upper case', `cpi/${DEVICE_ID.toUpperCase()}/telemetry`],
    ['its own, a level deeper', `${TELEMETRY}/x`],
    ['its own, after a slash', `/${TELEMETRY}`],
    ['its own, before NUL', `${TELEMETRY}\0`],
    ['NUL', '\0'],
    ['a lone surrogate', Buffer.from([0xed, 0xa0, 0x80])],
    ['the broker’s own', '$SYS/x/heartbeat'],
    ['a wildcard', '#'],
    ['an inner wildcard', `cpi/+/telemetry`],
    ['no topic', ''],
    ['101 levels', Array(101).fill('a').join('/')],
    ['65 535 bytes', 'a'.repeat(65_535)],
  ])(
    'such as %s closes the client; the object receives at most the topic [C-3.8]',
    async ([_, topic], { mqtt }) => {
      for (const qos of [0, 1]) {
        const { peer, link } = await mqtt.open();
        peer.write(publishPacket(topic, '{}', { qos }));
        await peer.untilEnded();
        await link.untilClosed();
        // A packet that is not valid MQTT has no topic.
        const report = { kind: 'foreign-topic', act: 'publish', topic: expect.any(String) };
        expect([[], [report]]).toContainEqual(link.received);
        expect(peer.packets.length).toBe(1);
      }
    },
  );

  it('neither reaches the object of the other device whose topic it is nor ends its session', async ({
    mqtt,
  }) => {
    const [bad, good] = [await mqtt.open(), await mqtt.open({ username: OTHER_ID })];
    bad.peer.write(publishPacket(`cpi/${OTHER_ID}/telemetry`, '{}'));
    await bad.peer.untilEnded();
    expect(await sentToObject(good, OTHER_ID)).toEqual([]);
  });
});

describe('messages of devices', () => {
  it('a device that subscribes to # receives no message of another device', async ({ mqtt }) => {
    const [sender, listener] = [await mqtt.open(), await mqtt.open({ username: OTHER_ID })];
    const codes = await listener.peer.subscribe(1, `cpi/${OTHER_ID}/commands`, '#', TELEMETRY, '$SYS/#');
    expect(codes.slice(2)).toEqual([1, 0x80, 0x80, 0x80]);
    sender.peer.write(publishPacket(TELEMETRY, 'a'));
    await sender.link.store();
    await sender.peer.take(PACKET.puback);
    await listener.peer.ping();
  });

  it.for([1, 2])(
    'a message with QoS %d and the packet identifier 0 closes the client, without an acknowledgement [MQTT-2.3.1-1]',
    async (qos, { mqtt }) => {
      const { peer, link } = await mqtt.open();
      peer.write(publishPacket(TELEMETRY, 'a', { qos, id: 0 }));
      await peer.untilEnded();
      await link.untilClosed();
      expect(link.received).toEqual([]);
      // Only the CONNACK.
      expect(peer.packets.length).toBe(1);
    },
  );

  it('a packet over 128 KiB closes the client; the object receives only its length', async ({
    peer,
    link,
  }) => {
    peer.write(publishPacket(TELEMETRY, Buffer.alloc(131_072 - prefixed(TELEMETRY).length - 1)));
    await peer.untilEnded();
    await link.untilClosed();
    await turns();
    expect(link.received).toEqual([{ kind: 'oversized', bytes: 131_073 }]);
  });
});

async function store({ link }: OpenMqttClient, count: number): Promise<void> {
  for (let taken = 0; taken < count; taken++) await link.store();
}

describe('pending messages at QoS 2', () => {
  it.for([16, 20])(
    '%d messages may wait for PUBREL together: paho’s window is 20',
    async (count, { mqtt, device }) => {
      const ids = Array.from({ length: count }, (_, index) => index + 1);
      device.peer.write(...ids.map((id) => publishPacket(TELEMETRY, `${id}`, { qos: 2, id })));
      await store(device, count);
      const received: number[] = [];
      for (const _id of ids) received.push(await device.peer.takeId(PACKET.pubrec));
      expect(received.sort((left, right) => left - right)).toEqual(ids);
      device.peer.write(...ids.map((id) => acknowledgement(PACKET.pubrel, id)));
      for (const _id of ids) await device.peer.takeId(PACKET.pubcomp);
      expect(mqtt.events.closedWhy).toEqual([]);
    },
  );

  it('a device that never sends PUBREL is closed when too many wait for it', async ({ mqtt, device }) => {
    const count = 2_000;
    const storing = store(device, count).catch(() => {});
    for (let id = 1; id <= count; id++) device.peer.write(publishPacket(TELEMETRY, `${id}`, { qos: 2, id }));
    expect(await mqtt.events.untilClosed()).toMatch(/maxInflightInbound/);
    await device.link.untilClosed();
    await storing;
  });
});
