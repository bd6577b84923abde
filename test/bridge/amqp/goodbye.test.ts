/**
 * An object that ends a link sends a goodbye first. The bridge then closes the client, idle or busy, and
 * drops the link's socket. In these tests the object has stopped reading, so its close of the WebSocket never
 * arrives.
 */
import { describe, expect } from 'vitest';
import { deliver, amqpTest as it, takeSeqs } from '#support/bridge-amqp.ts';
import { publishFrames } from '#support/bridge-amqp-frames.ts';
import { turns } from '#support/bridge-signal.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';

const REVOKED = { kind: 'goodbye', code: CLOSE_CODES.revoked, reason: 'revoked' } as const;
const REVOKED_TEXT =
  '320 CONNECTION_FORCED - the API key was revoked or its organization was suspended [0/0]';

describe('the goodbye of an object', () => {
  it.for([
    [CLOSE_CODES.revoked, 'the API key was revoked or its organization was suspended'],
    [CLOSE_CODES.expired, 'the API key has expired'],
    [CLOSE_CODES.takenOver, 'the service was interrupted, try again'],
    [CLOSE_CODES.protocolError, 'the service was interrupted, try again'],
    [1012, 'the service was interrupted, try again'],
  ] as const)(
    'closes an idle client with 320 if its code is %d [C-5.6, C-6.3]',
    async ([code, text], { client }) => {
      client.link.sayGoodbye(code, 'reason of the object');
      expect(await client.peer.takeConnectionClose()).toBe(`320 CONNECTION_FORCED - ${text} [0/0]`);
      expect(await client.link.closeCode()).toBe(1006);
      await client.peer.acceptClose();
      await turns();
      expect(client.events.endedWhy).toEqual([`link ${code} reason of the object`]);
    },
  );

  it('closes a publisher and confirms none of its unanswered publishes', async ({ publisher }) => {
    publisher.peer.write(...Array(10).fill(publishFrames('x')));
    await takeSeqs(publisher.link, 10);
    publisher.link.sayGoodbye();
    expect(await publisher.peer.takeConnectionClose()).toBe(REVOKED_TEXT);
    expect(await publisher.link.closeCode()).toBe(1006);
  });

  it('closes a publisher from which the bridge has stopped reading', async ({ publisher }) => {
    publisher.peer.write(...Array(LIMIT.openPublishes + 100).fill(publishFrames('x')));
    await takeSeqs(publisher.link, LIMIT.openPublishes);
    expect(publisher.stream.isPaused()).toBe(true);
    publisher.link.sayGoodbye();
    expect(await publisher.peer.takeConnectionClose()).toBe(REVOKED_TEXT);
    expect(await publisher.link.closeCode()).toBe(1006);
    expect(publisher.link.received.filter(({ kind }) => kind === 'publish').length).toBe(LIMIT.openPublishes);
    await publisher.peer.acceptClose();
  });

  it('takes effect after the object’s earlier frames; later ones are dropped', async ({ publisher }) => {
    publisher.peer.write(publishFrames('x'), publishFrames('y'));
    const [first = 0, second = 0] = await takeSeqs(publisher.link, 2);
    publisher.link.send({ kind: 'stored', seqs: [first] }, REVOKED);
    publisher.link.send({ kind: 'stored', seqs: [second] });
    expect(await publisher.peer.takeMethod(METHOD.basicAck)).toMatchObject({ deliveryTag: 1 });
    expect(await publisher.peer.takeConnectionClose()).toBe(REVOKED_TEXT);
    await publisher.link.untilClosed();
    await turns();
    expect(publisher.peer.frames.at(-1)).toMatchObject({ method: METHOD.connectionClose });
  });

  it('closes a consumer after the deliveries that the object sent before it', async ({ consumer }) => {
    consumer.link.send(deliver(1), deliver(2), REVOKED);
    consumer.link.socket.pause();
    for (const lease of [1, 2])
      expect((await consumer.peer.takeContent(METHOD.basicDeliver)).body.toString()).toBe(`body ${lease}`);
    expect(await consumer.peer.takeConnectionClose()).toBe(REVOKED_TEXT);
    expect(await consumer.link.closeCode()).toBe(1006);
  });

  it('closes the link of a client that does not read, 3 s later its socket', async ({ clock, consumer }) => {
    consumer.peer.stream.pause();
    for (let lease = 1; lease <= 4; lease++)
      consumer.link.send(deliver(lease, { body: 'x'.repeat(200_000) }));
    while (consumer.events.deliveredCount < 4) await turns(1);
    consumer.link.sayGoodbye();
    await turns();
    expect(await consumer.link.closeCode()).toBe(1006);
    expect(consumer.stream.destroyed).toBe(false);
    await clock.pass(3_000);
    await turns();
    expect(consumer.stream.destroyed).toBe(true);
    expect(consumer.events.endedWhy.length).toBe(1);
  });

  it('before connection.open closes the connection after open-ok', async ({ amqp }) => {
    const { peer, link } = await amqp.accepted();
    link.send(REVOKED);
    expect(await link.closeCode()).toBe(1006);
    await peer.openVhost();
    await peer.takeMethod(METHOD.connectionOpenOk);
    expect(await peer.takeConnectionClose()).toBe(REVOKED_TEXT);
  });

  it('during a shutdown does not send connection.close again', async ({ client }) => {
    client.link.socket.pause();
    client.connection.shutdown('shutdown');
    expect(await client.peer.takeConnectionClose()).toContain('shutdown');
    client.link.send(REVOKED);
    await turns(50);
    client.link.socket.resume();
    await client.link.untilClosed();
    await client.peer.acceptClose();
    expect(client.peer.countOf(METHOD.connectionClose)).toBe(1);
    expect(client.events.endedWhy.length).toBe(1);
  });
});
