/**
 * The lanes of a key pause together from time to time, so that a busy key leaves others their turn [C-6.5].
 */
import { describe, expect, it } from 'vitest';
import { Rest } from '../../../../durable-objects/vhost/publish/rest.ts';

function newRest() {
  const at = { ms: 5_000 };
  return { at, rest: new Rest(() => at.ms) };
}

describe('the pause of lanes', () => {
  it('is not due for a key that publishes occasionally, however long ago the last pause was', () => {
    const { at, rest } = newRest();
    for (let publish = 0; publish < 3; publish++) {
      at.ms += 60_000;
      rest.begin();
      expect(rest.due()).toBeUndefined();
    }
  });

  it('is due after 25 ms without a break, is the same for all lanes, and is next due after as long again', async () => {
    const { at, rest } = newRest();
    rest.begin();
    at.ms += 24;
    expect(rest.due()).toBeUndefined();
    at.ms += 1;
    const first = rest.due();
    expect(first).toBeInstanceOf(Promise);
    expect(rest.due()).toBe(first);
    await first;
    expect(rest.due()).toBeUndefined();
    at.ms += 25;
    expect(rest.due()).toBeInstanceOf(Promise);
  });
});
