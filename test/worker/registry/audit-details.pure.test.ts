/** What an audit row keeps of its details [C-14.3]. */
import { describe, expect, it } from 'vitest';
import { sha256Hex } from '../../../durable-objects/secrets/hmac.ts';
import { AUDIT_DETAILS_BYTES, boundedDetails } from '../../../registry/audit-details.ts';

const LONG = 'x'.repeat(300);
const DIGEST = `sha256:${sha256Hex(JSON.stringify(LONG))}`;

/** The given number of fields, each named by the word and its number, with the word as its value. */
function detailsOf(word: string, count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_none, n) => [`${word}${n}`, word]));
}

describe('the details of an audit row', () => {
  it('keep short values, and the SHA-256 of long ones, also inside objects [C-14.3]', () => {
    const short = { name: 'Acme', none: null, count: 3, list: ['a', 'b'] };
    expect(boundedDetails({ ...short, note: LONG, metadata: { a: 1, b: LONG } })).toEqual({
      ...short,
      note: DIGEST,
      metadata: { a: 1, b: DIGEST },
    });
    expect(boundedDetails({})).toEqual({});
  });

  it('keep only the names of the fields if the values are too long together [C-14.3]', () => {
    const details = detailsOf('y'.repeat(40), 20);
    expect(boundedDetails(details)).toEqual({ fields: Object.keys(details) });
  });

  it.each(['n', 'é', '€', '😀'])(
    'have at most 1 024 bytes, with names and values of "%s" [C-14.3]',
    (letter) => {
      for (const length of [1, 30, 90, 200, 400, 2_000])
        for (const count of [1, 5, 9, 40, 500]) {
          const kept = boundedDetails(detailsOf(letter.repeat(length), count));
          expect(Buffer.byteLength(JSON.stringify(kept))).toBeLessThanOrEqual(AUDIT_DETAILS_BYTES);
          expect(Object.keys(kept).length).toBeGreaterThan(0);
        }
    },
  );
});
