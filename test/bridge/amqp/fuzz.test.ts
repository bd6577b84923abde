/** Clients by chance, a little of what `npm run fuzz` does for hours: other ones in each run, its seed in a failure. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AmqpError } from '../../../bridge/amqp/wire/amqp-error.ts';
import { decodeMethod, decodeProperties, METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { fuzz } from '../../../tools/fuzz/batch.ts';
import { Chance } from '../../../tools/fuzz/chance.ts';
import { properties } from '../../../tools/fuzz/frames.ts';
import { table } from '../../../tools/fuzz/table.ts';
import { definitions } from '../../support/bridge-amqp-frames.ts';
import { properties as goodProperties } from '../../support/bridge-amqp-values.ts';

const FRAMES = 40_000;

it('a client by chance is closed or answered, and no error is the bridge’s own [C-6.3]', async () => {
  let seed = Date.now() % 2 ** 31;
  for (let frames = 0; frames < FRAMES; seed++) frames += await fuzz(seed, 25);
}, 20_000);

describe('properties', () => {
  it('that amqplib writes are read as it reads them', () => {
    fc.assert(
      fc.property(goodProperties, (fields) => {
        const bytes = definitions.encodeProperties(60, 1, 0, fields).subarray(19, -1);
        expect(decodeProperties(bytes)).toEqual(definitions.decode(60, bytes));
      }),
    );
  });

  it('that amqplib writes are refused when their last byte is missing', () => {
    fc.assert(
      fc.property(goodProperties, (fields) => {
        const bytes = definitions.encodeProperties(60, 1, 0, fields).subarray(19, -1);
        expect(isRead(() => decodeProperties(bytes.subarray(0, -1)))).toBe(false);
      }),
    );
  });

  it('by chance are read or refused as the client’s fault', () => {
    fc.assert(
      fc.property(fc.nat(), (seed) => {
        isRead(() => decodeProperties(properties(new Chance(seed))));
      }),
      { numRuns: 5_000 },
    );
  });
});

it('tables by chance are read or refused as the client’s fault', () => {
  fc.assert(
    fc.property(fc.nat(), (seed) => {
      const args = Buffer.concat([table(new Chance(seed)), Buffer.alloc(6)]);
      isRead(() => decodeMethod(METHOD.connectionStartOk, args));
    }),
    { numRuns: 5_000 },
  );
});

/** Whether it decodes. Throws what is not the client's fault. */
function isRead(decode: () => unknown): boolean {
  try {
    decode();
    return true;
  } catch (error) {
    if (!(error instanceof AmqpError)) throw error;
    expect([501, 502]).toContain(error.code);
    return false;
  }
}
