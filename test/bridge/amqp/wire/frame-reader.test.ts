/** Frames from a byte stream: whole, split anywhere, many at once, invalid and generated. */
import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { amqpErrorOf, announcement, frame } from '#support/bridge-amqp-frames.ts';
import { forAll, forMany } from '#support/property.ts';
import { AmqpError } from '../../../../bridge/amqp/wire/amqp-error.ts';
import { type Frame, FrameReader } from '../../../../bridge/amqp/wire/frame-reader.ts';

const TYPES = [1, 2, 3, 8];

/** The least payload bytes of each type; a heartbeat has none. */
const LEAST: Readonly<Record<number, number>> = { 1: 4, 2: 12, 3: 0 };

function payloadOf(type: number): fc.Arbitrary<Buffer> {
  const [minLength, maxLength] = type === 8 ? [0, 0] : [LEAST[type] ?? 0, 60];
  return fc.uint8Array({ minLength, maxLength }).map((array) => Buffer.from(array));
}

const frames = fc.array(
  fc
    .constantFrom(...TYPES)
    .chain((type) =>
      fc.record({ type: fc.constant(type), channel: fc.nat(0xffff), payload: payloadOf(type) }),
    ),
  { maxLength: 12 },
);

function read(reader: FrameReader, ...chunks: Buffer[]): Frame[] {
  // Payloads share memory with their chunk.
  return chunks.flatMap((chunk) =>
    [...reader.push(chunk)].map((one) => ({ ...one, payload: Buffer.from(one.payload) })),
  );
}

function bytesOf(list: readonly Frame[]): Buffer {
  return Buffer.concat(list.map(({ type, channel, payload }) => frame(type, channel, payload)));
}

function errorOf(act: () => unknown): AmqpError {
  const error = amqpErrorOf(act);
  if (!error) throw new Error('nothing was thrown');
  return error;
}

afterEach(() => void vi.restoreAllMocks());

describe('a frame reader', () => {
  it('returns the frames of one chunk', () => {
    forAll(frames, (list) => expect(read(new FrameReader(4_096), bytesOf(list))).toEqual(list));
  });

  it('returns frames whose bytes come in any chunks', () => {
    forAll(frames, fc.array(fc.nat(200), { maxLength: 20 }), (list, cuts) => {
      const whole = bytesOf(list);
      const chunks: Buffer[] = [];
      let start = 0;
      for (const cut of cuts) {
        chunks.push(whole.subarray(start, start + cut));
        start += cut;
      }
      expect(read(new FrameReader(4_096), ...chunks, whole.subarray(start))).toEqual(list);
    });
  });

  it('returns three frames from two chunks, cut at every byte', () => {
    const list = [
      { type: 1, channel: 1, payload: Buffer.from('method') },
      { type: 8, channel: 0, payload: Buffer.alloc(0) },
      { type: 3, channel: 65_535, payload: Buffer.alloc(20, 0xce) },
    ];
    const whole = bytesOf(list);
    for (let at = 0; at <= whole.length; at++)
      expect(read(new FrameReader(4_096), whole.subarray(0, at), whole.subarray(at))).toEqual(list);
  });

  it('returns frames that come one byte at a time', () => {
    const list = TYPES.map((type) => ({
      type,
      channel: type,
      payload: Buffer.alloc(LEAST[type] ?? 0, type),
    }));
    const bytes = [...bytesOf(list)].map((byte) => Buffer.from([byte]));
    expect(read(new FrameReader(4_096), ...bytes)).toEqual(list);
  });

  it.each([
    ['a method of three bytes', 1, Buffer.alloc(3), '<<0,0,0>>'],
    ['a content header of eleven', 2, Buffer.alloc(11), '<<0,0,0,0,0,0,0,0,0,0,0>>'],
    ['a heartbeat with a payload', 8, Buffer.from('"x"'), '<<"\\"x\\"">>'],
  ])('%s is an unknown frame, and the error shows its octets', (_title, type, payload, shown) => {
    expect(errorOf(() => read(new FrameReader(4_096), frame(type, 1, payload))).text).toBe(
      `FRAME_ERROR - type ${type}, all octets = ${shown}: unknown_frame`,
    );
  });

  it('returns each frame as soon as its last byte arrives', () => {
    const reader = new FrameReader(4_096);
    const whole = frame(1, 1, Buffer.from('payload'));
    expect(read(reader, whole.subarray(0, -1))).toEqual([]);
    expect(read(reader, whole.subarray(-1)).length).toBe(1);
    expect(read(reader, Buffer.concat([whole, whole, whole.subarray(0, 3)])).length).toBe(2);
    expect(read(reader, whole.subarray(3)).length).toBe(1);
  });

  it('applies a new size limit to the next frame, even in the same chunk', () => {
    const reader = new FrameReader(4_096);
    const large = frame(3, 1, Buffer.alloc(5_000));
    const sizes: number[] = [];
    for (const one of reader.push(Buffer.concat([frame(1, 0, Buffer.alloc(8)), large]))) {
      sizes.push(one.payload.length);
      reader.maxPayload = 131_072;
    }
    expect(sizes).toEqual([8, 5_000]);
  });
});

describe('a frame reader that rejects', () => {
  it.each(TYPES)('a frame of type %d that announces 2^32-1 bytes is rejected without allocation', (type) => {
    const reader = new FrameReader(131_072);
    const concat = vi.spyOn(Buffer, 'concat');
    const error = errorOf(() => read(reader, announcement(type, 0xffff_ffff)));
    expect(error.code).toBe(501);
    expect(error.severity).toBe('connection');
    expect(error.text).toBe(
      `FRAME_ERROR - type ${type}, all octets = <<>>: {frame_too_large,4294967295,131064}`,
    );
    expect(concat).not.toHaveBeenCalled();
  });

  it('before tune 4096 bytes are accepted and 4097 rejected [C-6.3]', () => {
    expect(read(new FrameReader(4_096), frame(1, 0, Buffer.alloc(4_096))).length).toBe(1);
    expect(errorOf(() => read(new FrameReader(4_096), announcement(1, 4_097))).code).toBe(501);
  });

  it('after tune a payload above the tuned size is rejected [C-6.3]', () => {
    expect(read(new FrameReader(131_072), frame(3, 1, Buffer.alloc(131_072))).length).toBe(1);
    const error = errorOf(() => read(new FrameReader(131_072), announcement(3, 131_172)));
    expect(error.text).toBe('FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,131172,131064}');
  });

  it.each([0, 0xcd, 0xff, 1])('a frame with the end octet %d is rejected', (end) => {
    const error = errorOf(() => read(new FrameReader(4_096), frame(1, 1, Buffer.from('abc'), end)));
    expect(error.code).toBe(501);
    expect(error.text).toContain(`{invalid_frame_end_marker,${end}}`);
  });

  it('a payload longer than announced is rejected', () => {
    const whole = frame(1, 1, Buffer.from('abcdef'));
    whole.writeUInt32BE(3, 3);
    expect(errorOf(() => read(new FrameReader(4_096), whole)).text).toContain('invalid_frame_end_marker');
  });

  it('all types except 1, 2, 3 and 8 are rejected', () => {
    for (let type = 0; type < 256; type++) {
      if (TYPES.includes(type)) continue;
      const error = errorOf(() => read(new FrameReader(4_096), frame(type, 1, Buffer.alloc(0))));
      expect(error.code).toBe(501);
      expect(error.text).toContain('unknown_frame');
    }
  });

  it('good frames before a bad one are returned first', () => {
    const good = { type: 1, channel: 1, payload: Buffer.from('good') };
    const seen: Frame[] = [];
    const error = errorOf(() => {
      const chunk = Buffer.concat([bytesOf([good, good]), frame(4, 1, Buffer.alloc(0))]);
      for (const one of new FrameReader(4_096).push(chunk)) seen.push(one);
    });
    expect(seen).toEqual([good, good]);
    expect(error.code).toBe(501);
  });

  it('random bytes give frames within the size limit or an AMQP error', () => {
    forMany(500, fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 8 }), (chunks) => {
      const reader = new FrameReader(256);
      try {
        for (const one of chunks.flatMap((chunk) => read(reader, Buffer.from(chunk))))
          expect(one.payload.length).toBeLessThanOrEqual(256);
      } catch (error) {
        expect(error).toBeInstanceOf(AmqpError);
      }
    });
  });
});
