/** ack, nack, reject, recover and get: each delivery is settled once, by its own channel. */
import { describe, expect } from 'vitest';
import { accept, amqpTest, deliver, deliveryOf, QUEUE, reject, throughLink } from '#support/bridge-amqp.ts';
import { type Fields, methodFrame } from '#support/bridge-amqp-frames.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';

/** `holder` is a consumer with the deliveries 1, 2, 3 of the leases 11, 12, 13. */
const it = amqpTest.extend('holder', async ({ consumer }) => {
  consumer.link.send(deliver(11), deliver(12), deliver(13));
  for (let count = 0; count < 3; count++) await consumer.peer.takeContent(METHOD.basicDeliver);
  return consumer;
});

describe('the settlement of deliveries', () => {
  const ALL = [11, 12, 13];

  it.for<[string, number, Fields, string, number[]]>([
    ['basic.ack', METHOD.basicAck, { deliveryTag: 2 }, 'ack', [12]],
    ['basic.ack of many', METHOD.basicAck, { deliveryTag: 2, multiple: true }, 'ack', [11, 12]],
    ['basic.ack of all', METHOD.basicAck, { deliveryTag: 0, multiple: true }, 'ack', ALL],
    ['basic.nack', METHOD.basicNack, { deliveryTag: 3, requeue: true }, 'requeue', [13]],
    [
      'basic.nack of many',
      METHOD.basicNack,
      { deliveryTag: 3, multiple: true, requeue: true },
      'requeue',
      ALL,
    ],
    ['basic.nack without requeue', METHOD.basicNack, { deliveryTag: 1, requeue: false }, 'discard', [11]],
    ['basic.reject', METHOD.basicReject, { deliveryTag: 1, requeue: true }, 'requeue', [11]],
    ['basic.reject without requeue', METHOD.basicReject, { deliveryTag: 1, requeue: false }, 'discard', [11]],
  ])('%s settles its leases [C-6.4]', async ([_, method, fields, outcome, leases], { holder }) => {
    const { peer, link } = holder;
    peer.send(method, fields, 1);
    expect(await link.take('settle')).toEqual({ kind: 'settle', outcome, leases });
  });

  it('is sent in one frame for each outcome, for the deliveries of one read', async ({
    holder: { peer, link },
  }) => {
    peer.write(
      methodFrame(METHOD.basicAck, { deliveryTag: 3 }, 1),
      methodFrame(METHOD.basicAck, { deliveryTag: 1 }, 1),
      methodFrame(METHOD.basicNack, { deliveryTag: 2, requeue: true }, 1),
    );
    expect(await link.take('settle')).toEqual({ kind: 'settle', outcome: 'ack', leases: [13, 11] });
    expect(await link.take('settle')).toEqual({ kind: 'settle', outcome: 'requeue', leases: [12] });
  });

  it('reaches the object before a later request', async ({ holder: { peer, link } }) => {
    peer.write(
      methodFrame(METHOD.basicAck, { deliveryTag: 1 }, 1),
      methodFrame(METHOD.basicGet, { queue: QUEUE }, 1),
    );
    await link.take('get');
    expect(link.received.map(({ kind }) => kind)).toEqual(['consume', 'settle', 'get']);
  });

  it.for<[string, number, Fields, string]>([
    ['basic.ack of an unknown tag', METHOD.basicAck, { deliveryTag: 4 }, '4 [60/80]'],
    ['basic.ack of tag 0', METHOD.basicAck, { deliveryTag: 0 }, '0 [60/80]'],
    [
      'basic.ack of many up to an unknown tag',
      METHOD.basicAck,
      { deliveryTag: 4, multiple: true },
      '4 [60/80]',
    ],
    ['basic.nack of an unknown tag', METHOD.basicNack, { deliveryTag: 9, requeue: true }, '9 [60/120]'],
    ['basic.reject of an unknown tag', METHOD.basicReject, { deliveryTag: 9, requeue: true }, '9 [60/90]'],
  ])(
    '%s closes the channel with 406 [C-6.3]',
    async ([_, method, fields, tag], { holder: { peer, link } }) => {
      peer.send(method, fields, 1);
      expect(await peer.takeChannelClose()).toBe(`406 PRECONDITION_FAILED - unknown delivery tag ${tag}`);
      await link.take('close-channel');
      expect(link.received.some(({ kind }) => kind === 'settle')).toBe(false);
    },
  );

  it('a second ack of the same delivery closes the channel with 406', async ({ holder: { peer, link } }) => {
    peer.send(METHOD.basicAck, { deliveryTag: 2 }, 1);
    peer.send(METHOD.basicAck, { deliveryTag: 2 }, 1);
    expect(await peer.takeChannelClose()).toMatch(/^406 .*unknown delivery tag 2 /);
    expect(await link.take('settle')).toEqual({ kind: 'settle', outcome: 'ack', leases: [12] });
  });

  it('on a wrong channel closes only that channel, with 406', async ({ holder: { peer, link } }) => {
    await peer.openChannel(2);
    peer.send(METHOD.basicAck, { deliveryTag: 1 }, 2);
    const close = await peer.takeMethod(METHOD.channelClose);
    expect([close.channel, close.replyCode]).toEqual([2, 406]);
    peer.send(METHOD.basicAck, { deliveryTag: 1 }, 1);
    expect((await link.take('settle')).leases).toEqual([11]);
  });

  it('reaches the object in several frames for 12 001 deliveries', async ({ consumer: { peer, link } }) => {
    const leases = Array.from({ length: 12_001 }, (_, index) => index + 1);
    for (let start = 0; start < leases.length; start += 200)
      link.send(...leases.slice(start, start + 200).map((lease) => deliver(lease)));
    for (const _ of leases) await peer.takeContent(METHOD.basicDeliver);
    peer.send(METHOD.basicAck, { deliveryTag: 12_001, multiple: true }, 1);
    const settled = [await link.take('settle'), await link.take('settle'), await link.take('settle')];
    expect(settled.flatMap((one) => one.leases)).toEqual(leases);
  });

  it('an ack of all is accepted when nothing is unacknowledged', async ({ consumer }) => {
    consumer.peer.send(METHOD.basicAck, { deliveryTag: 0, multiple: true }, 1);
    await throughLink(consumer);
    expect(consumer.link.received.some(({ kind }) => kind === 'settle')).toBe(false);
  });
});

describe('basic.recover', () => {
  it('makes earlier tags unknown; redeliveries get new ones [C-6.4]', async ({ holder: { peer, link } }) => {
    peer.send(METHOD.basicRecover, { requeue: true }, 1);
    const { seq, ...wanted } = await link.take('recover');
    expect(wanted).toEqual({ kind: 'recover', channel: 1 });
    link.send({ kind: 'ok', seq }, deliver(21, { redelivered: true }));
    await peer.takeMethod(METHOD.basicRecoverOk);
    const { fields } = await peer.takeContent(METHOD.basicDeliver);
    expect(fields).toMatchObject({ deliveryTag: 4, redelivered: true });
    peer.send(METHOD.basicAck, { deliveryTag: 1 }, 1);
    expect(await peer.takeChannelClose()).toMatch(/^406 /);
  });

  it('basic.recover-async gets no answer', async ({ holder }) => {
    holder.peer.send(METHOD.basicRecoverAsync, { requeue: true }, 1);
    await accept(holder.link, 'recover');
    await throughLink(holder);
  });

  it('closes the connection with 540 if it does not requeue', async ({ holder: { peer } }) => {
    peer.send(METHOD.basicRecover, { requeue: false }, 1);
    expect(await peer.takeConnectionClose()).toBe('540 NOT_IMPLEMENTED - requeue=false [60/110]');
  });
});

describe('basic.get', () => {
  it('returns a message, the remaining count and a tag [C-6.4]', async ({ peer, link }) => {
    peer.send(METHOD.basicGet, { queue: QUEUE }, 1);
    const { seq, ...wanted } = await link.take('get');
    expect(wanted).toEqual({ kind: 'get', channel: 1, queue: QUEUE, noAck: false });
    link.send({ kind: 'got', seq, messageCount: 6, delivery: deliveryOf(31) });
    const { fields, body } = await peer.takeContent(METHOD.basicGetOk);
    expect(fields).toMatchObject({ deliveryTag: 1, redelivered: false, exchange: 'vcp', messageCount: 6 });
    expect(body.toString()).toBe('body 31');
    peer.send(METHOD.basicAck, { deliveryTag: 1 }, 1);
    expect((await link.take('settle')).leases).toEqual([31]);
  });

  it('on an empty queue returns get-empty', async ({ client }) => {
    await throughLink(client);
  });

  it('returns a message that cannot be acknowledged with noAck: 406', async ({ peer, link }) => {
    peer.send(METHOD.basicGet, { queue: QUEUE, noAck: true }, 1);
    const { seq, noAck } = await link.take('get');
    expect(noAck).toBe(true);
    link.send({ kind: 'got', seq, messageCount: 0, delivery: deliveryOf(0) });
    await peer.takeContent(METHOD.basicGetOk);
    peer.send(METHOD.basicAck, { deliveryTag: 1 }, 1);
    expect(await peer.takeChannelClose()).toMatch(/^406 /);
  });

  it('closes the channel with the object’s text if the object rejects it', async ({ peer, link }) => {
    peer.send(METHOD.basicGet, { queue: 'nope' }, 1);
    const text = "NOT_FOUND - no queue 'nope' in vhost 'partner-k1'";
    await reject(link, 'get', 404, text);
    expect(await peer.takeChannelClose()).toBe(`404 ${text} [60/70]`);
  });
});
