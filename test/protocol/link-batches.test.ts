/** Batches of the link: closed at either limit, and read back whole and in order. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forMany } from '#support/property.ts';
import {
  MAX_BATCH_CHARS,
  MAX_BATCH_FRAMES,
  MAX_MESSAGE_CHARS,
  packFrames,
  parseFrames,
} from '../../protocol/link/batch.ts';
import { type DeviceLinkUp, deviceLinkUp } from '../../protocol/link/device.ts';

const SUBSCRIBED = { kind: 'subscribed', commands: true };

const deviceFrame: fc.Arbitrary<DeviceLinkUp> = fc.oneof(
  fc.record({
    kind: fc.constant('publish' as const),
    seq: fc.nat(Number.MAX_SAFE_INTEGER),
    topic: fc.constantFrom('telemetry' as const, 'status' as const, 'ack' as const),
    payload: fc.string({ unit: 'binary' }),
  }),
  fc.record({ kind: fc.constant('subscribed' as const), commands: fc.boolean() }),
);

function readBack(messages: readonly string[]): unknown[] {
  return messages.flatMap((message) => {
    const parsed = parseFrames(deviceLinkUp, message);
    if (!parsed.ok) throw new Error(parsed.refusal);
    return parsed.value;
  });
}

describe('packFrames', () => {
  it('packs frames that parseFrames reads back in order', () => {
    forMany(30, fc.array(deviceFrame, { maxLength: 600, size: 'large' }), (frames) =>
      expect(readBack(packFrames(frames))).toEqual(frames),
    );
  });

  it('makes no message from no frames, and the fewest possible messages of at most 256 frames', () => {
    expect(packFrames([])).toEqual([]);
    const messages = packFrames(Array(MAX_BATCH_FRAMES * 2 + 1).fill(SUBSCRIBED));
    expect(messages.map((message) => JSON.parse(message).length)).toEqual([256, 256, 1]);
  });

  it('closes a message before its frames exceed the length limit, and sends a longer frame by itself', () => {
    const frame = (length: number) => ({
      kind: 'publish',
      seq: 1,
      topic: 'ack',
      payload: 'x'.repeat(length),
    });
    const frames = [
      frame(MAX_BATCH_CHARS),
      ...Array(9).fill(frame(60_000)),
      frame(MAX_BATCH_CHARS * 2),
      SUBSCRIBED,
    ];
    const messages = packFrames(frames);
    expect(messages.map((message) => JSON.parse(message).length)).toEqual([1, 4, 4, 1, 1, 1]);
    // The limit counts frames and the commas between them, not the two brackets.
    for (const message of messages) {
      if (JSON.parse(message).length > 1) expect(message.length - 2).toBeLessThanOrEqual(MAX_BATCH_CHARS);
    }
    expect(readBack(messages)).toEqual(frames);
  });

  it('packs the largest body, with every character escaped, into one message that parseFrames reads', () => {
    const [message = ''] = packFrames([
      { kind: 'publish', seq: 1, topic: 'ack', payload: '\0'.repeat(256 * 1024) },
    ]);
    expect(message.length).toBeLessThanOrEqual(MAX_MESSAGE_CHARS);
    expect(parseFrames(deviceLinkUp, message).ok).toBe(true);
  });
});
