/** CONNECT: the sessions that it opens, and the codes of its rejections. */
import { describe, expect } from 'vitest';
import { type Answer, envelope, UNDECIDED } from '#support/bridge-edge.ts';
import { DEVICE_ID } from '#support/bridge-link.ts';
import { COMMANDS, mqttTest as it, OTHER_ID, sentToObject, TELEMETRY } from '#support/bridge-mqtt.ts';
import {
  connectPacket,
  PACKET,
  PINGREQ,
  packet,
  publishPacket,
  subscribePacket,
} from '#support/bridge-mqtt-peer.ts';
import { turns } from '#support/bridge-signal.ts';

describe('a CONNECT', () => {
  it('gets code 0 if the edge accepts it, and no session is present', async ({ edge, mqtt }) => {
    const { peer } = mqtt.send();
    expect([...(await peer.take(PACKET.connack))]).toEqual([0, 0]);
    expect(edge.dialed).toMatchObject([
      { path: '/link/mqtt', username: DEVICE_ID, password: 'token', proof: { address: '192.0.2.7' } },
    ]);
    expect(mqtt.events.openedNames).toEqual([DEVICE_ID]);
  });

  it('may name its device in upper case', async ({ edge, mqtt }) => {
    const { peer } = await mqtt.open({ username: DEVICE_ID.toUpperCase() });
    expect(await peer.subscribe(1, COMMANDS)).toEqual([0, 1, 1]);
    expect(edge.dialed[0]?.username).toBe(DEVICE_ID);
  });

  it.for([
    ['MQTT 3.1', 0, 'MQIsdp', 3],
    ['MQTT 5', 1, 'MQTT', 5],
  ] as const)('is answered, if it is %s, with code %d', async ([_, code, name, level], { mqtt }) => {
    const connect = connectPacket({ username: DEVICE_ID, password: 'token', protocol: [name, level] });
    // MQTT 5 has a properties length before the payload.
    const parts = [connect.subarray(0, 12), Buffer.from([0]), connect.subarray(12)];
    const bytes = level === 5 ? Buffer.concat(parts) : connect;
    bytes.writeUInt8(bytes.length - 2, 1);
    const { peer } = mqtt.connect();
    peer.write(bytes);
    expect(await peer.takeConnack()).toBe(code);
  });

  it('packets sent right after a CONNECT are answered in order', async ({ edge, mqtt }) => {
    const { peer } = mqtt.connect();
    const connect = connectPacket({ username: DEVICE_ID, password: 'token' });
    peer.write(connect, subscribePacket(1, COMMANDS), publishPacket(TELEMETRY, '{}', { id: 2 }));
    const link = await edge.deviceLink();
    expect(await peer.takeConnack()).toBe(0);
    await peer.take(PACKET.suback);
    await link.store();
    expect(await peer.takeId(PACKET.puback)).toBe(2);
  });
});

describe('a rejected CONNECT', () => {
  const REJECTIONS = ['UNAUTHORIZED', 'FORBIDDEN', 'CONFLICT'] as const;

  it.for([
    ...REJECTIONS.map((name) => ({ code: 5, name, answer: envelope(name) })),
    ...UNDECIDED.map(([name, answer]) => ({ code: 3, name, answer })),
  ])(
    'gets code $code if the edge answers $name (spec: Broker and device errors) [C-3.11]',
    async ({ code, answer }, { edge, mqtt }) => {
      edge.answer = () => answer;
      const { peer } = mqtt.send();
      expect(await peer.takeRefusal()).toBe(code);
      expect(mqtt.events.openedNames).toEqual([]);
    },
  );

  it('is reported once, with the message of the edge', async ({ edge, mqtt }) => {
    edge.answer = () => envelope('UNAUTHORIZED', 'Invalid or expired token');
    const { peer } = mqtt.send();
    await peer.takeRefusal();
    await turns();
    expect(mqtt.events.refusedWhy).toEqual(['Invalid or expired token']);
  });

  it.for([
    ['no user name and no password', { username: undefined, password: undefined }],
    ['no password', { password: undefined }],
    ['an empty password', { password: '' }],
    ['an empty user name', { username: '' }],
    ['a user name that is no UUID', { username: 'gateway-1' }],
    ['a UUID before a line break', { username: `${DEVICE_ID}\n` }],
    ['a UUID in braces', { username: `{${DEVICE_ID}}` }],
  ] as const)('gets code 4 without a dial for %s [C-3.11]', async ([_, options], { edge, mqtt }) => {
    const { peer } = mqtt.send(options);
    expect(await peer.takeRefusal()).toBe(4);
    expect(edge.dialed).toEqual([]);
  });
});

describe('a client id', () => {
  it('does not end the session of another device whose id it is [C-3.6]', async ({ mqtt }) => {
    const first = await mqtt.open({ clientId: DEVICE_ID });
    const second = await mqtt.open({ clientId: DEVICE_ID, username: OTHER_ID });
    await first.peer.ping();
    await second.peer.ping();
    expect(first.link.closedWith).toBeUndefined();
    expect(mqtt.events.openedNames).toEqual([DEVICE_ID, OTHER_ID]);
  });

  it('used twice by a device: the object, not the bridge, ends a session [C-3.6]', async ({ mqtt }) => {
    const first = await mqtt.open({ clientId: DEVICE_ID });
    await mqtt.open({ clientId: DEVICE_ID });
    await first.peer.ping();
    first.link.close(4001, 'taken over');
    await first.peer.untilEnded();
  });

  it.for([
    ['nothing', ''],
    ['one character', 'a'],
    ['constructor', 'constructor'],
    ['__proto__', '__proto__'],
    ['5 000 characters', 'x'.repeat(5_000)],
  ] as const)('may be %s', async ([_, clientId], { mqtt }) => {
    const { peer } = await mqtt.open({ clientId });
    await peer.ping();
  });

  it('gets code 2 if it is empty, without clean session [MQTT-3.1.3-8]', async ({ mqtt }) => {
    const { peer } = mqtt.send({ clientId: '', clean: false });
    expect([...(await peer.take(PACKET.connack))]).toEqual([0, 2]);
  });

  it('resumes no earlier session without clean session', async ({ edge, mqtt }) => {
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

describe('an invalid client', () => {
  it.for([
    ['PUBLISH first', publishPacket(TELEMETRY, '{}')],
    ['PINGREQ first', PINGREQ],
    ['HTTP', Buffer.from('GET / HTTP/1.1\r\n\r\n')],
    ['256 MB announced', Buffer.from([0x10, 0xff, 0xff, 0xff, 0x7f])],
    ['an empty CONNECT', packet(PACKET.connect, 0)],
    ['another protocol in CONNECT', connectPacket({ protocol: ['AMQP', 4] })],
  ] as const)(
    'is closed without a packet or a dial when it sends %s, and counted',
    async ([_, bytes], { edge, mqtt }) => {
      const { peer } = mqtt.connect();
      peer.write(bytes);
      await peer.untilEnded();
      expect(peer.packets).toEqual([]);
      expect(edge.dialed).toEqual([]);
      expect(mqtt.events.refusedWhy.length).toBe(1);
    },
  );

  it('loses its session and its link when it sends a second CONNECT', async ({ peer, link }) => {
    peer.write(connectPacket({ username: DEVICE_ID, password: 'token' }));
    await peer.untilEnded();
    await link.untilClosed();
  });

  it.for(['end', 'reset'])(
    'leaves no open link when it disconnects during its dial, by %s',
    async (how, { edge, mqtt }) => {
      const accepting = Promise.withResolvers<Answer>();
      edge.answer = () => accepting.promise;
      const { peer, stream } = mqtt.send();
      await edge.untilDialed();
      if (how === 'end') peer.stream.end();
      else stream.destroy(new Error('read ECONNRESET'));
      await turns();
      accepting.resolve({ accept: {} });
      await (await edge.deviceLink()).untilClosed();
      expect(mqtt.events.closedWhy.length).toBe(mqtt.events.openedNames.length);
    },
  );
});
