/** Frames are answered in their order, and those after a rejection are dropped [C-6.4]. */
import { describe, expect } from 'vitest';
import { accept, amqpTest, QUEUE, reject } from '#support/bridge-amqp.ts';
import { BYE, methodFrame, publishFrames } from '#support/bridge-amqp-frames.ts';
import { VHOST } from '#support/bridge-edge.ts';
import { turns } from '#support/bridge-signal.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { SCOPES_HEADER, VHOST_HEADER } from '../../../protocol/link/proof.ts';

const SETPOINT = { routingKey: 'acme.command.site-setpoint' };
const declare = (queue: string, more = {}) =>
  methodFrame(METHOD.queueDeclare, { queue, passive: true, arguments: {}, ...more }, 1);
const CLOSE = methodFrame(METHOD.channelClose, BYE, 1);
const CLOSE_CONNECTION = methodFrame(METHOD.connectionClose, BYE);
const TOPIC = "topic 'acme.command.mode' in exchange 'vcp'";
const UNKNOWN = "topic 'acme.command.reboot' in exchange 'vcp'";
const OF_SLUG = ': a routing key begins with the user name and a dot';
const OTHER_SLUG = "topic 'acme2.command.site-setpoint' in exchange 'vcp'";
const REFUSED =
  "403 ACCESS_REFUSED - access to topic 'acme.command.mode' in exchange 'vcp' in vhost 'partner-k1' refused for user 'acme': the API key lacks the scope vcp:write:mode [60/40]";

/** `setpoints` is a publisher whose key may publish setpoints. */
const it = amqpTest.extend('setpoints', ({ edge, amqp }) => {
  const scopes = { [SCOPES_HEADER]: 'vcp:write:setpoint,vcp:read:site' };
  edge.answer = () => ({ accept: { [VHOST_HEADER]: VHOST, ...scopes } });
  return amqp.openPublisher();
});

const setpoint = (body: string) => publishFrames(body, SETPOINT);
const mode = (body: string) => publishFrames(body, { routingKey: 'acme.command.mode' });

describe('a forbidden publish', () => {
  it.for([
    [
      'a missing scope',
      { routingKey: 'acme.command.mode' },
      TOPIC,
      ': the API key lacks the scope vcp:write:mode',
    ],
    ['another slug', { routingKey: 'acme2.command.site-setpoint' }, OTHER_SLUG, OF_SLUG],
    [
      'an unknown command',
      { routingKey: 'acme.command.reboot' },
      UNKNOWN,
      ': no command has this routing key',
    ],
    ['another exchange', { exchange: 'amq.topic' }, "exchange 'amq.topic'", ''],
    ['the default exchange', { exchange: '' }, "exchange 'amq.default'", ''],
  ] as const)(
    'closes its channel with 403 for %s, and the object does not receive it [C-6.2]',
    async ([_, options, what, why], { setpoints }) => {
      const { peer, link } = setpoints;
      peer.write(publishFrames('no', { ...SETPOINT, ...options }), setpoint('later'));
      expect(await peer.takeChannelClose()).toBe(
        `403 ACCESS_REFUSED - access to ${what} in vhost 'partner-k1' refused for user 'acme'${why} [60/40]`,
      );
      expect(await link.take('close-channel')).toEqual({ kind: 'close-channel', channel: 1 });
      expect(link.received.length).toBe(1);
    },
  );

  it('is rejected after earlier confirms; later publishes are dropped', async ({
    setpoints: { peer, link, events },
  }) => {
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
    await peer.reopenChannel();
  });

  it('gets 403 after 3 s if earlier ones have no answer', async ({ clock, setpoints: { peer, link } }) => {
    peer.write(setpoint('never answered'), mode('no'));
    await link.take('close-channel');
    await clock.pass(LIMIT.amqpCloseMs);
    expect(await peer.takeChannelClose()).toBe(REFUSED);
  });

  it('leaves other channels open', async ({ setpoints: { peer, link } }) => {
    await peer.openChannel(2);
    peer.write(mode('no'), publishFrames('on 2', { ...SETPOINT, channel: 2 }));
    expect((await link.take('publish')).body).toBe('on 2');
    expect(await peer.takeChannelClose()).toBe(REFUSED);
  });

  it('its 403 is sent before the close-ok of its channel', async ({ setpoints: { peer, link } }) => {
    peer.write(setpoint('a'), mode('no'), CLOSE);
    await link.store();
    await peer.takeMethod(METHOD.basicAck);
    expect(await peer.takeChannelClose()).toBe(REFUSED);
    await peer.takeMethod(METHOD.channelCloseOk);
    await peer.reopenChannel();
  });

  it('its 403 is sent before the close-ok of the connection', async ({ setpoints: { peer, link } }) => {
    peer.write(setpoint('a'), mode('no'), CLOSE_CONNECTION);
    const { seq } = await link.take('publish');
    await turns();
    link.send({ kind: 'stored', seqs: [seq] });
    await peer.takeMethod(METHOD.basicAck);
    expect(await peer.takeChannelClose()).toBe(REFUSED);
    await peer.takeMethod(METHOD.connectionCloseOk);
  });
});

describe('a close by the client', () => {
  it('channel.close is answered after the confirms of its channel', async ({ setpoints: { peer, link } }) => {
    peer.write(setpoint('a'), CLOSE);
    const { seq } = await link.take('publish');
    await link.take('close-channel');
    link.send({ kind: 'unstored', seqs: [seq] });
    expect(await peer.takeMethod(METHOD.basicNack)).toMatchObject({ deliveryTag: 1 });
    await peer.takeMethod(METHOD.channelCloseOk);
    await peer.openChannel(1);
  });

  it('channel.close waits 3 s at most for the confirms', async ({ clock, setpoints: { peer, link } }) => {
    peer.write(setpoint('never answered'), CLOSE);
    await link.take('close-channel');
    await clock.pass(LIMIT.amqpCloseMs);
    await peer.takeMethod(METHOD.channelCloseOk);
  });

  it('connection.close is answered after an earlier declare', async ({ setpoints: { peer, link } }) => {
    peer.write(declare('nope'), CLOSE_CONNECTION);
    await turns();
    await reject(link, 'declare', 404, 'NOT_FOUND - that');
    expect(await peer.takeChannelClose()).toBe('404 NOT_FOUND - that [50/10]');
    await peer.takeMethod(METHOD.connectionCloseOk);
  });

  it('connection.close waits 3 s at most for requests', async ({ clock, setpoints: { peer, link } }) => {
    peer.write(methodFrame(METHOD.basicGet, { queue: QUEUE }, 1), CLOSE_CONNECTION);
    await link.take('get');
    await clock.pass(LIMIT.amqpCloseMs);
    await peer.takeMethod(METHOD.connectionCloseOk);
  });

  it('a socket left open is closed 3 s after close-ok', async ({ clock, setpoints: { peer, events } }) => {
    peer.write(CLOSE_CONNECTION);
    await peer.takeMethod(METHOD.connectionCloseOk);
    await clock.pass(LIMIT.amqpCloseMs - 1);
    expect(peer.ended).toBe(false);
    await clock.pass(1);
    await peer.untilEnded();
    expect(events.endedWhy).toEqual(['client closed']);
  });
});

describe('requests of one channel in one write', () => {
  it('reach the object one by one and are answered in order', async ({ setpoints: { peer, link } }) => {
    peer.write(
      declare(QUEUE),
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
    await peer.takeMethods(METHOD.queueDeclareOk, METHOD.exchangeDeclareOk);
    await peer.takeMethods(METHOD.basicGetEmpty, METHOD.basicQosOk);
  });

  it('are dropped, like publishes, after a rejected one', async ({ setpoints: { peer, link } }) => {
    peer.write(
      declare('nope'),
      setpoint('later'),
      methodFrame(METHOD.basicConsume, { queue: QUEUE, arguments: {} }, 1),
    );
    await reject(link, 'declare', 404, 'NOT_FOUND - that');
    expect(await peer.takeChannelClose()).toBe('404 NOT_FOUND - that [50/10]');
    await link.take('close-channel');
    expect(link.received.map(({ kind }) => kind)).toEqual(['declare', 'close-channel']);
  });

  it('do not delay another channel while one waits for its answer', async ({ setpoints: { peer, link } }) => {
    await peer.openChannel(2);
    peer.write(
      methodFrame(METHOD.basicGet, { queue: QUEUE }, 1),
      publishFrames('on 2', { ...SETPOINT, channel: 2 }),
      methodFrame(METHOD.basicGet, { queue: QUEUE }, 1),
    );
    await link.take('get');
    expect((await link.take('publish')).body).toBe('on 2');
    expect(link.received.length).toBe(2);
  });

  it('a consume without a name gets the queue declared with nowait', async ({
    setpoints: { peer, link },
  }) => {
    peer.write(
      declare(QUEUE, { nowait: true }),
      methodFrame(METHOD.basicConsume, { queue: '', consumerTag: 'ct', arguments: {} }, 1),
    );
    await accept(link, 'declare', { messageCount: 0, consumerCount: 0 });
    expect((await accept(link, 'consume')).queue).toBe(QUEUE);
    expect(await peer.takeMethod(METHOD.basicConsumeOk)).toMatchObject({ consumerTag: 'ct' });
  });

  it('a consume after a cancel with nowait may use its tag', async ({ setpoints: { peer, link } }) => {
    const consume = methodFrame(METHOD.basicConsume, { queue: QUEUE, consumerTag: 'ct', arguments: {} }, 1);
    peer.write(consume, methodFrame(METHOD.basicCancel, { consumerTag: 'ct', nowait: true }, 1), consume);
    for (const kind of ['consume', 'cancel', 'consume'] as const) await accept(link, kind);
    await peer.takeMethods(METHOD.basicConsumeOk, METHOD.basicConsumeOk);
  });
});
