/** Declaring what is there, and being refused everything that would change it [C-6.2]. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { openAmqp, throughLink } from '../../support/bridge-amqp.ts';
import type { Fields } from '../../support/bridge-amqp-frames.ts';
import { TestEdge } from '../../support/bridge-edge.ts';

const QUEUE = 'vcp.acme.event.alarm';
const IN_VHOST = "in vhost 'partner-k1'";

let edge: TestEdge;

beforeAll(async () => {
  edge = await TestEdge.start();
});
afterAll(() => edge.stop());

describe('queue.declare', () => {
  it('asks the object with everything that could differ, and answers its counts [C-6.2]', async () => {
    const { peer, link } = await openAmqp(edge);
    const queueArguments = { 'x-max-length': 5, 'x-message-ttl': 60_000 };
    const fields = {
      queue: QUEUE,
      durable: true,
      exclusive: true,
      autoDelete: true,
      arguments: queueArguments,
    };
    peer.send(METHOD.queueDeclare, fields, 1);
    const { seq, ...wanted } = await link.take('declare');
    expect(wanted).toEqual({
      kind: 'declare',
      queue: QUEUE,
      passive: false,
      durable: true,
      exclusive: true,
      autoDelete: true,
      argumentNames: ['x-max-length', 'x-message-ttl'],
      arguments: [
        { name: 'x-max-length', type: 'byte', value: 5 },
        { name: 'x-message-ttl', type: 'signedint', value: 60_000 },
      ],
    });
    link.send({ kind: 'ok', seq, messageCount: 4, consumerCount: 1 });
    expect(await peer.takeMethod(METHOD.queueDeclareOk)).toMatchObject({
      queue: QUEUE,
      messageCount: 4,
      consumerCount: 1,
    });
    peer.stream.destroy();
  });

  it('with nowait is answered nothing', async () => {
    const client = await openAmqp(edge);
    client.peer.send(METHOD.queueDeclare, { queue: QUEUE, passive: true, nowait: true, arguments: {} }, 1);
    client.link.send({ kind: 'ok', seq: (await client.link.take('declare')).seq });
    await throughLink(client);
    client.peer.stream.destroy();
  });

  it('that is refused closes the channel with the object’s word', async () => {
    const { peer, link } = await openAmqp(edge);
    peer.send(METHOD.queueDeclare, { queue: QUEUE, arguments: {} }, 1);
    const text = `PRECONDITION_FAILED - inequivalent arg 'durable' for queue '${QUEUE}' ${IN_VHOST}: received 'false' but current is 'true'`;
    const { seq } = await link.take('declare');
    link.send({ kind: 'refused', seq, severity: 'channel', code: 406, text });
    expect(await peer.takeChannelClose()).toBe(`406 ${text} [50/10]`);
    peer.stream.destroy();
  });

  it('with a reply text of more than 255 characters is refused all the same', async () => {
    const { peer, link } = await openAmqp(edge);
    peer.send(METHOD.queueDeclare, { queue: 'q'.repeat(250), arguments: {} }, 1);
    const { seq } = await link.take('declare');
    const text = `NOT_FOUND - no queue '${'q'.repeat(250)}' ${IN_VHOST}`;
    link.send({ kind: 'refused', seq, severity: 'channel', code: 404, text });
    expect(await peer.takeChannelClose()).toBe(`404 ${text.slice(0, 252)}... [50/10]`);
    peer.stream.destroy();
  });

  it('with a reply text of more than 255 bytes is refused on its channel all the same', async () => {
    const { peer, link } = await openAmqp(edge);
    peer.send(METHOD.queueDeclare, { queue: 'č'.repeat(120), arguments: {} }, 1);
    const { seq } = await link.take('declare');
    const text = `NOT_FOUND - no queue '${'č'.repeat(120)}' ${IN_VHOST}`;
    link.send({ kind: 'refused', seq, severity: 'channel', code: 404, text });
    expect(await peer.takeChannelClose()).toMatch(/^404 NOT_FOUND - no queue 'č/);
  });
});

describe('exchange.declare', () => {
  const VCP = { exchange: 'vcp', type: 'topic', durable: true, arguments: {} };

  it('of our exchange is fine, passive or equal [C-6.2]', async () => {
    const { peer } = await openAmqp(edge);
    for (const fields of [VCP, { ...VCP, passive: true, type: 'direct', durable: false }]) {
      peer.send(METHOD.exchangeDeclare, fields, 1);
      await peer.takeMethod(METHOD.exchangeDeclareOk);
    }
    peer.send(METHOD.exchangeDeclare, { ...VCP, nowait: true }, 1);
    await peer.openChannel(2);
    peer.stream.destroy();
  });

  it.each<[string, Fields, string]>([
    [
      'of another type',
      { ...VCP, type: 'direct' },
      `406 PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'vcp' ${IN_VHOST}: received 'direct' but current is 'topic' [40/10]`,
    ],
    [
      'not durable',
      { ...VCP, durable: false },
      `406 PRECONDITION_FAILED - inequivalent arg 'durable' for exchange 'vcp' ${IN_VHOST}: received 'false' but current is 'true' [40/10]`,
    ],
    [
      'deleting itself',
      { ...VCP, autoDelete: true },
      `406 PRECONDITION_FAILED - inequivalent arg 'auto_delete' for exchange 'vcp' ${IN_VHOST}: received 'true' but current is 'false' [40/10]`,
    ],
    [
      'passive, of another name',
      { ...VCP, exchange: 'nope', passive: true },
      `404 NOT_FOUND - no exchange 'nope' ${IN_VHOST} [40/10]`,
    ],
    [
      'of another name',
      { ...VCP, exchange: 'mine' },
      `403 ACCESS_REFUSED - access to exchange 'mine' ${IN_VHOST} refused for user 'acme' [40/10]`,
    ],
  ])('%s closes the channel [C-6.2, C-6.3]', async (_title, fields, expected) => {
    const { peer } = await openAmqp(edge);
    peer.send(METHOD.exchangeDeclare, fields, 1);
    expect(await peer.takeChannelClose()).toBe(expected);
    peer.stream.destroy();
  });
});

describe('what a partner may not do', () => {
  it.each<[string, number, Fields, string]>([
    ['exchange.delete', METHOD.exchangeDelete, { exchange: 'vcp' }, "exchange 'vcp' [40/20]"],
    [
      'exchange.bind',
      METHOD.exchangeBind,
      { destination: 'a', source: 'vcp', routingKey: '#', arguments: {} },
      "exchange 'a' [40/30]",
    ],
    [
      'queue.bind to another exchange',
      METHOD.queueBind,
      { queue: 'q', exchange: 'amq.topic', routingKey: '#', arguments: {} },
      "exchange 'amq.topic' [50/20]",
    ],
    [
      'queue.unbind from another exchange',
      METHOD.queueUnbind,
      { queue: 'q', exchange: 'amq.direct', routingKey: 'q', arguments: {} },
      "exchange 'amq.direct' [50/50]",
    ],
  ])('is refused with 403 on its channel: %s [C-6.2]', async (_title, method, fields, named) => {
    const { peer, link } = await openAmqp(edge);
    peer.send(method, fields, 1);
    const [what, where] = named.split(/ (?=\[)/);
    expect(await peer.takeChannelClose()).toBe(
      `403 ACCESS_REFUSED - access to ${what} ${IN_VHOST} refused for user 'acme' ${where}`,
    );
    await link.take('close-channel');
    peer.stream.destroy();
  });
});
