/** How a connection ends: with its link, by the client, by the bridge; and that the other end goes with it. */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import { connectAmqp, dialEdge, openAmqp } from '../../support/bridge-amqp.ts';
import { PROTOCOL_HEADER, publishFrames } from '../../support/bridge-amqp-frames.ts';
import { TestEdge } from '../../support/bridge-edge.ts';
import { CLOCK, turns } from '../../support/bridge-signal.ts';

const BYE = { replyCode: 200, replyText: 'bye', classId: 0, methodId: 0 };

let edge: TestEdge;

beforeAll(async () => {
  edge = await TestEdge.start();
});
afterEach(() => {
  vi.useRealTimers();
});
afterAll(() => edge.stop());

describe('a connection whose link closes', () => {
  it.each([
    [CLOSE_CODES.revoked, 'the API key was revoked'],
    [CLOSE_CODES.expired, 'the API key has expired'],
    [CLOSE_CODES.takenOver, 'the service was interrupted, try again'],
    [CLOSE_CODES.protocolError, 'the service was interrupted, try again'],
    [1000, 'the service was interrupted, try again'],
    [1001, 'the service was interrupted, try again'],
    [1011, 'the service was interrupted, try again'],
    [1012, 'the service was interrupted, try again'],
  ])('with %d is closed with 320 [C-5.6, C-6.3]', async (code, text) => {
    const { peer, link } = await openAmqp(edge);
    link.close(code, 'reason of the object');
    expect(await peer.takeConnectionClose()).toBe(`320 CONNECTION_FORCED - ${text} [0/0]`);
    peer.send(METHOD.connectionCloseOk);
    await peer.untilEnded();
  });

  it('without a goodbye is closed with 320', async () => {
    const { peer, link, events } = await openAmqp(edge);
    link.socket.terminate();
    expect(await peer.takeConnectionClose()).toMatch(/^320 CONNECTION_FORCED/);
    peer.stream.destroy();
    await turns();
    expect(events.closedWhy).toEqual([expect.stringContaining('1006')]);
  });

  it('between tune and open is closed with 320 once it would be open', async () => {
    const { peer } = connectAmqp(dialEdge(edge));
    peer.write(PROTOCOL_HEADER);
    peer.startOk();
    const link = await edge.vhostLink();
    await peer.takeMethod(METHOD.connectionStart);
    const offer = await peer.takeMethod(METHOD.connectionTune);
    link.close(CLOSE_CODES.revoked);
    await link.untilClosed();
    await turns();
    peer.send(METHOD.connectionTuneOk, offer);
    peer.send(METHOD.connectionOpen, { virtualHost: 'partner-k1' });
    await peer.takeMethod(METHOD.connectionOpenOk);
    expect(await peer.takeConnectionClose()).toMatch(/^320 .*revoked/);
  });

  it('because its frames were unreadable is closed with 320, and the object told 4400', async () => {
    for (const message of ['not JSON', '[{"kind":"drop-tables"}]', '{}']) {
      const { peer, link } = await openAmqp(edge);
      link.socket.send(message);
      expect(await peer.takeConnectionClose()).toMatch(/^320 /);
      expect((await link.untilClosed()).code).toBe(4400);
    }
  });
});

describe('a client that goes', () => {
  it('with connection.close is answered close-ok, and its link closes', async () => {
    const { peer, link, events } = await openAmqp(edge);
    peer.send(METHOD.connectionClose, BYE);
    await peer.takeMethod(METHOD.connectionCloseOk);
    await peer.untilEnded();
    await link.untilClosed();
    await turns();
    expect(events.closedWhy).toEqual(['client closed']);
  });

  it('without a word takes its link with it', async () => {
    const { peer, link, events } = await openAmqp(edge);
    peer.stream.destroy();
    await link.untilClosed();
    expect(events.closedWhy).toEqual(['client closed']);
  });

  it('with a reset takes its link with it', async () => {
    const { stream, link, events } = await openAmqp(edge);
    stream.destroy(new Error('read ECONNRESET'));
    await link.untilClosed();
    expect(events.closedWhy).toEqual(['read ECONNRESET']);
  });

  it('right after a publish loses nothing that it sent', async () => {
    const { peer, link } = await openAmqp(edge);
    peer.write(publishFrames('last words'));
    peer.send(METHOD.connectionClose, BYE);
    const { seq } = await link.take('publish');
    link.send({ kind: 'stored', seqs: [seq] });
    await peer.takeMethod(METHOD.connectionCloseOk);
    await link.untilClosed();
    expect(link.received).toMatchObject([{ kind: 'publish', body: 'last words' }]);
  });

  it('right after a burst of large publishes loses none of them, though its object is slow to read', async () => {
    vi.useFakeTimers(CLOCK);
    const { peer, link } = await openAmqp(edge);
    link.socket.pause();
    const bodies = Array.from({ length: 30 }, (_, index) => `${index} `.padEnd(250_000, 'x'));
    peer.write(...bodies.map((body) => publishFrames(body)));
    await turns(50);
    peer.send(METHOD.connectionClose, BYE);
    await turns(50);
    await vi.advanceTimersByTimeAsync(1_000);
    await turns(50);
    link.socket.resume();
    for (const body of bodies) {
      const taken = await link.take('publish');
      expect(taken.body).toBe(body);
      link.send({ kind: 'stored', seqs: [taken.seq] });
    }
    await peer.takeMethod(METHOD.connectionCloseOk);
    await link.untilClosed();
  });

  it('while its object is silent is answered after half a minute all the same', async () => {
    vi.useFakeTimers(CLOCK);
    const { peer, link } = await openAmqp(edge);
    peer.write(publishFrames('last words'));
    peer.send(METHOD.connectionClose, BYE);
    await link.take('publish');
    await vi.advanceTimersByTimeAsync(LIMIT.amqpLeaveMs);
    await peer.takeMethod(METHOD.connectionCloseOk);
    await link.untilClosed();
  });

  it('right after an acknowledgement has acknowledged', async () => {
    const { peer, link } = await openAmqp(edge);
    peer.send(METHOD.basicConsume, { queue: 'vcp.acme.event.alarm', consumerTag: 'ct', arguments: {} }, 1);
    const { seq } = await link.take('consume');
    const delivery = { lease: 41, redelivered: false, routingKey: 'k', properties: {}, body: 'x' };
    link.send(
      { kind: 'ok', seq },
      { kind: 'deliver', channel: 1, tag: 'ct', delivery: { ...delivery, encoding: 'utf8' } },
    );
    await peer.takeMethod(METHOD.basicConsumeOk);
    await peer.takeContent(METHOD.basicDeliver);
    peer.send(METHOD.basicAck, { deliveryTag: 1 }, 1);
    peer.send(METHOD.connectionClose, BYE);
    await link.untilClosed();
    expect(link.received.at(-1)).toEqual({ kind: 'settle', outcome: 'ack', leases: [41] });
  });
});

describe('a connection that the bridge closes', () => {
  it('to shut down is told 320 with the reason, and waits for close-ok', async () => {
    const { peer, connection, link } = await openAmqp(edge);
    connection.shutdown("broker forced connection closure with reason 'shutdown'");
    expect(await peer.takeConnectionClose()).toBe(
      "320 CONNECTION_FORCED - broker forced connection closure with reason 'shutdown' [0/0]",
    );
    await link.untilClosed();
    await turns();
    expect(peer.ended).toBe(false);
    peer.send(METHOD.connectionCloseOk);
    await peer.untilEnded();
  });

  it('before its client has said a word is just closed', async () => {
    const { peer, connection } = connectAmqp(dialEdge(edge));
    connection.shutdown('shutdown');
    await peer.untilEnded();
    expect(peer.bytes).toBe(0);
  });

  it('is closed after 3 s though close-ok never comes', async () => {
    vi.useFakeTimers(CLOCK);
    const { peer, connection, events } = await openAmqp(edge);
    connection.shutdown('shutdown');
    await peer.takeConnectionClose();
    await vi.advanceTimersByTimeAsync(2_999);
    expect(events.closedWhy).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    await peer.untilEnded();
    expect(events.closedWhy.length).toBe(1);
  });

  it('takes nothing more from its client to the object, and answers nothing but its close', async () => {
    const { peer, connection, link } = await openAmqp(edge);
    connection.shutdown('shutdown');
    await peer.takeConnectionClose();
    peer.write(publishFrames('too late'));
    peer.send(METHOD.channelOpen, {}, 2);
    peer.send(METHOD.connectionClose, BYE);
    await peer.takeMethod(METHOD.connectionCloseOk);
    await peer.untilEnded();
    expect(link.received).toEqual([]);
  });

  it('is closed once: a second reason changes nothing', async () => {
    const { peer, connection, link, events } = await openAmqp(edge);
    connection.shutdown('shutdown');
    link.close(CLOSE_CODES.revoked);
    connection.shutdown('again');
    expect(await peer.takeConnectionClose()).toContain('shutdown');
    peer.send(METHOD.connectionCloseOk);
    await peer.untilEnded();
    await turns();
    expect(
      peer.frames.filter((one) => one.type === 'method' && one.method === METHOD.connectionClose).length,
    ).toBe(1);
    expect(events.closedWhy.length).toBe(1);
  });
});
