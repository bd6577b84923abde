/** Channels: open, close, limits; and the methods that are not implemented. */
import { describe, expect } from 'vitest';
import { amqpTest as it, QUEUE, throughLink } from '#support/bridge-amqp.ts';
import { BYE, type Fields, methodFrame, publishFrames } from '#support/bridge-amqp-frames.ts';
import { turns } from '#support/bridge-signal.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';

/** start, tune, open-ok, channel.open-ok */
const FRAMES_OF_OPENING = 4;

describe('a channel', () => {
  it('opens beside 63 others, and again after its close [C-6.3]', async ({ peer, link }) => {
    for (let channel = 2; channel <= 64; channel++) await peer.openChannel(channel);
    expect((await peer.request(METHOD.channelClose, BYE, 7)).channel).toBe(7);
    expect(await link.take('close-channel')).toEqual({ kind: 'close-channel', channel: 7 });
    await peer.openChannel(7);
  });

  it('accepts only channel.close until close-ok arrives, once the bridge has closed it', async ({
    peer,
    link,
  }) => {
    peer.write(
      methodFrame(METHOD.basicAck, { deliveryTag: 1 }, 1),
      publishFrames('ignored'),
      methodFrame(METHOD.confirmSelect, {}, 1),
      methodFrame(METHOD.basicConsume, { queue: QUEUE, arguments: {} }, 1),
      methodFrame(METHOD.channelClose, BYE, 1),
    );
    expect(await peer.takeChannelClose()).toMatch(/^406 /);
    await peer.takeMethod(METHOD.channelCloseOk);
    await peer.reopenChannel();
    await link.take('close-channel');
    expect(link.received.map(({ kind }) => kind)).toEqual(['close-channel']);
  });

  it('leaves the connection and other channels open when the bridge closes it with 406', async ({
    client,
  }) => {
    await client.peer.openChannel(2);
    client.peer.send(METHOD.basicAck, { deliveryTag: 1 }, 2);
    expect(await client.peer.takeChannelClose()).toMatch(/^406 /);
    client.peer.write(publishFrames('still here'));
    expect((await client.link.take('publish')).body).toBe('still here');
    await throughLink(client);
  });

  it.for<[string, number, number, Fields, 'consume' | 'get' | 'declare' | 'recover']>([
    ['basic.consume', METHOD.basicConsume, METHOD.basicConsumeOk, { queue: QUEUE, arguments: {} }, 'consume'],
    ['basic.get', METHOD.basicGet, METHOD.basicGetEmpty, { queue: QUEUE }, 'get'],
    ['queue.declare', METHOD.queueDeclare, METHOD.queueDeclareOk, { queue: 'q', arguments: {} }, 'declare'],
    ['basic.recover', METHOD.basicRecover, METHOD.basicRecoverOk, { requeue: true }, 'recover'],
  ])(
    'channel.close-ok is sent only after the answer to a pending %s',
    async ([_, method, answer, fields, kind], { peer, link }) => {
      peer.send(method, fields, 1);
      const { seq } = await link.take(kind);
      peer.send(METHOD.channelClose, BYE, 1);
      await turns();
      expect(peer.frames.length).toBe(FRAMES_OF_OPENING);
      link.send(
        kind === 'get'
          ? { kind: 'got', seq, messageCount: 0, delivery: null }
          : { kind: 'ok', seq, messageCount: 0, consumerCount: 0 },
      );
      await peer.takeMethods(answer, METHOD.channelCloseOk);
      await throughLink({ peer, link });
    },
  );
});

describe('limits of a channel', () => {
  it('basic.qos limits later consumers; only a global one is sent to the object', async ({ peer, link }) => {
    await peer.request(METHOD.basicQos, { prefetchCount: 65_535, global: true }, 1);
    expect(await link.take('qos')).toEqual({ kind: 'qos', channel: 1, prefetch: 65_535 });
    await peer.request(METHOD.basicQos, { prefetchCount: 3 }, 1);
    peer.send(METHOD.basicConsume, { queue: QUEUE, arguments: {} }, 1);
    expect((await link.take('consume')).prefetch).toBe(3);
    expect(link.received.filter(({ kind }) => kind === 'qos').length).toBe(1);
  });
});

describe('methods of flow and access', () => {
  it('channel.flow with active=true and access.request are answered', async ({ peer }) => {
    expect((await peer.request(METHOD.channelFlow, { active: true }, 1)).active).toBe(true);
    expect((await peer.request(METHOD.accessRequest, { realm: '/data' }, 1)).ticket).toBe(1);
  });
});
