/** What the object is told of connection.open: the vhost that the client named, right or wrong [C-6.3]. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { connectAmqp, dialEdge } from '../../support/bridge-amqp.ts';
import { PROTOCOL_HEADER } from '../../support/bridge-amqp-frames.ts';
import type { AmqpPeer } from '../../support/bridge-amqp-peer.ts';
import { TestEdge, VHOST, type VhostEdgeLink } from '../../support/bridge-edge.ts';

let edge: TestEdge;

beforeAll(async () => {
  edge = await TestEdge.start();
});
afterAll(() => edge.stop());

/** A client that has been accepted and tuned, and has named no vhost yet. */
async function tunedClient(): Promise<{ peer: AmqpPeer; link: VhostEdgeLink }> {
  const { peer } = connectAmqp(dialEdge(edge));
  peer.write(PROTOCOL_HEADER);
  peer.startOk();
  const link = await edge.vhostLink();
  await peer.takeMethod(METHOD.connectionStart);
  peer.send(METHOD.connectionTuneOk, await peer.takeMethod(METHOD.connectionTune));
  return { peer, link };
}

describe('connection.open', () => {
  it('with the right vhost is told to the object, once', async () => {
    const { peer, link } = await tunedClient();
    peer.send(METHOD.connectionOpen, { virtualHost: VHOST });
    await peer.takeMethod(METHOD.connectionOpenOk);
    await peer.openChannel(1);
    peer.send(METHOD.basicGet, { queue: 'vcp.acme.event.alarm' }, 1);
    await link.take('get');
    expect(link.opened).toEqual([{ kind: 'open', vhost: VHOST }]);
    peer.stream.destroy();
  });

  it.each(['partner-k2', '/', '', 'x'.repeat(255), 'č'.repeat(127)])(
    'with a wrong one (%j) is told to the object too, before the link closes',
    async (vhost) => {
      const { peer, link } = await tunedClient();
      peer.send(METHOD.connectionOpen, { virtualHost: vhost });
      expect(await peer.takeConnectionClose()).toMatch(/^530 NOT_ALLOWED/);
      await link.untilClosed();
      expect(link.opened).toEqual([{ kind: 'open', vhost }]);
      expect(link.received).toEqual([]);
    },
  );

  it('that never comes is told to nobody', async () => {
    const { peer, link } = await tunedClient();
    peer.stream.destroy();
    await link.untilClosed();
    expect([link.opened, link.received]).toEqual([[], []]);
  });
});
