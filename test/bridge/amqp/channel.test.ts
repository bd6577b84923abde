/** Channels: opened, closed, limited; and the methods that are not implemented. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { closeAfter, openAmqp, throughLink } from '../../support/bridge-amqp.ts';
import { type Fields, methodFrame, publishFrames } from '../../support/bridge-amqp-frames.ts';
import { TestEdge } from '../../support/bridge-edge.ts';
import { turns } from '../../support/bridge-signal.ts';

const QUEUE = 'vcp.acme.event.alarm';
/** start, tune, open-ok, channel.open-ok */
const FRAMES_OF_OPENING = 4;
const BYE = { replyCode: 200, replyText: 'bye', classId: 0, methodId: 0 };

let edge: TestEdge;

beforeAll(async () => {
  edge = await TestEdge.start();
});
afterAll(() => edge.stop());

describe('a channel', () => {
  it('is opened up to the count that was tuned, and again after it was closed [C-6.3]', async () => {
    const { peer, link } = await openAmqp(edge);
    for (let channel = 2; channel <= 64; channel++) await peer.openChannel(channel);
    peer.send(METHOD.channelClose, BYE, 7);
    expect((await peer.takeMethod(METHOD.channelCloseOk)).channel).toBe(7);
    expect(await link.take('close-channel')).toEqual({ kind: 'close-channel', channel: 7 });
    await peer.openChannel(7);
    peer.stream.destroy();
  });

  it('that the bridge has closed takes nothing but its close, and opens again after close-ok', async () => {
    const { peer, link } = await openAmqp(edge);
    peer.write(
      methodFrame(METHOD.basicAck, { deliveryTag: 1 }, 1),
      publishFrames('ignored'),
      methodFrame(METHOD.confirmSelect, {}, 1),
      methodFrame(METHOD.basicConsume, { queue: QUEUE, arguments: {} }, 1),
      methodFrame(METHOD.channelClose, BYE, 1),
    );
    expect(await peer.takeChannelClose()).toMatch(/^406 /);
    await peer.takeMethod(METHOD.channelCloseOk);
    peer.send(METHOD.channelCloseOk, {}, 1);
    await peer.openChannel(1);
    await link.take('close-channel');
    expect(link.received.map(({ kind }) => kind)).toEqual(['close-channel']);
    peer.stream.destroy();
  });

  it('that is closed leaves the others and the connection open', async () => {
    const client = await openAmqp(edge);
    await client.peer.openChannel(2);
    client.peer.send(METHOD.basicAck, { deliveryTag: 1 }, 2);
    expect(await client.peer.takeChannelClose()).toMatch(/^406 /);
    client.peer.write(publishFrames('still here'));
    expect((await client.link.take('publish')).body).toBe('still here');
    await throughLink(client);
    client.peer.stream.destroy();
  });

  it.each([
    ['open', 1, '503 COMMAND_INVALID - unimplemented method [20/41]'],
    ['not open', 9, "504 CHANNEL_ERROR - expected 'channel.open' [20/41]"],
  ])(
    'that is %s and is sent a close-ok that nobody waits for closes the connection',
    async (_title, channel, close) => {
      expect(await closeAfter(edge, methodFrame(METHOD.channelCloseOk, {}, channel))).toBe(close);
    },
  );

  it.each<[string, number, number, Fields, 'consume' | 'get' | 'declare' | 'recover']>([
    ['basic.consume', METHOD.basicConsume, METHOD.basicConsumeOk, { queue: QUEUE, arguments: {} }, 'consume'],
    ['basic.get', METHOD.basicGet, METHOD.basicGetEmpty, { queue: QUEUE }, 'get'],
    [
      'queue.declare',
      METHOD.queueDeclare,
      METHOD.queueDeclareOk,
      { queue: QUEUE, passive: true, arguments: {} },
      'declare',
    ],
    ['basic.recover', METHOD.basicRecover, METHOD.basicRecoverOk, { requeue: true }, 'recover'],
  ])(
    'that the client closes is told first of its %s that was under way, then close-ok',
    async (_title, method, answer, fields, kind) => {
      const client = await openAmqp(edge);
      const { peer, link } = client;
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
      await peer.takeMethod(answer);
      await peer.takeMethod(METHOD.channelCloseOk);
      await throughLink(client);
    },
  );
});

describe('limits of a channel', () => {
  it('for each consumer to come go with its consume; shared ones go to the object', async () => {
    const { peer, link } = await openAmqp(edge);
    peer.send(METHOD.basicQos, { prefetchCount: 65_535, global: true }, 1);
    await peer.takeMethod(METHOD.basicQosOk);
    expect(await link.take('qos')).toEqual({ kind: 'qos', channel: 1, prefetch: 65_535 });
    peer.send(METHOD.basicQos, { prefetchCount: 3 }, 1);
    await peer.takeMethod(METHOD.basicQosOk);
    peer.send(METHOD.basicConsume, { queue: QUEUE, arguments: {} }, 1);
    expect((await link.take('consume')).prefetch).toBe(3);
    expect(link.received.filter(({ kind }) => kind === 'qos').length).toBe(1);
    peer.stream.destroy();
  });

  it('in bytes are not implemented: 540 [C-6.3]', async () => {
    const { peer } = await openAmqp(edge);
    peer.send(METHOD.basicQos, { prefetchSize: 10 }, 1);
    expect(await peer.takeConnectionClose()).toBe('540 NOT_IMPLEMENTED - prefetch_size!=0 (10) [60/10]');
  });
});

describe('what is not implemented', () => {
  it.each<[string, number, Fields, RegExp]>([
    ['tx.select', METHOD.txSelect, {}, /^540 NOT_IMPLEMENTED - .* \[90\/10\]$/],
    ['tx.commit', METHOD.txCommit, {}, /^540 NOT_IMPLEMENTED - .* \[90\/20\]$/],
    ['tx.rollback', METHOD.txRollback, {}, /^540 NOT_IMPLEMENTED - .* \[90\/30\]$/],
    [
      'channel.flow to stop',
      METHOD.channelFlow,
      { active: false },
      /^540 NOT_IMPLEMENTED - active=false \[20\/20\]$/,
    ],
  ])('closes the connection with 540: %s [C-6.3]', async (_title, method, fields, expected) => {
    const { peer, link } = await openAmqp(edge);
    peer.send(method, fields, 1);
    expect(await peer.takeConnectionClose()).toMatch(expected);
    await link.untilClosed();
  });

  it('but harmless is answered: channel.flow to go on, access.request', async () => {
    const { peer } = await openAmqp(edge);
    peer.send(METHOD.channelFlow, { active: true }, 1);
    expect((await peer.takeMethod(METHOD.channelFlowOk)).active).toBe(true);
    peer.send(METHOD.accessRequest, { realm: '/data' }, 1);
    expect((await peer.takeMethod(METHOD.accessRequestOk)).ticket).toBe(1);
    peer.stream.destroy();
  });
});
