/** basic.consume, its deliveries, and basic.cancel. */
import { describe, expect } from 'vitest';
import {
  accept,
  consume,
  deliver,
  deliveryOf,
  amqpTest as it,
  QUEUE,
  reject,
  throughLink,
} from '#support/bridge-amqp.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';

describe('basic.consume', () => {
  it('reaches the object with all options; consume-ok follows its answer', async ({ peer, link }) => {
    await peer.request(METHOD.basicQos, { prefetchCount: 7 }, 1);
    const options = { queue: QUEUE, noAck: true, exclusive: true };
    peer.send(METHOD.basicConsume, { ...options, consumerTag: 'ct', arguments: { 'x-priority': 1 } }, 1);
    expect(await accept(link, 'consume')).toEqual({
      kind: 'consume',
      channel: 1,
      tag: 'ct',
      ...options,
      prefetch: 7,
      priority: 1,
    });
    expect(await peer.takeMethod(METHOD.basicConsumeOk)).toMatchObject({ consumerTag: 'ct', channel: 1 });
  });

  it('gets a generated tag if it names none, each time another', async ({ client }) => {
    const first = await consume(client, { consumerTag: '' });
    expect(first).toMatch(/^amq\.ctag-[A-Za-z0-9_-]{22}$/);
    expect(await consume(client, { consumerTag: '' })).not.toBe(first);
  });

  it('gets no consume-ok with nowait, only deliveries', async ({ peer, link }) => {
    peer.send(METHOD.basicConsume, { queue: QUEUE, consumerTag: 'ct', nowait: true, arguments: {} }, 1);
    link.send({ kind: 'ok', seq: (await link.take('consume')).seq }, deliver(1));
    await peer.takeContent(METHOD.basicDeliver);
  });

  it('closes the connection with 530 if its tag is in use on the channel [C-6.3]', async ({ consumer }) => {
    const { peer, link } = consumer;
    peer.send(METHOD.basicConsume, { queue: QUEUE, consumerTag: 'ct', arguments: {} }, 1);
    expect(await peer.takeConnectionClose()).toBe(
      "530 NOT_ALLOWED - attempt to reuse consumer tag 'ct' [60/20]",
    );
    await link.untilClosed();
  });

  it('may use a tag of another channel or of a cancelled consumer', async ({ consumer }) => {
    const { peer, link } = consumer;
    await peer.openChannel(2);
    await consume(consumer, {}, 2);
    peer.send(METHOD.basicCancel, { consumerTag: 'ct' }, 1);
    await accept(link, 'cancel');
    await peer.takeMethod(METHOD.basicCancelOk);
    await consume(consumer);
  });

  it('closes the channel with the object’s text if the object rejects it', async ({ peer, link }) => {
    peer.send(METHOD.basicConsume, { queue: 'vcp.other.event.alarm', arguments: {} }, 1);
    const text =
      "ACCESS_REFUSED - access to queue 'vcp.other.event.alarm' in vhost 'partner-k1' refused for user 'acme'";
    await reject(link, 'consume', 403, text);
    expect(await peer.takeChannelClose()).toBe(`403 ${text} [60/20]`);
    expect(await link.take('close-channel')).toEqual({ kind: 'close-channel', channel: 1 });
  });

  it('closes the connection if the object rejects it with severity "connection"', async ({ peer, link }) => {
    peer.send(METHOD.basicConsume, { queue: QUEUE, arguments: {} }, 1);
    await reject(link, 'consume', 530, 'NOT_ALLOWED - no', 'connection');
    expect(await peer.takeConnectionClose()).toBe('530 NOT_ALLOWED - no [60/20]');
  });

  it('uses the last declared queue if it names none, or gets 404 if there is none', async ({
    peer,
    link,
  }) => {
    peer.send(METHOD.queueDeclare, { queue: QUEUE, passive: true, arguments: {} }, 1);
    await accept(link, 'declare');
    await peer.takeMethod(METHOD.queueDeclareOk);
    peer.send(METHOD.basicConsume, { queue: '', arguments: {} }, 1);
    expect((await link.take('consume')).queue).toBe(QUEUE);
    await peer.openChannel(2);
    peer.send(METHOD.basicConsume, { queue: '', arguments: {} }, 2);
    expect(await peer.takeChannelClose()).toBe('404 NOT_FOUND - no previously declared queue [60/20]');
  });
});

describe('a delivery', () => {
  it('carries its fields, properties and whole body', async ({ consumer: { peer, link } }) => {
    const named = { contentType: 'application/json', messageId: 'm', correlationId: 'c' };
    const properties = { ...named, timestampMs: 5_000 };
    link.send(deliver(41, { redelivered: true, properties, body: '{"č":1}' }));
    const got = await peer.takeContent(METHOD.basicDeliver);
    expect(got.fields).toEqual({
      channel: 1,
      consumerTag: 'ct',
      deliveryTag: 1,
      redelivered: true,
      exchange: 'vcp',
      routingKey: 'acme.event.alarm',
    });
    expect(got.properties).toMatchObject({ ...named, timestamp: 5 });
    expect(got.body.toString()).toBe('{"č":1}');
  });

  it('is split into frames of at most the size that the client tuned', async ({ amqp }) => {
    const { peer, link } = await amqp.openConsumer({}, { tune: { frameMax: 8_192 } });
    link.send(deliver(1, { body: 'x'.repeat(20_000) }));
    expect((await peer.takeContent(METHOD.basicDeliver)).body.length).toBe(20_000);
    expect(peer.frames.filter(({ type }) => type === 'body').length).toBe(3);
  });

  it('to a no-ack consumer cannot be acknowledged: the channel closes with 406', async ({ amqp }) => {
    const { peer, link } = await amqp.openConsumer({ noAck: true });
    link.send(deliver(0));
    await peer.takeContent(METHOD.basicDeliver);
    peer.send(METHOD.basicAck, { deliveryTag: 1 }, 1);
    expect(await peer.takeChannelClose()).toBe('406 PRECONDITION_FAILED - unknown delivery tag 1 [60/80]');
  });

  it('for a channel that is not open is dropped', async ({ consumer }) => {
    consumer.link.send({ kind: 'deliver', channel: 9, tag: 'ct', delivery: deliveryOf(1) });
    await throughLink(consumer);
  });
});

describe('basic.cancel', () => {
  it('deliveries after the object’s answer are requeued', async ({ consumer: { peer, link } }) => {
    peer.send(METHOD.basicCancel, { consumerTag: 'ct' }, 1);
    const { seq, ...wanted } = await link.take('cancel');
    expect(wanted).toEqual({ kind: 'cancel', channel: 1, tag: 'ct' });
    link.send(deliver(1));
    await peer.takeContent(METHOD.basicDeliver);
    link.send({ kind: 'ok', seq }, deliver(2));
    expect((await peer.takeMethod(METHOD.basicCancelOk)).consumerTag).toBe('ct');
    expect(await link.take('settle')).toEqual({ kind: 'settle', outcome: 'requeue', leases: [2] });
  });

  it('gets cancel-ok from the bridge alone for an unknown tag', async ({ consumer: { peer, link } }) => {
    expect((await peer.request(METHOD.basicCancel, { consumerTag: 'unknown' }, 1)).consumerTag).toBe(
      'unknown',
    );
    expect(link.received.some(({ kind }) => kind === 'cancel')).toBe(false);
  });
});
