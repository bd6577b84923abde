/** What a running connection says and is told on channel 0: its secret, and that its publishes wait. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { type OpenAmqpClient, openAmqp, throughLink } from '../../support/bridge-amqp.ts';
import { publishFrames } from '../../support/bridge-amqp-frames.ts';
import { TestEdge } from '../../support/bridge-edge.ts';
import { turns } from '../../support/bridge-signal.ts';

let edge: TestEdge;

beforeAll(async () => {
  edge = await TestEdge.start();
});
afterAll(() => edge.stop());

describe('update-secret', () => {
  it('with the key that logged in is answered ok', async () => {
    const client = await openAmqp(edge, { password: 'the key' });
    client.peer.send(METHOD.connectionUpdateSecret, { newSecret: Buffer.from('the key'), reason: 'renewed' });
    await client.peer.takeMethod(METHOD.connectionUpdateSecretOk);
    await throughLink(client);
    client.peer.stream.destroy();
  });

  it.each([['another key'], ['the ke'], ['']])('with %j closes the connection: 530', async (secret) => {
    const { peer } = await openAmqp(edge, { password: 'the key' });
    peer.send(METHOD.connectionUpdateSecret, { newSecret: Buffer.from(secret), reason: 'renewed' });
    expect(await peer.takeConnectionClose()).toBe(
      '530 NOT_ALLOWED - New secret was refused by one of the backends [10/70]',
    );
  });
});

describe('a client whose publishes are over its rate', () => {
  /** Publishes more than may wait, to an object that takes none of them until `takes`. */
  function flood({ peer, link }: OpenAmqpClient): { takes: boolean } {
    const object = { takes: false };
    const answer = async () => {
      for (;;) {
        const { seq } = await link.take('publish');
        const seqs = [seq];
        link.send(object.takes ? { kind: 'stored', seqs } : { kind: 'wait', seqs, ms: 250, count: 100 });
      }
    };
    // Ends with the link.
    answer().catch(() => {});
    peer.write(...Array<Buffer>(2 * LIMIT.heldPublishes).fill(publishFrames('x')));
    return object;
  }

  it('is told blocked when no more is read of it, and unblocked when it is read again, if it knows what that is', async () => {
    const client = await openAmqp(edge, { capabilities: { 'connection.blocked': true } });
    const object = flood(client);
    expect(await client.peer.takeMethod(METHOD.connectionBlocked)).toMatchObject({ reason: 'publish rate' });
    expect(client.stream.isPaused()).toBe(true);
    object.takes = true;
    await client.peer.takeMethod(METHOD.connectionUnblocked);
    client.peer.stream.destroy();
  });

  it('is told nothing if it does not', async () => {
    const client = await openAmqp(edge);
    const known = client.peer.frames.length;
    flood(client);
    while (!client.stream.isPaused()) await turns(1);
    await turns();
    expect(client.peer.frames.length).toBe(known);
    client.peer.stream.destroy();
  });
});
