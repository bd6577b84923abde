/** The stock client, over a real socket, with the engine and a test's edge. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { type ChannelModel, type ConfirmChannel, type ConsumeMessage, connect, type Options } from 'amqplib';
import { describe, expect } from 'vitest';
import { accept, amqpTest, deliver, deliveryOf, dialEdge, reject } from '#support/bridge-amqp.ts';
import { envelope, VHOST, type VhostEdgeLink } from '#support/bridge-edge.ts';
import { SeenEvents } from '#support/bridge-events.ts';
import { Signal } from '#support/bridge-signal.ts';
import { AmqpConnection } from '../../../bridge/amqp/connection.ts';

const QUEUE = 'vcp.acme.event.status';
const KEY = 'acme.command.mode';

/** `model` and `channel` are amqplib's, `vhost` is their link. */
const it = amqpTest
  .extend('connectClient', async ({ edge, serve }, { onCleanup }) => {
    const models: ChannelModel[] = [];
    onCleanup(async () => {
      for (const model of models) await model.close().catch(() => {});
    });
    const port = await serve(
      createServer({ noDelay: true }, (socket) => {
        new AmqpConnection(socket, dialEdge(edge), new SeenEvents());
      }),
    );
    const login = {
      protocol: 'amqp',
      hostname: '127.0.0.1',
      port,
      username: 'acme',
      password: 'key',
      vhost: VHOST,
    };
    return async (options: Options.Connect = {}) => {
      const model = await connect({ ...login, ...options });
      models.push(model);
      return model;
    };
  })
  .extend('model', ({ connectClient }) => connectClient())
  .extend('vhost', ({ model: _model, edge }) => edge.vhostLink())
  .extend('channel', ({ model }) => model.createConfirmChannel());

/** A consumer's messages. */
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
  await accept(link, 'consume');
  return { inbox, tag: (await consuming).consumerTag };
}

describe('the client amqplib', () => {
  it('is rejected with a wrong vhost or key, and gets 320 without the edge [C-6.3]', async ({
    edge,
    connectClient,
  }) => {
    const model = await connectClient();
    await edge.vhostLink();
    expect(model.connection.serverProperties).toMatchObject({ product: 'Sitewire' });
    await expect(connectClient({ vhost: 'partner-k2' })).rejects.toThrow(/ConnectionClose/);
    await (await edge.vhostLink()).untilClosed();
    edge.answer = () => envelope('UNAUTHORIZED');
    await expect(connectClient({ password: 'wrong' })).rejects.toThrow(/403 \(ACCESS-REFUSED\)/);
    edge.answer = () => envelope('SERVICE_UNAVAILABLE');
    await expect(connectClient()).rejects.toThrow(/320 \(CONNECTION-FORCED\)/);
  });

  it('gets an ack for a stored publish, a nack for another one [C-6.4]', async ({ channel, vhost: link }) => {
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

  it('gets a confirm for each of a thousand publishes', async ({ channel, vhost: link }) => {
    for (let index = 0; index < 1_000; index++) channel.publish('vcp', KEY, Buffer.from(`${index}`));
    const confirmed = channel.waitForConfirms();
    for (let index = 0; index < 1_000; index++) {
      expect((await link.store()).body).toBe(`${index}`);
    }
    await confirmed;
  });

  it('publishes and consumes a body of 256 KiB, in several frames', async ({ channel, vhost: link }) => {
    const body = Buffer.alloc(262_144, 'č');
    channel.publish('vcp', KEY, body);
    const { body: received } = await link.store();
    expect(received).toBe(body.toString());
    const { inbox, tag } = await consume(channel, link);
    link.send(deliver(1, { body: received }, tag));
    expect((await inbox.next())?.content.equals(body)).toBe(true);
  });

  it('consumes, acknowledges, requeues and rejects [C-6.4]', async ({ channel, vhost: link }) => {
    const { inbox, tag } = await consume(channel, link);
    const properties = { contentType: 'application/json', correlationId: 'c', timestampMs: 7_000 };
    for (const lease of [1, 2, 3, 4])
      link.send(deliver(lease, { properties, redelivered: lease === 2 }, tag));
    const messages = [await inbox.next(), await inbox.next(), await inbox.next(), await inbox.next()];
    expect(messages.map((message) => message?.fields.redelivered)).toEqual([false, true, false, false]);
    const { timestampMs: _timestampMs, ...kept } = properties;
    expect(messages[0]?.properties).toMatchObject({ ...kept, timestamp: 7 });
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

  it('gets one message, and false from an empty queue', async ({ channel, vhost: link }) => {
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

  it('cancels its consumer and consumes again with another tag', async ({ channel, vhost: link }) => {
    const { tag } = await consume(channel, link);
    const cancelling = channel.cancel(tag);
    await accept(link, 'cancel');
    expect((await cancelling).consumerTag).toBe(tag);
    expect((await consume(channel, link)).tag).not.toBe(tag);
  });

  it('checks queue and exchange, and sets its consumer’s prefetch', async ({ channel, vhost: link }) => {
    const checking = channel.checkQueue(QUEUE);
    await accept(link, 'declare', { messageCount: 3, consumerCount: 0 });
    expect(await checking).toEqual({ queue: QUEUE, messageCount: 3, consumerCount: 0 });
    await channel.checkExchange('vcp');
    await channel.prefetch(5);
    const consuming = channel.consume(QUEUE, () => {});
    const { seq, prefetch } = await link.take('consume');
    expect(prefetch).toBe(5);
    link.send({ kind: 'ok', seq });
    await consuming;
  });

  it('loses only the channel when a publish is rejected', async ({ model, channel, vhost: link }) => {
    const failed = once(channel, 'error');
    channel.publish('vcp', KEY, Buffer.from('x'));
    const text = `ACCESS_REFUSED - access to topic '${KEY}' in exchange 'vcp' refused`;
    await reject(link, 'publish', 403, text);
    expect(String(await failed)).toContain(text);
    const next = await model.createConfirmChannel();
    next.publish('vcp', KEY, Buffer.from('fine'));
    expect((await link.take('publish')).body).toBe('fine');
  });

  it('closes its channel, then its connection and so the link', async ({ model, channel, vhost: link }) => {
    await channel.close();
    expect(await link.take('close-channel')).toEqual({ kind: 'close-channel', channel: 1 });
    await model.close();
    await link.untilClosed();
  });

  it('receives 320 when the link is lost [C-6.3]', async ({ model, vhost: link }) => {
    // amqplib treats 320 as an operator's decision: it closes without an error event.
    const closed = new Promise<Error | undefined>((resolve) => model.once('close', resolve));
    link.close(1012);
    expect((await closed)?.message).toMatch(/320 \(CONNECTION-FORCED\)/);
  });
});
