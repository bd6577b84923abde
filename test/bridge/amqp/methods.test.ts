/** Methods of a running connection that do not decode, do not exist, or are not a client's to send. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { closeAfter, openAmqp } from '../../support/bridge-amqp.ts';
import {
  deepTable,
  frame,
  methodFrame,
  rawMethodFrame,
  tableBytes,
  tableEntry,
} from '../../support/bridge-amqp-frames.ts';
import { TestEdge } from '../../support/bridge-edge.ts';
import { turns } from '../../support/bridge-signal.ts';

let edge: TestEdge;

beforeAll(async () => {
  edge = await TestEdge.start();
});
afterAll(() => edge.stop());

function consumeWith(table: Buffer): Buffer {
  return rawMethodFrame(METHOD.basicConsume, Buffer.concat([Buffer.from([0, 0, 1, 0x71, 0, 0]), table]));
}

describe('a method', () => {
  it('with tables beyond reason closes the connection: 502 [C-6.3]', async () => {
    expect(await closeAfter(edge, consumeWith(deepTable(1_000)))).toMatch(
      /^502 SYNTAX_ERROR - .*\[60\/20\]$/,
    );
    expect(await closeAfter(edge, consumeWith(deepTable(15_000)))).toMatch(
      /^502 SYNTAX_ERROR - .*\[60\/20\]$/,
    );
  });

  it('whose arguments do not decode closes the connection: 501 [C-6.3]', async () => {
    expect(await closeAfter(edge, consumeWith(tableBytes(tableEntry('k', 'Z', Buffer.alloc(2)))))).toMatch(
      /^501 FRAME_ERROR - cannot decode.*\[60\/20\]$/,
    );
    expect(await closeAfter(edge, rawMethodFrame(METHOD.basicQos, Buffer.alloc(3)))).toMatch(
      /^501 FRAME_ERROR/,
    );
  });

  it.each([
    ['basic.publish cut short', rawMethodFrame(METHOD.basicPublish, Buffer.from([0, 0, 9, 0x76]))],
    ['a basic.publish without arguments', rawMethodFrame(METHOD.basicPublish, Buffer.alloc(0))],
    ['a method frame of one byte', frame(1, 1, Buffer.from([0]))],
    ['an empty method frame', frame(1, 1, Buffer.alloc(0))],
    ['an empty method frame on channel 0', frame(1, 0, Buffer.alloc(0))],
    ['an empty method frame on a channel that is not open', frame(1, 2, Buffer.alloc(0))],
  ])('that does not even reach its arguments (%s) closes the connection: 501', async (_title, bytes) => {
    expect(await closeAfter(edge, bytes)).toMatch(/^501 FRAME_ERROR/);
  });

  it('that does not exist closes the socket without a word', async () => {
    for (const [id, channel] of [
      [0x003c_00ff, 1],
      [0xffff_ffff, 1],
      [0x000a_00ff, 0],
    ] as const) {
      const { peer, link } = await openAmqp(edge);
      const before = peer.bytes;
      peer.write(rawMethodFrame(id, Buffer.alloc(0), channel));
      await peer.untilEnded();
      expect(peer.bytes).toBe(before);
      await link.untilClosed();
    }
  });

  it.each([
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
  ])('that only a server sends (%s) closes the connection: 503', async (_title, id, fields, named) => {
    expect(await closeAfter(edge, methodFrame(id, fields, 1))).toBe(
      `503 COMMAND_INVALID - unimplemented method [${named}]`,
    );
  });

  it('that closed the connection leaves the next to be read: close-ok closes the socket', async () => {
    const { peer } = await openAmqp(edge);
    peer.write(methodFrame(METHOD.channelOpen, {}, 1));
    expect(await peer.takeConnectionClose()).toMatch(/^504 /);
    peer.send(METHOD.connectionCloseOk);
    await turns();
    expect(peer.ended).toBe(true);
  });

  it('refused with a name of many bytes is refused all the same, and takes no other client with it', async () => {
    const { peer, stream, link } = await openAmqp(edge);
    // 120 characters, 240 bytes: as long as the name itself may be, longer than a reply text with words around it.
    const consumerTag = 'č'.repeat(120);
    peer.send(METHOD.basicConsume, { queue: 'vcp.acme.event.alarm', consumerTag, arguments: {} }, 1);
    link.send({ kind: 'ok', seq: (await link.take('consume')).seq });
    await peer.takeMethod(METHOD.basicConsumeOk);
    const again = methodFrame(METHOD.basicConsume, { queue: 'q', consumerTag, arguments: {} }, 1);
    // As the socket would hand it over: what is thrown here would end the process.
    expect(() => stream.emit('data', again)).not.toThrow();
    expect(await peer.takeConnectionClose()).toMatch(/^530 NOT_ALLOWED/);
  });
});
