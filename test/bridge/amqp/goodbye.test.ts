/**
 * An object that ends a link says goodbye first: its client is told at once, idle or busy, and the link's socket goes
 * with it. In these tests the object's own close never arrives: it has stopped reading and closes nothing.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import {
  connectAmqp,
  deliveryOf,
  dialEdge,
  type OpenAmqpClient,
  openAmqp,
  openConsumer,
  openPublisher,
  takeSeqs,
} from '../../support/bridge-amqp.ts';
import { PROTOCOL_HEADER, publishFrames } from '../../support/bridge-amqp-frames.ts';
import { TestEdge } from '../../support/bridge-edge.ts';
import { CLOCK, turns } from '../../support/bridge-signal.ts';

const REVOKED = { kind: 'goodbye', code: CLOSE_CODES.revoked, reason: 'revoked' } as const;
const REVOKED_TEXT = '320 CONNECTION_FORCED - the API key was revoked [0/0]';

let edge: TestEdge;

beforeAll(async () => {
  edge = await TestEdge.start();
});
afterEach(() => {
  vi.useRealTimers();
});
afterAll(() => edge.stop());

/** The object says goodbye, and answers no close of the WebSocket. */
function sayGoodbye({ link }: OpenAmqpClient, code: number = CLOSE_CODES.revoked, reason = 'revoked'): void {
  link.send({ kind: 'goodbye', code, reason });
  link.socket.pause();
}

/** The link's socket is gone, without a close handshake. */
async function expectLinkGone({ link }: OpenAmqpClient): Promise<void> {
  link.socket.resume();
  expect((await link.untilClosed()).code).toBe(1006);
}

describe('a goodbye', () => {
  it.each([
    [CLOSE_CODES.revoked, 'the API key was revoked'],
    [CLOSE_CODES.expired, 'the API key has expired'],
    [CLOSE_CODES.takenOver, 'the service was interrupted, try again'],
    [CLOSE_CODES.protocolError, 'the service was interrupted, try again'],
    [1012, 'the service was interrupted, try again'],
  ])('with %d tells an idle client 320 at once, and the link is gone [C-5.6, C-6.3]', async (code, text) => {
    const client = await openAmqp(edge);
    sayGoodbye(client, code, 'reason of the object');
    expect(await client.peer.takeConnectionClose()).toBe(`320 CONNECTION_FORCED - ${text} [0/0]`);
    await expectLinkGone(client);
    client.peer.send(METHOD.connectionCloseOk);
    await client.peer.untilEnded();
    await turns();
    expect(client.events.closedWhy).toEqual([`link ${code} reason of the object`]);
  });

  it('tells a client with publishes under way, and confirms none of them', async () => {
    const client = await openPublisher(edge);
    client.peer.write(...Array(10).fill(publishFrames('x')));
    await takeSeqs(client, 10);
    sayGoodbye(client);
    expect(await client.peer.takeConnectionClose()).toBe(REVOKED_TEXT);
    await expectLinkGone(client);
  });

  it('tells a client that publishes on and is not read at present', async () => {
    const client = await openPublisher(edge);
    client.peer.write(...Array(LIMIT.openPublishes + 100).fill(publishFrames('x')));
    await takeSeqs(client, LIMIT.openPublishes);
    expect(client.stream.isPaused()).toBe(true);
    sayGoodbye(client);
    expect(await client.peer.takeConnectionClose()).toBe(REVOKED_TEXT);
    await expectLinkGone(client);
    expect(client.link.received.filter(({ kind }) => kind === 'publish').length).toBe(LIMIT.openPublishes);
    client.peer.send(METHOD.connectionCloseOk);
    await client.peer.untilEnded();
  });

  it('comes after what the object said before it, and before all that follows', async () => {
    const client = await openPublisher(edge);
    client.peer.write(publishFrames('x'), publishFrames('y'));
    const [first = 0, second = 0] = await takeSeqs(client, 2);
    client.link.send({ kind: 'stored', seqs: [first] }, REVOKED);
    client.link.send({ kind: 'stored', seqs: [second] });
    expect(await client.peer.takeMethod(METHOD.basicAck)).toMatchObject({ deliveryTag: 1 });
    expect(await client.peer.takeConnectionClose()).toBe(REVOKED_TEXT);
    await client.link.untilClosed();
    await turns();
    expect(client.peer.frames.at(-1)).toMatchObject({ method: METHOD.connectionClose });
  });

  it('tells a consumer in the middle of its deliveries', async () => {
    const client = await openConsumer(edge);
    const deliver = (lease: number) =>
      ({ kind: 'deliver', channel: 1, tag: client.tag, delivery: deliveryOf(lease) }) as const;
    client.link.send(deliver(1), deliver(2), REVOKED);
    client.link.socket.pause();
    for (const lease of [1, 2])
      expect((await client.peer.takeContent(METHOD.basicDeliver)).body.toString()).toBe(`body ${lease}`);
    expect(await client.peer.takeConnectionClose()).toBe(REVOKED_TEXT);
    await expectLinkGone(client);
  });

  it('closes a client that does not read: the link at once, its socket after 3 s', async () => {
    vi.useFakeTimers(CLOCK);
    const client = await openConsumer(edge);
    client.peer.stream.pause();
    const delivery = deliveryOf(1, { body: 'x'.repeat(200_000) });
    for (let count = 0; count < 4; count++)
      client.link.send({ kind: 'deliver', channel: 1, tag: client.tag, delivery });
    while (client.events.deliveredCount < 4) await turns(1);
    sayGoodbye(client);
    await turns();
    await expectLinkGone(client);
    expect(client.stream.destroyed).toBe(false);
    await vi.advanceTimersByTimeAsync(3_000);
    await turns();
    expect(client.stream.destroyed).toBe(true);
    expect(client.events.closedWhy.length).toBe(1);
  });

  it('between tune and open is told once the connection would be open', async () => {
    const { peer } = connectAmqp(dialEdge(edge));
    peer.write(PROTOCOL_HEADER);
    peer.startOk();
    const link = await edge.vhostLink();
    await peer.takeMethod(METHOD.connectionStart);
    const offer = await peer.takeMethod(METHOD.connectionTune);
    link.send(REVOKED);
    expect((await link.untilClosed()).code).toBe(1006);
    peer.send(METHOD.connectionTuneOk, offer);
    peer.send(METHOD.connectionOpen, { virtualHost: 'partner-k1' });
    await peer.takeMethod(METHOD.connectionOpenOk);
    expect(await peer.takeConnectionClose()).toBe(REVOKED_TEXT);
  });

  it('to a client that is closing anyway changes nothing', async () => {
    const client = await openAmqp(edge);
    client.link.socket.pause();
    client.connection.shutdown('shutdown');
    expect(await client.peer.takeConnectionClose()).toContain('shutdown');
    client.link.send(REVOKED);
    await turns(50);
    client.link.socket.resume();
    await client.link.untilClosed();
    client.peer.send(METHOD.connectionCloseOk);
    await client.peer.untilEnded();
    expect(
      client.peer.frames.filter((one) => one.type === 'method' && one.method === METHOD.connectionClose)
        .length,
    ).toBe(1);
    expect(client.events.closedWhy.length).toBe(1);
  });
});
