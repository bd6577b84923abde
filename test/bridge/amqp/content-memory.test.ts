/** An unfinished publish takes its announced size in memory, in however many frames it arrives (rule 9). */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect } from 'vitest';
import { amqpTest as it } from '#support/bridge-amqp.ts';
import { frame, headerFrame, methodFrame } from '#support/bridge-amqp-frames.ts';
import { turns } from '#support/bridge-signal.ts';
import { ContentAssembly } from '../../../bridge/amqp/content.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { FrameReader } from '../../../bridge/amqp/wire/frame-reader.ts';
import { LIMIT } from '../../../protocol/limits.ts';

const MIB = 1_024 * 1_024;
const PUBLISH = { exchange: 'vcp', routingKey: 'acme.command.mode', mandatory: false };

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** The memory of all live objects, with buffers outside the heap. */
function heldBytes(): number {
  collectGarbage();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

describe('a body in frames of one byte', () => {
  it('an unfinished body takes its announced size, not memory for each frame', () => {
    const before = heldBytes();
    const assembly = new ContentAssembly(PUBLISH);
    assembly.takeHeader(headerFrame(LIMIT.amqpBodyBytes).subarray(7, -1));
    for (let count = 1; count < LIMIT.amqpBodyBytes; count++) {
      // One buffer for each, as the socket would return.
      assembly.takeBody(Buffer.from([count & 0x7f]));
    }
    expect(heldBytes() - before).toBeLessThan(MIB);
    const content = assembly.takeBody(Buffer.from('!'));
    expect(content?.body.length).toBe(LIMIT.amqpBodyBytes);
    expect(content?.body.every((byte, index) => byte === ((index + 1) & 0x7f) || byte === 0x21)).toBe(true);
  });

  it('unfinished bodies on all channels take under twice their announced size', async ({ peer, link }) => {
    const piece = Buffer.concat(Array(2_000).fill(frame(3, 1, Buffer.from('x'))));
    for (let channel = 2; channel <= LIMIT.channelsPerConnection; channel++) await peer.openChannel(channel);
    const before = heldBytes();
    for (let channel = 1; channel <= LIMIT.channelsPerConnection; channel++) {
      peer.write(methodFrame(METHOD.basicPublish, PUBLISH, channel), headerFrame(20_001, {}, channel));
      const frames = Buffer.from(piece);
      for (let offset = 0; offset < frames.length; offset += 9) frames.writeUInt16BE(channel, offset + 1);
      for (let round = 0; round < 10; round++) {
        peer.write(frames);
        await turns(2);
      }
    }
    await turns();
    // The bodies take 1.3 MB; some 0.4 MB of other memory is allocated and freed.
    expect(heldBytes() - before).toBeLessThan(1.9 * 20_001 * LIMIT.channelsPerConnection);
    expect(link.received.some(({ kind }) => kind === 'publish')).toBe(false);
    for (let channel = 1; channel <= LIMIT.channelsPerConnection; channel++)
      peer.write(frame(3, channel, Buffer.from('!')));
    for (let channel = 1; channel <= LIMIT.channelsPerConnection; channel++)
      expect((await link.take('publish')).body).toBe(`${'x'.repeat(20_000)}!`);
  });
});

describe('a frame in chunks of one byte', () => {
  it('an unfinished frame takes its announced size, not memory for each chunk', () => {
    const bytes = frame(3, 1, Buffer.alloc(LIMIT.amqpFrameBytes - 8, 'x'));
    const reader = new FrameReader(LIMIT.amqpFrameBytes);
    const before = heldBytes();
    for (const byte of bytes.subarray(0, -1))
      for (const _early of reader.push(Buffer.from([byte]))) expect.fail();
    expect(heldBytes() - before).toBeLessThan(MIB);
    const whole = [...reader.push(bytes.subarray(-1))];
    expect(whole.map(({ payload }) => payload.equals(bytes.subarray(7, -1)))).toEqual([true]);
  });
});
