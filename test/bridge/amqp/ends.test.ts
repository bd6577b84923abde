/** The end of a connection: by its link, by the client, by the bridge. The other end always follows. */
import { describe, expect } from 'vitest';
import { deliver, amqpTest as it } from '#support/bridge-amqp.ts';
import { BYE, publishFrames } from '#support/bridge-amqp-frames.ts';
import { turns } from '#support/bridge-signal.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';

describe('a connection whose link closes', () => {
  it.for([
    [CLOSE_CODES.revoked, 'the API key was revoked or its organization was suspended'],
    [CLOSE_CODES.expired, 'the API key has expired'],
    [CLOSE_CODES.takenOver, 'the service was interrupted, try again'],
    [CLOSE_CODES.protocolError, 'the service was interrupted, try again'],
    [1000, 'the service was interrupted, try again'],
    [1001, 'the service was interrupted, try again'],
    [1011, 'the service was interrupted, try again'],
    [1012, 'the service was interrupted, try again'],
  ] as const)(
    'link close code %d closes the connection with 320 [C-5.6, C-6.3]',
    async ([code, text], { peer, link }) => {
      link.close(code, 'reason of the object');
      expect(await peer.takeConnectionClose()).toBe(`320 CONNECTION_FORCED - ${text} [0/0]`);
      await peer.acceptClose();
    },
  );

  it('a broken link closes the connection with 320', async ({ client: { peer, link, events } }) => {
    link.socket.terminate();
    expect(await peer.takeConnectionClose()).toMatch(/^320 CONNECTION_FORCED/);
    peer.stream.destroy();
    await turns();
    expect(events.endedWhy).toEqual([expect.stringContaining('1006')]);
  });

  it('if the link closes before connection.open, the client gets open-ok, then 320', async ({ amqp }) => {
    const { peer, link } = await amqp.accepted();
    link.close(CLOSE_CODES.revoked);
    await link.untilClosed();
    await turns();
    await peer.openVhost();
    await peer.takeMethod(METHOD.connectionOpenOk);
    expect(await peer.takeConnectionClose()).toMatch(/^320 .*revoked/);
  });

  it('unreadable frames of the object close connection (320) and link (4400)', async ({ amqp }) => {
    for (const message of ['not JSON', '[{"kind":"drop-tables"}]', '{}']) {
      const { peer, link } = await amqp.open();
      link.socket.send(message);
      expect(await peer.takeConnectionClose()).toMatch(/^320 /);
      expect((await link.untilClosed()).code).toBe(4400);
    }
  });
});

describe('a client that leaves', () => {
  it('connection.close gets close-ok, and the link closes', async ({ client: { peer, link, events } }) => {
    await peer.request(METHOD.connectionClose, BYE, 0);
    await peer.untilEnded();
    await link.untilClosed();
    await turns();
    expect(events.endedWhy).toEqual(['client closed']);
  });

  it('a client that disconnects ends its link', async ({ client: { peer, link, events } }) => {
    peer.stream.destroy();
    await link.untilClosed();
    expect(events.endedWhy).toEqual(['client closed']);
  });

  it('a client that resets its connection ends its link', async ({ client: { stream, link, events } }) => {
    stream.destroy(new Error('read ECONNRESET'));
    await link.untilClosed();
    expect(events.endedWhy).toEqual(['read ECONNRESET']);
  });

  it('a publish right before connection.close reaches the object', async ({ peer, link }) => {
    peer.write(publishFrames('last words'));
    peer.send(METHOD.connectionClose, BYE);
    await link.store();
    await peer.takeMethod(METHOD.connectionCloseOk);
    await link.untilClosed();
    expect(link.received).toMatchObject([{ kind: 'publish', body: 'last words' }]);
  });

  it('large publishes before connection.close reach a slow object', async ({ clock, peer, link }) => {
    link.socket.pause();
    const bodies = Array.from({ length: 30 }, (_, index) => `${index} `.padEnd(250_000, 'x'));
    peer.write(...bodies.map((body) => publishFrames(body)));
    await turns(50);
    peer.send(METHOD.connectionClose, BYE);
    await turns(50);
    await clock.pass(1_000);
    await turns(50);
    link.socket.resume();
    for (const body of bodies) expect((await link.store()).body).toBe(body);
    await peer.takeMethod(METHOD.connectionCloseOk);
    await link.untilClosed();
  });

  it('gets close-ok after half a minute if a publish has no answer', async ({ clock, peer, link }) => {
    peer.write(publishFrames('last words'));
    peer.send(METHOD.connectionClose, BYE);
    await link.take('publish');
    await clock.pass(LIMIT.amqpLeaveMs);
    await peer.takeMethod(METHOD.connectionCloseOk);
    await link.untilClosed();
  });

  it('an acknowledgement right before connection.close reaches the object', async ({ consumer }) => {
    const { peer, link } = consumer;
    link.send(deliver(41));
    await peer.takeContent(METHOD.basicDeliver);
    peer.send(METHOD.basicAck, { deliveryTag: 1 }, 1);
    peer.send(METHOD.connectionClose, BYE);
    await link.untilClosed();
    expect(link.received.at(-1)).toEqual({ kind: 'settle', outcome: 'ack', leases: [41] });
  });
});

describe('a connection that the bridge closes', () => {
  it('a shutdown sends 320 and waits for close-ok', async ({ client: { peer, connection, link } }) => {
    connection.shutdown("broker forced connection closure with reason 'shutdown'");
    expect(await peer.takeConnectionClose()).toBe(
      "320 CONNECTION_FORCED - broker forced connection closure with reason 'shutdown' [0/0]",
    );
    await link.untilClosed();
    await turns();
    expect(peer.ended).toBe(false);
    await peer.acceptClose();
  });

  it('a shutdown before the client has sent anything closes the socket without a frame', async ({ amqp }) => {
    const { peer, connection } = amqp.connect();
    connection.shutdown('shutdown');
    await peer.untilEnded();
    expect(peer.bytes).toBe(0);
  });

  it('if the client does not send close-ok, the socket closes after 3 s', async ({ clock, client }) => {
    const { peer, connection, events } = client;
    connection.shutdown('shutdown');
    await peer.takeConnectionClose();
    await clock.pass(2_999);
    expect(events.endedWhy).toEqual([]);
    await clock.pass(1);
    await peer.untilEnded();
    expect(events.endedWhy.length).toBe(1);
  });

  it('after a shutdown the object receives nothing', async ({ client: { peer, connection, link } }) => {
    connection.shutdown('shutdown');
    await peer.takeConnectionClose();
    peer.write(publishFrames('too late'));
    peer.send(METHOD.channelOpen, {}, 2);
    await peer.request(METHOD.connectionClose, BYE, 0);
    await peer.untilEnded();
    expect(link.received).toEqual([]);
  });

  it('after a first close no second one is sent', async ({ client: { peer, connection, link, events } }) => {
    connection.shutdown('shutdown');
    link.close(CLOSE_CODES.revoked);
    connection.shutdown('again');
    expect(await peer.takeConnectionClose()).toContain('shutdown');
    await peer.acceptClose();
    await turns();
    expect(peer.countOf(METHOD.connectionClose)).toBe(1);
    expect(events.endedWhy.length).toBe(1);
  });
});
