/** Methods of a running connection that do not decode, do not exist, or are not a client's to send. */
import { describe, expect } from 'vitest';
import { accept, amqpTest as it, QUEUE } from '#support/bridge-amqp.ts';
import {
  deepTable,
  frame,
  methodFrame,
  rawMethodFrame,
  tableBytes,
  tableEntry,
} from '#support/bridge-amqp-frames.ts';
import { turns } from '#support/bridge-signal.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';

function consumeWith(table: Buffer): Buffer {
  return rawMethodFrame(METHOD.basicConsume, Buffer.concat([Buffer.from([0, 0, 1, 0x71, 0, 0]), table]));
}

describe('a method', () => {
  it('with tables 1 000 deep closes the connection with 502 [C-6.3]', async ({ amqp }) => {
    expect(await amqp.closeAfter(consumeWith(deepTable(1_000)))).toMatch(/^502 SYNTAX_ERROR - .*\[60\/20\]$/);
    expect(await amqp.closeAfter(consumeWith(deepTable(15_000)))).toMatch(
      /^502 SYNTAX_ERROR - .*\[60\/20\]$/,
    );
  });

  it('whose arguments do not decode closes the connection with 501 [C-6.3]', async ({ amqp }) => {
    expect(await amqp.closeAfter(consumeWith(tableBytes(tableEntry('k', 'Z', Buffer.alloc(2)))))).toMatch(
      /^501 FRAME_ERROR - cannot decode.*\[60\/20\]$/,
    );
    expect(await amqp.closeAfter(rawMethodFrame(METHOD.basicQos, Buffer.alloc(3)))).toMatch(
      /^501 FRAME_ERROR/,
    );
  });

  it.for([
    ['basic.publish cut short', rawMethodFrame(METHOD.basicPublish, Buffer.from([0, 0, 9, 0x76]))],
    ['a basic.publish without arguments', rawMethodFrame(METHOD.basicPublish, Buffer.alloc(0))],
    ['a method frame of one byte', frame(1, 1, Buffer.from([0]))],
    ['an empty method frame', frame(1, 1, Buffer.alloc(0))],
    ['an empty method frame on channel 0', frame(1, 0, Buffer.alloc(0))],
    ['an empty method frame on a channel that is not open', frame(1, 2, Buffer.alloc(0))],
  ] as const)('%s closes the connection with 501', async ([_, bytes], { amqp }) => {
    expect(await amqp.closeAfter(bytes)).toMatch(/^501 FRAME_ERROR/);
  });

  it('an unknown method closes the socket without a frame', async ({ amqp }) => {
    for (const [id, channel] of [
      [0x003c_00ff, 1],
      [0xffff_ffff, 1],
      [0x000a_00ff, 0],
    ] as const) {
      const { peer, link } = await amqp.open();
      const before = peer.bytes;
      peer.write(rawMethodFrame(id, Buffer.alloc(0), channel));
      await peer.untilEnded();
      expect(peer.bytes).toBe(before);
      await link.untilClosed();
    }
  });

  it.for([
    [
      'basic.deliver',
      METHOD.basicDeliver,
      { consumerTag: '', deliveryTag: 1, exchange: '', routingKey: '' },
      '60/60',
    ],
    ['basic.get-empty', METHOD.basicGetEmpty, {}, '60/72'],
    ['channel.open-ok', METHOD.channelOpenOk, {}, '20/11'],
    ['queue.declare-ok', METHOD.queueDeclareOk, { queue: 'q', messageCount: 0, consumerCount: 0 }, '50/11'],
    ['confirm.select-ok', METHOD.confirmSelectOk, {}, '85/11'],
  ] as const)(
    '%s, which only a server sends, closes the connection with 503',
    async ([_, id, fields, named], { amqp }) => {
      expect(await amqp.closeAfter(methodFrame(id, fields, 1))).toBe(
        `503 COMMAND_INVALID - unimplemented method [${named}]`,
      );
    },
  );

  it('whose 504 is answered with close-ok closes the socket immediately', async ({ peer }) => {
    peer.write(methodFrame(METHOD.channelOpen, {}, 1));
    expect(await peer.takeConnectionClose()).toMatch(/^504 /);
    peer.send(METHOD.connectionCloseOk);
    await turns();
    expect(peer.ended).toBe(true);
  });

  it('with a reused tag of 240 bytes gets 530, and nothing is thrown', async ({
    client: { peer, stream, link },
  }) => {
    // 120 characters in 240 bytes: valid as a name, but too long for a reply text that contains it.
    const consumerTag = 'č'.repeat(120);
    peer.send(METHOD.basicConsume, { queue: QUEUE, consumerTag, arguments: {} }, 1);
    await accept(link, 'consume');
    await peer.takeMethod(METHOD.basicConsumeOk);
    const again = methodFrame(METHOD.basicConsume, { queue: 'q', consumerTag, arguments: {} }, 1);
    // An error in this handler of the socket would end the process.
    expect(() => stream.emit('data', again)).not.toThrow();
    expect(await peer.takeConnectionClose()).toMatch(/^530 NOT_ALLOWED/);
  });
});
