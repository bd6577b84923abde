/** Invalid frames of a running connection: the close that each causes. */
import { afterEach, describe, expect, vi } from 'vitest';
import { amqpTest as it } from '#support/bridge-amqp.ts';
import {
  deepTable,
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
const STRAY = '505 UNEXPECTED_FRAME - expected method frame, got non method frame instead [0/0]';

/** A content header with this headers table. */
function withHeaders(table: Buffer, rest = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(14);
  head.writeUInt16BE(60, 0);
  head.writeUInt16BE(rest.length > 0 ? 0x2010 : 0x2000, 12);
  return frame(2, 1, Buffer.concat([head, table, rest]));
}

afterEach(() => void vi.restoreAllMocks());

describe('a frame', () => {
  it.for([
    ['of no known type', frame(4, 1, Buffer.alloc(2)), /^501 FRAME_ERROR - .*unknown_frame/],
    [
      'without its end',
      frame(1, 1, Buffer.alloc(8), 0),
      /^501 FRAME_ERROR - .*\{invalid_frame_end_marker,0\}/,
    ],
    [
      'above the tuned size',
      frame(3, 1, Buffer.alloc(131_073)),
      /^501 FRAME_ERROR - type 3, all octets = <<>>: \{frame_too_large,131073,131064\}/,
    ],
  ] as const)('%s closes the connection with 501 [C-6.3]', async ([_, bytes, expected], { amqp }) => {
    expect(await amqp.closeAfter(bytes)).toMatch(expected);
  });

  it('that announces 2^32-1 bytes closes the connection with 501', async ({ peer }) => {
    const announced = frame(3, 1, Buffer.alloc(0)).subarray(0, 7);
    announced.writeUInt32BE(0xffff_ffff, 3);
    peer.write(announced);
    expect(await peer.takeConnectionClose()).toMatch(/^501 FRAME_ERROR/);
  });

  it('after an invalid one, the bridge does not keep what the client sends', async ({ peer }) => {
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

  it.for([
    ['method', methodFrame(METHOD.basicQos, {}, 2), '[60/10]'],
    ['publish', methodFrame(METHOD.basicPublish, {}, 2), '[60/40]'],
  ] as const)(
    'a %s on a channel that is not open closes the connection with 504',
    async ([_, bytes, named], { amqp }) => {
      expect(await amqp.closeAfter(bytes)).toBe(`504 CHANNEL_ERROR - expected 'channel.open' ${named}`);
    },
  );

  it.for([
    ['header', headerFrame(1, {}, 2)],
    ['body', frame(3, 2, Buffer.from('x'))],
  ] as const)(
    'a content %s on a channel that is not open closes the connection with 505',
    async ([_, bytes], { amqp }) => {
      expect(await amqp.closeAfter(bytes)).toBe(STRAY);
    },
  );

  it('a second channel.open of an open channel closes the connection with 504', async ({ amqp }) => {
    expect(await amqp.closeAfter(methodFrame(METHOD.channelOpen, {}, 1))).toBe(
      "504 CHANNEL_ERROR - second 'channel.open' seen [20/10]",
    );
  });

  it('a content body on channel 0 closes the connection with 505', async ({ amqp }) => {
    expect(await amqp.closeAfter(frame(3, 0, Buffer.from('x')))).toBe(
      '505 UNEXPECTED_FRAME - type 3, all octets = <<"x">> [0/0]',
    );
  });

  it('a second connection.open closes the connection with 504', async ({ amqp }) => {
    expect(await amqp.closeAfter(methodFrame(METHOD.connectionOpen, { virtualHost: VHOST }))).toBe(
      '504 CHANNEL_ERROR - unexpected method in connection state running [10/40]',
    );
  });
});

describe('the content of a publish', () => {
  it('without its basic.publish closes the connection with 505 [C-6.3]', async ({ amqp }) => {
    expect(await amqp.closeAfter(headerFrame(1))).toBe(STRAY);
    expect(await amqp.closeAfter(frame(3, 1, Buffer.from('x')))).toBe(STRAY);
  });

  it('without its header closes the connection with 505', async ({ amqp }) => {
    const expected =
      '505 UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead [60/40]';
    expect(await amqp.closeAfter(PUBLISH, frame(3, 1, Buffer.from('x')))).toBe(expected);
    expect(await amqp.closeAfter(PUBLISH, PUBLISH)).toBe(expected);
    expect(await amqp.closeAfter(PUBLISH, methodFrame(METHOD.confirmSelect, {}, 1))).toBe(expected);
  });

  it('with a method or a header between its body frames closes the connection with 505', async ({ amqp }) => {
    const begun = [PUBLISH, headerFrame(2), frame(3, 1, Buffer.from('x'))];
    expect(await amqp.closeAfter(...begun, methodFrame(METHOD.basicQos, {}, 1))).toMatch(
      /^505 UNEXPECTED_FRAME/,
    );
    expect(await amqp.closeAfter(...begun, headerFrame(2))).toMatch(/^505 UNEXPECTED_FRAME/);
  });

  it('with a body longer than announced closes the connection with 505', async ({ amqp }) => {
    expect(await amqp.closeAfter(PUBLISH, headerFrame(2), frame(3, 1, Buffer.from('xyz')))).toMatch(
      /^505 UNEXPECTED_FRAME - expected content body, got non content body frame instead \[60\/40\]$/,
    );
  });

  it('may be sent in turns with a content of another channel', async ({ peer, link }) => {
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

  it.for([
    ['tables 1 000 deep', deepTable(1_000)],
    ['more than 16 KiB', tableBytes(tableEntry('k', 'x', tableBytes(Buffer.alloc(20_000))))],
  ] as const)('with headers of %s closes the connection with 502 [C-6.3]', async ([_, table], { amqp }) => {
    expect(await amqp.closeAfter(PUBLISH, withHeaders(table))).toMatch(/^502 SYNTAX_ERROR - .*\[60\/40\]$/);
  });
});

describe('an argument that announces more than its frame holds', () => {
  const UNDECODABLE = /^501 FRAME_ERROR - cannot decode <<[0-9,.]+(>>)? \[60\/40\]$/;
  const inside = tableEntry('k', 'I', Buffer.alloc(4));
  const lying = (bytes: Buffer, announced: number) => {
    bytes.writeUInt32BE(announced, 0);
    return bytes;
  };

  it.for([
    ['by a byte', lying(tableBytes(inside), inside.length + 1)],
    ['by 4 GiB', lying(tableBytes(), 2 ** 32 - 1)],
    ['in a table of its own', tableBytes(tableEntry('k', 'F', lying(tableBytes(inside), 100)))],
    ['in an array', tableBytes(tableEntry('k', 'A', lying(tableBytes(), 1)))],
    ['in a string', tableBytes(tableEntry('k', 'S', lying(tableBytes(Buffer.from('text')), 5)))],
    ['in bytes', tableBytes(tableEntry('k', 'x', lying(tableBytes(), 2 ** 31)))],
    ['in a key', tableBytes(Buffer.from('\xffk', 'latin1'))],
    ['in a number', tableBytes(tableEntry('k', 'l', Buffer.alloc(7)))],
    ['in a boolean', tableBytes(tableEntry('k', 't', Buffer.alloc(0)))],
  ] as const)(
    'a headers table that is cut short %s closes the connection with 501 [C-6.3]',
    async ([_, table], { amqp }) => {
      expect(await amqp.closeAfter(PUBLISH, withHeaders(table))).toMatch(UNDECODABLE);
    },
  );

  it('a headers table that reaches into the next property closes with 501', async ({ amqp }) => {
    const bytes = withHeaders(lying(tableBytes(), 6), Buffer.from('\x04acme'));
    expect(await amqp.closeAfter(PUBLISH, bytes)).toMatch(UNDECODABLE);
  });

  it.for([
    [
      'table',
      rawMethodFrame(METHOD.basicConsume, Buffer.from('\0\0\x01q\x01t\0\0\0\0\x01', 'latin1')),
      '[60/20]',
    ],
    ['short string', rawMethodFrame(METHOD.basicCancel, Buffer.from('\x05tag', 'latin1')), '[60/30]'],
    ['row of bits', rawMethodFrame(METHOD.basicCancel, Buffer.from('\x03tag', 'latin1')), '[60/30]'],
  ] as const)(
    'a method with a truncated %s closes the connection with 501',
    async ([_, bytes, named], { amqp }) => {
      expect(await amqp.closeAfter(bytes)).toBe(
        `501 FRAME_ERROR - cannot decode <<${[...bytes.subarray(11, -1)].join(',')}>> ${named}`,
      );
    },
  );
});

describe('a name in a method', () => {
  it('that is not UTF-8 closes the connection with 502, not 541', async ({ amqp }) => {
    const bytes = rawMethodFrame(METHOD.basicCancel, Buffer.alloc(257, 0xff).fill(0, 256));
    expect(await amqp.closeAfter(bytes)).toBe('502 SYNTAX_ERROR - a short string is not UTF-8 [60/30]');
  });
});
