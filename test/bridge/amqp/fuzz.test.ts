/** Random clients, a short `npm run sitewire -- fuzz`: new ones in each run; a failure names its seed. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { definitions, propertyBytes } from '#support/bridge-amqp-frames.ts';
import { properties as goodProperties } from '#support/bridge-amqp-values.ts';
import { forAll, forMany } from '#support/property.ts';
import { AmqpError } from '../../../bridge/amqp/wire/amqp-error.ts';
import { decodeMethod, decodeProperties, METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { fuzz } from '../../../tools/fuzz/batch.ts';
import { Chance } from '../../../tools/fuzz/chance.ts';
import { properties } from '../../../tools/fuzz/frames.ts';
import { table } from '../../../tools/fuzz/table.ts';

const FRAMES = 40_000;

it('a client that sends random frames is answered or closed, and the bridge throws no error [C-6.3]', async () => {
  let seed = Date.now() % 2 ** 31;
  for (let frames = 0; frames < FRAMES; seed++) frames += await fuzz(seed, 25);
}, 20_000);

describe('the properties of a content', () => {
  it('decode as amqplib decodes them if amqplib encoded them', () => {
    forAll(goodProperties, (fields) => {
      const bytes = propertyBytes(fields);
      expect(decodeProperties(bytes)).toEqual(definitions.decode(60, bytes));
    });
  });

  it('are rejected without the last byte of what amqplib encoded', () => {
    forAll(goodProperties, (fields) => {
      const bytes = propertyBytes(fields);
      expect(isRead(() => decodeProperties(bytes.subarray(0, -1)))).toBe(false);
    });
  });

  it('decode or are rejected with 501 or 502 if they are random bytes', () => {
    forMany(5_000, fc.nat(), (seed) => {
      isRead(() => decodeProperties(properties(new Chance(seed))));
    });
  });
});

it('random tables decode or are rejected with 501 or 502', () => {
  forMany(5_000, fc.nat(), (seed) => {
    const args = Buffer.concat([table(new Chance(seed)), Buffer.alloc(6)]);
    isRead(() => decodeMethod(METHOD.connectionStartOk, args));
  });
});

/** Whether it decodes. Rethrows errors other than 501 and 502. */
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
