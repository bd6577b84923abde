/** Acknowledging, rejecting, recovering, getting: every delivery is settled once, by the channel that has it. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import {
  deliveryOf,
  type OpenAmqpClient,
  openAmqp,
  openConsumer,
  throughLink,
} from '../../support/bridge-amqp.ts';
import { type Fields, methodFrame } from '../../support/bridge-amqp-frames.ts';
import { TestEdge } from '../../support/bridge-edge.ts';

const QUEUE = 'vcp.acme.event.alarm';

let edge: TestEdge;

beforeAll(async () => {
  edge = await TestEdge.start();
});
afterAll(() => edge.stop());

/** A consumer that holds deliveries 1, 2, 3 with leases 11, 12, 13. */
async function openHolder(): Promise<OpenAmqpClient> {
  const client = await openConsumer(edge);
  for (const lease of [11, 12, 13])
    client.link.send({ kind: 'deliver', channel: 1, tag: 'ct', delivery: deliveryOf(lease) });
  for (let count = 0; count < 3; count++) await client.peer.takeContent(METHOD.basicDeliver);
  return client;
}

describe('a settlement', () => {
  it.each<[string, number, Fields, string, number[]]>([
    ['basic.ack', METHOD.basicAck, { deliveryTag: 2 }, 'ack', [12]],
    ['basic.ack of many', METHOD.basicAck, { deliveryTag: 2, multiple: true }, 'ack', [11, 12]],
    ['basic.ack of all', METHOD.basicAck, { deliveryTag: 0, multiple: true }, 'ack', [11, 12, 13]],
    ['basic.nack', METHOD.basicNack, { deliveryTag: 3, requeue: true }, 'requeue', [13]],
    [
      'basic.nack of many',
      METHOD.basicNack,
      { deliveryTag: 3, multiple: true, requeue: true },
      'requeue',
      [11, 12, 13],
    ],
    ['basic.nack without requeue', METHOD.basicNack, { deliveryTag: 1, requeue: false }, 'discard', [11]],
    ['basic.reject', METHOD.basicReject, { deliveryTag: 1, requeue: true }, 'requeue', [11]],
    ['basic.reject without requeue', METHOD.basicReject, { deliveryTag: 1, requeue: false }, 'discard', [11]],
  ])('by %s names its leases [C-6.4]', async (_title, method, fields, outcome, leases) => {
    const { peer, link } = await openHolder();
    peer.send(method, fields, 1);
    expect(await link.take('settle')).toEqual({ kind: 'settle', outcome, leases });
    peer.stream.destroy();
  });

  it('of one read travels as one frame while the outcome is the same, and in order where it is not', async () => {
    const { peer, link } = await openHolder();
    peer.write(
      methodFrame(METHOD.basicAck, { deliveryTag: 3 }, 1),
      methodFrame(METHOD.basicAck, { deliveryTag: 1 }, 1),
      methodFrame(METHOD.basicNack, { deliveryTag: 2, requeue: true }, 1),
    );
    expect(await link.take('settle')).toEqual({ kind: 'settle', outcome: 'ack', leases: [13, 11] });
    expect(await link.take('settle')).toEqual({ kind: 'settle', outcome: 'requeue', leases: [12] });
    peer.stream.destroy();
  });

  it('goes to the object before what the client did after it', async () => {
    const { peer, link } = await openHolder();
    peer.write(
      methodFrame(METHOD.basicAck, { deliveryTag: 1 }, 1),
      methodFrame(METHOD.basicGet, { queue: QUEUE }, 1),
    );
    await link.take('get');
    expect(link.received.map(({ kind }) => kind)).toEqual(['consume', 'settle', 'get']);
    peer.stream.destroy();
  });

  it.each<[string, number, Fields, string]>([
    ['an unknown tag', METHOD.basicAck, { deliveryTag: 4 }, 'unknown delivery tag 4 [60/80]'],
    ['tag 0', METHOD.basicAck, { deliveryTag: 0 }, 'unknown delivery tag 0 [60/80]'],
    [
      'many beyond the last',
      METHOD.basicAck,
      { deliveryTag: 4, multiple: true },
      'unknown delivery tag 4 [60/80]',
    ],
    [
      'an unknown tag',
      METHOD.basicNack,
      { deliveryTag: 9, requeue: true },
      'unknown delivery tag 9 [60/120]',
    ],
    [
      'an unknown tag',
      METHOD.basicReject,
      { deliveryTag: 9, requeue: true },
      'unknown delivery tag 9 [60/90]',
    ],
  ])('of %s closes the channel: 406 [C-6.3]', async (_title, method, fields, text) => {
    const { peer, link } = await openHolder();
    peer.send(method, fields, 1);
    expect(await peer.takeChannelClose()).toBe(`406 PRECONDITION_FAILED - ${text}`);
    await link.take('close-channel');
    expect(link.received.some(({ kind }) => kind === 'settle')).toBe(false);
    peer.stream.destroy();
  });

  it('twice closes the channel: 406, and the first stands', async () => {
    const { peer, link } = await openHolder();
    peer.send(METHOD.basicAck, { deliveryTag: 2 }, 1);
    peer.send(METHOD.basicAck, { deliveryTag: 2 }, 1);
    expect(await peer.takeChannelClose()).toMatch(/^406 .*unknown delivery tag 2 /);
    expect(await link.take('settle')).toEqual({ kind: 'settle', outcome: 'ack', leases: [12] });
    peer.stream.destroy();
  });

  it('from another channel closes that channel, and the delivery stays where it is: 406', async () => {
    const { peer, link } = await openHolder();
    await peer.openChannel(2);
    peer.send(METHOD.basicAck, { deliveryTag: 1 }, 2);
    const close = await peer.takeMethod(METHOD.channelClose);
    expect([close.channel, close.replyCode]).toEqual([2, 406]);
    peer.send(METHOD.basicAck, { deliveryTag: 1 }, 1);
    expect((await link.take('settle')).leases).toEqual([11]);
    peer.stream.destroy();
  });

  it('of very many is cut into frames that the object reads', async () => {
    const { peer, link } = await openConsumer(edge);
    const leases = Array.from({ length: 12_001 }, (_, index) => index + 1);
    for (let start = 0; start < leases.length; start += 200) {
      const some = leases.slice(start, start + 200);
      link.send(
        ...some.map((lease) => ({
          kind: 'deliver' as const,
          channel: 1,
          tag: 'ct',
          delivery: deliveryOf(lease),
        })),
      );
    }
    for (const _ of leases) await peer.takeContent(METHOD.basicDeliver);
    peer.send(METHOD.basicAck, { deliveryTag: 12_001, multiple: true }, 1);
    const settled = [await link.take('settle'), await link.take('settle'), await link.take('settle')];
    expect(settled.flatMap((one) => one.leases)).toEqual(leases);
    peer.stream.destroy();
  });

  it('of all where nothing is out is fine', async () => {
    const client = await openConsumer(edge);
    client.peer.send(METHOD.basicAck, { deliveryTag: 0, multiple: true }, 1);
    await throughLink(client);
    expect(client.link.received.some(({ kind }) => kind === 'settle')).toBe(false);
    client.peer.stream.destroy();
  });
});

describe('basic.recover', () => {
  it('asks the object, answers when it has, and forgets the tags [C-6.4]', async () => {
    const { peer, link } = await openHolder();
    peer.send(METHOD.basicRecover, { requeue: true }, 1);
    const { seq, ...wanted } = await link.take('recover');
    expect(wanted).toEqual({ kind: 'recover', channel: 1 });
    link.send(
      { kind: 'ok', seq },
      { kind: 'deliver', channel: 1, tag: 'ct', delivery: deliveryOf(21, { redelivered: true }) },
    );
    await peer.takeMethod(METHOD.basicRecoverOk);
    const { fields } = await peer.takeContent(METHOD.basicDeliver);
    expect(fields).toMatchObject({ deliveryTag: 4, redelivered: true });
    peer.send(METHOD.basicAck, { deliveryTag: 1 }, 1);
    expect(await peer.takeChannelClose()).toMatch(/^406 /);
    peer.stream.destroy();
  });

  it('of the old kind is answered nothing', async () => {
    const client = await openHolder();
    client.peer.send(METHOD.basicRecoverAsync, { requeue: true }, 1);
    client.link.send({ kind: 'ok', seq: (await client.link.take('recover')).seq });
    await throughLink(client);
    client.peer.stream.destroy();
  });

  it('without requeue closes the connection: 540', async () => {
    const { peer } = await openHolder();
    peer.send(METHOD.basicRecover, { requeue: false }, 1);
    expect(await peer.takeConnectionClose()).toBe('540 NOT_IMPLEMENTED - requeue=false [60/110]');
  });
});

describe('basic.get', () => {
  it('gives one message, how many are left, and a tag to settle it by [C-6.4]', async () => {
    const { peer, link } = await openAmqp(edge);
    peer.send(METHOD.basicGet, { queue: QUEUE }, 1);
    const { seq, ...wanted } = await link.take('get');
    expect(wanted).toEqual({ kind: 'get', channel: 1, queue: QUEUE, noAck: false });
    link.send({ kind: 'got', seq, messageCount: 6, delivery: deliveryOf(31) });
    const { fields, body } = await peer.takeContent(METHOD.basicGetOk);
    expect(fields).toMatchObject({ deliveryTag: 1, redelivered: false, exchange: 'vcp', messageCount: 6 });
    expect(body.toString()).toBe('body 31');
    peer.send(METHOD.basicAck, { deliveryTag: 1 }, 1);
    expect((await link.take('settle')).leases).toEqual([31]);
    peer.stream.destroy();
  });

  it('of an empty queue is get-empty', async () => {
    const client = await openAmqp(edge);
    await throughLink(client);
    client.peer.stream.destroy();
  });

  it('without acknowledgement leaves nothing to settle', async () => {
    const { peer, link } = await openAmqp(edge);
    peer.send(METHOD.basicGet, { queue: QUEUE, noAck: true }, 1);
    const { seq, noAck } = await link.take('get');
    expect(noAck).toBe(true);
    link.send({ kind: 'got', seq, messageCount: 0, delivery: deliveryOf(0) });
    await peer.takeContent(METHOD.basicGetOk);
    peer.send(METHOD.basicAck, { deliveryTag: 1 }, 1);
    expect(await peer.takeChannelClose()).toMatch(/^406 /);
    peer.stream.destroy();
  });

  it('that is refused closes the channel', async () => {
    const { peer, link } = await openAmqp(edge);
    peer.send(METHOD.basicGet, { queue: 'nope' }, 1);
    const { seq } = await link.take('get');
    const text = "NOT_FOUND - no queue 'nope' in vhost 'partner-k1'";
    link.send({ kind: 'refused', seq, severity: 'channel', code: 404, text });
    expect(await peer.takeChannelClose()).toBe(`404 ${text} [60/70]`);
    peer.stream.destroy();
  });
});
