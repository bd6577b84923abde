/** Consuming: deliveries, and what becomes of each. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import {
  consume,
  deliveryOf,
  type OpenAmqpClient,
  openAmqp,
  openConsumer,
  throughLink,
} from '../../support/bridge-amqp.ts';
import { TestEdge } from '../../support/bridge-edge.ts';

const QUEUE = 'vcp.acme.event.alarm';

let edge: TestEdge;

beforeAll(async () => {
  edge = await TestEdge.start();
});
afterAll(() => edge.stop());

/** Delivers these leases to a consumer; its tags are 1, 2, 3, … on a fresh channel. */
async function deliver(
  { peer, link }: OpenAmqpClient,
  leases: number[],
  tag = 'ct',
  channel = 1,
): Promise<void> {
  link.send(
    ...leases.map((lease) => ({ kind: 'deliver' as const, channel, tag, delivery: deliveryOf(lease) })),
  );
  for (const _ of leases) await peer.takeContent(METHOD.basicDeliver);
}

describe('basic.consume', () => {
  it('asks the object with all that the client said, and answers when it has answered', async () => {
    const { peer, link } = await openAmqp(edge);
    peer.send(METHOD.basicQos, { prefetchCount: 7 }, 1);
    await peer.takeMethod(METHOD.basicQosOk);
    const fields = {
      queue: QUEUE,
      consumerTag: 'ct',
      noAck: true,
      exclusive: true,
      arguments: { 'x-priority': 1 },
    };
    peer.send(METHOD.basicConsume, fields, 1);
    const { seq, ...wanted } = await link.take('consume');
    expect(wanted).toEqual({
      kind: 'consume',
      channel: 1,
      tag: 'ct',
      queue: QUEUE,
      noAck: true,
      exclusive: true,
      prefetch: 7,
      priority: 1,
    });
    link.send({ kind: 'ok', seq });
    expect(await peer.takeMethod(METHOD.basicConsumeOk)).toMatchObject({ consumerTag: 'ct', channel: 1 });
    peer.stream.destroy();
  });

  it('without a tag is given one, another each time', async () => {
    const client = await openConsumer(edge, { consumerTag: '' });
    const second = await consume(client, { consumerTag: '' });
    expect(client.tag).toMatch(/^amq\.ctag-[A-Za-z0-9_-]{22}$/);
    expect(second).not.toBe(client.tag);
    client.peer.stream.destroy();
  });

  it('with nowait is answered nothing, and delivers', async () => {
    const client = await openAmqp(edge);
    const { peer, link } = client;
    peer.send(METHOD.basicConsume, { queue: QUEUE, consumerTag: 'ct', nowait: true, arguments: {} }, 1);
    link.send({ kind: 'ok', seq: (await link.take('consume')).seq });
    await deliver(client, [1]);
    peer.stream.destroy();
  });

  it('with a tag that is in use closes the connection: 530 [C-6.3]', async () => {
    const { peer, link } = await openConsumer(edge);
    peer.send(METHOD.basicConsume, { queue: QUEUE, consumerTag: 'ct', arguments: {} }, 1);
    expect(await peer.takeConnectionClose()).toBe(
      "530 NOT_ALLOWED - attempt to reuse consumer tag 'ct' [60/20]",
    );
    await link.untilClosed();
  });

  it('with the tag of another channel, or of one that was cancelled, is taken', async () => {
    const client = await openConsumer(edge);
    const { peer, link } = client;
    await peer.openChannel(2);
    await consume(client, {}, 2);
    peer.send(METHOD.basicCancel, { consumerTag: 'ct' }, 1);
    link.send({ kind: 'ok', seq: (await link.take('cancel')).seq });
    await peer.takeMethod(METHOD.basicCancelOk);
    await consume(client);
    peer.stream.destroy();
  });

  it('that the object refuses closes the channel with its word', async () => {
    const { peer, link } = await openAmqp(edge);
    peer.send(METHOD.basicConsume, { queue: 'vcp.other.event.alarm', arguments: {} }, 1);
    const text =
      "ACCESS_REFUSED - access to queue 'vcp.other.event.alarm' in vhost 'partner-k1' refused for user 'acme'";
    const { seq } = await link.take('consume');
    link.send({ kind: 'refused', seq, severity: 'channel', code: 403, text });
    expect(await peer.takeChannelClose()).toBe(`403 ${text} [60/20]`);
    expect(await link.take('close-channel')).toEqual({ kind: 'close-channel', channel: 1 });
    peer.stream.destroy();
  });

  it('that the object refuses with severity connection closes the connection', async () => {
    const { peer, link } = await openAmqp(edge);
    peer.send(METHOD.basicConsume, { queue: QUEUE, arguments: {} }, 1);
    const { seq } = await link.take('consume');
    link.send({ kind: 'refused', seq, severity: 'connection', code: 530, text: 'NOT_ALLOWED - no' });
    expect(await peer.takeConnectionClose()).toBe('530 NOT_ALLOWED - no [60/20]');
  });

  it('without a queue means the last declared, and is 404 where there is none', async () => {
    const { peer, link } = await openAmqp(edge);
    peer.send(METHOD.queueDeclare, { queue: QUEUE, passive: true, arguments: {} }, 1);
    link.send({ kind: 'ok', seq: (await link.take('declare')).seq });
    await peer.takeMethod(METHOD.queueDeclareOk);
    peer.send(METHOD.basicConsume, { queue: '', arguments: {} }, 1);
    expect((await link.take('consume')).queue).toBe(QUEUE);
    await peer.openChannel(2);
    peer.send(METHOD.basicConsume, { queue: '', arguments: {} }, 2);
    expect(await peer.takeChannelClose()).toBe('404 NOT_FOUND - no previously declared queue [60/20]');
    peer.stream.destroy();
  });
});

describe('a delivery', () => {
  it('carries its tag, its number, whether it came before, and its whole message', async () => {
    const { peer, link } = await openConsumer(edge);
    const properties = {
      contentType: 'application/json',
      messageId: 'm',
      correlationId: 'c',
      timestampMs: 5_000,
    };
    const delivery = deliveryOf(41, { redelivered: true, properties, body: '{"č":1}' });
    link.send({ kind: 'deliver', channel: 1, tag: 'ct', delivery });
    const got = await peer.takeContent(METHOD.basicDeliver);
    expect(got.fields).toEqual({
      channel: 1,
      consumerTag: 'ct',
      deliveryTag: 1,
      redelivered: true,
      exchange: 'vcp',
      routingKey: 'acme.event.alarm',
    });
    expect(got.properties).toMatchObject({ contentType: 'application/json', messageId: 'm', timestamp: 5 });
    expect(got.body.toString()).toBe('{"č":1}');
    peer.stream.destroy();
  });

  it('is cut by the frame size that the client tuned', async () => {
    const { peer, link } = await openConsumer(edge, {}, { tune: { frameMax: 8_192 } });
    link.send({
      kind: 'deliver',
      channel: 1,
      tag: 'ct',
      delivery: deliveryOf(1, { body: 'x'.repeat(20_000) }),
    });
    expect((await peer.takeContent(METHOD.basicDeliver)).body.length).toBe(20_000);
    expect(peer.frames.filter(({ type }) => type === 'body').length).toBe(3);
    peer.stream.destroy();
  });

  it('without a lease needs no acknowledgement, and takes none: 406', async () => {
    const { peer, link } = await openConsumer(edge, { noAck: true });
    link.send({ kind: 'deliver', channel: 1, tag: 'ct', delivery: deliveryOf(0) });
    await peer.takeContent(METHOD.basicDeliver);
    peer.send(METHOD.basicAck, { deliveryTag: 1 }, 1);
    expect(await peer.takeChannelClose()).toBe('406 PRECONDITION_FAILED - unknown delivery tag 1 [60/80]');
    peer.stream.destroy();
  });

  it('for a channel that is not open is dropped', async () => {
    const client = await openConsumer(edge);
    client.link.send({ kind: 'deliver', channel: 9, tag: 'ct', delivery: deliveryOf(1) });
    await throughLink(client);
    client.peer.stream.destroy();
  });
});

describe('basic.cancel', () => {
  it('is answered when the object has cancelled, and what comes after goes back', async () => {
    const client = await openConsumer(edge);
    const { peer, link } = client;
    peer.send(METHOD.basicCancel, { consumerTag: 'ct' }, 1);
    const { seq, ...wanted } = await link.take('cancel');
    expect(wanted).toEqual({ kind: 'cancel', channel: 1, tag: 'ct' });
    await deliver(client, [1]);
    link.send({ kind: 'ok', seq }, { kind: 'deliver', channel: 1, tag: 'ct', delivery: deliveryOf(2) });
    expect((await peer.takeMethod(METHOD.basicCancelOk)).consumerTag).toBe('ct');
    expect(await link.take('settle')).toEqual({ kind: 'settle', outcome: 'requeue', leases: [2] });
    peer.stream.destroy();
  });

  it('of an unknown tag is answered at once', async () => {
    const { peer, link } = await openConsumer(edge);
    peer.send(METHOD.basicCancel, { consumerTag: 'nobody' }, 1);
    expect((await peer.takeMethod(METHOD.basicCancelOk)).consumerTag).toBe('nobody');
    expect(link.received.some(({ kind }) => kind === 'cancel')).toBe(false);
    peer.stream.destroy();
  });
});
