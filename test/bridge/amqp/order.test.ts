/** Frames are judged, and answered, in their order: what stands behind a refusal is not taken [C-6.4]. */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import {
  LINK_VERSION,
  LINK_VERSION_HEADER,
  SCOPES_HEADER,
  VHOST_HEADER,
} from '../../../protocol/link/proof.ts';
import { type OpenAmqpClient, openAmqp } from '../../support/bridge-amqp.ts';
import { methodFrame, publishFrames } from '../../support/bridge-amqp-frames.ts';
import { TestEdge, VHOST } from '../../support/bridge-edge.ts';
import { CLOCK, turns } from '../../support/bridge-signal.ts';

const QUEUE = 'vcp.acme.event.alarm';
const BYE = { replyCode: 200, replyText: 'bye', classId: 0, methodId: 0 };
const SETPOINT = { routingKey: 'acme.command.site-setpoint' };
const CLOSE = methodFrame(METHOD.channelClose, BYE, 1);
const CLOSE_CONNECTION = methodFrame(METHOD.connectionClose, BYE);
const REFUSED =
  "403 ACCESS_REFUSED - access to topic 'acme.command.mode' in exchange 'vcp' in vhost 'partner-k1' refused for user 'acme' [60/40]";

let edge: TestEdge;

beforeAll(async () => {
  edge = await TestEdge.start();
  edge.answer = () => ({
    accept: {
      [VHOST_HEADER]: VHOST,
      [SCOPES_HEADER]: 'vcp:write:setpoint,vcp:read:site',
      [LINK_VERSION_HEADER]: String(LINK_VERSION),
    },
  });
});
afterEach(() => {
  vi.useRealTimers();
});
afterAll(() => edge.stop());

/** A client with confirms, whose key may publish setpoints. */
async function openSetpoints(): Promise<OpenAmqpClient> {
  const client = await openAmqp(edge);
  client.peer.send(METHOD.confirmSelect, {}, 1);
  await client.peer.takeMethod(METHOD.confirmSelectOk);
  return client;
}

const setpoint = (body: string) => publishFrames(body, SETPOINT);
const mode = (body: string) => publishFrames(body, { routingKey: 'acme.command.mode' });

describe('a publish that may not be', () => {
  it.each([
    [
      'a right that its key lacks',
      { routingKey: 'acme.command.mode' },
      "topic 'acme.command.mode' in exchange 'vcp'",
    ],
    [
      'another slug',
      { routingKey: 'acme2.command.site-setpoint' },
      "topic 'acme2.command.site-setpoint' in exchange 'vcp'",
    ],
    ['another exchange', { exchange: 'amq.topic' }, "exchange 'amq.topic'"],
    ['the default exchange', { exchange: '' }, "exchange 'amq.default'"],
  ])('(%s) is refused without asking the object [C-6.2]', async (_title, options, what) => {
    const { peer, link } = await openSetpoints();
    peer.write(publishFrames('no', { ...SETPOINT, ...options }), setpoint('behind it'));
    expect(await peer.takeChannelClose()).toBe(
      `403 ACCESS_REFUSED - access to ${what} in vhost 'partner-k1' refused for user 'acme' [60/40]`,
    );
    expect(await link.take('close-channel')).toEqual({ kind: 'close-channel', channel: 1 });
    expect(link.received.length).toBe(1);
    peer.stream.destroy();
  });

  it('lets nothing behind it through, and what stands before it is confirmed first', async () => {
    const { peer, link, events } = await openSetpoints();
    peer.write(setpoint('a'), setpoint('b'), mode('no'), setpoint('c'), setpoint('d'));
    const [first, second] = [await link.take('publish'), await link.take('publish')];
    await link.take('close-channel');
    link.send({ kind: 'stored', seqs: [second.seq] });
    expect(await peer.takeMethod(METHOD.basicAck)).toMatchObject({ deliveryTag: 2, multiple: false });
    link.send({ kind: 'stored', seqs: [first.seq] });
    expect(await peer.takeMethod(METHOD.basicAck)).toMatchObject({ deliveryTag: 1 });
    expect(await peer.takeChannelClose()).toBe(REFUSED);
    expect([first.body, second.body, link.received.length, events.publishedCount]).toEqual(['a', 'b', 3, 2]);
    expect(events.results).toEqual({ confirmed: 2, nacked: 0, refused: 1 });
    peer.send(METHOD.channelCloseOk, {}, 1);
    await peer.openChannel(1);
    peer.stream.destroy();
  });

  it('waits for what stands before it no longer than so', async () => {
    const { peer, link } = await openSetpoints();
    vi.useFakeTimers(CLOCK);
    peer.write(setpoint('never answered'), mode('no'));
    await link.take('close-channel');
    vi.advanceTimersByTime(LIMIT.amqpCloseMs);
    expect(await peer.takeChannelClose()).toBe(REFUSED);
    peer.stream.destroy();
  });

  it('leaves other channels alone', async () => {
    const { peer, link } = await openSetpoints();
    await peer.openChannel(2);
    peer.write(mode('no'), publishFrames('on 2', { ...SETPOINT, channel: 2 }));
    expect((await link.take('publish')).body).toBe('on 2');
    expect(await peer.takeChannelClose()).toBe(REFUSED);
    peer.stream.destroy();
  });

  it('followed by a close of its channel in one write is told first, then close-ok', async () => {
    const { peer, link } = await openSetpoints();
    peer.write(setpoint('a'), mode('no'), CLOSE);
    const { seq } = await link.take('publish');
    link.send({ kind: 'stored', seqs: [seq] });
    await peer.takeMethod(METHOD.basicAck);
    expect(await peer.takeChannelClose()).toBe(REFUSED);
    await peer.takeMethod(METHOD.channelCloseOk);
    peer.send(METHOD.channelCloseOk, {}, 1);
    await peer.openChannel(1);
    peer.stream.destroy();
  });

  it('followed by a close of the connection in one write is told first, then close-ok', async () => {
    const { peer, link } = await openSetpoints();
    peer.write(setpoint('a'), mode('no'), CLOSE_CONNECTION);
    const { seq } = await link.take('publish');
    await turns();
    link.send({ kind: 'stored', seqs: [seq] });
    await peer.takeMethod(METHOD.basicAck);
    expect(await peer.takeChannelClose()).toBe(REFUSED);
    await peer.takeMethod(METHOD.connectionCloseOk);
    peer.stream.destroy();
  });
});

describe('a close', () => {
  it('of a channel is answered when what was published on it is', async () => {
    const { peer, link } = await openSetpoints();
    peer.write(setpoint('a'), CLOSE);
    const { seq } = await link.take('publish');
    await link.take('close-channel');
    link.send({ kind: 'unstored', seqs: [seq] });
    expect(await peer.takeMethod(METHOD.basicNack)).toMatchObject({ deliveryTag: 1 });
    await peer.takeMethod(METHOD.channelCloseOk);
    await peer.openChannel(1);
    peer.stream.destroy();
  });

  it('of a channel is answered after 3 s at the latest', async () => {
    const { peer, link } = await openSetpoints();
    vi.useFakeTimers(CLOCK);
    peer.write(setpoint('never answered'), CLOSE);
    await link.take('close-channel');
    vi.advanceTimersByTime(LIMIT.amqpCloseMs);
    await peer.takeMethod(METHOD.channelCloseOk);
    peer.stream.destroy();
  });

  it('of the connection behind a declaration is answered after it', async () => {
    const { peer, link } = await openSetpoints();
    const declare = { queue: 'nope', passive: true, arguments: {} };
    peer.write(methodFrame(METHOD.queueDeclare, declare, 1), CLOSE_CONNECTION);
    const { seq } = await link.take('declare');
    await turns();
    link.send({ kind: 'refused', seq, severity: 'channel', code: 404, text: 'NOT_FOUND - that' });
    expect(await peer.takeChannelClose()).toBe('404 NOT_FOUND - that [50/10]');
    await peer.takeMethod(METHOD.connectionCloseOk);
    peer.stream.destroy();
  });

  it('of the connection is answered after 3 s at the latest', async () => {
    const { peer, link } = await openSetpoints();
    vi.useFakeTimers(CLOCK);
    peer.write(methodFrame(METHOD.basicGet, { queue: QUEUE }, 1), CLOSE_CONNECTION);
    await link.take('get');
    await turns();
    vi.advanceTimersByTime(LIMIT.amqpCloseMs);
    await peer.takeMethod(METHOD.connectionCloseOk);
    peer.stream.destroy();
  });

  it('of the connection leaves the end of the stream to the client, and waits 3 s for it', async () => {
    const { peer, events } = await openSetpoints();
    vi.useFakeTimers(CLOCK);
    peer.write(CLOSE_CONNECTION);
    await peer.takeMethod(METHOD.connectionCloseOk);
    vi.advanceTimersByTime(LIMIT.amqpCloseMs - 1);
    await turns();
    expect(peer.ended).toBe(false);
    vi.advanceTimersByTime(1);
    await peer.untilEnded();
    expect(events.closedWhy).toEqual(['client closed']);
  });
});

describe('requests of one channel in one write', () => {
  it('are put to the object one by one, and answered in their order', async () => {
    const { peer, link } = await openSetpoints();
    const declare = { queue: QUEUE, passive: true, arguments: {} };
    peer.write(
      methodFrame(METHOD.queueDeclare, declare, 1),
      methodFrame(METHOD.exchangeDeclare, { exchange: 'vcp', passive: true, arguments: {} }, 1),
      methodFrame(METHOD.basicGet, { queue: QUEUE }, 1),
      methodFrame(METHOD.basicQos, { prefetchCount: 2 }, 1),
    );
    const { seq } = await link.take('declare');
    await turns();
    expect(link.received.length).toBe(1);
    link.send({ kind: 'ok', seq, messageCount: 0, consumerCount: 0 });
    const get = await link.take('get');
    link.send({ kind: 'got', seq: get.seq, messageCount: 0, delivery: null });
    await peer.takeMethod(METHOD.queueDeclareOk);
    await peer.takeMethod(METHOD.exchangeDeclareOk);
    await peer.takeMethod(METHOD.basicGetEmpty);
    await peer.takeMethod(METHOD.basicQosOk);
    peer.stream.destroy();
  });

  it('behind one that is refused are not put to it at all, a publish among them', async () => {
    const { peer, link } = await openSetpoints();
    const declare = { queue: 'nope', passive: true, arguments: {} };
    peer.write(
      methodFrame(METHOD.queueDeclare, declare, 1),
      setpoint('behind it'),
      methodFrame(METHOD.basicConsume, { queue: QUEUE, arguments: {} }, 1),
    );
    const { seq } = await link.take('declare');
    link.send({ kind: 'refused', seq, severity: 'channel', code: 404, text: 'NOT_FOUND - that' });
    expect(await peer.takeChannelClose()).toBe('404 NOT_FOUND - that [50/10]');
    await link.take('close-channel');
    expect(link.received.map(({ kind }) => kind)).toEqual(['declare', 'close-channel']);
    peer.stream.destroy();
  });

  it('do not keep another channel waiting that stands before them', async () => {
    const { peer, link } = await openSetpoints();
    await peer.openChannel(2);
    peer.write(
      methodFrame(METHOD.basicGet, { queue: QUEUE }, 1),
      publishFrames('on 2', { ...SETPOINT, channel: 2 }),
      methodFrame(METHOD.basicGet, { queue: QUEUE }, 1),
    );
    await link.take('get');
    expect((await link.take('publish')).body).toBe('on 2');
    expect(link.received.length).toBe(2);
    peer.stream.destroy();
  });

  it('a passive declare with nowait, then a consume of the queue declared last', async () => {
    const { peer, link } = await openSetpoints();
    const declare = { queue: QUEUE, passive: true, nowait: true, arguments: {} };
    peer.write(
      methodFrame(METHOD.queueDeclare, declare, 1),
      methodFrame(METHOD.basicConsume, { queue: '', consumerTag: 'ct', arguments: {} }, 1),
    );
    link.send({ kind: 'ok', seq: (await link.take('declare')).seq, messageCount: 0, consumerCount: 0 });
    const consume = await link.take('consume');
    expect(consume.queue).toBe(QUEUE);
    link.send({ kind: 'ok', seq: consume.seq });
    expect(await peer.takeMethod(METHOD.basicConsumeOk)).toMatchObject({ consumerTag: 'ct' });
    peer.stream.destroy();
  });

  it('a cancel with nowait, then a consume with the same tag', async () => {
    const { peer, link } = await openSetpoints();
    const consume = methodFrame(METHOD.basicConsume, { queue: QUEUE, consumerTag: 'ct', arguments: {} }, 1);
    peer.write(consume, methodFrame(METHOD.basicCancel, { consumerTag: 'ct', nowait: true }, 1), consume);
    for (const kind of ['consume', 'cancel', 'consume'] as const)
      link.send({ kind: 'ok', seq: (await link.take(kind)).seq });
    await peer.takeMethod(METHOD.basicConsumeOk);
    await peer.takeMethod(METHOD.basicConsumeOk);
    peer.stream.destroy();
  });
});
