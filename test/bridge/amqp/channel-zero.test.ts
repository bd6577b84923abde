/** Channel 0 of a running connection: update-secret, and blocked while publishes are held. */
import { describe, expect } from 'vitest';
import { amqpTest as it, type OpenAmqpClient, takeSeqs, throughLink } from '#support/bridge-amqp.ts';
import { publishFrames } from '#support/bridge-amqp-frames.ts';
import { turns } from '#support/bridge-signal.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { LIMIT } from '../../../protocol/limits.ts';

describe('update-secret', () => {
  const renewal = (secret: string) => ({ newSecret: Buffer.from(secret), reason: 'renewed' });

  it('gets update-secret-ok with the key of the login', async ({ amqp }) => {
    const client = await amqp.open({ password: 'the key' });
    await client.peer.request(METHOD.connectionUpdateSecret, renewal('the key'), 0);
    await throughLink(client);
  });

  it.for(['another key', 'the ke', ''])(
    'closes the connection with 530 for %j, which is not the key of the login',
    async (secret, { amqp }) => {
      const { peer } = await amqp.open({ password: 'the key' });
      peer.send(METHOD.connectionUpdateSecret, renewal(secret));
      expect(await peer.takeConnectionClose()).toBe(
        '530 NOT_ALLOWED - New secret was refused by one of the backends [10/70]',
      );
    },
  );
});

describe('a client with too many publishes over its rate', () => {
  /** Publishes more than may be held. The object holds them all until `stores` is set. */
  function flood({ peer, link }: OpenAmqpClient): { stores: boolean } {
    const object = { stores: false };
    const answer = async () => {
      for (;;) {
        const seqs = await takeSeqs(link, 1);
        link.send(object.stores ? { kind: 'stored', seqs } : { kind: 'wait', seqs, ms: 250, count: 100 });
      }
    };
    // The loop ends with the link.
    answer().catch(() => {});
    peer.write(...Array<Buffer>(2 * LIMIT.heldPublishes).fill(publishFrames('x')));
    return object;
  }

  it('gets blocked, and later unblocked, with the capability connection.blocked', async ({ amqp }) => {
    const client = await amqp.open({ capabilities: { 'connection.blocked': true } });
    const object = flood(client);
    expect(await client.peer.takeMethod(METHOD.connectionBlocked)).toMatchObject({ reason: 'publish rate' });
    expect(client.stream.isPaused()).toBe(true);
    object.stores = true;
    await client.peer.takeMethod(METHOD.connectionUnblocked);
  });

  it('gets neither without the capability connection.blocked, and the bridge stops reading from it', async ({
    client,
  }) => {
    const known = client.peer.frames.length;
    flood(client);
    while (!client.stream.isPaused()) await turns(1);
    await turns();
    expect(client.peer.frames.length).toBe(known);
  });
});
