/** Declares of existing queues and exchanges; any change of them is rejected [C-6.2]. */
import { describe, expect } from 'vitest';
import { accept, amqpTest as it, QUEUE, reject, throughLink } from '#support/bridge-amqp.ts';
import type { Fields } from '#support/bridge-amqp-frames.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';

const IN_VHOST = "in vhost 'partner-k1'";
const REFUSED = `${IN_VHOST} refused for user 'acme'`;

describe('queue.declare', () => {
  it('sends all its options to the object and returns its counts [C-6.2]', async ({ peer, link }) => {
    const queueArguments = { 'x-max-length': 5, 'x-message-ttl': 60_000 };
    const options = { queue: QUEUE, durable: true, exclusive: true, autoDelete: true };
    const counts = { messageCount: 4, consumerCount: 1 };
    peer.send(METHOD.queueDeclare, { ...options, arguments: queueArguments }, 1);
    expect(await accept(link, 'declare', counts)).toEqual({
      kind: 'declare',
      ...options,
      passive: false,
      arguments: [
        { name: 'x-max-length', type: 'byte', value: 5 },
        { name: 'x-message-ttl', type: 'signedint', value: 60_000 },
      ],
    });
    expect(await peer.takeMethod(METHOD.queueDeclareOk)).toMatchObject({ queue: QUEUE, ...counts });
  });

  it('gets no answer with nowait', async ({ client }) => {
    client.peer.send(METHOD.queueDeclare, { queue: QUEUE, passive: true, nowait: true, arguments: {} }, 1);
    await accept(client.link, 'declare');
    await throughLink(client);
  });

  it('closes the channel with the object’s text if the object rejects it', async ({ peer, link }) => {
    peer.send(METHOD.queueDeclare, { queue: QUEUE, arguments: {} }, 1);
    const text = `PRECONDITION_FAILED - inequivalent arg 'durable' for queue '${QUEUE}' ${IN_VHOST}: received 'false' but current is 'true'`;
    await reject(link, 'declare', 406, text);
    expect(await peer.takeChannelClose()).toBe(`406 ${text} [50/10]`);
  });

  it('a reply text of more than 255 characters is cut', async ({ peer, link }) => {
    peer.send(METHOD.queueDeclare, { queue: 'q'.repeat(250), arguments: {} }, 1);
    const text = `NOT_FOUND - no queue '${'q'.repeat(250)}' ${IN_VHOST}`;
    await reject(link, 'declare', 404, text);
    expect(await peer.takeChannelClose()).toBe(`404 ${text.slice(0, 252)}... [50/10]`);
  });

  it('a reply text over 255 bytes, but not characters, closes only its channel', async ({ peer, link }) => {
    peer.send(METHOD.queueDeclare, { queue: 'č'.repeat(120), arguments: {} }, 1);
    const text = `NOT_FOUND - no queue '${'č'.repeat(120)}' ${IN_VHOST}`;
    await reject(link, 'declare', 404, text);
    expect(await peer.takeChannelClose()).toMatch(/^404 NOT_FOUND - no queue 'č/);
  });
});

describe('exchange.declare', () => {
  const VCP = { exchange: 'vcp', type: 'topic', durable: true, arguments: {} };

  it('succeeds for vcp if it is passive or has the attributes of vcp [C-6.2]', async ({ peer }) => {
    for (const fields of [VCP, { ...VCP, passive: true, type: 'direct', durable: false }]) {
      await peer.request(METHOD.exchangeDeclare, fields, 1);
    }
    peer.send(METHOD.exchangeDeclare, { ...VCP, nowait: true }, 1);
    await peer.openChannel(2);
  });

  const differs = (name: string, received: string, current: string) =>
    `406 PRECONDITION_FAILED - inequivalent arg '${name}' for exchange 'vcp' ${IN_VHOST}: received '${received}' but current is '${current}'`;

  it.for<[string, Fields, string]>([
    ['of vcp with another type', { type: 'direct' }, differs('type', 'direct', 'topic')],
    ['of vcp, not durable,', { durable: false }, differs('durable', 'false', 'true')],
    ['of vcp with auto-delete', { autoDelete: true }, differs('auto_delete', 'true', 'false')],
    [
      'of an exchange that does not exist, passive,',
      { exchange: 'nope', passive: true },
      `404 NOT_FOUND - no exchange 'nope' ${IN_VHOST}`,
    ],
    [
      'of another exchange',
      { exchange: 'mine' },
      `403 ACCESS_REFUSED - access to exchange 'mine' ${REFUSED}`,
    ],
  ])('%s closes the channel [C-6.2, C-6.3]', async ([_, changes, close], { peer }) => {
    peer.send(METHOD.exchangeDeclare, { ...VCP, ...changes }, 1);
    expect(await peer.takeChannelClose()).toBe(`${close} [40/10]`);
  });
});

describe('changes of exchanges and bindings that a partner may not make', () => {
  const bind = { queue: 'q', source: 'vcp', destination: 'a', routingKey: '#', arguments: {} };

  it.for<[string, number, Fields, string, string]>([
    ['exchange.delete', METHOD.exchangeDelete, { exchange: 'vcp' }, 'vcp', '[40/20]'],
    ['exchange.bind', METHOD.exchangeBind, bind, 'a', '[40/30]'],
    ['queue.bind to amq.topic', METHOD.queueBind, { ...bind, exchange: 'amq.topic' }, 'amq.topic', '[50/20]'],
    [
      'queue.unbind from amq.direct',
      METHOD.queueUnbind,
      { ...bind, exchange: 'amq.direct' },
      'amq.direct',
      '[50/50]',
    ],
  ])('%s closes its channel with 403 [C-6.2]', async ([_, method, fields, name, where], { peer, link }) => {
    peer.send(method, fields, 1);
    const close = `403 ACCESS_REFUSED - access to exchange '${name}' ${REFUSED} ${where}`;
    expect(await peer.takeChannelClose()).toBe(close);
    await link.take('close-channel');
  });
});
