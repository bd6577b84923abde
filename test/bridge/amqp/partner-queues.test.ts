/** Partner queues between the client and its object [C-6.6]. */
import { describe, expect } from 'vitest';
import { accept, deliver, amqpTest as it, type OpenAmqpClient, throughLink } from '#support/bridge-amqp.ts';
import { type Fields, HEARTBEAT, methodFrame } from '#support/bridge-amqp-frames.ts';
import { type TestClock, turns } from '#support/bridge-signal.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { LIMIT } from '../../../protocol/limits.ts';

describe('queue.declare', () => {
  it('returns the name from the object if it has none; later empty names mean that queue', async ({
    peer,
    link,
  }) => {
    peer.send(METHOD.queueDeclare, { queue: '', exclusive: true, arguments: {} }, 1);
    const named = { queue: 'amq.gen-x', messageCount: 0 };
    await accept(link, 'declare', { ...named, consumerCount: 0 });
    expect(await peer.takeMethod(METHOD.queueDeclareOk)).toMatchObject(named);
    peer.send(METHOD.basicGet, { queue: '' }, 1);
    expect((await link.take('get')).queue).toBe('amq.gen-x');
  });

  it('sends the object its arguments with their types, 64 at most', async ({ client }) => {
    const many = Object.fromEntries(Array.from({ length: 70 }, (_, index) => [`a${index}`, index]));
    const typed = { text: 'x', yes: true, table: { a: 1 }, long: 2 ** 40, half: 1.5 };
    client.peer.send(METHOD.queueDeclare, { queue: 'q', arguments: { ...typed, ...many } }, 1);
    const declare = await client.link.take('declare');
    expect(declare.arguments.slice(0, 5)).toEqual([
      { name: 'text', type: 'longstr', value: 'x' },
      { name: 'yes', type: 'bool', value: true },
      { name: 'table', type: 'table', value: null },
      { name: 'long', type: 'long', value: 2 ** 40 },
      { name: 'half', type: 'double', value: 1.5 },
    ]);
    expect(declare.arguments.length).toBe(64);
  });
});

describe('requests about a partner queue', () => {
  const bind = { queue: 'q', exchange: 'vcp', routingKey: 'acme.event.#', arguments: {} };

  const bound = { queue: 'q', pattern: 'acme.event.#' };
  const wanted = { queue: 'q', ifUnused: true, ifEmpty: true };
  const count = { messageCount: 7 };

  it.for<['bind' | 'unbind' | 'purge' | 'delete', number, Fields, Fields, number, Fields]>([
    ['bind', METHOD.queueBind, bind, bound, METHOD.queueBindOk, {}],
    ['unbind', METHOD.queueUnbind, bind, bound, METHOD.queueUnbindOk, {}],
    ['purge', METHOD.queuePurge, { queue: 'q' }, { queue: 'q' }, METHOD.queuePurgeOk, count],
    ['delete', METHOD.queueDelete, wanted, wanted, METHOD.queueDeleteOk, count],
  ])(
    'queue.%s reaches the object and is answered after the object’s answer',
    async (sent, { peer, link }) => {
      const [kind, method, fields, asked, ok, counts] = sent;
      peer.send(method, fields, 1);
      expect(await accept(link, kind, counts)).toEqual({ kind, ...asked });
      expect(await peer.takeMethod(ok)).toMatchObject(counts);
      if (method === METHOD.queueUnbind) return;
      peer.send(method, { ...fields, nowait: true }, 1);
      await accept(link, kind, counts);
      await throughLink({ peer, link });
    },
  );
});

describe('a consumer whose queue is deleted', () => {
  it('gets basic.cancel if its client has consumer_cancel_notify; its tag can be used again', async ({
    amqp,
  }) => {
    const { peer, link } = await amqp.openConsumer({}, { capabilities: { consumer_cancel_notify: true } });
    link.send({ kind: 'cancelled', channel: 1, tag: 'ct' });
    expect(await peer.takeMethod(METHOD.basicCancel)).toMatchObject({ consumerTag: 'ct', nowait: true });
    peer.send(METHOD.basicConsume, { queue: 'q', consumerTag: 'ct', arguments: {} }, 1);
    expect((await link.take('consume')).tag).toBe('ct');
    // Unknown channels and tags are ignored.
    link.send({ kind: 'cancelled', channel: 9, tag: 'ct' }, { kind: 'cancelled', channel: 1, tag: 'none' });
    await turns();
  });

  it('gets nothing if its client does not have the capability consumer_cancel_notify', async ({
    consumer,
  }) => {
    consumer.link.send({ kind: 'cancelled', channel: 1, tag: 'ct' });
    await throughLink(consumer);
  });
});

describe('a consumer’s priority', () => {
  it('may be negative; one that is not an integer gets 406', async ({ peer, link }) => {
    peer.send(METHOD.basicConsume, { queue: 'q', arguments: { 'x-priority': -7 } }, 1);
    expect((await accept(link, 'consume')).priority).toBe(-7);
    await peer.takeMethod(METHOD.basicConsumeOk);
    peer.send(METHOD.basicConsume, { queue: 'q', arguments: { 'x-priority': 'high' } }, 1);
    expect(await peer.takeChannelClose()).toMatch(
      /^406 PRECONDITION_FAILED - invalid arg 'x-priority' .* \[60\/20\]$/,
    );
  });
});

describe('unacknowledged deliveries', () => {
  const TEXT =
    '406 PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 1800000 ms. This timeout value can be configured, see consumers doc guide to learn more [0/0]';

  /** Delivers a message and returns its tag. */
  async function deliverOne({ peer, link }: OpenAmqpClient, lease: number): Promise<number> {
    link.send(deliver(lease));
    return Number((await peer.takeContent(METHOD.basicDeliver)).fields.deliveryTag);
  }

  /** Lets time pass, with a heartbeat each minute. */
  async function pass(clock: TestClock, { peer }: OpenAmqpClient, ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 60_000) {
      peer.write(HEARTBEAT);
      await clock.pass(60_000);
    }
  }

  it('close their channel after half an hour [C-6.4]', async ({ clock, consumer: slow }) => {
    await deliverOne(slow, 1);
    await pass(clock, slow, LIMIT.unacknowledgedMs - 120_000);
    expect(slow.peer.frames.filter(({ channel }) => channel === 1).at(-1)?.type).toBe('body');
    await pass(clock, slow, 300_000);
    expect(await slow.peer.takeChannelClose()).toBe(TEXT);
    expect(await slow.link.take('close-channel')).toEqual({ kind: 'close-channel', channel: 1 });
  });

  it('do not close it if each is acknowledged in time', async ({ clock, consumer: slow }) => {
    for (let lease = 1; lease <= 8; lease++) {
      const deliveryTag = await deliverOne(slow, lease);
      await pass(clock, slow, LIMIT.unacknowledgedMs / 3);
      slow.peer.send(METHOD.basicAck, { deliveryTag }, 1);
    }
    await turns();
    expect(slow.link.received.filter(({ kind }) => kind === 'close-channel')).toEqual([]);
  });
});

it('a queue.bind without a queue name gets the queue of the declare before it', async ({ peer, link }) => {
  peer.write(
    methodFrame(METHOD.queueDeclare, { queue: 'q', arguments: {} }, 1),
    methodFrame(METHOD.queueBind, { queue: '', exchange: 'vcp', routingKey: '#', arguments: {} }, 1),
  );
  await accept(link, 'declare', { messageCount: 0, consumerCount: 0 });
  expect(await accept(link, 'bind')).toMatchObject({ queue: 'q' });
  await peer.takeMethods(METHOD.queueDeclareOk, METHOD.queueBindOk);
});
