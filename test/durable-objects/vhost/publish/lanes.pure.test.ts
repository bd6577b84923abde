/**
 * The lanes of a key pause together from time to time, so that a busy key does not delay other work [C-6.5].
 */
import { describe, expect, it } from 'vitest';
import { YieldTimer } from '../../../../durable-objects/vhost/publish/lanes.ts';

function newTimer() {
  const at = { ms: 5_000 };
  return { at, timer: new YieldTimer(() => at.ms) };
}

describe('the pause of lanes', () => {
  it('is not due for a key that publishes occasionally, however long ago the last pause was', () => {
    const { at, timer } = newTimer();
    for (let publish = 0; publish < 3; publish++) {
      at.ms += 60_000;
      timer.begin();
      expect(timer.due()).toBeUndefined();
    }
  });

  it('is due after 25 ms of work, is one pause for all lanes, and is due again 25 ms after its end', async () => {
    const { at, timer } = newTimer();
    timer.begin();
    at.ms += 24;
    expect(timer.due()).toBeUndefined();
    at.ms += 1;
    const first = timer.due();
    expect(first).toBeInstanceOf(Promise);
    expect(timer.due()).toBe(first);
    await first;
    expect(timer.due()).toBeUndefined();
    at.ms += 25;
    expect(timer.due()).toBeInstanceOf(Promise);
  });
});
