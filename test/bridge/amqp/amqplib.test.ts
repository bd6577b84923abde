/** The stock client, over a real socket, against the engine and an edge of the test. */

import type { AddressInfo } from 'node:net';
import { createServer, type Server } from 'node:net';
import { type ChannelModel, type ConfirmChannel, type ConsumeMessage, connect, type Options } from 'amqplib';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { AmqpConnection } from '../../../bridge/amqp/connection.ts';
import { deliveryOf, dialEdge, SeenEvents } from '../../support/bridge-amqp.ts';
import { envelope, TestEdge, VHOST, type VhostEdgeLink } from '../../support/bridge-edge.ts';
import { Signal } from '../../support/bridge-signal.ts';

const QUEUE = 'vcp.acme.event.status';
const KEY = 'acme.command.mode';

let edge: TestEdge;
let server: Server;
const open = new Set<ChannelModel>();

beforeAll(async () => {
  edge = await TestEdge.start();
  server = createServer((socket) => {
    socket.setNoDelay(true);
    new AmqpConnection(socket, dialEdge(edge), new SeenEvents());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
beforeEach(() => {
  edge.reset();
});
afterEach(async () => {
  for (const model of open) await model.close().catch(() => {});
  open.clear();
});
afterAll(async () => {
  await new Promise<void>((resolve) => server.close(() => resolve()));
  await edge.stop();
});

function connectClient(options: Options.Connect = {}): Promise<ChannelModel> {
  const { port } = server.address() as AddressInfo;
  return connect({
    protocol: 'amqp',
    hostname: '127.0.0.1',
    port,
    username: 'acme',
    password: 'key',
    vhost: VHOST,
    ...options,
  });
}

async function openClient(): Promise<{ model: ChannelModel; channel: ConfirmChannel; link: VhostEdgeLink }> {
  const [model, link] = await Promise.all([connectClient(), edge.vhostLink()]);
  open.add(model);
  return { model, link, channel: await model.createConfirmChannel() };
}

/** A consumer's messages, each when it comes. */
class Inbox {
  readonly #messages: (ConsumeMessage | null)[] = [];
  readonly #signal = new Signal();

  readonly take = (message: ConsumeMessage | null) => {
    this.#messages.push(message);
    this.#signal.changed();
  };

  next(): Promise<ConsumeMessage | null> {
    return this.#signal.until(() => (this.#messages.length > 0 ? this.#messages.shift() : undefined));
  }
}

async function consume(channel: ConfirmChannel, link: VhostEdgeLink): Promise<{ inbox: Inbox; tag: string }> {
  const inbox = new Inbox();
  const consuming = channel.consume(QUEUE, inbox.take);
  link.send({ kind: 'ok', seq: (await link.take('consume')).seq });
  return { inbox, tag: (await consuming).consumerTag };
}

/** The first error of a channel or connection. */
function errorOf(emitter: {
  once(event: 'error', listener: (error: Error) => void): unknown;
}): Promise<Error> {
  return new Promise((resolve) => emitter.once('error', resolve));
}

describe('amqplib', () => {
  it('connects, and is refused with a wrong key or a wrong vhost [C-6.3]', async () => {
    const { model } = await openClient();
    expect(model.connection.serverProperties).toMatchObject({ product: 'Sitewire' });
    await expect(connectClient({ vhost: 'partner-k2' })).rejects.toThrow(/ConnectionClose/);
    await (await edge.vhostLink()).untilClosed();
    edge.answer = () => envelope('UNAUTHORIZED');
    await expect(connectClient({ password: 'wrong' })).rejects.toThrow(/403 \(ACCESS-REFUSED\)/);
    edge.answer = () => envelope('SERVICE_UNAVAILABLE');
    await expect(connectClient()).rejects.toThrow(/320 \(CONNECTION-FORCED\)/);
  });

  it('publishes and waits for its confirms [C-6.4]', async () => {
    const { channel, link } = await openClient();
    const outcomes = new Map<string, string>();
    for (const body of ['a', 'b', 'c']) {
      channel.publish('vcp', KEY, Buffer.from(body), { correlationId: body, headers: { n: 1 } }, (error) =>
        outcomes.set(body, error ? 'nack' : 'ack'),
      );
    }
    const frames = [await link.take('publish'), await link.take('publish'), await link.take('publish')];
    const [first, second, third] = frames.map(({ seq }) => seq);
    expect(outcomes.size).toBe(0);
    link.send({ kind: 'stored', seqs: [third ?? 0] });
    link.send({ kind: 'unstored', seqs: [second ?? 0] }, { kind: 'stored', seqs: [first ?? 0] });
    await expect(channel.waitForConfirms()).rejects.toThrow();
    expect(Object.fromEntries(outcomes)).toEqual({ a: 'ack', b: 'nack', c: 'ack' });
    expect(frames.map(({ body }) => body)).toEqual(['a', 'b', 'c']);
  });

  it('publishes a thousand messages, and each is confirmed', async () => {
    const { channel, link } = await openClient();
    for (let index = 0; index < 1_000; index++) channel.publish('vcp', KEY, Buffer.from(`${index}`));
    const confirmed = channel.waitForConfirms();
    for (let index = 0; index < 1_000; index++) {
      const { seq, body } = await link.take('publish');
      expect(body).toBe(`${index}`);
      link.send({ kind: 'stored', seqs: [seq] });
    }
    await confirmed;
  });

  it('publishes 256 KiB in several frames, and consumes as much', async () => {
    const { channel, link } = await openClient();
    const body = Buffer.alloc(262_144, 'č');
    channel.publish('vcp', KEY, body);
    const { seq, body: received } = await link.take('publish');
    expect(received).toBe(body.toString());
    link.send({ kind: 'stored', seqs: [seq] });
    const { inbox, tag } = await consume(channel, link);
    link.send({ kind: 'deliver', channel: 1, tag, delivery: deliveryOf(1, { body: received }) });
    expect((await inbox.next())?.content.equals(body)).toBe(true);
  });

  it('consumes, acknowledges, gives back and throws away [C-6.4]', async () => {
    const { channel, link } = await openClient();
    const { inbox, tag } = await consume(channel, link);
    const properties = { contentType: 'application/json', correlationId: 'c', timestampMs: 7_000 };
    for (const lease of [1, 2, 3, 4])
      link.send({
        kind: 'deliver',
        channel: 1,
        tag,
        delivery: deliveryOf(lease, { properties, redelivered: lease === 2 }),
      });
    const messages = [await inbox.next(), await inbox.next(), await inbox.next(), await inbox.next()];
    expect(messages.map((message) => message?.fields.redelivered)).toEqual([false, true, false, false]);
    expect(messages[0]?.properties).toMatchObject({
      contentType: 'application/json',
      correlationId: 'c',
      timestamp: 7,
    });
    const [first, second, third, fourth] = messages as ConsumeMessage[];
    if (first && second && third && fourth) {
      channel.ack(second, true);
      channel.nack(third, false, true);
      channel.reject(fourth, false);
    }
    expect([await link.take('settle'), await link.take('settle'), await link.take('settle')]).toEqual([
      { kind: 'settle', outcome: 'ack', leases: [1, 2] },
      { kind: 'settle', outcome: 'requeue', leases: [3] },
      { kind: 'settle', outcome: 'discard', leases: [4] },
    ]);
  });

  it('gets one message, and false from an empty queue', async () => {
    const { channel, link } = await openClient();
    for (const delivery of [deliveryOf(9), null]) {
      const getting = channel.get(QUEUE);
      const { seq } = await link.take('get');
      link.send({ kind: 'got', seq, messageCount: 0, delivery });
      const got = await getting;
      if (delivery === null) expect(got).toBe(false);
      else if (got !== false) channel.ack(got);
    }
    expect((await link.take('settle')).leases).toEqual([9]);
  });

  it('cancels its consumer, and consumes again', async () => {
    const { channel, link } = await openClient();
    const { tag } = await consume(channel, link);
    const cancelling = channel.cancel(tag);
    link.send({ kind: 'ok', seq: (await link.take('cancel')).seq });
    expect((await cancelling).consumerTag).toBe(tag);
    expect((await consume(channel, link)).tag).not.toBe(tag);
  });

  it('declares passively, and limits what it holds', async () => {
    const { channel, link } = await openClient();
    const checking = channel.checkQueue(QUEUE);
    link.send({ kind: 'ok', seq: (await link.take('declare')).seq, messageCount: 3, consumerCount: 0 });
    expect(await checking).toEqual({ queue: QUEUE, messageCount: 3, consumerCount: 0 });
    await channel.checkExchange('vcp');
    await channel.prefetch(5);
    const consuming = channel.consume(QUEUE, () => {});
    const { seq, prefetch } = await link.take('consume');
    expect(prefetch).toBe(5);
    link.send({ kind: 'ok', seq });
    await consuming;
  });

  it('sees its channel close where it may not publish, and opens another', async () => {
    const { model, channel, link } = await openClient();
    const failed = errorOf(channel);
    channel.publish('vcp', 'acme2.command.mode', Buffer.from('x'));
    const text = "ACCESS_REFUSED - access to topic 'acme2.command.mode' in exchange 'vcp' refused";
    const { seq } = await link.take('publish');
    link.send({ kind: 'refused', seq, severity: 'channel', code: 403, text });
    expect((await failed).message).toContain(text);
    const next = await model.createConfirmChannel();
    next.publish('vcp', KEY, Buffer.from('fine'));
    expect((await link.take('publish')).body).toBe('fine');
  });

  it('closes its channel, then its connection, and the link closes', async () => {
    const { model, channel, link } = await openClient();
    await channel.close();
    expect(await link.take('close-channel')).toEqual({ kind: 'close-channel', channel: 1 });
    await model.close();
    open.delete(model);
    await link.untilClosed();
  });

  it('hears 320 when the link is lost [C-6.3]', async () => {
    const { model, link } = await openClient();
    // The client takes 320 for an operator's decision: it closes, and is no error.
    const closed = new Promise<Error | undefined>((resolve) => model.once('close', resolve));
    link.close(1012);
    expect((await closed)?.message).toMatch(/320 \(CONNECTION-FORCED\)/);
    open.delete(model);
  });
});
