/** The object receives the vhost of connection.open, right or wrong [C-6.3]. */
import { describe, expect } from 'vitest';
import { amqpTest as it, QUEUE } from '#support/bridge-amqp.ts';
import { VHOST } from '#support/bridge-edge.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';

describe('connection.open', () => {
  it('with the right vhost reaches the object once', async ({ amqp }) => {
    const { peer, link } = await amqp.accepted();
    await peer.openVhost();
    await peer.takeMethod(METHOD.connectionOpenOk);
    await peer.openChannel(1);
    peer.send(METHOD.basicGet, { queue: QUEUE }, 1);
    await link.take('get');
    expect(link.opened).toEqual([{ kind: 'open', vhost: VHOST }]);
  });

  it.for(['partner-k2', '/', '', 'x'.repeat(255), 'č'.repeat(127)])(
    'with the wrong vhost %j reaches the object before the link closes',
    async (vhost, { amqp }) => {
      const { peer, link } = await amqp.accepted();
      await peer.openVhost(vhost);
      expect(await peer.takeConnectionClose()).toMatch(/^530 NOT_ALLOWED/);
      await link.untilClosed();
      expect(link.opened).toEqual([{ kind: 'open', vhost }]);
      expect(link.received).toEqual([]);
    },
  );

  it('if the client disconnects before it, the object receives nothing', async ({ amqp }) => {
    const { peer, link } = await amqp.accepted();
    await peer.takeMethod(METHOD.connectionTune);
    peer.stream.destroy();
    await link.untilClosed();
    expect([link.opened, link.received]).toEqual([[], []]);
  });
});
