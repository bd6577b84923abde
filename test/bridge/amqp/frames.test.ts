/** Invalid frames and methods of a running connection: the close that each causes. */
import { afterEach, describe, expect, vi } from 'vitest';
import { accept, amqpTest as it, QUEUE } from '#support/bridge-amqp.ts';
import {
  announcement,
  deepTable,
  type Fields,
  frame,
  headerFrame,
  methodFrame,
  publishFrames,
  rawMethodFrame,
  tableBytes,
  tableEntry,
} from '#support/bridge-amqp-frames.ts';
import { VHOST } from '#support/bridge-edge.ts';
import { turns } from '#support/bridge-signal.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';

const PUBLISH = methodFrame(METHOD.basicPublish, { exchange: 'vcp', routingKey: 'acme.command.mode' }, 1);
const BODY = frame(3, 1, Buffer.from('x'));
const BEGUN = [PUBLISH, headerFrame(2), BODY];
const EMPTY = Buffer.alloc(0);

/** A basic.publish, and its content header with this headers table. */
function withHeaders(table: Buffer, rest = EMPTY): Buffer[] {
  const head = Buffer.alloc(14);
  head.writeUInt16BE(60, 0);
  head.writeUInt16BE(rest.length > 0 ? 0x2010 : 0x2000, 12);
  return [PUBLISH, frame(2, 1, Buffer.concat([head, table, rest]))];
}

/** A basic.consume with this argument table. */
function consumeWith(table: Buffer): Buffer {
  return rawMethodFrame(METHOD.basicConsume, Buffer.concat([Buffer.from([0, 0, 1, 0x71, 0, 0]), table]));
}

/** A table or another value that announces another length than it has. */
function lying(bytes: Buffer, announced: number): Buffer {
  bytes.writeUInt32BE(announced, 0);
  return bytes;
}

const tableOf = (tag: string, value: Buffer) => tableBytes(tableEntry('k', tag, value));
const inside = tableEntry('k', 'I', Buffer.alloc(4));
const numbered = (id: number) => `[${id >>> 16}/${id & 0xffff}]`;

interface Cause {
  what: string;
  code: string | undefined;
  close: string | RegExp;
  frames: Buffer[];
}

/** What causes this close. */
function causesOf(close: string | RegExp, causes: Record<string, Buffer | Buffer[]>): Cause[] {
  const code = /\d{3}/.exec(String(close))?.[0];
  return Object.entries(causes).map(([what, frames]) => ({ what, code, close, frames: [frames].flat() }));
}

function serverOnly(what: string, id: number, fields: Fields = {}): Cause[] {
  const close = `503 COMMAND_INVALID - unimplemented method ${numbered(id)}`;
  return causesOf(close, { [what]: methodFrame(id, fields, 1) });
}

function notOffered(what: string, id: number, fields: Fields, why: string): Cause[] {
  return causesOf(`540 NOT_IMPLEMENTED - ${why} ${numbered(id)}`, { [what]: methodFrame(id, fields, 1) });
}

function truncated(what: string, id: number, text: string): Cause[] {
  const args = Buffer.from(text, 'latin1');
  const close = `501 FRAME_ERROR - cannot decode <<${[...args].join(',')}>> ${numbered(id)}`;
  return causesOf(close, { [`a method with a truncated ${what}`]: rawMethodFrame(id, args) });
}

const FRAMES: Cause[] = [
  ...causesOf(/^501 FRAME_ERROR - .*unknown_frame/, {
    'a frame of no known type': frame(4, 1, Buffer.alloc(2)),
  }),
  ...causesOf(/^501 FRAME_ERROR - .*\{invalid_frame_end_marker,0\}/, {
    'a frame without its end': frame(1, 1, Buffer.alloc(8), 0),
  }),
  ...causesOf(/^501 FRAME_ERROR - type 3, all octets = <<>>: \{frame_too_large,131073,131064\}/, {
    'a frame above the tuned size': frame(3, 1, Buffer.alloc(131_073)),
  }),
  ...causesOf("504 CHANNEL_ERROR - expected 'channel.open' [60/10]", {
    'a method on a channel that is not open': methodFrame(METHOD.basicQos, {}, 2),
  }),
  ...causesOf("504 CHANNEL_ERROR - expected 'channel.open' [60/40]", {
    'a publish on a channel that is not open': methodFrame(METHOD.basicPublish, {}, 2),
  }),
  ...causesOf("504 CHANNEL_ERROR - expected 'channel.open' [20/41]", {
    'a channel.close-ok on a channel that is not open': methodFrame(METHOD.channelCloseOk, {}, 9),
  }),
  ...causesOf("504 CHANNEL_ERROR - second 'channel.open' seen [20/10]", {
    'a second channel.open of an open channel': methodFrame(METHOD.channelOpen, {}, 1),
  }),
  ...causesOf('504 CHANNEL_ERROR - unexpected method in connection state running [10/40]', {
    'a second connection.open': methodFrame(METHOD.connectionOpen, { virtualHost: VHOST }),
  }),
  ...causesOf('505 UNEXPECTED_FRAME - type 3, all octets = <<"x">> [0/0]', {
    'a content body on channel 0': frame(3, 0, Buffer.from('x')),
  }),
  ...causesOf('505 UNEXPECTED_FRAME - expected method frame, got non method frame instead [0/0]', {
    'a content header on a channel that is not open': headerFrame(1, {}, 2),
    'a content body on a channel that is not open': frame(3, 2, Buffer.from('x')),
    'a content header without its basic.publish': headerFrame(1),
    'a content body without its basic.publish': BODY,
  }),
  ...causesOf(
    '505 UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead [60/40]',
    {
      'a content body instead of a content header': [PUBLISH, BODY],
      'a basic.publish instead of a content header': [PUBLISH, PUBLISH],
      'a method instead of a content header': [PUBLISH, methodFrame(METHOD.confirmSelect, {}, 1)],
    },
  ),
  ...causesOf(/^505 UNEXPECTED_FRAME/, {
    'a method between body frames': [...BEGUN, methodFrame(METHOD.basicQos, {}, 1)],
    'a content header between body frames': [...BEGUN, headerFrame(2)],
  }),
  ...causesOf('505 UNEXPECTED_FRAME - expected content body, got non content body frame instead [60/40]', {
    'a body longer than announced': [PUBLISH, headerFrame(2), frame(3, 1, Buffer.from('xyz'))],
  }),
];

const ARGUMENTS: Cause[] = [
  ...causesOf(/^501 FRAME_ERROR - cannot decode <<[0-9,.]+(>>)? \[60\/40\]$/, {
    'a headers table that is cut short by a byte': withHeaders(lying(tableBytes(inside), inside.length + 1)),
    'a headers table that is cut short by 4 GiB': withHeaders(lying(tableBytes(), 2 ** 32 - 1)),
    'a table cut short in a headers table': withHeaders(tableOf('F', lying(tableBytes(inside), 100))),
    'an array cut short in a headers table': withHeaders(tableOf('A', lying(tableBytes(), 1))),
    'a string cut short in a headers table': withHeaders(
      tableOf('S', lying(tableBytes(Buffer.from('text')), 5)),
    ),
    'bytes cut short in a headers table': withHeaders(tableOf('x', lying(tableBytes(), 2 ** 31))),
    'a key cut short in a headers table': withHeaders(tableBytes(Buffer.from('\xffk', 'latin1'))),
    'a number cut short in a headers table': withHeaders(tableOf('l', Buffer.alloc(7))),
    'a boolean cut short in a headers table': withHeaders(tableOf('t', EMPTY)),
    'a headers table that reaches into the next property': withHeaders(
      lying(tableBytes(), 6),
      Buffer.from('\x04acme'),
    ),
  }),
  ...causesOf(/^501 FRAME_ERROR - cannot decode.*\[60\/20\]$/, {
    'an argument of an unknown type': consumeWith(tableOf('Z', Buffer.alloc(2))),
  }),
  ...truncated('table', METHOD.basicConsume, '\0\0\x01q\x01t\0\0\0\0\x01'),
  ...truncated('short string', METHOD.basicCancel, '\x05tag'),
  ...truncated('row of bits', METHOD.basicCancel, '\x03tag'),
  ...causesOf(/^501 FRAME_ERROR/, {
    'a frame that announces 2^32-1 bytes': announcement(3, 0xffff_ffff),
    'basic.publish cut short': rawMethodFrame(METHOD.basicPublish, Buffer.from([0, 0, 9, 0x76])),
    'a basic.publish without arguments': rawMethodFrame(METHOD.basicPublish, EMPTY),
    'a basic.qos of three bytes': rawMethodFrame(METHOD.basicQos, Buffer.alloc(3)),
    'a method frame of one byte': frame(1, 1, Buffer.from([0])),
    'an empty method frame': frame(1, 1, EMPTY),
    'an empty method frame on channel 0': frame(1, 0, EMPTY),
    'an empty method frame on a channel that is not open': frame(1, 2, EMPTY),
  }),
  ...causesOf(/^502 SYNTAX_ERROR - .*\[60\/40\]$/, {
    'a headers table 1 000 tables deep': withHeaders(deepTable(1_000)),
    'a headers table of more than 16 KiB': withHeaders(tableOf('x', tableBytes(Buffer.alloc(20_000)))),
  }),
  ...causesOf(/^502 SYNTAX_ERROR - .*\[60\/20\]$/, {
    'an argument 1 000 tables deep': consumeWith(deepTable(1_000)),
    'an argument 15 000 tables deep': consumeWith(deepTable(15_000)),
  }),
  ...causesOf('502 SYNTAX_ERROR - a short string is not UTF-8 [60/30]', {
    'a name that is not UTF-8': rawMethodFrame(METHOD.basicCancel, Buffer.alloc(257, 0xff).fill(0, 256)),
  }),
];

const DELIVERY = { consumerTag: '', deliveryTag: 1, exchange: '', routingKey: '' };
const COUNTS = { queue: 'q', messageCount: 0, consumerCount: 0 };
const NO_TX = 'transactions are not supported, use publisher confirms';
const METHODS: Cause[] = [
  ...serverOnly('a channel.close-ok on an open channel', METHOD.channelCloseOk),
  ...serverOnly('a basic.deliver of a client', METHOD.basicDeliver, DELIVERY),
  ...serverOnly('a basic.get-empty of a client', METHOD.basicGetEmpty),
  ...serverOnly('a channel.open-ok of a client', METHOD.channelOpenOk),
  ...serverOnly('a queue.declare-ok of a client', METHOD.queueDeclareOk, COUNTS),
  ...serverOnly('a confirm.select-ok of a client', METHOD.confirmSelectOk),
  ...notOffered('a basic.qos by bytes', METHOD.basicQos, { prefetchSize: 10 }, 'prefetch_size!=0 (10)'),
  ...notOffered('tx.select', METHOD.txSelect, {}, NO_TX),
  ...notOffered('tx.commit', METHOD.txCommit, {}, NO_TX),
  ...notOffered('tx.rollback', METHOD.txRollback, {}, NO_TX),
  ...notOffered('channel.flow with active=false', METHOD.channelFlow, { active: false }, 'active=false'),
  ...causesOf('540 NOT_IMPLEMENTED - immediate=true [60/40]', {
    'an immediate publish': publishFrames('a', { immediate: true }),
  }),
];

afterEach(() => void vi.restoreAllMocks());

describe('an invalid frame or method', () => {
  it.for([...FRAMES, ...ARGUMENTS, ...METHODS])(
    '$what closes the connection with $code [C-6.3]',
    async ({ close, frames }, { amqp }) => {
      const expected = typeof close === 'string' ? close : expect.stringMatching(close);
      expect(await amqp.closeAfter(...frames)).toEqual(expected);
    },
  );

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

  it('after an invalid frame, the bridge does not keep what the client sends', async ({ peer }) => {
    peer.write(frame(4, 1, Buffer.alloc(0)));
    await peer.takeConnectionClose();
    const concat = vi.spyOn(Buffer, 'concat');
    for (let chunk = 0; chunk < 20; chunk++) {
      peer.stream.write(Buffer.alloc(10_000));
      await turns(2);
    }
    const held = concat.mock.results.map(({ value }) => (value as Buffer).length);
    expect(Math.max(0, ...held)).toBeLessThan(50_000);
  });

  it('channel.open of a 65th channel, whatever the numbers, closes with 530 [C-6.3]', async ({ peer }) => {
    for (let count = 2; count <= 64; count++) await peer.openChannel(65_537 - count);
    peer.send(METHOD.channelOpen, {}, 2);
    expect(await peer.takeConnectionClose()).toBe(
      '530 NOT_ALLOWED - number of channels opened (64) has reached the negotiated channel_max (64) [0/0]',
    );
  });

  it('channel.open beyond the number that the client tuned closes with 530', async ({ amqp }) => {
    const { peer } = await amqp.open({ tune: { channelMax: 2 } });
    await peer.openChannel(60_000);
    peer.send(METHOD.channelOpen, {}, 3);
    expect(await peer.takeConnectionClose()).toBe(
      '530 NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2) [0/0]',
    );
  });

  it('a method whose 504 is answered with close-ok closes the socket immediately', async ({ peer }) => {
    peer.write(methodFrame(METHOD.channelOpen, {}, 1));
    expect(await peer.takeConnectionClose()).toMatch(/^504 /);
    peer.send(METHOD.connectionCloseOk);
    await turns();
    expect(peer.ended).toBe(true);
  });

  it('a basic.consume with a reused tag of 240 bytes gets 530, and nothing is thrown', async ({
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

describe('valid frames', () => {
  it('the content of a publish may be sent in turns with one of another channel', async ({ peer, link }) => {
    await peer.openChannel(2);
    const [first, second] = [1, 2].map((channel) => publishFrames(`body ${channel}`, { channel }));
    // The two methods, then the two headers, then the two bodies.
    const cut = (bytes: Buffer) => {
      const parts: Buffer[] = [];
      for (let at = 0; at < bytes.length; ) {
        const end = at + bytes.readUInt32BE(at + 3) + 8;
        parts.push(bytes.subarray(at, end));
        at = end;
      }
      return parts;
    };
    const others = cut(second ?? Buffer.alloc(0));
    for (const [index, part] of cut(first ?? Buffer.alloc(0)).entries())
      peer.write(part, others[index] ?? Buffer.alloc(0));
    expect((await link.take('publish')).body).toBe('body 1');
    expect((await link.take('publish')).body).toBe('body 2');
  });
});
