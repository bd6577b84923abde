/** Queues of the partner's own, as the bridge carries them to their object and back [C-6.6]. */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { LINK_VERSION_HEADER, VHOST_HEADER } from '../../../protocol/link/proof.ts';
import {
  deliveryOf,
  type OpenAmqpClient,
  openAmqp,
  openConsumer,
  throughLink,
} from '../../support/bridge-amqp.ts';
import { type Fields, methodFrame } from '../../support/bridge-amqp-frames.ts';
import { TestEdge, VHOST } from '../../support/bridge-edge.ts';
import { CLOCK, turns } from '../../support/bridge-signal.ts';

let edge: TestEdge;

beforeAll(async () => {
  edge = await TestEdge.start();
});
afterEach(() => {
  vi.useRealTimers();
});
afterAll(() => edge.stop());

/** Answers the next request of that kind, and hands it over. */
async function answer(
  { link }: OpenAmqpClient,
  kind: 'declare' | 'bind' | 'unbind' | 'purge' | 'delete',
  counts = {},
) {
  const { seq, ...frame } = await link.take(kind);
  link.send({ kind: 'ok', seq, ...counts });
  return frame;
}

describe('queue.declare', () => {
  it('without a name tells the one that the object chose, which is then the last that was declared', async () => {
    const client = await openAmqp(edge);
    const { peer, link } = client;
    peer.send(METHOD.queueDeclare, { queue: '', exclusive: true, arguments: {} }, 1);
    await answer(client, 'declare', { queue: 'amq.gen-x', messageCount: 0, consumerCount: 0 });
    expect(await peer.takeMethod(METHOD.queueDeclareOk)).toMatchObject({
      queue: 'amq.gen-x',
      messageCount: 0,
    });
    peer.send(METHOD.basicGet, { queue: '' }, 1);
    expect((await link.take('get')).queue).toBe('amq.gen-x');
    peer.stream.destroy();
  });

  it('hands over its arguments with their types, 64 at most', async () => {
    const client = await openAmqp(edge);
    const many = Object.fromEntries(Array.from({ length: 70 }, (_, index) => [`a${index}`, index]));
    const typed = { text: 'x', yes: true, table: { a: 1 }, long: 2 ** 40, half: 1.5 };
    client.peer.send(METHOD.queueDeclare, { queue: 'q', arguments: { ...typed, ...many } }, 1);
    const declare = await client.link.take('declare');
    expect(declare.arguments?.slice(0, 5)).toEqual([
      { name: 'text', type: 'longstr', value: 'x' },
      { name: 'yes', type: 'bool', value: true },
      { name: 'table', type: 'table', value: null },
      { name: 'long', type: 'long', value: 2 ** 40 },
      { name: 'half', type: 'double', value: 1.5 },
    ]);
    expect(declare.arguments?.length).toBe(64);
    client.peer.stream.destroy();
  });
});

describe('a queue', () => {
  const bind = { queue: 'q', exchange: 'vcp', routingKey: 'acme.event.#', arguments: {} };

  it.each<[string, number, Fields, 'bind' | 'unbind' | 'purge' | 'delete', Fields, number, Fields]>([
    [
      'bound',
      METHOD.queueBind,
      bind,
      'bind',
      { queue: 'q', pattern: 'acme.event.#' },
      METHOD.queueBindOk,
      {},
    ],
    [
      'unbound',
      METHOD.queueUnbind,
      bind,
      'unbind',
      { queue: 'q', pattern: 'acme.event.#' },
      METHOD.queueUnbindOk,
      {},
    ],
    [
      'purged',
      METHOD.queuePurge,
      { queue: 'q' },
      'purge',
      { queue: 'q' },
      METHOD.queuePurgeOk,
      { messageCount: 7 },
    ],
    [
      'deleted',
      METHOD.queueDelete,
      { queue: 'q', ifUnused: true, ifEmpty: true },
      'delete',
      { queue: 'q', ifUnused: true, ifEmpty: true },
      METHOD.queueDeleteOk,
      { messageCount: 7 },
    ],
  ])('is %s by the object, and the client is told', async (_title, method, fields, kind, asked, ok, told) => {
    const client = await openAmqp(edge);
    client.peer.send(method, fields, 1);
    expect(await answer(client, kind, told)).toEqual({ kind, ...asked });
    expect(await client.peer.takeMethod(ok)).toMatchObject(told);
    if (method !== METHOD.queueUnbind) {
      client.peer.send(method, { ...fields, nowait: true }, 1);
      await answer(client, kind, told);
      await throughLink(client);
    }
    client.peer.stream.destroy();
  });

  it.each<[string, number, Fields, string]>([
    [
      'queue.declare',
      METHOD.queueDeclare,
      { queue: '', arguments: {} },
      "'amq.gen' in vhost 'partner-k1' refused for user 'acme' [50/10]",
    ],
    ['queue.bind', METHOD.queueBind, bind, "'q' in vhost 'partner-k1' refused for user 'acme' [50/20]"],
    [
      'queue.purge',
      METHOD.queuePurge,
      { queue: 'q' },
      "'q' in vhost 'partner-k1' refused for user 'acme' [50/30]",
    ],
    [
      'queue.delete',
      METHOD.queueDelete,
      { queue: 'q' },
      "'q' in vhost 'partner-k1' refused for user 'acme' [50/40]",
    ],
  ])('is not to be had of an edge of before: %s is refused', async (_title, method, fields, text) => {
    const before = edge.answer;
    edge.answer = () => ({ accept: { [VHOST_HEADER]: VHOST, [LINK_VERSION_HEADER]: '4' } });
    const { peer } = await openAmqp(edge);
    edge.answer = before;
    peer.send(method, fields, 1);
    expect(await peer.takeChannelClose()).toBe(`403 ACCESS_REFUSED - access to queue ${text}`);
    peer.stream.destroy();
  });
});

describe('a consumer whose queue is gone', () => {
  it('is cancelled, where its client said that it understands; its tag is free again', async () => {
    const client = await openConsumer(edge, {}, { capabilities: { consumer_cancel_notify: true } });
    const { peer, link } = client;
    link.send({ kind: 'cancelled', channel: 1, tag: 'ct' });
    expect(await peer.takeMethod(METHOD.basicCancel)).toMatchObject({ consumerTag: 'ct', nowait: true });
    peer.send(METHOD.basicConsume, { queue: 'q', consumerTag: 'ct', arguments: {} }, 1);
    expect((await link.take('consume')).tag).toBe('ct');
    // What nobody knows of changes nothing.
    link.send({ kind: 'cancelled', channel: 9, tag: 'ct' }, { kind: 'cancelled', channel: 1, tag: 'none' });
    await turns();
    peer.stream.destroy();
  });

  it('is told nothing where it did not', async () => {
    const client = await openConsumer(edge);
    client.link.send({ kind: 'cancelled', channel: 1, tag: 'ct' });
    await throughLink(client);
    client.peer.stream.destroy();
  });
});

describe('a consumer’s priority', () => {
  it('goes with its consume, below zero too; one that is no whole number is refused', async () => {
    const { peer, link } = await openAmqp(edge);
    peer.send(METHOD.basicConsume, { queue: 'q', arguments: { 'x-priority': -7 } }, 1);
    const { seq, priority } = await link.take('consume');
    expect(priority).toBe(-7);
    link.send({ kind: 'ok', seq });
    await peer.takeMethod(METHOD.basicConsumeOk);
    peer.send(METHOD.basicConsume, { queue: 'q', arguments: { 'x-priority': 'high' } }, 1);
    expect(await peer.takeChannelClose()).toMatch(
      /^406 PRECONDITION_FAILED - invalid arg 'x-priority' .* \[60\/20\]$/,
    );
    peer.stream.destroy();
  });
});

describe('deliveries that nobody acknowledges', () => {
  const TEXT =
    '406 PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 1800000 ms. This timeout value can be configured, see consumers doc guide to learn more [0/0]';

  async function deliver({ peer, link }: OpenAmqpClient, lease: number): Promise<number> {
    link.send({ kind: 'deliver', channel: 1, tag: 'ct', delivery: deliveryOf(lease) });
    return Number((await peer.takeContent(METHOD.basicDeliver)).fields.deliveryTag);
  }

  /** So much time, with a sign of life each minute. */
  async function pass({ peer }: OpenAmqpClient, ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 60_000) {
      peer.write(Buffer.from([8, 0, 0, 0, 0, 0, 0, 0xce]));
      await turns(3);
      vi.advanceTimersByTime(60_000);
    }
    await turns();
  }

  it('close their channel after half an hour, as in RabbitMQ [C-6.4]', async () => {
    vi.useFakeTimers(CLOCK);
    const client = await openConsumer(edge);
    await deliver(client, 1);
    await pass(client, LIMIT.unacknowledgedMs - 120_000);
    expect(client.peer.frames.filter(({ channel }) => channel === 1).at(-1)?.type).toBe('body');
    await pass(client, 300_000);
    expect(await client.peer.takeChannelClose()).toBe(TEXT);
    expect(await client.link.take('close-channel')).toEqual({ kind: 'close-channel', channel: 1 });
    client.peer.stream.destroy();
  });

  it('are not those that come and are acknowledged, however long it goes on', async () => {
    vi.useFakeTimers(CLOCK);
    const client = await openConsumer(edge);
    for (let lease = 1; lease <= 8; lease++) {
      const deliveryTag = await deliver(client, lease);
      await pass(client, LIMIT.unacknowledgedMs / 3);
      client.peer.send(METHOD.basicAck, { deliveryTag }, 1);
    }
    await turns();
    expect(client.link.received.filter(({ kind }) => kind === 'close-channel')).toEqual([]);
    client.peer.stream.destroy();
  });
});

it('methods of a channel that waits for its object come behind it', async () => {
  const client = await openAmqp(edge);
  client.peer.write(
    methodFrame(METHOD.queueDeclare, { queue: 'q', arguments: {} }, 1),
    methodFrame(METHOD.queueBind, { queue: '', exchange: 'vcp', routingKey: '#', arguments: {} }, 1),
  );
  await answer(client, 'declare', { messageCount: 0, consumerCount: 0 });
  expect(await answer(client, 'bind')).toMatchObject({ queue: 'q' });
  await client.peer.takeMethod(METHOD.queueDeclareOk);
  await client.peer.takeMethod(METHOD.queueBindOk);
  client.peer.stream.destroy();
});
