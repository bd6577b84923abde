/** Frames of a running connection that are not what they should be: what each is answered, and what it closes. */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { closeAfter, openAmqp } from '../../support/bridge-amqp.ts';
import {
  deepTable,
  frame,
  headerFrame,
  methodFrame,
  publishFrames,
  rawMethodFrame,
  tableBytes,
  tableEntry,
} from '../../support/bridge-amqp-frames.ts';
import { TestEdge, VHOST } from '../../support/bridge-edge.ts';
import { turns } from '../../support/bridge-signal.ts';

const PUBLISH = methodFrame(METHOD.basicPublish, { exchange: 'vcp', routingKey: 'acme.command.mode' }, 1);
const STRAY = '505 UNEXPECTED_FRAME - expected method frame, got non method frame instead [0/0]';

let edge: TestEdge;

beforeAll(async () => {
  edge = await TestEdge.start();
});
afterEach(() => {
  vi.restoreAllMocks();
});
afterAll(() => edge.stop());

describe('a frame', () => {
  it.each([
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
  ])('%s closes the connection: 501 [C-6.3]', async (_title, bytes, expected) => {
    expect(await closeAfter(edge, bytes)).toMatch(expected);
  });

  it('that announces 2^32-1 bytes closes the connection with 501, and what follows is not kept', async () => {
    const { peer } = await openAmqp(edge);
    const announced = frame(3, 1, Buffer.alloc(0)).subarray(0, 7);
    announced.writeUInt32BE(0xffff_ffff, 3);
    peer.write(announced);
    expect(await peer.takeConnectionClose()).toMatch(/^501 FRAME_ERROR/);
  });

  it('that is refused is the last that is read', async () => {
    const { peer } = await openAmqp(edge);
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

  it('on channels of any number is taken, as many of them as are tuned; one more closes the connection: 530 [C-6.3]', async () => {
    const { peer } = await openAmqp(edge);
    for (let count = 2; count <= 64; count++) await peer.openChannel(65_537 - count);
    peer.send(METHOD.channelOpen, {}, 2);
    expect(await peer.takeConnectionClose()).toBe(
      '530 NOT_ALLOWED - number of channels opened (64) has reached the negotiated channel_max (64) [0/0]',
    );
  });

  it('on one channel more than the client tuned closes the connection: 530', async () => {
    const { peer } = await openAmqp(edge, { tune: { channelMax: 2 } });
    await peer.openChannel(60_000);
    peer.send(METHOD.channelOpen, {}, 3);
    expect(await peer.takeConnectionClose()).toBe(
      '530 NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2) [0/0]',
    );
  });

  it.each([
    ['method', methodFrame(METHOD.basicQos, {}, 2), '[60/10]'],
    ['publish', Buffer.concat([methodFrame(METHOD.basicPublish, {}, 2)]), '[60/40]'],
  ])('with a %s on a channel that is not open closes the connection: 504', async (_title, bytes, named) => {
    expect(await closeAfter(edge, bytes)).toBe(`504 CHANNEL_ERROR - expected 'channel.open' ${named}`);
  });

  it.each([
    ['header', headerFrame(1, {}, 2)],
    ['body', frame(3, 2, Buffer.from('x'))],
  ])('with a %s on a channel that is not open closes the connection: 505', async (_title, bytes) => {
    expect(await closeAfter(edge, bytes)).toBe(STRAY);
  });

  it('with a second channel.open closes the connection: 504', async () => {
    expect(await closeAfter(edge, methodFrame(METHOD.channelOpen, {}, 1))).toBe(
      "504 CHANNEL_ERROR - second 'channel.open' seen [20/10]",
    );
  });

  it('of content on channel 0 closes the connection: 505', async () => {
    expect(await closeAfter(edge, frame(3, 0, Buffer.from('x')))).toBe(
      '505 UNEXPECTED_FRAME - type 3, all octets = <<"x">> [0/0]',
    );
  });

  it('of the handshake again closes the connection: 504', async () => {
    expect(await closeAfter(edge, methodFrame(METHOD.connectionOpen, { virtualHost: VHOST }))).toBe(
      '504 CHANNEL_ERROR - unexpected method in connection state running [10/40]',
    );
  });
});

describe('a content', () => {
  it('without its method closes the connection: 505 [C-6.3]', async () => {
    expect(await closeAfter(edge, headerFrame(1))).toBe(STRAY);
    expect(await closeAfter(edge, frame(3, 1, Buffer.from('x')))).toBe(STRAY);
  });

  it('without its header closes the connection: 505', async () => {
    const expected =
      '505 UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead [60/40]';
    expect(await closeAfter(edge, PUBLISH, frame(3, 1, Buffer.from('x')))).toBe(expected);
    expect(await closeAfter(edge, PUBLISH, PUBLISH)).toBe(expected);
    expect(await closeAfter(edge, PUBLISH, methodFrame(METHOD.confirmSelect, {}, 1))).toBe(expected);
  });

  it('with a method or a header amid its bodies closes the connection: 505', async () => {
    const begun = [PUBLISH, headerFrame(2), frame(3, 1, Buffer.from('x'))];
    expect(await closeAfter(edge, ...begun, methodFrame(METHOD.basicQos, {}, 1))).toMatch(
      /^505 UNEXPECTED_FRAME/,
    );
    expect(await closeAfter(edge, ...begun, headerFrame(2))).toMatch(/^505 UNEXPECTED_FRAME/);
  });

  it('longer than it announced closes the connection: 505', async () => {
    expect(await closeAfter(edge, PUBLISH, headerFrame(2), frame(3, 1, Buffer.from('xyz')))).toMatch(
      /^505 UNEXPECTED_FRAME - expected content body, got non content body frame instead \[60\/40\]$/,
    );
  });

  it('of two channels may be mixed', async () => {
    const { peer, link } = await openAmqp(edge);
    await peer.openChannel(2);
    const [first, second] = [1, 2].map((channel) => publishFrames(`body ${channel}`, { channel }));
    // Method, header and body of each, one by one in turn.
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
    peer.stream.destroy();
  });

  it.each([
    ['tables 1 000 deep', deepTable(1_000)],
    ['more than 16 KiB', tableBytes(tableEntry('k', 'x', tableBytes(Buffer.alloc(20_000))))],
  ])('with headers of %s closes the connection: 502 [C-6.3]', async (_title, table) => {
    const head = Buffer.alloc(14);
    head.writeUInt16BE(60, 0);
    head.writeUInt16BE(0x2000, 12);
    const bytes = frame(2, 1, Buffer.concat([head, table]));
    expect(await closeAfter(edge, PUBLISH, bytes)).toMatch(/^502 SYNTAX_ERROR - .*\[60\/40\]$/);
  });
});

describe('an argument that announces more than its frame holds', () => {
  /** A content header whose headers table is this. */
  const withHeaders = (table: Buffer, rest = Buffer.alloc(0)) => {
    const head = Buffer.alloc(14);
    head.writeUInt16BE(60, 0);
    head.writeUInt16BE(rest.length > 0 ? 0x2010 : 0x2000, 12);
    return frame(2, 1, Buffer.concat([head, table, rest]));
  };
  const UNDECODABLE = /^501 FRAME_ERROR - cannot decode <<[0-9,.]+(>>)? \[60\/40\]$/;
  const inside = tableEntry('k', 'I', Buffer.alloc(4));
  const lying = (bytes: Buffer, announced: number) => {
    bytes.writeUInt32BE(announced, 0);
    return bytes;
  };

  it.each([
    ['by a byte', lying(tableBytes(inside), inside.length + 1)],
    ['by 4 GiB', lying(tableBytes(), 2 ** 32 - 1)],
    ['in a table of its own', tableBytes(tableEntry('k', 'F', lying(tableBytes(inside), 100)))],
    ['in an array', tableBytes(tableEntry('k', 'A', lying(tableBytes(), 1)))],
    ['in a string', tableBytes(tableEntry('k', 'S', lying(tableBytes(Buffer.from('text')), 5)))],
    ['in bytes', tableBytes(tableEntry('k', 'x', lying(tableBytes(), 2 ** 31)))],
    ['in a key', tableBytes(Buffer.from('\xffk', 'latin1'))],
    ['in a number', tableBytes(tableEntry('k', 'l', Buffer.alloc(7)))],
    ['in a truth value', tableBytes(tableEntry('k', 't', Buffer.alloc(0)))],
  ])('closes the connection: 501; in a headers table %s [C-6.3]', async (_title, table) => {
    expect(await closeAfter(edge, PUBLISH, withHeaders(table))).toMatch(UNDECODABLE);
  });

  it('closes it where a property follows that would be read as part of the table: 501', async () => {
    const bytes = withHeaders(lying(tableBytes(), 6), Buffer.from('\x04acme'));
    expect(await closeAfter(edge, PUBLISH, bytes)).toMatch(UNDECODABLE);
  });

  it.each([
    [
      'table',
      rawMethodFrame(METHOD.basicConsume, Buffer.from('\0\0\x01q\x01t\0\0\0\0\x01', 'latin1')),
      '[60/20]',
    ],
    ['short string', rawMethodFrame(METHOD.basicCancel, Buffer.from('\x05tag', 'latin1')), '[60/30]'],
    ['row of bits', rawMethodFrame(METHOD.basicCancel, Buffer.from('\x03tag', 'latin1')), '[60/30]'],
  ])('closes the connection: 501; a %s of a method', async (_title, bytes, named) => {
    expect(await closeAfter(edge, bytes)).toBe(
      `501 FRAME_ERROR - cannot decode <<${[...bytes.subarray(11, -1)].join(',')}>> ${named}`,
    );
  });
});

describe('a name', () => {
  it('that is not UTF-8 closes the connection: 502, not 541 when it is answered', async () => {
    const bytes = rawMethodFrame(
      METHOD.basicCancel,
      Buffer.concat([Buffer.alloc(256, 0xff), Buffer.alloc(1)]),
    );
    expect(await closeAfter(edge, bytes)).toBe('502 SYNTAX_ERROR - a short string is not UTF-8 [60/30]');
  });
});
