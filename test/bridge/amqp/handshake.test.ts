/** The handshake in wire order: header, start, tune, open, and the mistakes that a client can make in it. */
import { afterEach, describe, expect, vi } from 'vitest';
import { amqpTest } from '#support/bridge-amqp.ts';
import { BYE, frame, methodFrame, PROTOCOL_HEADER } from '#support/bridge-amqp-frames.ts';
import { VHOST } from '#support/bridge-edge.ts';
import { turns } from '#support/bridge-signal.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';

const START_OK = { clientProperties: {}, mechanism: 'PLAIN', response: Buffer.from('\0acme\0key') };
const OFFER = { channelMax: 64, frameMax: 131_072, heartbeat: 60 };

afterEach(() => void vi.restoreAllMocks());

const it = amqpTest
  // A client that has taken tune.
  .extend('tuned', async ({ amqp }) => {
    const client = await amqp.accepted();
    await client.peer.takeMethod(METHOD.connectionTune);
    return client;
  });

describe('the handshake', () => {
  it('sends start, tune and open-ok, each after the client’s step [C-6.3]', async ({ edge, amqp }) => {
    const { peer, events } = amqp.connect();
    peer.write(PROTOCOL_HEADER.subarray(0, 7));
    await turns();
    expect(peer.bytes).toBe(0);
    peer.write(PROTOCOL_HEADER.subarray(7));
    const start = await peer.takeMethod(METHOD.connectionStart);
    expect([start.versionMajor, start.versionMinor]).toEqual([0, 9]);
    expect(String(start.mechanisms)).toBe('PLAIN AMQPLAIN');
    expect(String(start.locales)).toBe('en_US');
    expect(start.serverProperties).toMatchObject({
      capabilities: {
        publisher_confirms: true,
        'basic.nack': true,
        consumer_cancel_notify: true,
        authentication_failure_close: true,
        per_consumer_qos: true,
      },
    });
    peer.startOk();
    expect(await peer.takeMethod(METHOD.connectionTune)).toEqual({ ...OFFER, channel: 0 });
    peer.send(METHOD.connectionTuneOk, OFFER);
    await turns();
    expect(peer.frames.length).toBe(2);
    expect(events.opens[0]).toBeUndefined();
    await peer.request(METHOD.connectionOpen, { virtualHost: VHOST }, 0);
    expect(events.opens[0]).toEqual({ username: 'acme', vhost: VHOST });
    await edge.vhostLink();
  });

  it('the header and all frames may come one byte at a time', async ({ edge, amqp }) => {
    const { peer, events } = amqp.connect();
    const writeSlowly = (bytes: Buffer) => {
      for (const byte of bytes) peer.write(Buffer.from([byte]));
    };
    writeSlowly(PROTOCOL_HEADER);
    await peer.takeMethod(METHOD.connectionStart);
    writeSlowly(methodFrame(METHOD.connectionStartOk, START_OK));
    await peer.takeMethod(METHOD.connectionTune);
    writeSlowly(methodFrame(METHOD.connectionTuneOk, OFFER));
    writeSlowly(methodFrame(METHOD.connectionOpen, { virtualHost: VHOST }));
    await peer.takeMethod(METHOD.connectionOpenOk);
    expect(events.opens[0]?.username).toBe('acme');
    await edge.vhostLink();
  });

  it('a client may send all its frames without waiting for answers', async ({ edge, amqp }) => {
    const { peer } = amqp.connect();
    peer.write(PROTOCOL_HEADER);
    peer.startOk();
    peer.send(METHOD.connectionTuneOk, OFFER);
    peer.send(METHOD.connectionOpen, { virtualHost: VHOST });
    peer.send(METHOD.channelOpen, {}, 1);
    peer.send(METHOD.confirmSelect, {}, 1);
    await peer.takeMethods(METHOD.connectionStart, METHOD.connectionTune, METHOD.connectionOpenOk);
    expect((await peer.takeMethod(METHOD.channelOpenOk)).channel).toBe(1);
    expect((await peer.takeMethod(METHOD.confirmSelectOk)).channel).toBe(1);
    await edge.vhostLink();
  });

  it.for([
    { frameMax: 4_096, channelMax: 1, heartbeat: 0 },
    { frameMax: 8_192, channelMax: 16, heartbeat: 10 },
    OFFER,
  ])('a tune-ok of %j is accepted [C-6.3]', async (tune, { amqp }) => {
    const { events } = await amqp.open({ tune });
    expect(events.opens[0]?.vhost).toBe(VHOST);
  });

  it('connection.close after tune gets close-ok', async ({ tuned: { peer, events } }) => {
    await peer.request(METHOD.connectionClose, BYE, 0);
    await peer.untilEnded();
    expect(events.opens[0]).toBeUndefined();
  });
});

describe('a client of another protocol', () => {
  it.for([
    ['HTTP', 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    ['AMQP 1.0', 'AMQP\x00\x01\x00\x00'],
    ['AMQP 1.0 with SASL', 'AMQP\x03\x01\x00\x00'],
    ['an unknown AMQP version', 'AMQP\x00\x00\x09\x02'],
    ['MQTT', '\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x00'],
    ['TLS in TLS', '\x16\x03\x01\x02\x00\x01'],
    ['a single byte', 'X'],
  ] as const)(
    'gets the header AMQP 0 0 9 1 for %s, and is closed without a dial',
    async ([_, hello], { edge, amqp }) => {
      const { peer, events } = amqp.connect();
      peer.write(Buffer.from(hello, 'latin1'));
      await peer.untilEnded();
      expect(peer.unframed).toEqual(PROTOCOL_HEADER);
      await turns();
      expect(events.endedWhy).toEqual(['the protocol header is not that of AMQP 0-9-1']);
      expect(edge.dialed).toEqual([]);
    },
  );

  it('after its rejection, the bridge does not keep what it sends', async ({ amqp }) => {
    const { peer, stream } = amqp.connect();
    peer.stream.allowHalfOpen = true;
    peer.write(Buffer.from('PUT / HTTP/1.1\r\n\r\n'));
    await peer.untilEnded();
    const concat = vi.spyOn(Buffer, 'concat');
    for (let chunk = 0; chunk < 20 && !stream.destroyed; chunk++) {
      peer.stream.write(Buffer.alloc(10_000));
      await turns(2);
    }
    const held = concat.mock.results.map(({ value }) => (value as Buffer).length);
    expect(Math.max(0, ...held)).toBeLessThan(50_000);
  });
});

describe('a handshake out of order', () => {
  const TUNE_OK = methodFrame(METHOD.connectionTuneOk, OFFER);
  const OPEN = methodFrame(METHOD.connectionOpen, { virtualHost: VHOST });

  it.for([
    ['tune-ok first', TUNE_OK],
    ['open first', OPEN],
    ['channel.open first', methodFrame(METHOD.channelOpen, {}, 1)],
    ['a method of a channel on channel 0', methodFrame(METHOD.basicQos, {}, 0)],
    ['start-ok on channel 1', methodFrame(METHOD.connectionStartOk, START_OK, 1)],
    ['a body', frame(3, 0, Buffer.from('body'))],
    ['an unknown method', frame(1, 0, Buffer.from([0, 10, 0, 99]))],
  ] as const)(
    '%s closes the socket, without a close frame and without a dial',
    async ([_, bytes], { edge, amqp }) => {
      const { peer } = amqp.connect();
      peer.write(PROTOCOL_HEADER, bytes);
      await peer.untilEnded();
      expect(peer.frames.filter(({ type }) => type !== 'method')).toEqual([]);
      expect(peer.frames.length).toBeLessThanOrEqual(1);
      expect(edge.dialed).toEqual([]);
    },
  );

  it.for([
    ['open instead of tune-ok', OPEN],
    ['start-ok again', methodFrame(METHOD.connectionStartOk, START_OK)],
  ] as const)('%s after tune closes the socket and the link', async ([_, bytes], { tuned }) => {
    const { peer, link } = tuned;
    peer.write(bytes);
    await peer.untilEnded();
    expect(peer.frames.length).toBe(2);
    await link.untilClosed();
  });

  it('a frame of 4097 bytes right after open closes the link [C-6.3]', async ({ tuned: { peer, link } }) => {
    peer.send(METHOD.connectionTuneOk, OFFER);
    await turns();
    peer.write(methodFrame(METHOD.connectionOpen, { virtualHost: VHOST }), frame(1, 0, Buffer.alloc(4_097)));
    await peer.takeMethod(METHOD.connectionOpenOk);
    expect(await peer.takeConnectionClose()).toMatch(/^501 /);
    await link.untilClosed();
  });

  it('before tune, a frame above 4096 bytes closes the socket at its header [C-6.3]', async ({ amqp }) => {
    const { peer } = amqp.connect();
    peer.write(PROTOCOL_HEADER);
    await peer.takeMethod(METHOD.connectionStart);
    peer.write(frame(1, 0, Buffer.alloc(4_097)).subarray(0, 7));
    await peer.untilEnded();
    expect(peer.frames.length).toBe(1);
  });

  it.for([
    { frameMax: 131_073 },
    { frameMax: 4_095 },
    { frameMax: 1_024 },
    { frameMax: 0 },
    { channelMax: 65 },
    { channelMax: 0 },
  ])('a tune-ok with %j closes the socket after 3 s', async (change, { clock, tuned: { peer } }) => {
    peer.send(METHOD.connectionTuneOk, { ...OFFER, ...change });
    peer.write(OPEN);
    await turns();
    await clock.pass(2_999);
    expect(peer.ended).toBe(false);
    await clock.pass(1);
    await peer.untilEnded();
    expect(peer.frames.length).toBe(2);
  });
});
