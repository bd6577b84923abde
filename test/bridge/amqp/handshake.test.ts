/** A connection's beginning, in wire order: header, start, tune, open, and what a client may get wrong in it. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { connectAmqp, dialEdge, type OpenAmqpClient, openAmqp } from '../../support/bridge-amqp.ts';
import { frame, methodFrame, PROTOCOL_HEADER } from '../../support/bridge-amqp-frames.ts';
import { TestEdge, VHOST } from '../../support/bridge-edge.ts';
import { CLOCK, turns } from '../../support/bridge-signal.ts';

const START_OK = { clientProperties: {}, mechanism: 'PLAIN', response: Buffer.from('\0acme\0key') };
const OFFER = { channelMax: 64, frameMax: 131_072, heartbeat: 60 };

let edge: TestEdge;

beforeAll(async () => {
  edge = await TestEdge.start();
});
beforeEach(() => {
  edge.reset();
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});
afterAll(() => edge.stop());

/** A client that has come as far as tune. */
async function connectToTune(): Promise<OpenAmqpClient> {
  const client = connectAmqp(dialEdge(edge));
  client.peer.write(PROTOCOL_HEADER);
  await client.peer.takeMethod(METHOD.connectionStart);
  client.peer.startOk();
  const [link] = await Promise.all([edge.vhostLink(), client.peer.takeMethod(METHOD.connectionTune)]);
  return { ...client, link };
}

describe('the handshake', () => {
  it('goes from start over tune to open-ok, each after what the client sends [C-6.3]', async () => {
    const { peer, events } = connectAmqp(dialEdge(edge));
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
    expect(events.openedWith).toBeUndefined();
    peer.send(METHOD.connectionOpen, { virtualHost: VHOST });
    await peer.takeMethod(METHOD.connectionOpenOk);
    expect(events.openedWith).toEqual({ username: 'acme', vhost: VHOST });
    await edge.vhostLink();
  });

  it('takes the header and every frame one byte at a time', async () => {
    const { peer, events } = connectAmqp(dialEdge(edge));
    for (const byte of PROTOCOL_HEADER) peer.write(Buffer.from([byte]));
    await peer.takeMethod(METHOD.connectionStart);
    for (const byte of methodFrame(METHOD.connectionStartOk, START_OK)) peer.write(Buffer.from([byte]));
    await peer.takeMethod(METHOD.connectionTune);
    for (const byte of methodFrame(METHOD.connectionTuneOk, OFFER)) peer.write(Buffer.from([byte]));
    for (const byte of methodFrame(METHOD.connectionOpen, { virtualHost: VHOST }))
      peer.write(Buffer.from([byte]));
    await peer.takeMethod(METHOD.connectionOpenOk);
    expect(events.openedWith?.username).toBe('acme');
    await edge.vhostLink();
  });

  it('takes all of it from a client that waits for nothing', async () => {
    const { peer } = connectAmqp(dialEdge(edge));
    peer.write(PROTOCOL_HEADER);
    peer.startOk();
    peer.send(METHOD.connectionTuneOk, OFFER);
    peer.send(METHOD.connectionOpen, { virtualHost: VHOST });
    peer.send(METHOD.channelOpen, {}, 1);
    peer.send(METHOD.confirmSelect, {}, 1);
    await peer.takeMethod(METHOD.connectionStart);
    await peer.takeMethod(METHOD.connectionTune);
    await peer.takeMethod(METHOD.connectionOpenOk);
    expect((await peer.takeMethod(METHOD.channelOpenOk)).channel).toBe(1);
    expect((await peer.takeMethod(METHOD.confirmSelectOk)).channel).toBe(1);
    await edge.vhostLink();
  });

  it.each([
    { frameMax: 4_096, channelMax: 1, heartbeat: 0 },
    { frameMax: 8_192, channelMax: 16, heartbeat: 10 },
    OFFER,
  ])('takes a tune-ok of %j, which keeps to the offer [C-6.3]', async (tune) => {
    const { events, peer } = await openAmqp(edge, { tune });
    expect(events.openedWith?.vhost).toBe(VHOST);
    peer.stream.destroy();
  });

  it('answers a close in the middle with close-ok', async () => {
    const { peer, events } = await connectToTune();
    peer.send(METHOD.connectionClose, { replyCode: 200, replyText: 'bye', classId: 0, methodId: 0 });
    await peer.takeMethod(METHOD.connectionCloseOk);
    await peer.untilEnded();
    expect(events.openedWith).toBeUndefined();
  });
});

describe('a client of another protocol', () => {
  it.each([
    ['HTTP', 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    ['AMQP 1.0', 'AMQP\x00\x01\x00\x00'],
    ['AMQP 1.0 with SASL', 'AMQP\x03\x01\x00\x00'],
    ['an AMQP that will never be', 'AMQP\x00\x00\x09\x02'],
    ['MQTT', '\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x00'],
    ['TLS in TLS', '\x16\x03\x01\x02\x00\x01'],
    ['a single byte', 'X'],
  ])('(%s) is answered AMQP 0 0 9 1 and closed', async (_name, hello) => {
    const { peer, events } = connectAmqp(dialEdge(edge));
    peer.write(Buffer.from(hello, 'latin1'));
    await peer.untilEnded();
    expect(peer.unframed).toEqual(PROTOCOL_HEADER);
    await turns();
    expect(events.closedWhy).toEqual(['another protocol']);
    expect(edge.dialed).toEqual([]);
  });

  it('that sends on and on is not read on and on', async () => {
    const { peer, stream } = connectAmqp(dialEdge(edge));
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

  it.each([
    ['tune-ok first', TUNE_OK],
    ['open first', OPEN],
    ['channel.open first', methodFrame(METHOD.channelOpen, {}, 1)],
    ['a method of a channel on channel 0', methodFrame(METHOD.basicQos, {}, 0)],
    ['start-ok on channel 1', methodFrame(METHOD.connectionStartOk, START_OK, 1)],
    ['a body', frame(3, 0, Buffer.from('body'))],
    ['an unknown method', frame(1, 0, Buffer.from([0, 10, 0, 99]))],
  ])('(%s) is closed without a word', async (_title, bytes) => {
    const { peer } = connectAmqp(dialEdge(edge));
    peer.write(PROTOCOL_HEADER, bytes);
    await peer.untilEnded();
    expect(peer.frames.filter(({ type }) => type !== 'method')).toEqual([]);
    expect(peer.frames.length).toBeLessThanOrEqual(1);
    expect(edge.dialed).toEqual([]);
  });

  it.each([
    ['open instead of tune-ok', OPEN],
    ['start-ok again', methodFrame(METHOD.connectionStartOk, START_OK)],
  ])('(%s) is closed without a word after tune too, and so is its link', async (_title, bytes) => {
    const { peer, link } = await connectToTune();
    peer.write(bytes);
    await peer.untilEnded();
    expect(peer.frames.length).toBe(2);
    await link.untilClosed();
  });

  it('with a broken frame right behind its open leaves no link behind [C-6.3]', async () => {
    const { peer, link } = await connectToTune();
    peer.send(METHOD.connectionTuneOk, OFFER);
    await turns();
    peer.write(
      Buffer.concat([
        methodFrame(METHOD.connectionOpen, { virtualHost: VHOST }),
        frame(1, 0, Buffer.alloc(4_097)),
      ]),
    );
    await peer.takeMethod(METHOD.connectionOpenOk);
    expect(await peer.takeConnectionClose()).toMatch(/^501 /);
    await link.untilClosed();
  });

  it('with a frame above 4096 bytes is closed without a word at its header [C-6.3]', async () => {
    const { peer } = connectAmqp(dialEdge(edge));
    peer.write(PROTOCOL_HEADER);
    await peer.takeMethod(METHOD.connectionStart);
    peer.write(frame(1, 0, Buffer.alloc(4_097)).subarray(0, 7));
    await peer.untilEnded();
    expect(peer.frames.length).toBe(1);
  });

  it.each([
    { frameMax: 131_073 },
    { frameMax: 4_095 },
    { frameMax: 1_024 },
    { frameMax: 0 },
    { channelMax: 65 },
    { channelMax: 0 },
  ])('(a tune-ok with %j) is closed without a word after 3 s', async (change) => {
    vi.useFakeTimers(CLOCK);
    const { peer } = await connectToTune();
    peer.send(METHOD.connectionTuneOk, { ...OFFER, ...change });
    peer.write(OPEN);
    await turns();
    await vi.advanceTimersByTimeAsync(2_999);
    expect(peer.ended).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    await peer.untilEnded();
    expect(peer.frames.length).toBe(2);
  });
});
